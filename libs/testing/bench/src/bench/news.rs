//! Posts: edits against the writes alone, embeds against the calls alone, costly text against plain
//! text, lists of editors, and readers.

mod edit;
mod editors;
mod embeds;
mod readers;
mod texts;

use std::slice;

use anyhow::{Context, ensure};
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use testkit::issuer::Claims;
use uuid::Uuid;

use super::environment::Environment;
use super::load::find_wrk;
use super::platform::{Platform, Service};
use super::report::Row;
use super::{BenchEntry, Effort};
use devkit::postgres::Connection;
use devkit::progress::Step;

pub(super) const BENCH: BenchEntry = BenchEntry {
    name: "news",
    about: "edits of 10 blocks against the writes alone, with embeds against the calls alone, with much markup against little; lists of editors; reading and searching",
    run: |environment, effort, rows| Box::pin(run(environment, effort, rows)),
};

const PARAGRAPH: &str = "Two rooms with a view of the river, close to the park, quiet and bright. ";

/// Deletes all posts with their log, which is append-only.
const EMPTY: &str = "alter table post_log disable trigger post_log_append_only; truncate post cascade; \
    alter table post_log enable trigger post_log_append_only; update post_search_count set posts = 0";

/// The service with its author, and connections to the schemas of news and selections.
pub(super) struct Bench<'g> {
    environment: &'g Environment,
    platform: Platform,
    posts: Connection,
    selections: Connection,
    pub(super) service: Service,
    /// The service selections, of whose selections news takes snapshots.
    source: Service,
    author: String,
    token: String,
}

async fn run(environment: &Environment, effort: Effort, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let step = Step::start("news");
    let bench = Bench::start(environment, &step).await?;
    rows.extend(edit::run(&bench, effort, &step).await?);
    rows.extend(embeds::run(&bench, effort, &step).await?);
    rows.extend(texts::run(&bench, effort, &step).await?);
    rows.extend(editors::run(&bench, effort, &step).await?);
    rows.extend(readers::run(&bench, effort, &step).await?);
    bench.stop().await?;
    step.done(format!("{} rounds", effort.rounds()));
    Ok(())
}

/// Returns the id of a post by its number.
fn post_id(number: u64) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// Returns text blocks as they are stored.
fn stored_blocks(count: usize) -> Value {
    let text = PARAGRAPH.repeat(4);
    let block = |at| {
        json!({
            "Kind": "Text", "BlockId": Uuid::from_u128(rand::random()), "SortOrder": at, "Format": "Plain",
            "Text": text, "PlainText": text,
        })
    };
    (0..count).map(block).collect()
}

impl<'g> Bench<'g> {
    pub(super) async fn start(environment: &'g Environment, step: &Step) -> anyhow::Result<Self> {
        find_wrk(step).await?;
        let platform = Platform::prepare(environment).await?;
        let source = platform.start("selections", "serve", &[]).await?;
        let service = platform.start("news", "serve", &[]).await?;
        let author = Uuid::from_u128(rand::random());
        let token = platform.issuer.token(&Claims::user(author).permission("news.posts.manage-own"))?;
        let (posts, selections) =
            (environment.connect("news").await?, environment.connect("selections").await?);
        posts.client.batch_execute(EMPTY).await?;
        let author = author.to_string();
        Ok(Self { environment, platform, posts, selections, service, source, author, token })
    }

    async fn set_blocks(&self, client: &Client, post: u32, blocks: &[Value]) -> anyhow::Result<()> {
        let url = format!("{}/api/v1/posts/{}/blocks", self.service.url, post_id(post.into()));
        send(client.put(url).bearer_auth(&self.token).json(&json!({"Blocks": blocks}))).await
    }

    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.service.stop().await?;
        self.source.stop().await
    }

    /// Inserts posts of the author with numbers from `first`, all with the same text blocks.
    async fn write_posts(&self, first: u64, count: u64, status: &str, blocks: usize) -> anyhow::Result<()> {
        self.write_posts_of(slice::from_ref(&self.author), first, count, status, blocks).await
    }

    /// Inserts posts of each author in turn. The author of post `n` has the number
    /// `n % authors.len()`.
    async fn write_posts_of(
        &self,
        authors: &[String],
        first: u64,
        count: u64,
        status: &str,
        blocks: usize,
    ) -> anyhow::Result<()> {
        let content = stored_blocks(blocks).to_string();
        let text = vec![PARAGRAPH.repeat(4); blocks].join("\n");
        let (first, last) = (i64::try_from(first)?, i64::try_from(first + count)? - 1);
        self.posts
            .client
            .execute(
                "with writer as (insert into author (user_id, id) \
                 select unnest($1::text[]::uuid[]), gen_random_uuid() \
                 on conflict (user_id) do update set user_id = excluded.user_id returning user_id, id) \
                 insert into post (id, author_id, author_user_id, title, tags, status, blocks, search_text, published_at, \
                 created_at, updated_at, updated_by_user_id, version) \
                 select ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, writer.id, user_id, 'A post', '[]', $2, \
                 $3::text::json, $4, case $2 when 'Published' then now() end, now(), now(), user_id, 1 \
                 from generate_series($5::bigint, $6::bigint) n \
                 join writer on user_id = ($1::text[]::uuid[])[1 + n % cardinality($1::text[])]",
                &[&authors, &status, &content, &text, &first, &last],
            )
            .await?;
        self.posts.client.batch_execute("vacuum analyze post").await?;
        self.posts.client.batch_execute("checkpoint").await?;
        Ok(())
    }
}

async fn send(request: RequestBuilder) -> anyhow::Result<()> {
    let response = request.send().await?;
    let status = response.status();
    let body = response.text().await.context("no body")?;
    ensure!(status.is_success(), "{status} {body}");
    Ok(())
}
