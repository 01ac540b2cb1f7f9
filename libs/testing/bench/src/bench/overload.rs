//! Three times as many edits as news can save: it sheds the rest, and is well right after.

use super::ground::Ground;
use super::load::latencies;
use super::news::Bench;
use super::report::{Goal, Rounds, Row, Unit};
use super::{Effort, Member};
use devkit::progress::Step;

pub(super) const MEMBER: Member = Member {
    name: "overload",
    about: "three times the highest rate: what is saved, what is shed, how long callers wait, and after it",
    run: |ground, effort, rows| Box::pin(run(ground, effort, rows)),
};

/// The highest rate comes from so many connections.
const USUAL: u32 = 64;
/// Three times as many come from so many, who wait most of the time.
const CROWD: u32 = 2_000;
/// They ask for more, since their own waiting for answers takes from it.
const OFFERED: f64 = 4.5;

async fn run(ground: &Ground, effort: Effort, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let step = Step::start("overload");
    let bench = Bench::start(ground, &step).await?;
    let edits = bench.prepare_edits(effort).await?;
    let url = &bench.service.url;
    edits.load(USUAL, None).run_whatever_comes(url).await?;
    let (mut before, mut came, mut saved, mut shed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut broken, mut after, mut crowds) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=effort.rounds() {
        step.note(format!("round {round}: before"));
        let usual = edits.load(USUAL, None).run_whatever_comes(url).await?;
        let highest = usual.per_second - usual.refused_per_second();
        step.note(format!("round {round}: three times as many"));
        let crowd = edits.load(CROWD, Some(OFFERED * highest)).run_whatever_comes(url).await?;
        step.note(format!("round {round}: after"));
        let usual = edits.load(USUAL, None).run_whatever_comes(url).await?;
        after.push(usual.per_second - usual.refused_per_second());
        before.push(highest);
        came.push(crowd.per_second);
        shed.push(crowd.refused_per_second());
        saved.push(crowd.per_second - crowd.refused_per_second());
        broken.push(f64::from(crowd.broken + crowd.late));
        crowds.push(crowd);
    }
    bench.stop().await?;
    let came = Rounds::ratios(&came, &before);
    let (kept, recovered) = (Rounds::ratios(&saved, &before), Rounds::ratios(&after, &before));
    rows.extend([
        Row::new("Before: edits/s", Unit::PerSecond, Rounds::new(before)),
        Row::new("Overload: came, of the edits before", Unit::Ratio, came).goal(Goal::AtLeast(3.0)),
        Row::new("Overload: saved/s", Unit::PerSecond, Rounds::new(saved)),
        Row::new("Overload: shed/s", Unit::PerSecond, Rounds::new(shed)),
        Row::new("Overload: not answered", Unit::Count, Rounds::new(broken)),
        Row::new("Overload: saved, of the edits before", Unit::Ratio, kept),
    ]);
    rows.extend(latencies("Overload, all answers", &crowds));
    rows.push(Row::new("Right after, of the edits before", Unit::Ratio, recovered).goal(Goal::AtLeast(0.9)));
    step.done(format!("{} rounds", effort.rounds()));
    Ok(())
}
