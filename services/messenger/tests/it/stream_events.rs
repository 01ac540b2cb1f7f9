//! Events of streams.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{guid, text};

use crate::stream_client::{Event, Stream};
use crate::{
    Deal, STAGE_CHANGED, add, as_user, chat_direct, open_chat, path, remove, role, send_text, service, view,
};

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.name.as_str()).collect()
}

/// Time without an event after which a test expects no further one.
const QUIET_PERIOD: Duration = Duration::from_millis(1500);

/// RULE-MSG-023: a guest gets 401.
#[tokio::test]
async fn stream_needs_a_token() {
    service().guest().get(crate::stream_client::STREAM).await.expect_problem(401, "UNAUTHORIZED");
}

/// RULE-MSG-023: a stream sends a new chat and its messages, and ids rise.
#[tokio::test]
async fn stream_sends_chats_and_messages() {
    let deal = Deal::new();
    let mut stream = Stream::open(deal.client).await;
    deal.publish_created().await;
    let made = stream.next().await;
    assert_eq!((made.name.as_str(), made.id), ("chat", 1));
    let id = deal.chat().await;
    assert_eq!(made.data, view(id, deal.client).await);

    let mut other = Stream::open(deal.agent()).await;
    let sent = send_text(id, deal.client, "привет\nс новой строки\u{2028}").await;
    for stream in [&mut stream, &mut other] {
        let event = stream.next().await;
        assert_eq!(
            (event.name.as_str(), event.id, &event.data),
            ("message", 2, &sent),
            "the sender's devices receive the message too"
        );
    }
    let target = path(id, &format!("/messages/{}", text(&sent["Id"])));
    let edited = as_user(deal.client).put(&target, json!({"Text": "иначе"})).await.expect(200);
    assert_eq!(stream.next().await.data, edited);
    as_user(deal.client).delete(&target).await.expect(204);
    let deleted = stream.next().await;
    assert_eq!((&deleted.data["Text"], &deleted.data["Id"]), (&Value::Null, &sent["Id"]));
    deal.publish(STAGE_CHANGED, &deal.changed(2, "Application", "Sale", deal.agent)).await;
    let card = stream.next().await;
    assert_eq!((card.name.as_str(), &card.data["Card"]["ToStatus"]), ("message", &json!("Sale")));
    assert_eq!(card.id, 5);
    assert!(stream.read_until_quiet(QUIET_PERIOD).await.is_empty());
}

/// RULE-MSG-023: `read` is sent to all members when `PUT …/read` raised a marker, and otherwise
/// not.
#[tokio::test]
async fn stream_sends_raised_read_markers() {
    let (deal, id) = open_chat().await;
    send_text(id, deal.client, "а").await;
    send_text(id, deal.client, "б").await;
    let mut stream = Stream::open(deal.client).await;
    let reader = as_user(deal.agent());
    for sequence in [1, 1, 0, 2, 2] {
        reader.put(&path(id, "/read"), json!({"Sequence": sequence})).await.expect(200);
    }
    let events = stream.read_until_quiet(QUIET_PERIOD).await;
    assert_eq!(names(&events), ["read", "read"]);
    assert_eq!(events[1].data, json!({"ChatId": id, "UserId": deal.agent(), "ReadSequence": 2}));
}

/// RULE-MSG-023: `chat` is sent to members when members change. A removed member receives
/// `chat-removed` and nothing more.
#[tokio::test]
async fn stream_sends_joining_and_leaving_members() {
    let (deal, id) = open_chat().await;
    let user = guid();
    let (mut added, mut client) = (Stream::open(user).await, Stream::open(deal.client).await);
    add(&deal, id, user).await.expect(204);
    let chat = added.next_of("chat").await;
    assert_eq!(role(&chat.data, user).as_deref(), Some("Member"));
    let card = added.next().await;
    assert_eq!(card.data["Card"]["Type"], "MemberAdded");
    assert_eq!(role(&client.next_of("chat").await.data, user).as_deref(), Some("Member"));

    remove(&deal, id, user).await.expect(204);
    let removed = added.next().await;
    assert_eq!((removed.name.as_str(), &removed.data), ("chat-removed", &json!({"ChatId": id})));
    send_text(id, deal.client, "без вас").await;
    assert!(added.read_until_quiet(QUIET_PERIOD).await.is_empty());
    let events = client.read_until_quiet(QUIET_PERIOD).await;
    assert_eq!(names(&events), ["message", "chat", "message", "message"]);
    assert_eq!(role(&events[1].data, user), None);
}

/// RULE-MSG-023: a new agent receives the chat and later events, and no earlier event.
#[tokio::test]
async fn new_agent_receives_only_later_events() {
    let (deal, id) = open_chat().await;
    let new = guid();
    let (mut old_agent, mut new_agent) = (Stream::open(deal.agent()).await, Stream::open(new).await);
    deal.publish(STAGE_CHANGED, &deal.changed(2, "Application", "Booking", Some(new))).await;
    let events = new_agent.read_until_quiet(QUIET_PERIOD).await;
    assert_eq!(names(&events), ["chat", "message"]);
    assert_eq!(events[0].data["Id"], json!(id));
    assert_eq!(role(&events[0].data, new).as_deref(), Some("Agent"));
    assert_eq!(events[1].data["Card"], json!({"Type": "MemberAdded", "UserId": new, "ByUserId": null}));
    let events = old_agent.read_until_quiet(QUIET_PERIOD).await;
    assert_eq!(events.last().map(|event| event.name.as_str()), Some("chat-removed"));
}

/// RULE-MSG-023: `chat` is sent for a change of role, which makes no card.
#[tokio::test]
async fn stream_sends_role_changes() {
    let (deal, id) = open_chat().await;
    remove(&deal, id, deal.agent()).await.expect(204);
    let mut stream = Stream::open(deal.client).await;
    deal.publish(STAGE_CHANGED, &deal.changed(2, "Sale", "Sale", Some(deal.manager))).await;
    let events = stream.read_until_quiet(QUIET_PERIOD).await;
    assert_eq!(names(&events), ["chat"]);
    assert_eq!(role(&events[0].data, deal.manager).as_deref(), Some("Agent"));
}

/// RULE-MSG-023: `conference` has the conference at each change.
#[tokio::test]
async fn stream_sends_conference_changes() {
    let fixture = crate::fixture::ConferenceFixture::new().await;
    let mut stream = Stream::open(fixture.deal.agent()).await;
    let id = fixture.ring(None).await;
    let ringing = stream.next().await;
    assert_eq!((ringing.name.as_str(), &ringing.data["Id"]), ("conference", &json!(id)));
    assert_eq!(crate::fixture::state(&ringing.data, fixture.deal.agent()), "Invited");
    fixture.act(fixture.deal.client, id, "end").await.expect(200);
    let events = stream.read_until_quiet(QUIET_PERIOD).await;
    let mut found = names(&events);
    found.sort_unstable();
    assert_eq!(found, ["conference", "message"]);
    let ended = events.iter().find(|event| event.name == "conference").unwrap();
    assert_eq!(ended.data["Status"], "Ended");
}

/// RULE-MSG-023: each device has its own stream, and a new Direct chat is sent to both users.
#[tokio::test]
async fn every_device_receives_events() {
    let (deal, _) = open_chat().await;
    let mut devices = [Stream::open(deal.manager).await, Stream::open(deal.manager).await];
    let id = chat_direct::open(deal.client, deal.manager).await;
    for device in &mut devices {
        let event = device.next().await;
        assert_eq!((event.name.as_str(), &event.data["Id"]), ("chat", &json!(id)));
    }
}
