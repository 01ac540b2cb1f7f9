//! Guests read posts of one block or many, and search few or many posts.

use super::Bench;
use crate::bench::Effort;
use crate::bench::load::{Load, Outcome};
use crate::bench::report::{Rounds, Row, Unit};
use devkit::progress::Step;

/// Posts of each size.
const POSTS: u64 = 1_000;
const CONNECTIONS: u32 = 8;

/// Inserts the missing published posts, of about twenty words each. A rare word is in the first
/// forty. The term `n % 2` makes PostgreSQL draw words for each post.
const FILL: &str = "with writer as (insert into author (user_id, id) values ($1::text::uuid, gen_random_uuid()) \
    on conflict (user_id) do update set user_id = excluded.user_id returning id), \
    filled as (insert into post (id, author_id, author_user_id, title, tags, status, blocks, \
    search_text, published_at, created_at, updated_at, updated_by_user_id, version) \
    select gen_random_uuid(), (select id from writer), $1::text::uuid, 'A post', '[]', 'Published', '[]', \
    (select string_agg('word' || (random() * 5000)::int, ' ') from generate_series(1, 18 + n % 2)) \
    || ' place' || n % 1000 || case when n <= 40 then ' harbour' else '' end, \
    now() - n * interval '1 second', now(), now(), $1::text::uuid, 1 \
    from generate_series((select posts + 1 from post_search_count), $2::bigint) n \
    returning id, title, search_text, published_at, created_at) \
    insert into post_search (post_id, published_at, created_at, updated_at, words, ranked_words) \
    select id, published_at, created_at, created_at, words, words \
    from filled cross join search_words(title, '', search_text) as words";

pub(super) async fn run(bench: &Bench<'_>, effort: Effort, step: &Step) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (place, blocks) in effort.choose(vec![1, 20, 200], vec![20]).into_iter().enumerate() {
        step.note(format!("{POSTS} posts of {blocks} blocks"));
        let first = 1_000_000 * (u64::try_from(place)? + 1);
        bench.write_posts(first, POSTS, "Published", blocks).await?;
        let rates = measure_rate(bench, effort, "read_post", &[first.to_string(), POSTS.to_string()]).await?;
        rows.push(Row::new(format!("Posts of {blocks} blocks: read/s"), Unit::PerSecond, rates));
    }
    for count in effort.choose(vec![1_000, 100_000, 1_000_000], vec![1_000]) {
        step.note(format!("{count} posts"));
        bench.fill_feed(count).await?;
        for (what, query) in [
            ("first page of the feed", ""),
            ("search that finds 40", "harbour"),
            ("search that finds one in a thousand", "place17"),
        ] {
            let rates = measure_rate(bench, effort, "feed", &[query.to_owned()]).await?;
            rows.push(Row::new(format!("{count} posts: {what}/s"), Unit::PerSecond, rates));
        }
    }
    Ok(rows)
}

impl Bench<'_> {
    pub(in crate::bench) async fn fill_feed(&self, count: i64) -> anyhow::Result<()> {
        self.posts.client.execute(FILL, &[&self.author, &count]).await?;
        self.posts.client.batch_execute("vacuum analyze").await?;
        self.posts.client.batch_execute("checkpoint").await?;
        Ok(())
    }
}

async fn measure_rate(
    bench: &Bench<'_>,
    effort: Effort,
    script: &str,
    arguments: &[String],
) -> anyhow::Result<Rounds> {
    let seconds = effort.choose(3, 2);
    let load = Load { script, arguments, connections: CONNECTIONS, seconds, rate: None };
    let mut rates = Vec::new();
    for _ in 1..=effort.rounds() {
        let Outcome { per_second, .. } = load.run(&bench.service.url).await?;
        rates.push(per_second);
    }
    Ok(Rounds::new(rates))
}
