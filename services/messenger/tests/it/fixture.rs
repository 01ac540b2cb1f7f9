//! The fixture of tests of conferences: a deal's chat in a running service.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::bus::Published;
use testkit::client::{Client, Response, send};
use testkit::issuer::Claims;
use testkit::livekit::sign;
use testkit::service::Running;
use testkit::{eventually, guid, text};
use uuid::Uuid;

use crate::{CHATS, Deal, MANAGE, claims_with, id_of, list, put, service};

pub const CONFERENCES: &str = "/api/messenger/conferences";
pub const WEBHOOK: &str = "/api/messenger/webhooks/livekit";
pub const MODERATE: &str = "messenger.conferences.moderate";

pub const STARTED: &str = "platform.messenger.conference-started.v1";
pub const INVITED: &str = "platform.messenger.conference-invited.v1";
pub const HOST_CHANGED: &str = "platform.messenger.conference-host-changed.v1";
pub const ENDED: &str = "platform.messenger.conference-ended.v1";

/// A deal's chat in a service.
pub struct ConferenceFixture<'s> {
    pub service: &'s Running,
    pub deal: Deal,
    pub chat: Uuid,
}

impl ConferenceFixture<'static> {
    /// Creates a chat in the service that most tests share.
    pub async fn new() -> Self {
        Self::of(service()).await
    }
}

impl<'s> ConferenceFixture<'s> {
    /// Creates a chat of a client, an agent and a manager.
    pub async fn of(service: &'s Running) -> Self {
        let deal = Deal::new();
        deal.publish_created().await;
        let fixture = Self { service, deal, chat: Uuid::nil() };
        let read = async || {
            let page =
                fixture.as_user(deal.client).get(&format!("{CHATS}?DealId={}", deal.id)).await.expect(200);
            page["Items"].as_array()?.first().map(|chat| id_of(&chat["Id"]))
        };
        let chat = eventually("the chat", read).await;
        Self { chat, ..fixture }
    }

    /// Returns the deal's client, agent and manager.
    pub fn users(&self) -> [Uuid; 3] {
        [self.deal.client, self.deal.agent(), self.deal.manager]
    }

    pub fn as_user(&self, user: Uuid) -> Client {
        self.service.caller(&Claims::user(user))
    }

    /// Returns a moderator of the deal's company who is not a member of the chat.
    pub fn moderator(&self) -> Client {
        self.service.caller(&claims_with(guid(), Some(self.deal.tenant), &[MODERATE]))
    }

    pub fn supervisor(&self) -> Client {
        self.service.caller(&claims_with(guid(), Some(self.deal.tenant), &[MANAGE]))
    }

    /// Adds `count` new members to the chat.
    pub async fn add_members(&self, count: usize) -> Vec<Uuid> {
        let supervisor = self.supervisor();
        let mut added = Vec::with_capacity(count);
        for _ in 0..count {
            let user = guid();
            put(&supervisor, &self.path(&format!("/members/{user}"))).await.expect(204);
            added.push(user);
        }
        added
    }

    pub async fn remove_member(&self, user: Uuid) {
        self.supervisor().delete(&self.path(&format!("/members/{user}"))).await.expect(204);
    }

    pub fn path(&self, below: &str) -> String {
        format!("{CHATS}/{}{below}", self.chat)
    }

    pub async fn start(&self, host: Uuid, body: Value) -> Response {
        self.as_user(host).post(&self.path("/conferences"), body).await
    }

    /// Starts a conference of the client that rings these users, or all other members.
    pub async fn ring(&self, users: Option<&[Uuid]>) -> Uuid {
        let body = json!({"Media": "Video", "InviteUserIds": users});
        id_of(&self.start(self.deal.client, body).await.expect(201)["Id"])
    }

    /// Starts a conference of the client with a lobby that rings these users.
    pub async fn ring_with_lobby(&self, users: &[Uuid]) -> Uuid {
        let body = json!({"Media": "Video", "InviteUserIds": users, "Lobby": true});
        id_of(&self.start(self.deal.client, body).await.expect(201)["Id"])
    }

    /// Starts a conference of the client, which the agent joins.
    pub async fn ring_and_join(&self) -> Uuid {
        let id = self.ring(None).await;
        self.act(self.deal.agent(), id, "join").await.expect(200);
        id
    }

    /// Sends an action without a body, such as `join` or `participants/{userId}/remove`.
    pub async fn act(&self, user: Uuid, id: Uuid, act: &str) -> Response {
        act_as(&self.as_user(user), id, act).await
    }

    pub async fn remove_participant(&self, by: Uuid, id: Uuid, user: Uuid) -> Response {
        self.act(by, id, &format!("participants/{user}/remove")).await
    }

    pub async fn admit(&self, by: Uuid, id: Uuid, user: Uuid) -> Response {
        self.act(by, id, &format!("participants/{user}/admit")).await
    }

    pub async fn deny(&self, by: Uuid, id: Uuid, user: Uuid) -> Response {
        self.act(by, id, &format!("participants/{user}/deny")).await
    }

    pub async fn hand_over(&self, by: Uuid, id: Uuid, to: Uuid) -> Response {
        self.as_user(by).post(&format!("{CONFERENCES}/{id}/hand-over"), json!({"UserId": to})).await
    }

    /// Returns the kind, the user and the author of each entry in the log of a conference.
    pub async fn log(&self, id: Uuid) -> Vec<(String, Uuid, Uuid)> {
        let entries = "select kind, user_id::text, by_user_id::text from conference_log \
                       where conference_id = $1::text::uuid order by id";
        let rows = self.service.sql().await.query(entries, &[&id.to_string()]).await.unwrap();
        let parse = |id: String| id.parse().unwrap();
        rows.iter().map(|row| (row.get(0), parse(row.get(1)), parse(row.get(2)))).collect()
    }

    pub async fn invite(&self, by: Uuid, id: Uuid, users: &[Uuid]) -> Response {
        self.as_user(by).post(&format!("{CONFERENCES}/{id}/invite"), json!({"UserIds": users})).await
    }

    /// Returns the conference as a moderator sees it.
    pub async fn conference(&self, id: Uuid) -> Value {
        self.moderator().get(&format!("{CONFERENCES}/{id}")).await.expect(200)
    }

    /// Waits until the conference is as `is_expected` requires.
    pub async fn conference_when(&self, id: Uuid, what: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
        eventually(what, async || Some(self.conference(id).await).filter(&is_expected)).await
    }

    /// Sends a webhook about a participant's connection at a time in seconds since 1970.
    pub async fn send_participant_webhook(&self, event: &str, id: Uuid, user: Uuid, sid: &str, at: i64) {
        let webhook = json!({
            "event": event, "id": format!("EV_{}", guid()), "createdAt": at.to_string(),
            "room": {"sid": "RM_1", "name": id},
            "participant": {"sid": sid, "identity": user, "state": "ACTIVE", "joinedAt": at.to_string()},
        });
        self.send_webhook(&webhook).await.expect(200);
    }

    pub async fn send_webhook(&self, webhook: &Value) -> Response {
        let body = webhook.to_string();
        let signed = sign(body.as_bytes());
        self.post_webhook(&body, Some(&signed)).await
    }

    pub async fn post_webhook(&self, body: &str, authorization: Option<&str>) -> Response {
        let request = self.service.guest().request(Method::POST, WEBHOOK).body(body.to_owned());
        let request = request.header("content-type", "application/webhook+json");
        send(match authorization {
            Some(authorization) => request.header("authorization", authorization),
            None => request,
        })
        .await
    }

    /// Returns the cards about the end of a conference.
    pub async fn end_cards(&self, id: Uuid) -> Vec<Value> {
        let page = self.as_user(self.deal.client).get(&self.path("/messages?PageSize=100")).await.expect(200);
        let cards = list(&page["Items"]).iter().map(|message| message["Card"].clone());
        cards.filter(|card| card["ConferenceId"] == json!(id)).collect()
    }
}

/// Sends an action without a body, as [`ConferenceFixture::act`] does.
pub async fn act_as(caller: &Client, id: Uuid, act: &str) -> Response {
    send(caller.request(Method::POST, &format!("{CONFERENCES}/{id}/{act}"))).await
}

/// Returns the events of a conference in the order of `ce_sequence`.
pub async fn published_events(service: &Running, id: Uuid) -> Vec<Published> {
    let mut events = service.published(id).await;
    events.sort_by_key(Published::sequence);
    events
}

/// Returns the topics of these events.
pub fn topics(events: &[Published]) -> Vec<&str> {
    events.iter().map(|event| event.topic.as_str()).collect()
}

/// Returns the state of each knock with its user.
pub fn knocks(conference: &Value) -> Vec<(Uuid, &str)> {
    let knocks = conference["Knocks"].as_array().into_iter().flatten();
    knocks.map(|knock| (id_of(&knock["UserId"]), text(&knock["State"]))).collect()
}

/// Returns the state of a participant.
pub fn state(conference: &Value, user: Uuid) -> &str {
    text(&participant(conference, user)["State"])
}

/// Returns the entry of a participant.
///
/// # Panics
/// The conference has no such participant.
pub fn participant(conference: &Value, user: Uuid) -> &Value {
    let found =
        list(&conference["Participants"]).iter().find(|participant| participant["UserId"] == json!(user));
    found.unwrap_or_else(|| panic!("{user} has no entry in {conference}"))
}

/// Returns the present time plus `from_now` in seconds since 1970.
pub fn unix_seconds(from_now: i64) -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap() + from_now
}
