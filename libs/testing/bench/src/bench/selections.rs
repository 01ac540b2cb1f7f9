//! Guests open selections: against the same SQL alone, at half of the highest rate, and with
//! growing numbers.

use super::environment::Environment;
use super::load::{Load, find_wrk, latencies, pgbench};
use super::peers::{self, Peer};
use super::platform::Platform;
use super::report::{Goal, Rounds, Row, Unit};
use super::{BenchEntry, Effort};
use devkit::postgres::Connection;
use devkit::progress::Step;

pub(super) const BENCH: BenchEntry = BenchEntry {
    name: "selections",
    about: "a guest opens a selection of 20 items, against the same SQL alone, and among up to a million",
    run: |environment, effort, rows| Box::pin(run(environment, effort, rows)),
};

/// Inserts the missing selections of 20 items each, with codes from 100000000001.
const FILL: &str = "insert into selection (id, owner_user_id, public_code, title, description, items, \
    created_at, updated_at, version, updated_by_user_id) \
    select gen_random_uuid(), md5((n / 50)::text)::uuid, (100000000000 + n)::text, \
    'Two rooms with a view of the river', 'Close to the park, quiet, and not far from the river.', items, \
    now(), now(), 1, md5((n / 50)::text)::uuid from generate_series((select count(*) + 1 from selection where public_code like '10000%'), $1::bigint) n, lateral \
    (select json_agg(json_build_object('PropertyObjectId', md5((n + i)::text)::uuid, 'SortOrder', i, \
    'AddedAt', '2026-11-21T10:00:00.000000Z')) as items from generate_series(0, 19) i) of_one";

/// Inserts the missing objects of the items, all public.
const FILL_OBJECTS: &str = "insert into property_object (id, version, is_public, shown) \
    select md5(n::text)::uuid, 1, true, json_build_object('ProjectId', md5('p')::uuid, 'ProjectName', 'River Park', \
    'BuildingId', md5('b')::uuid, 'BuildingName', 'Building 2', 'Number', n::text, 'Rooms', 2, 'Floor', 7, \
    'AreaTotal', 54.35, 'Price', json_build_object('AmountMinor', 1250000000, 'Currency', 'RUB'), \
    'Status', 'Available', 'DeveloperId', md5('d')::uuid, 'Kind', 'Flat', 'IsStudio', false, 'Finishing', 'Finished') \
    from generate_series((select count(*) + 1 from property_object), $1::bigint + 19) n on conflict do nothing";

/// Fills the tables up to `count` selections with the objects of their items.
pub(super) async fn fill(connection: &Connection, count: i64) -> anyhow::Result<()> {
    connection.client.execute(FILL, &[&count]).await?;
    connection.client.execute(FILL_OBJECTS, &[&count]).await?;
    connection.client.batch_execute("vacuum analyze selection").await?;
    connection.client.batch_execute("vacuum analyze property_object").await?;
    connection.client.batch_execute("checkpoint").await?;
    Ok(())
}

async fn run(environment: &Environment, effort: Effort, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let step = Step::start("selections");
    find_wrk(&step).await?;
    let platform = Platform::prepare(environment).await?;
    let connection = environment.connect("selections").await?;
    let service = platform.start("selections", "serve", &[]).await?;
    let seconds = effort.choose(3, 2);
    let open_at = async |url: &str, count: i64, connections, rate| {
        let load = Load { script: "open", arguments: &[count.to_string()], connections, seconds, rate };
        load.run(url).await
    };
    let open = async |count, connections, rate| open_at(&service.url, count, connections, rate).await;

    let few = 1_000;
    step.note(format!("{few} selections"));
    fill(&connection, few).await?;
    open(few, 32, None).await?;
    let among_few = measure(effort, async || Ok(open(few, 8, None).await?.per_second)).await?;

    let some = effort.choose(100_000, 10_000);
    step.note(format!("{some} selections"));
    fill(&connection, some).await?;
    let mut highest = 0.0;
    for connections in effort.choose(vec![1, 8, 32, 64], vec![32]) {
        let (mut opened, mut baseline) = (Vec::new(), Vec::new());
        for round in 1..=effort.rounds() {
            step.note(format!("{connections} connections, round {round}: opened"));
            opened.push(open(some, connections, None).await?.per_second);
            step.note(format!("{connections} connections, round {round}: the same SQL alone"));
            let variables = [("selections", some.to_string())];
            baseline
                .push(pgbench(environment, "selections", "open", &variables, connections, seconds).await?);
        }
        let ratio = Row::new(
            format!("{connections} connections: ratio to the same SQL alone"),
            Unit::Ratio,
            Rounds::ratios(&opened, &baseline),
        );
        let (opened, baseline) = (Rounds::new(opened), Rounds::new(baseline));
        highest = opened.median().max(highest);
        rows.push(Row::new(format!("{connections} connections: opened/s"), Unit::PerSecond, opened));
        rows.push(Row::new(
            format!("{connections} connections: the same SQL alone/s"),
            Unit::PerSecond,
            baseline,
        ));
        rows.push(if connections == 32 { ratio.goal(Goal::AtLeast(0.85)) } else { ratio });
    }

    step.note("at half of the highest rate");
    let mut outcomes = Vec::new();
    for _ in 1..=effort.rounds() {
        outcomes.push(open(some, 256, Some(highest / 2.0)).await?);
    }
    rows.extend(latencies("At half of the highest rate", &outcomes));

    if let Some(peer) = Peer::start(environment, &platform, "selections").await? {
        step.note("the same in Go");
        let (mut opened, mut of_peer) = (Vec::new(), Vec::new());
        for _ in 1..=effort.rounds() {
            opened.push(open(some, 32, None).await?.per_second);
            of_peer.push(open_at(&peer.url, some, 32, None).await?.per_second);
        }
        peer.stop().await?;
        rows.extend(peers::rows("32 connections: opened", &opened, of_peer, Goal::AtLeast(1.5)));
    }

    rows.push(Row::new(format!("{few} selections: opened/s at 8 connections"), Unit::PerSecond, among_few));
    for count in effort.choose(vec![100_000, 1_000_000], vec![]) {
        step.note(format!("{count} selections"));
        fill(&connection, count).await?;
        open(count, 32, None).await?;
        let rates = measure(effort, async || Ok(open(count, 8, None).await?.per_second)).await?;
        rows.push(Row::new(format!("{count} selections: opened/s at 8 connections"), Unit::PerSecond, rates));
    }
    service.stop().await?;
    step.done(format!("{} rounds", effort.rounds()));
    Ok(())
}

/// Returns the figures of all rounds.
async fn measure(effort: Effort, figure: impl AsyncFn() -> anyhow::Result<f64>) -> anyhow::Result<Rounds> {
    let mut figures = Vec::new();
    for _ in 1..=effort.rounds() {
        figures.push(figure().await?);
    }
    Ok(Rounds::new(figures))
}
