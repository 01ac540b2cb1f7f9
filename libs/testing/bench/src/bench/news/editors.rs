//! Editors of the platform list posts by status, author and tag, against the same SQL alone.

use testkit::issuer::Claims;
use uuid::Uuid;

use super::Bench;
use crate::bench::load::{Load, pgbench_of};
use crate::bench::report::{Goal, Rounds, Row, Unit};
use crate::bench::{Effort, bare};
use devkit::progress::Step;

const CONNECTIONS: u32 = 8;

/// Inserts posts of a hundred authors with one of fifty tags. A tenth are drafts.
const FILL: &str = "with writer as (insert into author (user_id, id) \
    select ('5eed0030-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, gen_random_uuid() from generate_series(0, 99) n \
    on conflict (user_id) do update set user_id = excluded.user_id returning user_id, id) \
    insert into post (id, author_id, author_user_id, title, tags, tag_keys, status, blocks, search_text, published_at, \
    created_at, updated_at, updated_by_user_id, version) \
    select gen_random_uuid(), writer.id, writer.user_id, 'A post', json_build_array('tag' || n % 50), \
    array['tag' || n % 50], case when n % 10 = 0 then 'Draft' when n % 10 = 1 then 'Archived' else 'Published' end, '[]', '', \
    case when n % 10 > 0 then made_at end, made_at, made_at, writer.user_id, 1 \
    from generate_series(1, $1::bigint) n, lateral (select now() - n * interval '1 minute' as made_at) of_one \
    join writer on true where writer.user_id = ('5eed0030-0000-4000-8000-' || lpad((n / 50 % 100)::text, 12, '0'))::uuid";

pub(super) async fn run(bench: &Bench<'_>, effort: Effort, step: &Step) -> anyhow::Result<Vec<Row>> {
    let posts: i64 = effort.choose(100_000, 10_000);
    step.note(format!("{posts} posts of a hundred authors"));
    bench.posts.client.execute(FILL, &[&posts]).await?;
    bench.posts.client.batch_execute("vacuum analyze post").await?;
    bench.posts.client.batch_execute("checkpoint").await?;
    let editor = Claims::user(Uuid::from_u128(rand::random())).permission("news.posts.manage@platform");
    let token = bench.platform.issuer.token(&editor)?;
    let (client, seconds) = (devkit::http::client()?, effort.choose(3, 2));
    let mut rows = Vec::new();
    for (what, filter, goal) in [
        ("drafts", "Statuses=Draft", 0.5),
        ("posts of an author", "AuthorUserId=5eed0030-0000-4000-8000-000000000007", 0.5),
        ("posts with a tag", "Tag=tag7", 0.5),
        // Few rows: the service plans each list, and pgbench plans it once.
        (
            "drafts of an author with a tag",
            "Statuses=Draft&AuthorUserId=5eed0030-0000-4000-8000-000000000007&Tag=tag0",
            0.15,
        ),
    ] {
        step.note(format!("{posts} posts: list of {what}"));
        let path = format!("/api/v1/posts?Editable=true&{filter}");
        let request = client.get(format!("{}{path}", bench.service.url)).bearer_auth(&token);
        let script = bare::statements(bench.environment, &bench.posts.client, request).await?;
        let files = bare::write_scripts("news-editors", &[script]).await?;
        let arguments = [path, token.clone()];
        let load =
            Load { script: "token", arguments: &arguments, connections: CONNECTIONS, seconds, rate: None };
        let (mut measured, mut baseline) = (Vec::new(), Vec::new());
        for _ in 1..=effort.rounds() {
            measured.push(load.run(&bench.service.url).await?.per_second);
            baseline.push(pgbench_of(bench.environment, "news", &files, &[], CONNECTIONS, seconds).await?);
        }
        let ratios = Rounds::ratios(&measured, &baseline);
        let what = format!("{posts} posts: editors' list of {what}");
        rows.extend([
            Row::new(format!("{what}/s"), Unit::PerSecond, Rounds::new(measured)),
            Row::new(format!("{what}: the same SQL alone/s"), Unit::PerSecond, Rounds::new(baseline)),
            Row::new(format!("{what}: ratio to the same SQL alone"), Unit::Ratio, ratios)
                .goal(Goal::AtLeast(goal)),
        ]);
    }
    Ok(rows)
}
