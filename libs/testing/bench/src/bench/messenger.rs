//! Messages against the same statements alone, their delay to streams of another replica, idle
//! streams, and pages with few and many messages.

mod streams;

use std::fmt::Write;
use std::time::Duration;

use anyhow::ensure;
use reqwest::Client;
use testkit::issuer::Claims;
use uuid::Uuid;

use self::streams::{Delay, Streams};
use super::environment::Environment;
use super::load::{Load, Outcome, find_wrk, latencies, measure_p95, pgbench};
use super::platform::{Platform, Service, address};
use super::report::{Goal, Rounds, Row, Unit, percentile};
use super::{BenchEntry, Effort};
use crate::bulk_data::chats;
use devkit::postgres::Connection;
use devkit::progress::Step;

pub(super) const BENCH: BenchEntry = BenchEntry {
    name: "messenger",
    about: "a message against the same statements alone, and until it is on a stream; streams at rest; pages among few and many",
    run: |environment, effort, rows| Box::pin(run(environment, effort, rows)),
};

/// Chats of three members who are in no other chat.
const CHATS: u64 = 1_000;
/// The first four bytes of ids: chats, clients, managers, agents.
const KINDS: [u128; 4] = [0x5eed_0042, 0x5eed_0043, 0x5eed_0044, 0x5eed_0045];

const FILL: &str = "with made as (\
    insert into chat (id, kind, deal_id, tenant_id, property_object_id, row_version, created_at, last_activity_at) \
    select ('5eed0042-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 'Deal', gen_random_uuid(), gen_random_uuid(), \
    gen_random_uuid(), 1, now(), now() from generate_series(1, $1::bigint) n) \
    insert into member (user_id, chat_id, role, joined_at, read_sequence) \
    select ('5eed00' || person || '-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, \
    ('5eed0042-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, role, now(), 0 from generate_series(1, $1::bigint) n, \
    (values ('43', 'Client'), ('44', 'Manager'), ('45', 'Agent')) as of_chat (person, role)";

/// Messages a second while streams are open.
const RATE: u64 = 200;

/// Chats of the manager.
const MANAGER_CHATS: u64 = 1_999;
/// Messages in each chat but the first.
const FEW_MESSAGES: u64 = 1_000;

/// The service and its clients.
struct Bench<'g> {
    environment: &'g Environment,
    platform: Platform,
    connection: Connection,
    service: Service,
    client: Client,
}

async fn run(environment: &Environment, effort: Effort, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let step = Step::start("messenger");
    find_wrk(&step).await?;
    let platform = Platform::prepare(environment).await?;
    // Each client sends without a pause. The check of the limit costs the same with any limit.
    let unlimited = [("MESSENGER_MAX_MESSAGES_PER_PERSON_PER_HOUR", i32::MAX.to_string())];
    let bench = Bench {
        environment,
        connection: environment.connect("messenger").await?,
        service: platform.start("messenger", "serve", &unlimited).await?,
        client: devkit::http::client()?,
        platform,
    };
    bench.connection.client.execute(FILL, &[&i64::try_from(CHATS)?]).await?;
    bench.connection.client.batch_execute("vacuum analyze").await?;
    rows.extend(bench.sends(effort, &step).await?);
    rows.extend(bench.delays(effort, 2_000, 30.0, &step).await?);
    rows.extend(bench.delays(effort, effort.choose(10_000, 4_000), 50.0, &step).await?);
    rows.push(bench.idle(effort, &step).await?);
    let longest = effort.choose(1_000_000, 100_000);
    let counts = chats::Counts { chats: MANAGER_CHATS, messages: effort.choose(FEW_MESSAGES, 100), longest };
    chats::fill(&bench.connection.client, &counts, &step).await?;
    step.note("pages");
    rows.extend(bench.pages(effort, &counts).await?);
    bench.service.stop().await?;
    step.done(format!("{} rounds", effort.rounds()));
    Ok(())
}

/// Returns the id of a chat, client, manager or agent by its number.
fn numbered(kind: usize, number: u64) -> Uuid {
    // The database writes decimal digits in place of hexadecimal ones.
    let digits = u128::from_str_radix(&number.to_string(), 16).unwrap_or_default();
    Uuid::from_u128(KINDS[kind] << 96 | 0x4000_8000_0000_0000_0000 | digits)
}

impl Bench<'_> {
    fn token(&self, user: Uuid) -> anyhow::Result<String> {
        self.platform.issuer.token(&Claims::user(user))
    }

    async fn sends(&self, effort: Effort, step: &Step) -> anyhow::Result<Vec<Row>> {
        let mut tokens = String::new();
        for number in 1..=CHATS {
            writeln!(tokens, "{}", self.token(numbered(1, number))?)?;
        }
        let folder = devkit::stack::dev_path("bench")?;
        tokio::fs::create_dir_all(&folder).await?;
        let file = folder.join("messenger-tokens");
        tokio::fs::write(&file, tokens).await?;
        let arguments = [file.display().to_string()];
        let seconds = effort.choose(5, 2);
        let send = async |connections, rate| {
            let load = Load { script: "send", arguments: &arguments, connections, seconds, rate };
            load.run(&self.service.url).await
        };
        send(32, None).await?;
        let (mut measured, mut baseline) = (Vec::new(), Vec::new());
        for round in 1..=effort.rounds() {
            step.note(format!("messages, round {round}"));
            measured.push(send(32, None).await?.per_second);
            let variables = [("chats", CHATS.to_string())];
            baseline.push(pgbench(self.environment, "messenger", "send", &variables, 32, seconds).await?);
            self.delete_events().await?;
        }
        let ratios = Rounds::ratios(&measured, &baseline);
        let (measured, baseline) = (Rounds::new(measured), Rounds::new(baseline));
        let mut outcomes: Vec<Outcome> = Vec::new();
        for _ in 1..=effort.rounds() {
            outcomes.push(send(64, Some(measured.median() / 2.0)).await?);
        }
        self.delete_events().await?;
        let what = "messages at 32 connections";
        let mut rows = vec![
            Row::new(format!("{what}/s"), Unit::PerSecond, measured),
            Row::new(format!("{what}: the same statements alone/s"), Unit::PerSecond, baseline),
            Row::new(format!("{what}: ratio to the same statements alone"), Unit::Ratio, ratios)
                .goal(Goal::AtLeast(0.4)),
        ];
        let what = "messages at half of that rate";
        let p95 = Rounds::new(outcomes.iter().map(|outcome| outcome.p95).collect());
        rows.push(Row::new(format!("{what}: p95"), Unit::Milliseconds, p95).goal(Goal::Below(50.0)));
        rows.extend(latencies(what, &outcomes));
        Ok(rows)
    }

    /// Deletes the events, since no relay runs.
    async fn delete_events(&self) -> anyhow::Result<()> {
        self.connection.client.batch_execute("delete from outbox").await?;
        self.connection.client.batch_execute("vacuum analyze").await?;
        Ok(())
    }

    /// Measures the delay from the request to the streams of all three members at another replica.
    async fn delays(
        &self,
        effort: Effort,
        listening: usize,
        p99_goal: f64,
        step: &Step,
    ) -> anyhow::Result<Vec<Row>> {
        let other = self.platform.start("messenger", "serve", &[("PUBLIC_LISTEN", address()?)]).await?;
        step.note(format!("{listening} streams"));
        // All three members of a chat, one chat after the other.
        let chats = CHATS.min(u64::try_from(listening / 3)?);
        let mut tokens = Vec::new();
        for number in 1..=chats {
            for kind in 1..=3 {
                tokens.push(self.token(numbered(kind, number))?);
            }
        }
        while tokens.len() < listening {
            tokens.push(self.token(Uuid::from_u128(rand::random()))?);
        }
        let delay = Delay::new(effort.choose(6_000, 1_000));
        let streams = Streams::open(&self.client, &other.url, &tokens, Some(&delay)).await?;
        let mut rounds: [Vec<f64>; 3] = Default::default();
        for round in 1..=effort.rounds() {
            step.note(format!("{listening} streams, round {round}"));
            delay.begin();
            let mut ticks = tokio::time::interval(Duration::from_secs(1) / u32::try_from(RATE)?);
            let mut sending = tokio::task::JoinSet::new();
            for number in 0..delay.messages() {
                ticks.tick().await;
                let chat = u64::try_from(number)? % chats + 1;
                let url = format!("{}/api/messenger/chats/{}/messages", self.service.url, numbered(0, chat));
                // The token of the client.
                let token = &tokens[usize::try_from(chat - 1)? * 3];
                let body = serde_json::json!({"Text": delay.mark(number)});
                sending.spawn(self.client.post(url).bearer_auth(token).json(&body).send());
            }
            while let Some(response) = sending.join_next().await {
                response??.error_for_status()?;
            }
            let took = delay.all(3).await?;
            for (figures, per_mille) in rounds.iter_mut().zip([500, 990, 999]) {
                figures.push(percentile(&took, per_mille));
            }
        }
        drop(streams);
        other.stop().await?;
        let what =
            format!("{RATE} messages/s, {listening} streams at another replica: from sending to a stream");
        let [p50, p99, p999] = rounds.map(Rounds::new);
        Ok(vec![
            Row::new(format!("{what}: p50"), Unit::Milliseconds, p50).goal(Goal::AtMost(10.0)),
            Row::new(format!("{what}: p99"), Unit::Milliseconds, p99).goal(Goal::AtMost(p99_goal)),
            Row::new(format!("{what}: p99.9"), Unit::Milliseconds, p999),
        ])
    }

    /// Measures the memory of idle streams.
    async fn idle(&self, effort: Effort, step: &Step) -> anyhow::Result<Row> {
        let count = effort.choose(10_000, 2_000);
        step.note(format!("{count} streams at rest"));
        let service = self.platform.start("messenger", "serve", &[("PUBLIC_LISTEN", address()?)]).await?;
        let mut tokens = Vec::new();
        for _ in 0..count {
            tokens.push(self.token(Uuid::from_u128(rand::random()))?);
        }
        // Allocates the memory that a process allocates once.
        drop(Streams::open(&self.client, &service.url, &tokens[..100], None).await?);
        tokio::time::sleep(Duration::from_secs(2)).await;
        let before = service.memory()?;
        let streams = Streams::open(&self.client, &service.url, &tokens, None).await?;
        // A thorough run covers two heartbeats of 15 s.
        tokio::time::sleep(Duration::from_secs(effort.choose(31, 5))).await;
        ensure!(streams.are_open(), "streams have ended");
        let each = (service.memory()? - before) * 1024.0 / f64::from(u32::try_from(count)?);
        drop(streams);
        service.stop().await?;
        let what = format!("{count} streams at rest: memory of each");
        Ok(Row::new(what, Unit::Kibibytes, Rounds::new(vec![each])).goal(Goal::AtMost(24.0)))
    }

    /// Measures the p95 of sequential requests, in turns with those for the chat with few messages.
    async fn pages(&self, effort: Effort, counts: &chats::Counts) -> anyhow::Result<Vec<Row>> {
        let token = self.token(chats::manager_id(1))?;
        let messages = |chat, before: u64| {
            format!("chats/{}/messages?PageSize=50&BeforeSequence={before}", chats::chat_id(chat))
        };
        let (few, many) = (messages(2, counts.messages / 2), messages(1, counts.longest / 2));
        let paths = [few.as_str(), many.as_str(), "chats?PageSize=20", "chats?Unread=true&Page=50", "unread"];
        let mut took: [Vec<f64>; 5] = Default::default();
        for _ in 1..=effort.rounds() {
            for (took, path) in took.iter_mut().zip(paths) {
                took.push(measure_p95(async || self.get(&token, path).await).await?);
            }
        }
        let ratios = Rounds::ratios(&took[1], &took[0]);
        let [few, many, first, deep, badge] = took.map(Rounds::new);
        let row = |what: String, took, goal| {
            Row::new(format!("{what}: p95"), Unit::Milliseconds, took).goal(Goal::Below(goal))
        };
        let page = |count| format!("{count} messages in a chat: a page from their middle");
        Ok(vec![
            row(page(counts.messages), few, 20.0),
            row(page(counts.longest), many, 20.0),
            Row::new(
                format!("{}: of that among {}", page(counts.longest), counts.messages),
                Unit::Ratio,
                ratios,
            )
            .goal(Goal::AtMost(1.5)),
            row(format!("{MANAGER_CHATS} chats of a person: the first page"), first, 50.0),
            row(
                format!("{MANAGER_CHATS} chats of a person: page 50 of those with unread messages"),
                deep,
                50.0,
            ),
            row(format!("{MANAGER_CHATS} chats of a person: the badge"), badge, 50.0),
        ])
    }

    async fn get(&self, token: &str, path: &str) -> anyhow::Result<()> {
        let url = format!("{}/api/messenger/{path}", self.service.url);
        let response = self.client.get(url).bearer_auth(token).send().await?;
        let status = response.status();
        let body = response.text().await?;
        ensure!(status.is_success(), "{path}: {status} {body}");
        Ok(())
    }
}
