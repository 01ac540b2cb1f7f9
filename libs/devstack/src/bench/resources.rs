//! What a process takes: time until it is ready, memory at rest and under load.

use std::time::Duration;

use super::ground::Ground;
use super::load::Load;
use super::news::Bench;
use super::platform::Platform;
use super::report::{Rounds, Row, Unit};
use super::{Effort, Member, selections};
use crate::progress::Step;

pub(super) const MEMBER: Member = Member {
    name: "resources",
    about: "time to readiness and memory of each service, at rest and under load",
    run: |ground, effort| Box::pin(run(ground, effort)),
};

/// And as many posts.
const SELECTIONS: i64 = 1_000;
/// A process has settled by then.
const AT_REST: Duration = Duration::from_secs(2);

async fn run(ground: &Ground, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let step = Step::start("resources");
    let bench = Bench::start(ground, &step).await?;
    bench.fill_feed(SELECTIONS).await?;
    bench.stop().await?;
    let platform = Platform::prepare(ground).await?;
    selections::fill(&ground.connect("selections").await?, SELECTIONS).await?;
    let mut rows = Vec::new();
    for (name, role, load) in [
        ("selections", "serve", Some(("open", SELECTIONS.to_string()))),
        ("selections", "work", None),
        ("news", "serve", Some(("feed", String::new()))),
        ("news", "work", None),
        ("identity", "serve", None),
        ("identity", "work", None),
    ] {
        let (mut ready, mut rest, mut loaded) = (Vec::new(), Vec::new(), Vec::new());
        for round in 1..=effort.rounds() {
            step.note(format!("{name} {role}, round {round}"));
            let service = platform.start(name, role, &[]).await?;
            ready.push(service.ready_after.as_secs_f64() * 1e3);
            tokio::time::sleep(AT_REST).await;
            rest.push(service.memory().await?);
            if let Some((script, argument)) = &load {
                let arguments = [argument.clone()];
                let seconds = effort.choose(3, 2);
                Load { script, arguments: &arguments, connections: 64, seconds, rate: None }
                    .run(&service.url)
                    .await?;
                loaded.push(service.memory().await?);
            }
            service.stop().await?;
        }
        let what = format!("{name} {role}");
        rows.push(Row::new(format!("{what}: ready after"), Unit::Milliseconds, Rounds::new(ready)));
        rows.push(Row::new(format!("{what}: memory at rest"), Unit::Mebibytes, Rounds::new(rest)));
        if let Some((script, _)) = load {
            let what = format!("{what}: memory after `{script}` at 64 connections");
            rows.push(Row::new(what, Unit::Mebibytes, Rounds::new(loaded)));
        }
    }
    step.done(format!("{} rounds", effort.rounds()));
    Ok(rows)
}
