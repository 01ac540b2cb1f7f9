//! Tests of selections over HTTP and Kafka, with a real database and broker.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed helper fails its test")]

mod access;
mod added_items;
mod admin;
mod bodies;
mod browsers;
mod cards;
mod changes;
mod codes;
mod collaborators;
mod connections;
mod consumer;
mod details;
mod documents;
mod events;
mod favorites;
mod internal;
mod items;
mod keys;
mod link;
mod open;
mod openings;
mod order;
mod overload;
mod paging;
mod problems;
mod races;
mod read_replica;
mod repeats;
mod replicas;
mod revocations;
mod selection;
mod single_items;
mod slow_readers;
mod snapshots;
mod topics;
mod trace;

use std::sync::OnceLock;

use futures_util::{StreamExt, stream};
use selections::Service;
use serde_json::{Value, json};
use testkit::bus::Published;
use testkit::client::{Client, Response};
use testkit::service::Running;
use testkit::{eventually, guid, text};
use uuid::Uuid;

const CREATED: &str = "platform.selections.selection-created.v1";
const UPDATED: &str = "platform.selections.selection-updated.v1";
const ITEM_ADDED: &str = "platform.selections.selection-item-added.v1";
const DELETED: &str = "platform.selections.selection-deleted.v1";
const OBJECT_UPSERTED: &str = "platform.chessboard.property-object-upserted.v1";

const SELECTIONS: &str = "/api/v1/selections";
const FROM_FAVORITES: &str = "/api/v1/selections/from-favorites";
const FAVORITES: &str = "/api/v1/favorites";

/// Returns the service that most tests share. Each test has its own owners, guests and posts.
fn service() -> &'static Running {
    static SERVICE: OnceLock<Running> = OnceLock::new();
    SERVICE.get_or_init(|| Running::start::<Service>(&[]))
}

fn guids(count: usize) -> Vec<Uuid> {
    (0..count).map(|_| guid()).collect()
}

/// Returns `N` new ids, for a pattern with `N` names.
fn new_guids<const N: usize>() -> [Uuid; N] {
    std::array::from_fn(|_| guid())
}

/// Returns `Items` of a request with these objects in this order.
fn items_of(objects: &[Uuid]) -> Value {
    objects.iter().map(|object| json!({"PropertyObjectId": object})).collect()
}

/// Returns `Items` of a request with `count` new objects.
fn items(count: usize) -> Value {
    items_of(&guids(count))
}

/// Returns the objects of a response in their order.
fn objects(response: &Value) -> Vec<Uuid> {
    let items = response["Items"].as_array().expect("a list");
    items.iter().map(|item| text(&item["PropertyObjectId"]).parse().expect("a Guid")).collect()
}

/// Creates a selection of three objects.
async fn create_selection(owner: &Client) -> Value {
    create_selection_of(owner, items(3)).await
}

async fn create_selection_of(owner: &Client, items: Value) -> Value {
    owner.post(SELECTIONS, json!({"Title": "Spring", "Items": items})).await.expect(201)
}

/// Returns the current state of a selection from its owner's list.
async fn reread(owner: &Client, selection: &Value) -> Value {
    let page = owner.get("/api/v1/selections?PageSize=100").await.expect(200);
    let mut own = page["Items"].as_array().expect("a list").iter();
    own.find(|own| own["Id"] == selection["Id"]).expect("a selection in the owner's list").clone()
}

async fn mark(owner: &Client, object: Uuid) {
    owner.put(&favorite_path(object), Value::Null).await.expect(204);
}

/// Returns the published events of a selection by sequence, since Kafka keeps no order between
/// topics.
async fn events_of(service: &Running, selection: &Value) -> Vec<Published> {
    let mut events = service.published(text(&selection["Id"])).await;
    events.sort_by_key(Published::sequence);
    events
}

fn topics(events: &[Published]) -> Vec<&str> {
    events.iter().map(|event| event.topic.as_str()).collect()
}

/// Takes a snapshot for a post, with the selection's owner as the actor.
async fn take_snapshot(selection: &Value, post: Uuid) -> Response {
    let body = json!({"PostId": post, "ActorUserId": selection["OwnerUserId"]});
    service().machine("news").post(&snapshots_path(selection), body).await
}

async fn detach_snapshot(snapshot: &Value, reason: &str) -> Response {
    let path = format!("{}/detach", snapshot_path(snapshot));
    service().machine("news").post(&path, json!({"Reason": reason})).await
}

/// Reads a snapshot as news.
async fn read_snapshot(snapshot: &Value) -> Value {
    service().machine("news").get(&snapshot_path(snapshot)).await.expect(200)
}

/// Returns the path of a selection.
fn path(selection: &Value) -> String {
    format!("{SELECTIONS}/{}", text(&selection["Id"]))
}

fn items_path(selection: &Value) -> String {
    format!("{}/items", path(selection))
}

/// Returns the path of one item.
fn item_path(selection: &Value, object: Uuid) -> String {
    format!("{}/{object}", items_path(selection))
}

fn details_path(selection: &Value) -> String {
    format!("{}/details", path(selection))
}

fn link_path(selection: &Value) -> String {
    format!("{}/link", path(selection))
}

fn collaborator_path(selection: &Value, user: Uuid) -> String {
    format!("{}/collaborators/{user}", path(selection))
}

/// Returns the path of the read by code.
fn open_path(selection: &Value) -> String {
    format!("{SELECTIONS}/{}", text(&selection["PublicCode"]))
}

fn favorite_path(object: Uuid) -> String {
    format!("{FAVORITES}/{object}")
}

fn snapshots_path(selection: &Value) -> String {
    format!("/api/v1/internal/selections/{}/snapshots", text(&selection["Id"]))
}

fn snapshot_path(snapshot: &Value) -> String {
    format!("/api/v1/internal/snapshots/{}", text(&snapshot["SnapshotId"]))
}

/// Returns the items of a response without their cards.
fn without_cards(response: &Value) -> Value {
    let mut items = response["Items"].clone();
    for item in items.as_array_mut().expect("a list") {
        item.as_object_mut().expect("an item").remove("Card").expect("a member for the card");
    }
    items
}

/// Returns the sorted names of an object's members.
fn members(object: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = object.as_object().expect("an object").keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

/// Sends requests, eight at a time, so that the service does not shed those of parallel tests.
async fn join_limited<F: Future>(requests: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    stream::iter(requests).buffered(8).collect().await
}
