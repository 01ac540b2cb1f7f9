//! Tests of news over HTTP and Kafka, with a real database, an embedded or a real broker, and the
//! service selections.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a helper panics to fail its test")]

mod access;
mod atom;
mod blocks;
mod byte_budget;
mod cache;
mod contracts;
mod detach;
mod documented_problems;
mod documents;
mod editable;
mod edits;
mod embeds;
mod events;
mod feed;
mod large_bodies;
mod log;
mod order;
mod orphans;
mod post;
mod quotas;
mod races;
mod revisions;
mod schedule;
mod search;
mod search_queries;
mod selections_down;
mod snapshot_cache;
mod state_events;
mod texts;
mod tls;
mod trace;
mod undelete;

use std::fmt::Write;
use std::sync::OnceLock;

use news::Service;
use serde_json::{Value, json};
use testkit::client::{Client, Response};
use testkit::faults::FaultProxy;
use testkit::issuer::{CLIENTS, Claims};
use testkit::service::Running;
use testkit::{eventually, guid, text};
use uuid::Uuid;

const PUBLISHED: &str = "platform.news.post-published.v1";
const UPDATED: &str = "platform.news.post-updated.v1";
const UNPUBLISHED: &str = "platform.news.post-unpublished.v1";
const ARCHIVED: &str = "platform.news.post-archived.v1";
const DELETED: &str = "platform.news.post-deleted.v1";

const POSTS: &str = "/api/v1/posts";

const MANAGE_OWN: &str = "news.posts.manage-own";
const CREATE_COMPANY: &str = "news.posts.create-company";
const MANAGE: &str = "news.posts.manage@platform";

/// Returns the service selections that news calls.
fn selections() -> &'static Running {
    static SELECTIONS: OnceLock<Running> = OnceLock::new();
    SELECTIONS.get_or_init(|| Running::start::<selections::Service>(&[]))
}

/// Returns the proxy between the shared news and selections.
///
/// Tests count and hold calls with it. They inject faults only for their own ids.
fn proxy() -> &'static FaultProxy {
    static PROXY: OnceLock<FaultProxy> = OnceLock::new();
    PROXY.get_or_init(|| FaultProxy::start(selections().internal_url()))
}

const OBJECT_UPSERTED: &str = "platform.chessboard.property-object-upserted.v1";

/// Returns the instance of news that most tests share. Each test has its own authors and posts.
fn service() -> &'static Running {
    static SERVICE: OnceLock<Running> = OnceLock::new();
    SERVICE.get_or_init(|| start(&proxy().url()))
}

/// Starts an instance of news that calls selections at `selections_url`.
fn start(selections_url: &str) -> Running {
    start_with(selections_url, "20000")
}

/// Starts an instance of news with this `EMBEDS_WAIT_MS`.
fn start_with(selections_url: &str, embeds_wait_ms: &str) -> Running {
    Running::start::<Service>(&[
        ("SELECTIONS_URL", selections_url),
        ("CLIENT_SECRET", CLIENTS[0].1),
        ("EMBEDS_WAIT_MS", embeds_wait_ms),
    ])
}

/// An author of posts, who also owns selections.
struct Author {
    id: Uuid,
    news: Client,
    selections: Client,
}

/// Returns an author of personal posts at the shared news.
fn author() -> Author {
    author_at(service())
}

fn author_at(news: &Running) -> Author {
    author_of(news, guid(), &|claims| claims.permission(MANAGE_OWN))
}

/// Returns an author whose token has the claims that `claims` returns.
fn author_of(news: &Running, id: Uuid, claims: &dyn Fn(Claims) -> Claims) -> Author {
    let claims = claims(Claims::user(id));
    Author { id, news: news.caller(&claims), selections: selections().caller(&claims) }
}

impl Author {
    async fn create_post(&self) -> String {
        let post = self.news.post(POSTS, json!({"Title": "Spring"})).await.expect(201);
        text(&post["Id"]).to_owned()
    }

    /// Creates a post with these blocks.
    async fn create_post_of(&self, blocks: impl IntoIterator<Item = Value>) -> String {
        let post = self.create_post().await;
        self.set_blocks(&post, blocks).await.expect(200);
        post
    }

    /// Creates and publishes a post of one text.
    async fn publish_post(&self) -> String {
        let post = self.create_post_of([text_block("Весна")]).await;
        self.change_status(&post, "publish").await.expect(200);
        post
    }

    /// Replaces the blocks. A block without `SortOrder` gets its position.
    async fn set_blocks(&self, post: &str, blocks: impl IntoIterator<Item = Value>) -> Response {
        self.news.put(&blocks_path(post), content(blocks)).await
    }

    async fn change_status(&self, post: &str, to: &str) -> Response {
        self.news.post(&format!("{POSTS}/{post}/{to}"), Value::Null).await
    }

    async fn read(&self, post: &str) -> Value {
        self.news.get(&path(post)).await.expect(200)
    }

    /// Creates a selection of three objects, and returns its id.
    async fn create_selection(&self) -> String {
        let items: Value = (0..3).map(|_| json!({"PropertyObjectId": guid()})).collect();
        let selection = json!({"Title": "Three flats", "Items": items});
        text(&self.selections.post("/api/v1/selections", selection).await.expect(201)["Id"]).to_owned()
    }

    async fn delete_selection(&self, selection: &str) {
        self.selections.delete(&format!("/api/v1/selections/{selection}")).await.expect(204);
    }

    /// Creates a post that embeds a selection, and returns post and snapshot.
    async fn embed(&self, selection: &str) -> (String, String) {
        let post = self.create_post().await;
        let saved = self.set_blocks(&post, [embed(selection)]).await.expect(200);
        (post, text(&saved["EmbedSnapshotIds"][0]).to_owned())
    }
}

fn path(post: &str) -> String {
    format!("{POSTS}/{post}")
}

fn blocks_path(post: &str) -> String {
    format!("{POSTS}/{post}/blocks")
}

/// Returns the body of an edit.
fn content(blocks: impl IntoIterator<Item = Value>) -> Value {
    let blocks = blocks.into_iter().enumerate().map(|(at, mut block)| {
        let members = block.as_object_mut().expect("a block");
        members.entry("SortOrder").or_insert(json!(at));
        block
    });
    json!({"Blocks": blocks.collect::<Value>()})
}

fn text_block(text: &str) -> Value {
    json!({"Kind": "Text", "Format": "Plain", "Text": text})
}

fn formatted(format: &str, text: &str) -> Value {
    json!({"Kind": "Text", "Format": format, "Text": text})
}

fn gallery(images: usize) -> Value {
    let images: Value = (0..images).map(|_| json!({"FileId": guid()})).collect();
    json!({"Kind": "ImageGallery", "Layout": "Grid", "Images": images})
}

fn embed(source: &str) -> Value {
    json!({"Kind": "SelectionEmbed", "SourceSelectionId": source})
}

fn embed_snapshot(snapshot: &str) -> Value {
    json!({"Kind": "SelectionEmbed", "SnapshotId": snapshot})
}

fn with(mut block: Value, member: &str, value: impl Into<Value>) -> Value {
    block[member] = value.into();
    block
}

/// Returns the path of taking a snapshot of a selection.
fn take_path(selection: &str) -> String {
    format!("/internal/selections/{selection}/snapshots")
}

/// Returns the path of reading a snapshot.
fn snapshot_path(snapshot: &str) -> String {
    format!("/api/v1/internal/snapshots/{snapshot}")
}

/// Reads a snapshot from selections.
async fn read_snapshot(snapshot: &str) -> Value {
    selections().machine("news").get(&snapshot_path(snapshot)).await.expect(200)
}

/// Waits until selections has detached the snapshot, and returns the reason.
async fn wait_until_detached(snapshot: &str) -> String {
    let snapshot = eventually("the snapshot is detached", async || {
        let snapshot = read_snapshot(snapshot).await;
        (snapshot["Status"] == "Detached").then_some(snapshot)
    });
    text(&snapshot.await["DetachReason"]).to_owned()
}

/// Creates and publishes a post with this title and text.
async fn publish(author: &Author, title: &str, words: &str) -> String {
    publish_as(author, json!({"Title": title}), words).await
}

/// Creates and publishes a post with this metadata and text.
async fn publish_as(author: &Author, metadata: Value, words: &str) -> String {
    let post = author.news.post(POSTS, metadata).await.expect(201);
    let post = text(&post["Id"]).to_owned();
    author.set_blocks(&post, [text_block(words)]).await.expect(200);
    author.change_status(&post, "publish").await.expect(200);
    post
}

/// Returns a unique word of 32 Latin letters, which stemmers change alike in texts and queries.
fn unique_word() -> String {
    let letters: Vec<char> = ('g'..='v').collect();
    guid()
        .as_bytes()
        .iter()
        .flat_map(|byte| [letters[usize::from(byte >> 4)], letters[usize::from(byte & 15)]])
        .collect()
}

/// Percent-encodes a text for a query string.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        write!(encoded, "%{byte:02X}").expect("memory");
        encoded
    })
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// Returns `member` of each object of a list.
fn each<'v>(objects: &'v Value, member: &str) -> Vec<&'v Value> {
    list(objects).iter().map(|object| &object[member]).collect()
}
