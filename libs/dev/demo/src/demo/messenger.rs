//! The fourth chapter: messages and calls of a deal's members.

use std::time::Duration;

use anyhow::Context;
use reqwest::{Method, Response};
use serde_json::{Value, json};
use tokio::time::timeout;
use uuid::Uuid;

use super::scene::Scene;
use super::story::{Story, expected};
use super::{EVENT_TIMEOUT, next_event};
use devkit::actors::{ANNA, DMITRI, IGOR};
use devkit::events::Follower;

const SENT: &str = "platform.messenger.message-sent.v1";
const STARTED: &str = "platform.messenger.conference-started.v1";
const ENDED: &str = "platform.messenger.conference-ended.v1";

/// The flat of the deal. No other chapter uses it.
const FLAT: u32 = 9;

/// The time after which an unanswered call has ended. It exceeds the ring time of the default
/// settings.
const RINGING: Duration = Duration::from_secs(65);

/// The chat of a deal with the tokens of its members.
struct DealChat {
    chat: String,
    conferences: String,
    anna: String,
    igor: String,
    dmitri: String,
}

pub(super) async fn play(story: &mut Story, scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let topics = [SENT, STARTED, ENDED].map(str::to_owned).to_vec();
    let mut bus = Follower::open(&scene.stack.brokers, topics, false)?;
    let (deal_chat, deal) = create_deal(story, scene).await?;
    write(story, scene, &deal_chat, &mut bus).await?;
    book_flat(story, &deal_chat, &deal).await?;
    call(story, scene, &deal_chat, &mut bus).await?;
    leave_call_unanswered(story, &deal_chat).await
}

/// Creates a deal. Returns its chat and its URL.
async fn create_deal(story: &mut Story, scene: &mut Scene<'_>) -> anyhow::Result<(DealChat, String)> {
    let dmitri = scene.sign_in(&DMITRI).await?;
    let (anna, igor) = (scene.sign_in(&ANNA).await?, scene.sign_in(&IGOR).await?);

    story.step("Anna wants another flat. Messenger consumes the deal from Kafka and opens a chat for it.");
    let body = json!({
        "PropertyObjectId": scene.flats.id(FLAT),
        "ClientUserId": ANNA.user,
        "AgentUserId": IGOR.user,
        "RequestId": Uuid::from_u128(rand::random()),
    });
    let deals = scene.public("crm/deals");
    let made = story.post(&deals, Some(&dmitri), &body, expected(201)).await?;
    let deal = format!("{deals}/{}", made["DealId"].as_str().unwrap_or_default());
    let reason = json!({"Reason": "The story is over"});
    scene.undo_with_body(Method::POST, format!("{deal}/cancel"), reason, &dmitri);
    let own = format!("{}?DealId={}", scene.messenger("chats"), made["DealId"].as_str().unwrap_or_default());
    let is_there = expected(200).within(EVENT_TIMEOUT).showing(|page| page["TotalCount"] == 1);
    let page = story.get(&own, Some(&anna), is_there).await?;
    let chat = &page["Items"][0];
    let members = chat["Members"].as_array().map_or(&[][..], Vec::as_slice);
    let roles: Vec<_> = members.iter().filter_map(|member| member["Role"].as_str()).collect();
    story.check(roles.len() == 3, &format!("in it: {}", roles.join(", ")));
    let chat = format!("{}/{}", scene.messenger("chats"), chat["Id"].as_str().unwrap_or_default());
    let deal_chat = DealChat { chat, conferences: scene.messenger("conferences"), anna, igor, dmitri };
    Ok((deal_chat, deal))
}

async fn write(
    story: &mut Story,
    scene: &Scene<'_>,
    deal_chat: &DealChat,
    bus: &mut Follower,
) -> anyhow::Result<()> {
    story.step("Igor writes to her, and repeats the request as after a lost response: there is one message.");
    let mut stream = EventStream::open(&scene.messenger("stream"), &deal_chat.anna).await?;
    let messages = format!("{}/messages", deal_chat.chat);
    let body = json!({"Text": "When can you come?", "ClientMessageId": Uuid::from_u128(rand::random())});
    let sent = story.post(&messages, Some(&deal_chat.igor), &body, expected(201)).await?;
    let again = story.post(&messages, Some(&deal_chat.igor), &body, expected(200)).await?;
    story.check(again["Id"] == sent["Id"], &format!("message {}", sent["Sequence"]));
    let event = stream.next("message").await?;
    story.check(event == sent, "Anna's stream has it");
    let event =
        next_event(bus, |record| record.topic == SENT && record.payload["MessageId"] == sent["Id"]).await?;
    story.check(event.payload.get("Text").is_none(), "the event does not contain the text");

    story.step("Anna reads and answers; Igor has an unread message now.");
    let read = json!({"Sequence": sent["Sequence"]});
    let marked =
        story.put(&format!("{}/read", deal_chat.chat), Some(&deal_chat.anna), &read, expected(200)).await?;
    story.check(marked["UnreadCount"] == 0, "she has read all");
    story.post(&messages, Some(&deal_chat.anna), &json!({"Text": "Tomorrow at ten"}), expected(201)).await?;
    let seen = story.get(&deal_chat.chat, Some(&deal_chat.igor), expected(200)).await?;
    story.check(seen["UnreadCount"] == 1, &format!("not read: {}", seen["UnreadCount"]));
    Ok(())
}

async fn book_flat(story: &mut Story, deal_chat: &DealChat, deal: &str) -> anyhow::Result<()> {
    story.step("Dmitri books the flat: the chat gets a card.");
    story.post(&format!("{deal}/booking"), Some(&deal_chat.dmitri), &json!({}), expected(201)).await?;
    let is_shown = |page: &Value| {
        let card = &page["Items"][0]["Card"];
        card["Type"] == "DealStatusChanged" && card["ToStatus"] == "Booking"
    };
    let newest = format!("{}/messages?PageSize=1", deal_chat.chat);
    story.get(&newest, Some(&deal_chat.anna), expected(200).within(EVENT_TIMEOUT).showing(is_shown)).await?;
    Ok(())
}

async fn call(
    story: &mut Story,
    scene: &Scene<'_>,
    deal_chat: &DealChat,
    bus: &mut Follower,
) -> anyhow::Result<()> {
    story.step("Anna calls. Igor's stream rings, and he answers: LiveKit would let him in.");
    let mut stream = EventStream::open(&scene.messenger("stream"), &deal_chat.igor).await?;
    let id = deal_chat.ring(story).await?;
    let event = stream.next("conference").await?;
    story.check(event["Status"] == "Ringing", "it rings");
    let conference = format!("{}/{id}", deal_chat.conferences);
    let join = format!("{conference}/join");
    let access = story.post(&join, Some(&deal_chat.igor), &Value::Null, expected(200)).await?;
    story.check(access["Room"] == *id, &format!("{} until {}", access["Url"], access["ExpiresAt"]));
    next_event(bus, |record| record.topic == STARTED && record.key == id).await?;

    story.step("She hangs up: the call is over for both, and a card has its duration.");
    story.post(&format!("{conference}/end"), Some(&deal_chat.anna), &Value::Null, expected(200)).await?;
    let event = next_event(bus, |record| record.topic == ENDED && record.key == id).await?;
    story.check(event.payload["EndReason"] == "EndedByHost", "the event has the reason");
    let late = expected(409).code("MESSENGER_CONFERENCE_ENDED");
    story.post(&join, Some(&deal_chat.igor), &Value::Null, late).await?;
    deal_chat.check_card(story, "EndedByHost").await
}

async fn leave_call_unanswered(story: &mut Story, deal_chat: &DealChat) -> anyhow::Result<()> {
    story.step("She calls once more without an answer: the call ends by itself.");
    let id = deal_chat.ring(story).await?;
    let is_over = expected(200).within(RINGING).showing(|card| card["EndReason"] == "NoAnswer");
    let conference = format!("{}/{id}", deal_chat.conferences);
    let card = story.get(&conference, Some(&deal_chat.anna), is_over).await?;
    story.check(card["ActiveAt"].is_null(), &format!("{} – {}", card["CreatedAt"], card["EndedAt"]));
    deal_chat.check_card(story, "NoAnswer").await
}

impl DealChat {
    /// Starts a call as Anna and returns the id of the conference.
    async fn ring(&self, story: &mut Story) -> anyhow::Result<String> {
        let conferences = format!("{}/conferences", self.chat);
        let card =
            story.post(&conferences, Some(&self.anna), &json!({"Media": "Audio"}), expected(201)).await?;
        Ok(card["Id"].as_str().context("a conference without an id")?.to_owned())
    }

    /// Checks the card of an ended call.
    async fn check_card(&self, story: &mut Story, reason: &str) -> anyhow::Result<()> {
        let newest = format!("{}/messages?PageSize=1", self.chat);
        let page = story.get(&newest, Some(&self.igor), expected(200)).await?;
        let card = &page["Items"][0]["Card"];
        let is_shown = card["Type"] == "ConferenceEnded" && card["EndReason"] == reason;
        story.check(is_shown, &format!("{}, {} s", card["EndReason"], card["DurationSeconds"]));
        Ok(())
    }
}

/// An open stream of a user.
struct EventStream {
    stream: Response,
    received: String,
}

impl EventStream {
    /// Opens a stream and waits until it is ready.
    async fn open(url: &str, token: &str) -> anyhow::Result<Self> {
        let stream = devkit::http::client()?.get(url).bearer_auth(token).send().await?.error_for_status()?;
        let mut stream = Self { stream, received: String::new() };
        stream.next("ready").await?;
        Ok(stream)
    }

    /// Waits for the next event of this name and returns its data.
    async fn next(&mut self, name: &str) -> anyhow::Result<Value> {
        let event = async {
            loop {
                while let Some((event, rest)) = self.received.split_once("\n\n") {
                    let mut lines = event.lines();
                    let is_it = lines.any(|line| line.strip_prefix("event: ") == Some(name));
                    let data = lines.find_map(|line| line.strip_prefix("data: "));
                    let data = data.map(serde_json::from_str).filter(|_| is_it);
                    let rest = rest.to_owned();
                    self.received = rest;
                    if let Some(data) = data {
                        return anyhow::Ok(data?);
                    }
                }
                let received = self.stream.chunk().await?.context("the stream has ended")?;
                self.received.push_str(std::str::from_utf8(&received)?);
            }
        };
        timeout(EVENT_TIMEOUT, event).await.with_context(|| format!("received no event {name} in time"))?
    }
}
