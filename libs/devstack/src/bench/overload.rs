//! Three times as many requests as a service can answer: it sheds the rest, and is well right after.

use super::ground::Ground;
use super::load::{Load, find_wrk, latencies};
use super::platform::Platform;
use super::report::{Goal, Rounds, Row, Unit};
use super::{Effort, Member, selections};
use crate::progress::Step;

pub(super) const MEMBER: Member = Member {
    name: "overload",
    about: "three times the highest rate: what is answered, what is shed, how long callers wait, and after it",
    run: |ground, effort| Box::pin(run(ground, effort)),
};

const SELECTIONS: i64 = 1_000;
/// As many as the service has answered at most come from so many connections.
const USUAL: u32 = 64;
/// Three times as many come from so many.
const CROWD: u32 = 2_000;

async fn run(ground: &Ground, effort: Effort) -> anyhow::Result<Vec<Row>> {
    let step = Step::start("overload");
    find_wrk(&step).await?;
    let platform = Platform::prepare(ground).await?;
    selections::fill(&ground.connect("selections").await?, SELECTIONS).await?;
    let service = platform.start("selections", "serve", &[]).await?;
    let seconds = effort.choose(5, 2);
    let arguments = [SELECTIONS.to_string()];
    let open = |connections, rate| Load { script: "open", arguments: &arguments, connections, seconds, rate };
    open(USUAL, None).run(&service.url).await?;
    let (mut before, mut taken, mut shed, mut after) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut crowds = Vec::new();
    for round in 1..=effort.rounds() {
        step.note(format!("round {round}: before"));
        let highest = open(USUAL, None).run(&service.url).await?.per_second;
        step.note(format!("round {round}: three times as many"));
        let crowd = open(CROWD, Some(3.0 * highest)).run_whatever_comes(&service.url).await?;
        step.note(format!("round {round}: after"));
        after.push(open(USUAL, None).run(&service.url).await?.per_second);
        before.push(highest);
        let refused = crowd.refused as f64 / seconds as f64;
        shed.push(refused);
        taken.push(crowd.per_second - refused);
        crowds.push(crowd);
    }
    service.stop().await?;
    let (goodput, recovered) = (Rounds::ratios(&taken, &before), Rounds::ratios(&after, &before));
    let broken = crowds.iter().map(|crowd| crowd.broken as f64).collect();
    let mut rows = vec![
        Row::new("Before: opened/s", Unit::PerSecond, Rounds::new(before)),
        Row::new("At three times the rate: opened/s", Unit::PerSecond, Rounds::new(taken)),
        Row::new("At three times the rate: shed/s", Unit::PerSecond, Rounds::new(shed)),
        Row::new("At three times the rate: not answered at all", Unit::Count, Rounds::new(broken)),
        Row::new("Opened of what was before", Unit::Ratio, goodput),
    ];
    rows.extend(latencies("At three times the rate, all answers", &crowds));
    rows.push(Row::new("Right after, of what was before", Unit::Ratio, recovered).goal(Goal::AtLeast(0.9)));
    step.done(format!("{} rounds", effort.rounds()));
    Ok(rows)
}
