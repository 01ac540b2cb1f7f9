//! Resources of a process: start time, memory, connections and idle CPU.

use std::time::Duration;

use super::environment::Environment;
use super::load::Load;
use super::news::Bench;
use super::platform::{Platform, Service};
use super::report::{Rounds, Row, Unit};
use super::{BenchEntry, Effort, selections};
use devkit::postgres::Connection;
use devkit::progress::Step;
use devstack::services;

pub(super) const BENCH: BenchEntry = BenchEntry {
    name: "resources",
    about: "time to readiness, memory, connections and idle CPU of each service and role; memory under load",
    run: |environment, effort, rows| Box::pin(run(environment, effort, rows)),
};

/// Number of selections and of posts.
const SELECTIONS: i64 = 1_000;
/// Time after which a process has settled.
const SETTLE_TIME: Duration = Duration::from_secs(2);

/// The number of a service's connections.
const CONNECTIONS: &str =
    "select count(*) from pg_stat_activity where datname = current_database() and application_name = $1";

/// The figures of one role of a service, by round.
#[derive(Default)]
struct Figures {
    ready: Vec<f64>,
    memory: Vec<f64>,
    connections: Vec<f64>,
    idle: Vec<f64>,
    loaded: Vec<f64>,
}

async fn run(environment: &Environment, effort: Effort, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let step = Step::start("resources");
    let bench = Bench::start(environment, &step).await?;
    bench.fill_feed(SELECTIONS).await?;
    bench.stop().await?;
    let platform = Platform::prepare(environment).await?;
    let connection = environment.connect("selections").await?;
    selections::fill(&connection, SELECTIONS).await?;
    for entry in services::all() {
        for role in ["serve", "work"] {
            let load = match (entry.name, role) {
                ("selections", "serve") => Some(("open", SELECTIONS.to_string())),
                ("news", "serve") => Some(("feed", String::new())),
                _ => None,
            };
            let mut figures = Figures::default();
            for round in 1..=effort.rounds() {
                step.note(format!("{} {role}, round {round}", entry.name));
                let service = platform.start(entry.name, role, &[]).await?;
                figures.measure(&service, entry.name, &connection, effort).await?;
                if let Some((script, argument)) = &load {
                    let arguments = [argument.clone()];
                    let seconds = effort.choose(3, 2);
                    Load { script, arguments: &arguments, connections: 64, seconds, rate: None }
                        .run(&service.url)
                        .await?;
                    figures.loaded.push(service.memory()?);
                }
                service.stop().await?;
            }
            rows.extend(figures.rows(&format!("{} {role}", entry.name), load.map(|(script, _)| script)));
        }
    }
    step.done(format!("{} rounds", effort.rounds()));
    Ok(())
}

impl Figures {
    async fn measure(
        &mut self,
        service: &Service,
        name: &str,
        connection: &Connection,
        effort: Effort,
    ) -> anyhow::Result<()> {
        self.ready.push(service.ready_after.as_secs_f64() * 1e3);
        tokio::time::sleep(SETTLE_TIME).await;
        self.memory.push(service.memory()?);
        let connections: i64 = connection.client.query_one(CONNECTIONS, &[&name]).await?.get(0);
        self.connections.push(u32::try_from(connections)?.into());
        let (idle, before) = (Duration::from_secs(effort.choose(10, 3)), service.cpu_time()?);
        tokio::time::sleep(idle).await;
        self.idle.push(service.cpu_time()?.saturating_sub(before).div_duration_f64(idle) * 100.0);
        Ok(())
    }

    fn rows(self, what: &str, script: Option<&str>) -> Vec<Row> {
        let row =
            |figure: &str, unit, rounds| Row::new(format!("{what}: {figure}"), unit, Rounds::new(rounds));
        let mut rows = vec![
            row("ready after", Unit::Milliseconds, self.ready),
            row("memory at rest", Unit::Mebibytes, self.memory),
            row("connections to the database at rest", Unit::Count, self.connections),
            row("of a core at rest", Unit::Percent, self.idle),
        ];
        if let Some(script) = script {
            let figure = format!("memory after `{script}` at 64 connections");
            rows.push(row(&figure, Unit::Mebibytes, self.loaded));
        }
        rows
    }
}
