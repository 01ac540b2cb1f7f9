//! Who sees and does what in conferences, and how the history is read.

use serde_json::{Value, json};
use testkit::client::Client;
use testkit::guid;

use crate::calls::{CONFERENCES, Line, MODERATE, act_as};
use crate::{CHATS, each, holder, id_of, list};

const MEMBERS_ACTS: [&str; 4] = ["join", "media-token", "leave", "decline"];

async fn invite(caller: &Client, id: uuid::Uuid) -> testkit::client::Answer {
    caller.post(&format!("{CONFERENCES}/{id}/invite"), json!({"UserIds": [guid()]})).await
}

/// Section 4: 404 to who is neither a member of the chat nor a moderator, as if there were no conference. A former member of
/// the chat is no member. Not covered: a member who lost their job, who stays a member.
#[tokio::test]
async fn people_outside_a_chat_do_not_find_its_conference() {
    let line = Line::new().await;
    let former = line.add(1).await[0];
    line.remove_member(former).await;
    let id = line.talk().await;
    let tenant = line.deal.tenant;
    let elsewhere = holder(guid(), Some(guid()), &[MODERATE]);
    let without_company = holder(guid(), None, &[MODERATE]);
    let supervisor = holder(guid(), Some(tenant), &["messenger.chats.manage@platform"]);
    let (colleague, former) = (holder(guid(), Some(tenant), &[]), holder(former, Some(tenant), &[]));
    for claims in [colleague, former, elsewhere, without_company, supervisor] {
        let stranger = line.service.caller(&claims);
        let no_conference = "MESSENGER_CONFERENCE_NOT_FOUND";
        stranger.get(&format!("{CONFERENCES}/{id}")).await.expect_problem(404, no_conference);
        for act in MEMBERS_ACTS.into_iter().chain(["end"]) {
            act_as(&stranger, id, act).await.expect_problem(404, no_conference);
        }
        let remove = format!("participants/{}/remove", line.deal.agent());
        act_as(&stranger, id, &remove).await.expect_problem(404, no_conference);
        invite(&stranger, id).await.expect_problem(404, no_conference);
        let history = stranger.get(&line.path("/conferences")).await;
        history.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    }
    // Unknown ones, the empty id among them, are answered alike.
    for unknown in [guid(), uuid::Uuid::nil()] {
        let client = line.person(line.deal.client);
        let card = client.get(&format!("{CONFERENCES}/{unknown}")).await;
        card.expect_problem(404, "MESSENGER_CONFERENCE_NOT_FOUND");
        for act in MEMBERS_ACTS.into_iter().chain(["end"]) {
            act_as(&client, unknown, act).await.expect_problem(404, "MESSENGER_CONFERENCE_NOT_FOUND");
        }
        let history = client.get(&format!("{CHATS}/{unknown}/conferences")).await;
        history.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    }
    assert_eq!(line.card(id).await["Version"], 2, "nothing has happened");
}

/// Section 4: a moderator reads the card, ends and removes, without membership; nothing else.
#[tokio::test]
async fn a_moderator_reads_ends_and_removes() {
    let line = Line::new().await;
    let own = holder(guid(), Some(line.deal.tenant), &[MODERATE]);
    let platform = holder(guid(), None, &["messenger.conferences.moderate@platform"]);
    for claims in [own, platform] {
        let moderator = line.service.caller(&claims);
        let id = line.talk().await;
        assert_eq!(moderator.get(&format!("{CONFERENCES}/{id}")).await.expect(200)["Id"], json!(id));
        for act in MEMBERS_ACTS {
            act_as(&moderator, id, act).await.expect_problem(403, "FORBIDDEN");
        }
        invite(&moderator, id).await.expect_problem(403, "FORBIDDEN");
        let answer = moderator.post(&line.path("/conferences"), json!({"Media": "Audio"})).await;
        answer.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
        moderator.get(&line.path("/conferences")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
        let remove = |user| format!("participants/{user}/remove");
        act_as(&moderator, id, &remove(line.deal.agent())).await.expect(200);
        act_as(&moderator, id, &remove(guid())).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
        act_as(&moderator, id, &remove(uuid::Uuid::nil()))
            .await
            .expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
        act_as(&moderator, id, &remove(line.deal.client)).await.expect_problem(403, "FORBIDDEN");
        assert_eq!(act_as(&moderator, id, "end").await.expect(200)["EndedByUserId"], json!(claims.sub));
        act_as(&moderator, id, "join").await.expect_problem(403, "FORBIDDEN");
    }
}

/// Section 4: remove and end are the host's and moderators'; leave and decline of those who have an entry.
#[tokio::test]
async fn others_neither_end_nor_remove() {
    let line = Line::new().await;
    let [client, agent, manager] = line.people();
    let id = line.ring(Some(&[agent])).await;
    line.act(agent, id, "join").await.expect(200);
    for member in [agent, manager] {
        line.act(member, id, "end").await.expect_problem(403, "FORBIDDEN");
        line.remove(member, id, agent).await.expect_problem(403, "FORBIDDEN");
        line.remove(member, id, guid()).await.expect_problem(403, "FORBIDDEN");
    }
    for act in ["leave", "decline", "media-token"] {
        line.act(manager, id, act).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    }
    line.remove(client, id, manager).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    line.remove(client, id, client).await.expect_problem(403, "FORBIDDEN");
    line.act(client, id, "end").await.expect(200);
    line.remove(client, id, client).await.expect_problem(403, "FORBIDDEN");
    line.remove(client, id, manager).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    line.act(manager, id, "leave").await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    line.act(manager, id, "media-token").await.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");
}

/// Section 4, history: newest first, by status and by when it began, in pages.
#[tokio::test]
async fn the_history_of_a_chat_is_read_in_pages() {
    let line = Line::new().await;
    let client = line.deal.client;
    let mut cards: Vec<Value> = Vec::new();
    for _ in 0..3 {
        let id = line.ring(None).await;
        cards.insert(0, line.act(client, id, "end").await.expect(200));
    }
    let ringing = line.ring(None).await;
    cards.insert(0, line.card(ringing).await);
    let ask = async |query: &str| {
        line.person(client).get(&line.path(&format!("/conferences?{query}"))).await.expect(200)
    };
    let all = ask("").await;
    assert_eq!((list(&all["Items"]), &all["TotalCount"]), (&cards[..], &json!(4)));
    let second = ask("Page=2&PageSize=3").await;
    assert_eq!((list(&second["Items"]), &second["TotalCount"]), (&cards[3..], &json!(4)));
    let oldest = ask("Sort=CreatedAt&PageSize=1").await;
    assert_eq!(list(&oldest["Items"]), &cards[3..]);
    assert_eq!(list(&ask("Status=Ended").await["Items"]), &cards[1..]);
    assert_eq!(list(&ask("Status=Ringing,Active").await["Items"]), &cards[..1]);
    let at = |card: &Value| {
        form_urlencoded::byte_serialize(card["CreatedAt"].as_str().unwrap().as_bytes()).collect::<String>()
    };
    let between = ask(&format!("From={}&To={}", at(&cards[2]), at(&cards[1]))).await;
    assert_eq!(each(list(&between["Items"]), "Id"), [&cards[2]["Id"]], "From inclusive, To exclusive");
    for (query, field, reason) in [
        ("Status=Over".to_owned(), "/Status", "unknown_value"),
        ("Status=".to_owned(), "/Status", "unknown_value"),
        ("Sort=EndedAt".to_owned(), "/Sort", "unknown_value"),
        ("From=yesterday".to_owned(), "/From", "invalid_type"),
        (format!("From={0}&To={0}", at(&cards[0])), "/To", "empty_range"),
        ("PageSize=101".to_owned(), "/PageSize", "out_of_range"),
        ("Page=101&PageSize=100".to_owned(), "/Page", "out_of_range"),
    ] {
        let answer = line.person(client).get(&line.path(&format!("/conferences?{query}"))).await;
        answer.expect_refusal("VALIDATION_FAILED", field, reason);
    }
    assert_eq!(id_of(&cards[0]["Id"]), ringing);
}
