//! Three times as many edits as news can save: the service sheds the excess and recovers at once.

use super::environment::Environment;
use super::load::latencies;
use super::news::Bench;
use super::report::{Goal, Rounds, Row, Unit};
use super::{BenchEntry, Effort};
use devkit::progress::Step;

pub(super) const BENCH: BenchEntry = BenchEntry {
    name: "overload",
    about: "three times the highest rate: what is saved, what is shed, how long callers wait, and after it",
    run: |environment, effort, rows| Box::pin(run(environment, effort, rows)),
};

/// Connections at the highest rate.
const NORMAL_CONNECTIONS: u32 = 64;
/// Connections of the overload, which wait most of the time.
const OVERLOAD_CONNECTIONS: u32 = 2_000;
/// Factor of the offered rate. It exceeds three, since connections also wait for responses.
const OFFERED_FACTOR: f64 = 4.5;

async fn run(environment: &Environment, effort: Effort, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let step = Step::start("overload");
    let bench = Bench::start(environment, &step).await?;
    let edits = bench.prepare_edits(effort).await?;
    let url = &bench.service.url;
    edits.load(NORMAL_CONNECTIONS, None).run_allowing_failures(url).await?;
    let (mut before, mut arrived, mut saved, mut shed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut broken, mut after, mut outcomes) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=effort.rounds() {
        step.note(format!("round {round}: before"));
        let usual = edits.load(NORMAL_CONNECTIONS, None).run_allowing_failures(url).await?;
        let highest = usual.per_second - usual.refused_per_second();
        step.note(format!("round {round}: three times as many"));
        let outcome = edits
            .load(OVERLOAD_CONNECTIONS, Some(OFFERED_FACTOR * highest))
            .run_allowing_failures(url)
            .await?;
        step.note(format!("round {round}: after"));
        let usual = edits.load(NORMAL_CONNECTIONS, None).run_allowing_failures(url).await?;
        after.push(usual.per_second - usual.refused_per_second());
        before.push(highest);
        arrived.push(outcome.per_second);
        shed.push(outcome.refused_per_second());
        saved.push(outcome.per_second - outcome.refused_per_second());
        broken.push(f64::from(outcome.broken + outcome.late));
        outcomes.push(outcome);
    }
    bench.stop().await?;
    let arrived = Rounds::ratios(&arrived, &before);
    let (kept, recovered) = (Rounds::ratios(&saved, &before), Rounds::ratios(&after, &before));
    rows.extend([
        Row::new("Before: edits/s", Unit::PerSecond, Rounds::new(before)),
        Row::new("Overload: arrived, of the edits before", Unit::Ratio, arrived).goal(Goal::AtLeast(3.0)),
        Row::new("Overload: saved/s", Unit::PerSecond, Rounds::new(saved)),
        Row::new("Overload: shed/s", Unit::PerSecond, Rounds::new(shed)),
        Row::new("Overload: not answered", Unit::Count, Rounds::new(broken)),
        Row::new("Overload: saved, of the edits before", Unit::Ratio, kept),
    ]);
    rows.extend(latencies("Overload, all answers", &outcomes));
    rows.push(Row::new("Right after, of the edits before", Unit::Ratio, recovered).goal(Goal::AtLeast(0.9)));
    step.done(format!("{} rounds", effort.rounds()));
    Ok(())
}
