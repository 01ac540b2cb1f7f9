//! The rate at which the worker's group applies events of CRM.

use std::time::Duration;

use anyhow::ensure;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use super::{Bench, StallDetector};
use crate::bench::Effort;
use crate::bench::report::{Goal, Rounds, Row, Unit};
use devkit::progress::Step;

const CREATED: &str = "platform.crm.deal-created.v1";
const STAGE_CHANGED: &str = "platform.crm.deal-stage-changed.v1";
const CANCELLED: &str = "platform.crm.deal-cancelled.v1";
const COMPLETED: &str = "platform.crm.deal-completed.v1";
const TOPICS: &[&str] = &[CREATED, STAGE_CHANGED, CANCELLED, COMPLETED];

/// The first four bytes of ids, by kind.
const DEAL: u128 = 0x5eed_0060;
const DEVELOPER: u128 = 0x5eed_0061;
const AGENT: u128 = 0x5eed_0062;
const OBJECT: u128 = 0x5eed_0063;
const CLIENT: u128 = 0x5eed_0064;

const DEVELOPERS: u64 = 50;
const AGENTS: u64 = 500;
/// Events of each deal.
const EVENTS: u64 = 5;
/// Minimum number of partitions of a topic.
const PARTITIONS: u64 = 4;
/// Unacknowledged messages after which the producer waits.
const MAX_IN_FLIGHT: usize = 1_000;

/// A rate card of 3 % for each developer, with the developer's id as its own.
const CARDS: &str = "with card as (\
    insert into rate_card (id, developer_company_id, created_at, updated_at, updated_by_user_id, version) \
    select developer, developer, now(), now(), developer, 1 from generate_series(0, $1::bigint - 1) as n, \
    lateral (select ('5eed0061-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid as developer) as numbered \
    returning id) \
    insert into rate (card_id, valid_from, rate_bps) select id, '2000-01-01T00:00:00Z', 300 from card";

/// The number of applied messages of these deals, and of dead letters. The bench numbers the
/// messages of each topic and deal from one, so the sum of the last sequences is the number of
/// messages.
const APPLIED: &str = "select (select coalesce(sum(sequence), 0)::bigint from inbox \
    where consumer = 'agent.crm' and topic = any($3) and key between $1 and $2), (select count(*) from dead_letter)";

const EARNED: &str =
    "select count(*) from accrual where deal_id between $1::text::uuid and $2::text::uuid and kind = 'Base'";

/// An event as CRM's relay sends it.
struct DealEvent {
    topic: &'static str,
    /// The sequence within its topic and deal.
    sequence: u8,
    payload: Value,
}

/// A sold deal. One of four is then cancelled, and the others are completed.
struct Deal {
    number: u64,
    id: Uuid,
    developer: Uuid,
    object: Uuid,
    client: Uuid,
    agent: Uuid,
    amount: Value,
}

impl Deal {
    fn new(number: u64) -> Self {
        Self {
            number,
            id: id(DEAL, number),
            developer: id(DEVELOPER, number % DEVELOPERS),
            object: id(OBJECT, number),
            client: id(CLIENT, number),
            agent: id(AGENT, number % AGENTS),
            amount: json!({"AmountMinor": 500_000_000 + number % 1_000 * 1_000_000, "Currency": "RUB"}),
        }
    }

    /// Returns the events in the order of CRM. All are later than the period of the payout run.
    fn events(&self) -> [DealEvent; 5] {
        let is_cancelled = self.number.is_multiple_of(4);
        let (end, last) = if is_cancelled {
            ("Cancelled", DealEvent { topic: CANCELLED, sequence: 1, payload: self.cancelled() })
        } else {
            ("Completed", DealEvent { topic: COMPLETED, sequence: 1, payload: self.completed() })
        };
        let moved = |sequence, from, to| DealEvent {
            topic: STAGE_CHANGED,
            sequence,
            payload: self.moved(sequence + 1, from, to),
        };
        [
            DealEvent { topic: CREATED, sequence: 1, payload: self.created() },
            moved(1, "Application", "Booking"),
            moved(2, "Booking", "Sale"),
            moved(3, "Sale", end),
            last,
        ]
    }

    fn created(&self) -> Value {
        json!({
            "DealId": self.id, "TenantId": self.developer, "PropertyObjectId": self.object, "ClientUserId": self.client,
            "AgentUserId": self.agent, "Amount": self.amount, "CreatedByUserId": self.client,
            "CreatedAt": "2026-11-01T10:00:00Z", "RowVersion": 1,
        })
    }

    fn moved(&self, row_version: u8, from: &str, to: &str) -> Value {
        let group = |status: &str| if status == "Sale" { "Contract".to_owned() } else { status.to_owned() };
        json!({
            "DealId": self.id, "TenantId": self.developer, "FromStepId": self.object, "ToStepId": self.client,
            "FromStepGroup": group(from), "ToStepGroup": group(to), "FromStatus": from, "ToStatus": to,
            "ChangedByUserId": self.client, "ChangedAt": format!("2026-11-0{row_version}T10:00:00Z"),
            "PropertyObjectId": self.object, "ClientUserId": self.client, "AgentUserId": self.agent,
            "CreatedByUserId": self.client, "Amount": self.amount, "RowVersion": row_version,
        })
    }

    fn cancelled(&self) -> Value {
        json!({
            "DealId": self.id, "TenantId": self.developer, "PropertyObjectId": self.object,
            "CancelledByUserId": self.client, "CancelReason": "Changed their mind",
            "CancelledAt": "2026-11-04T10:00:00Z", "RowVersion": 4,
        })
    }

    fn completed(&self) -> Value {
        json!({
            "DealId": self.id, "TenantId": self.developer, "PropertyObjectId": self.object, "AgentUserId": self.agent,
            "Amount": self.amount, "CompletedAt": "2026-11-04T10:00:00Z", "RowVersion": 4,
        })
    }
}

fn id(kind: u128, number: u64) -> Uuid {
    Uuid::from_u128(kind << 96 | 0x4000_8000_0000_0000_0000 | u128::from(number))
}

pub(super) async fn run(bench: &Bench<'_>, effort: Effort, step: &Step) -> anyhow::Result<Row> {
    // Limited by the embedded broker, which keeps 5 MiB a partition.
    let deals = effort.choose(3_000, 1_000);
    let client = &bench.connection.client;
    client.execute(CARDS, &[&i64::try_from(DEVELOPERS)?]).await?;
    let mut env = bench.environment.env()?;
    let config = messaging::Config::read(&mut env);
    let producer: FutureProducer = env.finish(config)?.producer().create()?;
    let mut rates = Vec::new();
    let mut first = 1;
    // The first round is not measured: its statements are planned for empty tables and scan them as
    // they grow.
    for round in 0..=effort.rounds() {
        let last = first + deals - 1;
        step.note(format!("round {round}: {} events are published", deals * EVENTS));
        send(&producer, first, last).await?;
        client.batch_execute("vacuum analyze").await?;
        client.batch_execute("checkpoint").await?;
        let rate = measure_intake(bench, first, last, &format!("round {round}"), step).await?;
        if round > 0 {
            rates.push(rate);
        }
        first = last + 1;
    }
    let what = format!("{} events of {deals} deals of CRM: applied/s", deals * EVENTS);
    Ok(Row::new(what, Unit::PerSecond, Rounds::new(rates)).goal(Goal::AtLeast(5_000.0)))
}

/// Sends each deal to an explicit partition, so that all partitions have equal work.
async fn send(producer: &FutureProducer, first: u64, last: u64) -> anyhow::Result<()> {
    let mut acks = Vec::new();
    for number in first..=last {
        let deal = Deal::new(number);
        let (key, partition) = (deal.id.to_string(), i32::try_from(number % PARTITIONS)?);
        for event in deal.events() {
            let payload = serde_json::to_vec(&event.payload)?;
            let headers = headers(&event, &key);
            let record = FutureRecord::to(event.topic).key(&key).payload(&payload).headers(headers);
            let ack = producer.send_result(record.partition(partition));
            acks.push(ack.map_err(|(error, _)| error)?);
        }
        if acks.len() >= MAX_IN_FLIGHT || number == last {
            for ack in acks.drain(..) {
                ack.await?.map_err(|(error, _)| error)?;
            }
        }
    }
    Ok(())
}

fn headers(event: &DealEvent, key: &str) -> OwnedHeaders {
    let (trace, span): (u128, u64) = (rand::random(), rand::random());
    let headers = [
        ("ce_specversion", "1.0".to_owned()),
        ("ce_id", Uuid::from_u128(rand::random()).to_string()),
        ("ce_type", event.topic.to_owned()),
        ("ce_source", "/crm".to_owned()),
        ("ce_time", "2026-11-04T10:00:00.000000Z".to_owned()),
        ("ce_subject", key.to_owned()),
        ("ce_sequence", event.sequence.to_string()),
        ("aggregatetype", "Deal".to_owned()),
        ("contractversion", "1".to_owned()),
        ("content-type", "application/json".to_owned()),
        ("traceparent", format!("00-{trace:032x}-{span:016x}-01")),
    ];
    let mut owned = OwnedHeaders::new();
    for (name, value) in &headers {
        owned = owned.insert(Header { key: name, value: Some(value) });
    }
    owned
}

/// Returns the messages a second, from the first applied ones to the last.
async fn measure_intake(
    bench: &Bench<'_>,
    first: u64,
    last: u64,
    round: &str,
    step: &Step,
) -> anyhow::Result<f64> {
    let (from, to) = (id(DEAL, first).to_string(), id(DEAL, last).to_string());
    let deals = last - first + 1;
    let all = i64::try_from(deals * EVENTS)?;
    let client = &bench.connection.client;
    let worker = bench.worker().await?;
    let mut stall = StallDetector::new();
    let mut begun = None;
    let rate = loop {
        let row = client.query_one(APPLIED, &[&from, &to, &TOPICS]).await?;
        let (taken, dead): (i64, i64) = (row.get(0), row.get(1));
        ensure!(dead == 0, "{dead} messages were dead-lettered");
        step.note(format!("{round}: {taken} of {all} events"));
        match begun {
            None if taken > 0 => begun = Some((Instant::now(), taken)),
            Some((begun, before)) if taken == all => {
                break u32::try_from(all - before).map(f64::from)? / begun.elapsed().as_secs_f64();
            }
            _ => stall.observe(taken)?,
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    worker.stop().await?;
    let earned: i64 = client.query_one(EARNED, &[&from, &to]).await?.get(0);
    ensure!(u64::try_from(earned)? == deals, "{earned} of {deals} deals have earned something");
    Ok(rate)
}
