//! Tests of messenger over HTTP and Kafka, with a real database and broker.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a helper that fails also fails its test")]

mod access;
mod chat_direct;
mod chat_lists;
mod chat_members;
mod chat_races;
mod clocks;
mod conference_access;
mod conference_hosts;
mod conference_lobby;
mod conference_races;
mod conference_start;
mod conference_timers;
mod conference_transitions;
mod deal_agents;
mod deal_chats;
mod deal_deliveries;
mod deployed;
mod direct_ends;
mod documents;
mod employment_events;
mod employment_races;
mod employments;
mod fixture;
mod hand_over;
mod languages;
mod livekit;
mod media_commands;
mod media_service;
mod media_tokens;
mod message_changes;
mod message_events;
mod message_limit;
mod message_pages;
mod message_texts;
mod read_markers;
mod reports;
mod settings;
mod stream_client;
mod stream_ends;
mod stream_events;
mod stream_resume;
mod stream_wake_ups;
mod webhook_effects;
mod webhook_signature;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::{Client, Response, send};
use testkit::issuer::Claims;
use testkit::service::Running;
use testkit::{eventually, guid, text};
use uuid::Uuid;

const DEAL_CREATED: &str = "platform.crm.deal-created.v1";
const STAGE_CHANGED: &str = "platform.crm.deal-stage-changed.v1";
const MESSAGE_SENT: &str = "platform.messenger.message-sent.v1";

const CHATS: &str = "/api/messenger/chats";

const MANAGE: &str = "messenger.chats.manage";
const MANAGE_ALL: &str = "messenger.chats.manage@platform";

/// Returns the service that most tests share. Each test has its own users and chats.
fn service() -> &'static Running {
    static SERVICE: OnceLock<Running> = OnceLock::new();
    SERVICE.get_or_init(|| media_service::start(media_service::livekit(), &[]))
}

/// Returns claims with these permissions, with this company or none.
fn claims_with(id: Uuid, company: Option<Uuid>, permissions: &[&str]) -> Claims {
    let claims = Claims { company_id: company, ..Claims::user(id) };
    permissions.iter().fold(claims, |claims, permission| claims.permission(*permission))
}

/// Returns a caller with the token of this user, without permissions.
fn as_user(id: Uuid) -> Client {
    service().caller(&Claims::user(id))
}

/// Returns a supervisor of this company's deal chats, who is not a member of them.
fn supervisor(tenant: Uuid) -> Client {
    service().caller(&claims_with(guid(), Some(tenant), &[MANAGE]))
}

/// Returns a `ce_sequence` above all that this process has used, so that it suits every key.
fn next_sequence() -> i64 {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A deal as CRM publishes it.
#[derive(Clone, Copy, Debug)]
struct Deal {
    id: Uuid,
    tenant: Uuid,
    object: Uuid,
    client: Uuid,
    /// The creator of the deal, who gets the role Manager in its chat.
    manager: Uuid,
    agent: Option<Uuid>,
}

impl Deal {
    /// Returns a new deal with a client, a manager and an agent, without publishing it.
    fn new() -> Self {
        let [id, tenant, object, client, manager, agent] = std::array::from_fn(|_| guid());
        Self { id, tenant, object, client, manager, agent: Some(agent) }
    }

    fn agent(&self) -> Uuid {
        self.agent.expect("an agent")
    }

    /// Returns the payload of `deal-created`.
    fn created(&self) -> Value {
        json!({
            "DealId": self.id, "TenantId": self.tenant, "PropertyObjectId": self.object,
            "ClientUserId": self.client, "AgentUserId": self.agent,
            "Amount": {"AmountMinor": 1_250_000_000, "Currency": "RUB"},
            "CreatedByUserId": self.manager, "CreatedAt": "2026-11-22T10:00:00Z", "RowVersion": 1,
        })
    }

    /// Returns the payload of `deal-stage-changed`, with the agent after the change.
    fn changed(&self, row_version: i64, from: &str, to: &str, agent: Option<Uuid>) -> Value {
        json!({
            "DealId": self.id, "TenantId": self.tenant, "FromStepId": guid(), "ToStepId": guid(),
            "FromStepGroup": null, "ToStepGroup": "Booking", "FromStatus": from, "ToStatus": to,
            "ChangedByUserId": self.manager, "ChangedAt": "2026-11-22T11:00:00Z",
            "PropertyObjectId": self.object, "ClientUserId": self.client, "AgentUserId": agent,
            "CreatedByUserId": self.manager, "Amount": {"AmountMinor": 1_250_000_000, "Currency": "RUB"},
            "RowVersion": row_version,
        })
    }

    async fn publish_created(&self) {
        self.publish(DEAL_CREATED, &self.created()).await;
    }

    async fn publish(&self, topic: &str, event: &Value) {
        service().bus().publish(topic, self.id, next_sequence(), event).await;
    }

    /// Waits for the deal's chat.
    async fn chat(&self) -> Uuid {
        let read = async || {
            let page = as_user(self.client).get(&format!("{CHATS}?DealId={}", self.id)).await.expect(200);
            page["Items"].as_array()?.first().map(|chat| id_of(&chat["Id"]))
        };
        eventually("the chat", read).await
    }
}

/// Publishes a new deal and waits for its chat.
async fn open_chat() -> (Deal, Uuid) {
    let deal = Deal::new();
    deal.publish_created().await;
    (deal, deal.chat().await)
}

fn path(chat: Uuid, below: &str) -> String {
    format!("{CHATS}/{chat}{below}")
}

/// Returns the chat as the user sees it.
async fn view(chat: Uuid, user: Uuid) -> Value {
    as_user(user).get(&path(chat, "")).await.expect(200)
}

/// Waits until the user sees the chat as `is_expected` requires.
async fn view_when(chat: Uuid, user: Uuid, what: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
    let read = async || {
        let response = as_user(user).get(&path(chat, "")).await;
        (response.status == 200 && is_expected(&response.body)).then_some(response.body)
    };
    eventually(what, read).await
}

/// Sends a text and returns the message.
async fn send_text(chat: Uuid, user: Uuid, text: &str) -> Value {
    as_user(user).post(&path(chat, "/messages"), json!({"Text": text})).await.expect(201)
}

/// Returns all messages of a chat with up to a hundred messages, oldest first.
async fn messages(chat: Uuid, user: Uuid) -> Vec<Value> {
    let page = as_user(user).get(&path(chat, "/messages?AfterSequence=0&PageSize=100")).await.expect(200);
    assert_eq!(page["HasMore"], false);
    list(&page["Items"]).to_vec()
}

/// Returns the cards of a chat, oldest first.
async fn cards(chat: Uuid, user: Uuid) -> Vec<Value> {
    let messages = messages(chat, user).await.into_iter();
    messages.filter(|message| message["Kind"] == "System").map(|message| message["Card"].clone()).collect()
}

/// Returns the members of a chat with their roles.
fn roles(chat: &Value) -> Vec<(Uuid, String)> {
    let members = list(&chat["Members"]).iter();
    members.map(|member| (id_of(&member["UserId"]), text(&member["Role"]).to_owned())).collect()
}

/// Returns the role of a user in a chat.
fn role(chat: &Value, user: Uuid) -> Option<String> {
    roles(chat).into_iter().find(|(id, _)| *id == user).map(|(_, role)| role)
}

/// Adds a user to a deal's chat, as a supervisor.
async fn add(deal: &Deal, chat: Uuid, user: Uuid) -> Response {
    put(&supervisor(deal.tenant), &path(chat, &format!("/members/{user}"))).await
}

/// Removes a user from a deal's chat, as a supervisor.
async fn remove(deal: &Deal, chat: Uuid, user: Uuid) -> Response {
    supervisor(deal.tenant).delete(&path(chat, &format!("/members/{user}"))).await
}

/// Sends a `PUT` without a body.
async fn put(caller: &Client, path: &str) -> Response {
    send(caller.request(Method::PUT, path)).await
}

fn id_of(value: &Value) -> Uuid {
    text(value).parse().expect("a Guid")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// Returns this field of each object.
fn each<'v>(objects: &'v [Value], field: &str) -> Vec<&'v Value> {
    objects.iter().map(|object| &object[field]).collect()
}

fn with(mut object: Value, field: &str, value: impl Into<Value>) -> Value {
    object[field] = value.into();
    object
}

fn without(mut object: Value, field: &str) -> Value {
    object.as_object_mut().expect("an object").remove(field);
    object
}

/// Returns the number of responses with this status.
fn count(responses: &[Response], status: u16) -> usize {
    responses.iter().filter(|response| response.status == status).count()
}
