//! Messenger at its edges: HTTP and Kafka, against a real database and broker.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a helper that cannot go on fails its test")]

mod access;
mod calls;
mod chat_badge;
mod chat_direct;
mod chat_lists;
mod chat_members;
mod chat_races;
mod clocks;
mod conference_access;
mod conference_moves;
mod conference_races;
mod conference_start;
mod conference_timers;
mod deal_agents;
mod deal_chats;
mod deal_orders;
mod deployed;
mod documents;
mod livekit;
mod media_orders;
mod media_tokens;
mod message_changes;
mod message_events;
mod message_pages;
mod message_texts;
mod settings;
mod stream_ends;
mod stream_events;
mod stream_resume;
mod streams;
mod webhook_attendance;
mod webhook_signature;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::{Answer, Client, send};
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

/// The service that most tests share: each has people and chats of its own.
fn service() -> &'static Running {
    static SERVICE: OnceLock<Running> = OnceLock::new();
    SERVICE.get_or_init(|| calls::start(calls::livekit(), &[]))
}

/// Whoever has these permissions, of this company or of none.
fn holder(id: Uuid, company: Option<Uuid>, permissions: &[&str]) -> Claims {
    let claims = Claims { company_id: company, ..Claims::user(id) };
    permissions.iter().fold(claims, |claims, permission| claims.permission(*permission))
}

/// Somebody, without any permission.
fn person(id: Uuid) -> Client {
    service().caller(&Claims::user(id))
}

/// A supervisor of this company's deal chats, who is in none of them.
fn supervisor(tenant: Uuid) -> Client {
    service().caller(&holder(guid(), Some(tenant), &[MANAGE]))
}

/// A number that grows with each use: the sequence of an event.
fn next() -> i64 {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A deal as CRM tells of it, and its chat once that is there.
#[derive(Clone, Copy, Debug)]
struct Deal {
    id: Uuid,
    tenant: Uuid,
    object: Uuid,
    client: Uuid,
    manager: Uuid,
    agent: Option<Uuid>,
}

impl Deal {
    /// A new one, of three people, of which nobody has heard.
    fn new() -> Self {
        let [id, tenant, object, client, manager, agent] = std::array::from_fn(|_| guid());
        Self { id, tenant, object, client, manager, agent: Some(agent) }
    }

    fn agent(&self) -> Uuid {
        self.agent.expect("an agent")
    }

    /// What CRM tells when it is made.
    fn created(&self) -> Value {
        json!({
            "DealId": self.id, "TenantId": self.tenant, "PropertyObjectId": self.object,
            "ClientUserId": self.client, "AgentUserId": self.agent,
            "Amount": {"AmountMinor": 1_250_000_000, "Currency": "RUB"},
            "CreatedByUserId": self.manager, "CreatedAt": "2026-11-22T10:00:00Z", "RowVersion": 1,
        })
    }

    /// What CRM tells of a change of the status; the agent is the one whom it has then.
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

    async fn tell_created(&self) {
        self.tell(DEAL_CREATED, &self.created()).await;
    }

    async fn tell(&self, topic: &str, told: &Value) {
        service().bus().publish(topic, self.id, next(), told).await;
    }

    /// Its chat, once it is there.
    async fn chat(&self) -> Uuid {
        let ask = async || {
            let page = person(self.client).get(&format!("{CHATS}?DealId={}", self.id)).await.expect(200);
            page["Items"].as_array()?.first().map(|chat| id_of(&chat["Id"]))
        };
        eventually("the chat", ask).await
    }
}

/// A deal of three people, and its chat.
async fn open_chat() -> (Deal, Uuid) {
    let deal = Deal::new();
    deal.tell_created().await;
    (deal, deal.chat().await)
}

fn path(chat: Uuid, below: &str) -> String {
    format!("{CHATS}/{chat}{below}")
}

/// The chat as somebody sees it.
async fn view(chat: Uuid, user: Uuid) -> Value {
    person(user).get(&path(chat, "")).await.expect(200)
}

/// Waits until somebody sees the chat as it should be.
async fn view_when(chat: Uuid, user: Uuid, what: &str, is_there: impl Fn(&Value) -> bool) -> Value {
    let ask = async || {
        let answer = person(user).get(&path(chat, "")).await;
        (answer.status == 200 && is_there(&answer.body)).then_some(answer.body)
    };
    eventually(what, ask).await
}

/// Sends a text.
async fn say(chat: Uuid, user: Uuid, said: &str) -> Value {
    person(user).post(&path(chat, "/messages"), json!({"Text": said})).await.expect(201)
}

/// All that is in a chat of up to a hundred messages, oldest first.
async fn messages(chat: Uuid, user: Uuid) -> Vec<Value> {
    let page = person(user).get(&path(chat, "/messages?AfterSequence=0&PageSize=100")).await.expect(200);
    assert_eq!(page["HasMore"], false);
    list(&page["Items"]).to_vec()
}

/// The cards of a chat, oldest first.
async fn cards(chat: Uuid, user: Uuid) -> Vec<Value> {
    let messages = messages(chat, user).await.into_iter();
    messages.filter(|message| message["Kind"] == "System").map(|message| message["Card"].clone()).collect()
}

/// Who is in a chat, by role: `Client`, `Agent`, `Manager`, `Member`.
fn roles(chat: &Value) -> Vec<(Uuid, String)> {
    let members = list(&chat["Members"]).iter();
    members.map(|member| (id_of(&member["UserId"]), text(&member["Role"]).to_owned())).collect()
}

/// The role that somebody has in a chat.
fn role(chat: &Value, user: Uuid) -> Option<String> {
    roles(chat).into_iter().find(|(id, _)| *id == user).map(|(_, role)| role)
}

/// Has a supervisor of the deal add somebody to its chat.
async fn add(deal: &Deal, chat: Uuid, user: Uuid) -> Answer {
    put(&supervisor(deal.tenant), &path(chat, &format!("/members/{user}"))).await
}

/// Has a supervisor of the deal remove somebody from its chat.
async fn remove(deal: &Deal, chat: Uuid, user: Uuid) -> Answer {
    supervisor(deal.tenant).delete(&path(chat, &format!("/members/{user}"))).await
}

/// `PUT` without a body.
async fn put(caller: &Client, path: &str) -> Answer {
    send(caller.request(Method::PUT, path)).await
}

fn id_of(value: &Value) -> Uuid {
    text(value).parse().expect("a Guid")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// This member of every object of a list.
fn each<'v>(objects: &'v [Value], member: &str) -> Vec<&'v Value> {
    objects.iter().map(|object| &object[member]).collect()
}

fn with(mut object: Value, member: &str, value: impl Into<Value>) -> Value {
    object[member] = value.into();
    object
}

fn without(mut object: Value, member: &str) -> Value {
    object.as_object_mut().expect("an object").remove(member);
    object
}

fn count(answers: &[Answer], status: u16) -> usize {
    answers.iter().filter(|answer| answer.status == status).count()
}
