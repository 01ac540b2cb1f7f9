//! An edit with three new embeds against three concurrent calls of selections and one write.

use std::time::Instant;

use futures_util::future::try_join_all;
use reqwest::Client;
use serde_json::json;
use testkit::issuer::Claims;
use tokio_postgres::Statement;

use super::{Bench, post_id, send, stored_blocks};
use crate::bench::Effort;
use crate::bench::report::{Goal, Rounds, Row, Unit};
use devkit::progress::Step;

const EMBEDS: u128 = 3;
/// Number of the first post of this bench.
const FIRST: u32 = 100_000;

pub(super) async fn run(bench: &Bench<'_>, effort: Effort, step: &Step) -> anyhow::Result<Vec<Row>> {
    let edits: u32 = effort.choose(200, 50);
    let rounds = u32::try_from(effort.rounds())?;
    // One post for each edit, and one for each baseline.
    bench.write_posts(FIRST.into(), (2 * rounds * edits).into(), "Draft", 1).await?;
    let sources = bench.make_selections().await?;
    let client = devkit::http::client()?;
    let machine = bench.platform.issuer.token(&Claims::client("news"))?;
    let write = bench
        .posts
        .client
        .prepare(
            "update post set blocks = $1::text::json, version = version + 1, updated_at = now() where id = $2::text::uuid",
        )
        .await?;
    let (mut edited, mut baseline) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        step.note(format!("round {}: three new embeds", round + 1));
        let first = FIRST + 2 * round * edits;
        let begun = Instant::now();
        for post in first..first + edits {
            bench.edit(&client, post, &sources).await?;
        }
        edited.push(begun.elapsed().as_secs_f64() * 1e3 / f64::from(edits));
        step.note(format!("round {}: three calls and a write", round + 1));
        let begun = Instant::now();
        for post in first + edits..first + 2 * edits {
            bench.run_baseline(&client, &machine, &write, post, &sources).await?;
        }
        baseline.push(begun.elapsed().as_secs_f64() * 1e3 / f64::from(edits));
    }
    let ratio = Rounds::ratios(&edited, &baseline);
    Ok(vec![
        Row::new("Edit with 3 new embeds", Unit::Milliseconds, Rounds::new(edited)),
        Row::new("Three calls at once and a write", Unit::Milliseconds, Rounds::new(baseline)),
        Row::new("Edit / three calls and a write", Unit::Ratio, ratio).goal(Goal::AtMost(1.5)),
    ])
}

impl Bench<'_> {
    /// Creates selections of the author with twenty items each.
    async fn make_selections(&self) -> anyhow::Result<Vec<String>> {
        let rows = self
            .selections
            .client
            .query(
                "insert into selection (id, owner_user_id, public_code, title, items, created_at, updated_at, version, \
                 updated_by_user_id) \
                 select gen_random_uuid(), $1::text::uuid, left(md5(random()::text), 12), 'For a post', \
                 (select json_agg(json_build_object('PropertyObjectId', gen_random_uuid(), 'SortOrder', i, \
                 'AddedAt', '2026-11-21T10:00:00Z')) from generate_series(0, 19) i), now(), now(), 1, $1::text::uuid \
                 from generate_series(1, $2::bigint) returning id::text",
                &[&self.author, &i64::try_from(EMBEDS)?],
            )
            .await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    async fn edit(&self, client: &Client, post: u32, sources: &[String]) -> anyhow::Result<()> {
        let blocks: Vec<_> = (0..)
            .zip(sources)
            .map(|(at, source): (i32, _)| {
                json!({"Kind": "SelectionEmbed", "BlockId": null, "SortOrder": at, "SourceSelectionId": source})
            })
            .collect();
        self.set_blocks(client, post, &blocks).await
    }

    /// Runs the calls and the write of an edit without the service.
    async fn run_baseline(
        &self,
        client: &Client,
        machine: &str,
        write: &Statement,
        post: u32,
        sources: &[String],
    ) -> anyhow::Result<()> {
        let calls = sources.iter().map(|source| {
            let url = format!(
                "{}/api/v1/internal/selections/{source}/snapshots",
                self.platform.internal("selections")
            );
            let body =
                json!({"PostId": post_id(post.into()), "ActorUserId": self.author, "AuthorUserId": self.author});
            send(client.post(url).bearer_auth(machine).json(&body))
        });
        try_join_all(calls).await?;
        let blocks = stored_blocks(sources.len()).to_string();
        self.posts.client.execute(write, &[&blocks, &post_id(post.into())]).await?;
        Ok(())
    }
}
