//! What streams tell.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{guid, text};

use crate::streams::{Event, Stream};
use crate::{
    Deal, STAGE_CHANGED, add, chat_direct, open_chat, path, person, remove, role, say, service, view,
};

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.name.as_str()).collect()
}

const SILENCE: Duration = Duration::from_millis(1500);

/// Section 6: guests have none.
#[tokio::test]
async fn a_stream_is_for_people() {
    service().guest().get(crate::streams::STREAM).await.expect_problem(401, "UNAUTHORIZED");
}

/// Section 6: a chat that is made, and what is said in it; ids rise.
#[tokio::test]
async fn a_stream_tells_of_chats_and_messages() {
    let deal = Deal::new();
    let mut stream = Stream::open(deal.client).await;
    deal.tell_created().await;
    let made = stream.next().await;
    assert_eq!((made.name.as_str(), made.id), ("chat", 1));
    let id = deal.chat().await;
    assert_eq!(made.data, view(id, deal.client).await);

    let mut other = Stream::open(deal.agent()).await;
    let sent = say(id, deal.client, "привет\nс новой строки\u{2028}").await;
    for stream in [&mut stream, &mut other] {
        let told = stream.next().await;
        assert_eq!(
            (told.name.as_str(), told.id, &told.data),
            ("message", 2, &sent),
            "the sender's devices, too"
        );
    }
    let place = path(id, &format!("/messages/{}", text(&sent["Id"])));
    let edited = person(deal.client).put(&place, json!({"Text": "иначе"})).await.expect(200);
    assert_eq!(stream.next().await.data, edited);
    person(deal.client).delete(&place).await.expect(204);
    let deleted = stream.next().await;
    assert_eq!((&deleted.data["Text"], &deleted.data["Id"]), (&Value::Null, &sent["Id"]));
    deal.tell(STAGE_CHANGED, &deal.changed(2, "Application", "Sale", deal.agent)).await;
    let card = stream.next().await;
    assert_eq!((card.name.as_str(), &card.data["Card"]["ToStatus"]), ("message", &json!("Sale")));
    assert_eq!(card.id, 5);
    assert!(stream.rest(SILENCE).await.is_empty());
}

/// Section 6: `read` when a marker was raised by `PUT …/read`, to all members; not when it was not, nor by writing.
#[tokio::test]
async fn a_stream_tells_who_has_read() {
    let (deal, id) = open_chat().await;
    say(id, deal.client, "а").await;
    say(id, deal.client, "б").await;
    let mut stream = Stream::open(deal.client).await;
    let reader = person(deal.agent());
    for sequence in [1, 1, 0, 2, 2] {
        reader.put(&path(id, "/read"), json!({"Sequence": sequence})).await.expect(200);
    }
    let told = stream.rest(SILENCE).await;
    assert_eq!(names(&told), ["read", "read"]);
    assert_eq!(told[1].data, json!({"ChatId": id, "UserId": deal.agent(), "ReadSequence": 2}));
}

/// Section 6: members when the members change; who stopped being one hears that, and nothing more.
#[tokio::test]
async fn a_stream_tells_who_comes_and_goes() {
    let (deal, id) = open_chat().await;
    let user = guid();
    let (mut theirs, mut clients) = (Stream::open(user).await, Stream::open(deal.client).await);
    add(&deal, id, user).await.expect(204);
    let come = theirs.next_of("chat").await;
    assert_eq!(role(&come.data, user).as_deref(), Some("Member"));
    let card = theirs.next().await;
    assert_eq!(card.data["Card"]["Type"], "MemberAdded");
    assert_eq!(role(&clients.next_of("chat").await.data, user).as_deref(), Some("Member"));

    remove(&deal, id, user).await.expect(204);
    let gone = theirs.next().await;
    assert_eq!((gone.name.as_str(), &gone.data), ("chat-removed", &json!({"ChatId": id})));
    say(id, deal.client, "без вас").await;
    assert!(theirs.rest(SILENCE).await.is_empty());
    let told = clients.rest(SILENCE).await;
    assert_eq!(names(&told), ["message", "chat", "message", "message"]);
    assert_eq!(role(&told[1].data, user), None);
}

/// Section 6, `chat`: whoever comes for another is told of the chat that they come into, and of nothing before that.
#[tokio::test]
async fn another_agent_is_told_of_what_follows() {
    let (deal, id) = open_chat().await;
    let new = guid();
    let (mut old, mut coming) = (Stream::open(deal.agent()).await, Stream::open(new).await);
    deal.tell(STAGE_CHANGED, &deal.changed(2, "Application", "Booking", Some(new))).await;
    let told = coming.rest(SILENCE).await;
    assert_eq!(names(&told), ["chat", "message"]);
    assert_eq!(told[0].data["Id"], json!(id));
    assert_eq!(role(&told[0].data, new).as_deref(), Some("Agent"));
    assert_eq!(told[1].data["Card"], json!({"Type": "MemberAdded", "UserId": new, "ByUserId": null}));
    let told = old.rest(SILENCE).await;
    assert_eq!(told.last().map(|event| event.name.as_str()), Some("chat-removed"));
}

/// Section 6, `chat`: members when its members change, though a role alone makes no card.
#[tokio::test]
async fn a_stream_tells_of_another_role() {
    let (deal, id) = open_chat().await;
    remove(&deal, id, deal.agent()).await.expect(204);
    let mut stream = Stream::open(deal.client).await;
    deal.tell(STAGE_CHANGED, &deal.changed(2, "Sale", "Sale", Some(deal.manager))).await;
    let told = stream.rest(SILENCE).await;
    assert_eq!(names(&told), ["chat"]);
    assert_eq!(role(&told[0].data, deal.manager).as_deref(), Some("Agent"));
}

/// Section 6, `conference`: the card, at each change.
#[tokio::test]
async fn a_stream_rings() {
    let line = crate::calls::Line::new().await;
    let mut stream = Stream::open(line.deal.agent()).await;
    let id = line.ring(None).await;
    let ringing = stream.next().await;
    assert_eq!((ringing.name.as_str(), &ringing.data["Id"]), ("conference", &json!(id)));
    assert_eq!(crate::calls::state(&ringing.data, line.deal.agent()), "Invited");
    line.act(line.deal.client, id, "end").await.expect(200);
    let told = stream.rest(SILENCE).await;
    let mut found = names(&told);
    found.sort_unstable();
    assert_eq!(found, ["conference", "message"]);
    let ended = told.iter().find(|event| event.name == "conference").unwrap();
    assert_eq!(ended.data["Status"], "Ended");
}

/// Section 6: a Direct chat is told to both, and every device has its own stream.
#[tokio::test]
async fn every_device_is_told() {
    let (deal, _) = open_chat().await;
    let mut devices = [Stream::open(deal.manager).await, Stream::open(deal.manager).await];
    let id = chat_direct::open(deal.client, deal.manager).await;
    for device in &mut devices {
        let told = device.next().await;
        assert_eq!((told.name.as_str(), &told.data["Id"]), ("chat", &json!(id)));
    }
}
