//! What tests of conferences stand on: a deal's chat whose people call each other, and the media server.

use std::sync::OnceLock;

use messenger::Service;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::bus::Published;
use testkit::client::{Answer, Client, send};
use testkit::issuer::Claims;
use testkit::livekit::{LiveKit, sign};
use testkit::service::Running;
use testkit::{eventually, guid, text};
use uuid::Uuid;

use crate::{CHATS, Deal, MANAGE, holder, id_of, list, put, service};

pub const CONFERENCES: &str = "/api/messenger/conferences";
pub const WEBHOOK: &str = "/api/messenger/webhooks/livekit";
pub const MODERATE: &str = "messenger.conferences.moderate";

pub const STARTED: &str = "platform.messenger.conference-started.v1";
pub const INVITED: &str = "platform.messenger.conference-invited.v1";
pub const ENDED: &str = "platform.messenger.conference-ended.v1";

/// The media server of the service that most tests share.
pub fn livekit() -> &'static LiveKit {
    static LIVEKIT: OnceLock<LiveKit> = OnceLock::new();
    LIVEKIT.get_or_init(LiveKit::start)
}

/// A service that has this media server, with settings of its own.
pub fn start(livekit: &LiveKit, settings: &[(&str, &str)]) -> Running {
    let own = livekit.settings();
    let own = own.iter().map(|(name, value)| (*name, value.as_str()));
    let defaults = [("MESSENGER_MEDIA_PROBE_SECONDS", "0")];
    let all: Vec<_> = own.chain(defaults).chain(settings.iter().copied()).collect();
    Running::start::<Service>(&all)
}

/// A deal's chat in a service, and who is in it.
pub struct Line<'s> {
    pub service: &'s Running,
    pub deal: Deal,
    pub chat: Uuid,
}

impl Line<'static> {
    /// In the service that most tests share.
    pub async fn new() -> Self {
        Self::of(service()).await
    }
}

impl<'s> Line<'s> {
    /// Of a client, an agent and a manager.
    pub async fn of(service: &'s Running) -> Self {
        let deal = Deal::new();
        deal.tell_created().await;
        let line = Self { service, deal, chat: Uuid::nil() };
        let ask = async || {
            let page = line.person(deal.client).get(&format!("{CHATS}?DealId={}", deal.id)).await.expect(200);
            page["Items"].as_array()?.first().map(|chat| id_of(&chat["Id"]))
        };
        let chat = eventually("the chat", ask).await;
        Self { chat, ..line }
    }

    /// The three of the deal: its client, its agent, its manager.
    pub fn people(&self) -> [Uuid; 3] {
        [self.deal.client, self.deal.agent(), self.deal.manager]
    }

    pub fn person(&self, user: Uuid) -> Client {
        self.service.caller(&Claims::user(user))
    }

    /// A moderator of the deal's company who is in none of its chats.
    pub fn moderator(&self) -> Client {
        self.service.caller(&holder(guid(), Some(self.deal.tenant), &[MODERATE]))
    }

    pub fn supervisor(&self) -> Client {
        self.service.caller(&holder(guid(), Some(self.deal.tenant), &[MANAGE]))
    }

    /// Adds so many to the chat.
    pub async fn add(&self, count: usize) -> Vec<Uuid> {
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

    pub async fn start(&self, host: Uuid, body: Value) -> Answer {
        self.person(host).post(&self.path("/conferences"), body).await
    }

    /// A call of the client's that rings these, or else all others.
    pub async fn ring(&self, rung: Option<&[Uuid]>) -> Uuid {
        let body = json!({"Media": "Video", "InviteUserIds": rung});
        id_of(&self.start(self.deal.client, body).await.expect(201)["Id"])
    }

    /// The same, which the agent has answered.
    pub async fn talk(&self) -> Uuid {
        let id = self.ring(None).await;
        self.act(self.deal.agent(), id, "join").await.expect(200);
        id
    }

    /// `join`, `leave`, `decline`, `end`, `media-token` or `participants/{userId}/remove`.
    pub async fn act(&self, user: Uuid, id: Uuid, act: &str) -> Answer {
        act_as(&self.person(user), id, act).await
    }

    pub async fn remove(&self, by: Uuid, id: Uuid, user: Uuid) -> Answer {
        self.act(by, id, &format!("participants/{user}/remove")).await
    }

    pub async fn invite(&self, by: Uuid, id: Uuid, users: &[Uuid]) -> Answer {
        self.person(by).post(&format!("{CONFERENCES}/{id}/invite"), json!({"UserIds": users})).await
    }

    /// As whoever may see everything sees it.
    pub async fn card(&self, id: Uuid) -> Value {
        self.moderator().get(&format!("{CONFERENCES}/{id}")).await.expect(200)
    }

    pub async fn card_when(&self, id: Uuid, what: &str, is_there: impl Fn(&Value) -> bool) -> Value {
        eventually(what, async || Some(self.card(id).await).filter(&is_there)).await
    }

    /// Has LiveKit tell of somebody in a conference's room, by a connection, at a time in seconds.
    pub async fn tell(&self, event: &str, id: Uuid, user: Uuid, sid: &str, at: i64) {
        let told = json!({
            "event": event, "id": format!("EV_{}", guid()), "createdAt": at.to_string(),
            "room": {"sid": "RM_1", "name": id},
            "participant": {"sid": sid, "identity": user, "state": "ACTIVE", "joinedAt": at.to_string()},
        });
        self.hear(&told).await.expect(200);
    }

    pub async fn hear(&self, told: &Value) -> Answer {
        let body = told.to_string();
        let signed = sign(body.as_bytes());
        self.post_webhook(&body, Some(&signed)).await
    }

    pub async fn post_webhook(&self, body: &str, authorization: Option<&str>) -> Answer {
        let request = self.service.guest().request(Method::POST, WEBHOOK).body(body.to_owned());
        let request = request.header("content-type", "application/webhook+json");
        send(match authorization {
            Some(authorization) => request.header("authorization", authorization),
            None => request,
        })
        .await
    }

    /// The cards that tell of the end of a conference.
    pub async fn ends(&self, id: Uuid) -> Vec<Value> {
        let page = self.person(self.deal.client).get(&self.path("/messages?PageSize=100")).await.expect(200);
        let cards = list(&page["Items"]).iter().map(|message| message["Card"].clone());
        cards.filter(|card| card["ConferenceId"] == json!(id)).collect()
    }
}

pub async fn act_as(caller: &Client, id: Uuid, act: &str) -> Answer {
    send(caller.request(Method::POST, &format!("{CONFERENCES}/{id}/{act}"))).await
}

/// Returns every event of a conference, in the order of their one sequence.
pub async fn published(service: &Running, id: Uuid) -> Vec<Published> {
    let mut events = service.published(id).await;
    events.sort_by_key(Published::sequence);
    events
}

/// The topics of these events.
pub fn topics(events: &[Published]) -> Vec<&str> {
    events.iter().map(|event| event.topic.as_str()).collect()
}

/// The state of a participant.
pub fn state(card: &Value, user: Uuid) -> &str {
    text(&participant(card, user)["State"])
}

/// # Panics
/// When it has no such participant.
pub fn participant(card: &Value, user: Uuid) -> &Value {
    let found = list(&card["Participants"]).iter().find(|one| one["UserId"] == json!(user));
    found.unwrap_or_else(|| panic!("{user} is not in {card}"))
}

/// The seconds since 1970 of now and a little more or less.
pub fn seconds(from_now: i64) -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap() + from_now
}
