//! Edits of ten text blocks against the same writes as one statement.

use testkit::issuer::Claims;

use super::{Bench, PARAGRAPH, stored_blocks};
use crate::bench::Effort;
use crate::bench::load::{Load, latencies, pgbench};
use crate::bench::report::{Goal, Rounds, Row, Unit};
use devkit::progress::Step;

/// Blocks of an edit.
const BLOCKS: usize = 10;
/// Number of posts: enough that concurrent edits do not change the same post.
const POSTS: u64 = 10_000;
/// Number of authors: enough that concurrent edits rarely change the row of the same author.
const AUTHORS: u64 = 100;

/// Edits of existing posts.
pub(in crate::bench) struct Edits {
    /// The number of posts, and the token of each author.
    arguments: Vec<String>,
    seconds: u64,
}

impl Edits {
    pub(in crate::bench) fn load(&self, connections: u32, rate: Option<f64>) -> Load<'_> {
        Load { script: "edit", arguments: &self.arguments, connections, seconds: self.seconds, rate }
    }
}

/// Returns the id of an author by its number.
fn author_id(number: u64) -> String {
    format!("5eed0031-0000-4000-8000-{number:012}")
}

impl Bench<'_> {
    pub(in crate::bench) async fn prepare_edits(&self, effort: Effort) -> anyhow::Result<Edits> {
        let authors: Vec<_> = (0..AUTHORS).map(author_id).collect();
        self.write_posts_of(&authors, 0, POSTS, "Draft", BLOCKS).await?;
        let mut arguments = vec![POSTS.to_string()];
        for author in &authors {
            let claims = Claims::user(author.parse()?).permission("news.posts.manage-own");
            arguments.push(self.platform.issuer.token(&claims)?);
        }
        Ok(Edits { arguments, seconds: effort.choose(3, 2) })
    }
}

pub(super) async fn run(bench: &Bench<'_>, effort: Effort, step: &Step) -> anyhow::Result<Vec<Row>> {
    step.note(format!("{POSTS} posts"));
    let edits = bench.prepare_edits(effort).await?;
    let edit = async |connections, rate| edits.load(connections, rate).run(&bench.service.url).await;
    let seconds = edits.seconds;
    let writes = [
        ("posts", POSTS.to_string()),
        ("blocks", stored_blocks(BLOCKS).to_string()),
        ("text", vec![PARAGRAPH.repeat(4); BLOCKS].join("\n")),
        ("authors", AUTHORS.to_string()),
    ];
    let (mut rows, mut highest) = (Vec::new(), 0.0);
    for connections in effort.choose(vec![1, 8, 32, 64], vec![32]) {
        let (mut edited, mut written) = (Vec::new(), Vec::new());
        for round in 1..=effort.rounds() {
            step.note(format!("{connections} connections, round {round}: edits"));
            edited.push(edit(connections, None).await?.per_second);
            step.note(format!("{connections} connections, round {round}: the same writes alone"));
            written.push(pgbench(bench.environment, "news", "edit", &writes, connections, seconds).await?);
        }
        let ratio = Row::new(
            format!("{connections} connections: ratio to the same writes alone"),
            Unit::Ratio,
            Rounds::ratios(&edited, &written),
        );
        let edited = Rounds::new(edited);
        highest = edited.median().max(highest);
        rows.push(Row::new(format!("{connections} connections: edits/s"), Unit::PerSecond, edited));
        rows.push(Row::new(
            format!("{connections} connections: the same writes alone/s"),
            Unit::PerSecond,
            Rounds::new(written),
        ));
        rows.push(if connections == 32 { ratio.goal(Goal::AtLeast(0.75)) } else { ratio });
    }
    step.note("edits at half of the highest rate");
    let mut outcomes = Vec::new();
    for _ in 1..=effort.rounds() {
        outcomes.push(edit(256, Some(highest / 2.0)).await?);
    }
    rows.extend(latencies("Edits at half of the highest rate", &outcomes));
    Ok(rows)
}
