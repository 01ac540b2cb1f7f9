//! Permissions in conferences, and the list of a chat's conferences.

use serde_json::{Value, json};
use testkit::client::Client;
use testkit::guid;

use crate::fixture::{CONFERENCES, ConferenceFixture, MODERATE, act_as};
use crate::{CHATS, claims_with, each, id_of, list};

const MEMBER_ACTIONS: [&str; 5] = ["join", "media-token", "leave", "decline", "knock"];

async fn invite(caller: &Client, id: uuid::Uuid) -> testkit::client::Response {
    caller.post(&format!("{CONFERENCES}/{id}/invite"), json!({"UserIds": [guid()]})).await
}

/// RULE-MSG-036, RULE-MSG-060: a conference is 404 for a caller who is neither member nor
/// moderator, and for a former member.
#[tokio::test]
async fn conference_is_not_found_outside_its_chat() {
    let fixture = ConferenceFixture::new().await;
    let former = fixture.add_members(1).await[0];
    fixture.remove_member(former).await;
    let id = fixture.ring_and_join().await;
    let tenant = fixture.deal.tenant;
    let elsewhere = claims_with(guid(), Some(guid()), &[MODERATE]);
    let without_company = claims_with(guid(), None, &[MODERATE]);
    let supervisor = claims_with(guid(), Some(tenant), &["messenger.chats.manage@platform"]);
    let (colleague, former) =
        (claims_with(guid(), Some(tenant), &[]), claims_with(former, Some(tenant), &[]));
    for claims in [colleague, former, elsewhere, without_company, supervisor] {
        let stranger = fixture.service.caller(&claims);
        let no_conference = "MESSENGER_CONFERENCE_NOT_FOUND";
        stranger.get(&format!("{CONFERENCES}/{id}")).await.expect_problem(404, no_conference);
        for act in MEMBER_ACTIONS.into_iter().chain(["end"]) {
            act_as(&stranger, id, act).await.expect_problem(404, no_conference);
        }
        let remove = format!("participants/{}/remove", fixture.deal.agent());
        act_as(&stranger, id, &remove).await.expect_problem(404, no_conference);
        invite(&stranger, id).await.expect_problem(404, no_conference);
        let history = stranger.get(&fixture.path("/conferences")).await;
        history.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    }
    // A member gets the same response for an unknown id and for the empty id.
    for unknown in [guid(), uuid::Uuid::nil()] {
        let client = fixture.as_user(fixture.deal.client);
        let conference = client.get(&format!("{CONFERENCES}/{unknown}")).await;
        conference.expect_problem(404, "MESSENGER_CONFERENCE_NOT_FOUND");
        for act in MEMBER_ACTIONS.into_iter().chain(["end"]) {
            act_as(&client, unknown, act).await.expect_problem(404, "MESSENGER_CONFERENCE_NOT_FOUND");
        }
        let history = client.get(&format!("{CHATS}/{unknown}/conferences")).await;
        history.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    }
    assert_eq!(fixture.conference(id).await["Version"], 2, "no refused request changed the conference");
}

/// RULE-MSG-034, RULE-MSG-036: a moderator who is not a member reads and ends conferences and
/// removes participants, and can do nothing else.
#[tokio::test]
async fn moderator_does_not_take_part() {
    let fixture = ConferenceFixture::new().await;
    let company = claims_with(guid(), Some(fixture.deal.tenant), &[MODERATE]);
    let platform = claims_with(guid(), None, &["messenger.conferences.moderate@platform"]);
    for claims in [company, platform] {
        let moderator = fixture.service.caller(&claims);
        let id = fixture.ring_and_join().await;
        assert_eq!(moderator.get(&format!("{CONFERENCES}/{id}")).await.expect(200)["Id"], json!(id));
        for act in MEMBER_ACTIONS {
            act_as(&moderator, id, act).await.expect_problem(403, "FORBIDDEN");
        }
        invite(&moderator, id).await.expect_problem(403, "FORBIDDEN");
        let response = moderator.post(&fixture.path("/conferences"), json!({"Media": "Audio"})).await;
        response.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
        moderator.get(&fixture.path("/conferences")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
        let remove = |user| format!("participants/{user}/remove");
        act_as(&moderator, id, &remove(fixture.deal.agent())).await.expect(200);
        act_as(&moderator, id, &remove(guid())).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
        act_as(&moderator, id, &remove(uuid::Uuid::nil()))
            .await
            .expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
        act_as(&moderator, id, &remove(fixture.deal.client)).await.expect_problem(403, "FORBIDDEN");
        assert_eq!(act_as(&moderator, id, "end").await.expect(200)["EndedByUserId"], json!(claims.sub));
        act_as(&moderator, id, "join").await.expect_problem(403, "FORBIDDEN");
    }
}

/// RULE-MSG-033, RULE-MSG-034: only the host and moderators end a conference and remove
/// participants. Leave, decline and media-token need an entry of the caller.
#[tokio::test]
async fn plain_member_cannot_end_or_remove() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring(Some(&[agent])).await;
    fixture.act(agent, id, "join").await.expect(200);
    for member in [agent, manager] {
        fixture.act(member, id, "end").await.expect_problem(403, "FORBIDDEN");
        fixture.remove_participant(member, id, agent).await.expect_problem(403, "FORBIDDEN");
        fixture.remove_participant(member, id, guid()).await.expect_problem(403, "FORBIDDEN");
    }
    for act in ["leave", "decline", "media-token"] {
        fixture.act(manager, id, act).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    }
    fixture
        .remove_participant(client, id, manager)
        .await
        .expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    fixture.remove_participant(client, id, client).await.expect_problem(403, "FORBIDDEN");
    fixture.act(client, id, "end").await.expect(200);
    fixture.remove_participant(client, id, client).await.expect_problem(403, "FORBIDDEN");
    fixture
        .remove_participant(client, id, manager)
        .await
        .expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    fixture.act(manager, id, "leave").await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    fixture.act(manager, id, "media-token").await.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");
}

/// RULE-MSG-035: the history is paged, newest first, and filtered by status and start time.
#[tokio::test]
async fn conference_history_is_paged_and_filtered() {
    let fixture = ConferenceFixture::new().await;
    let client = fixture.deal.client;
    let mut conferences: Vec<Value> = Vec::new();
    for _ in 0..3 {
        let id = fixture.ring(None).await;
        conferences.insert(0, fixture.act(client, id, "end").await.expect(200));
    }
    let ringing = fixture.ring(None).await;
    conferences.insert(0, fixture.conference(ringing).await);
    let read = async |query: &str| {
        fixture.as_user(client).get(&fixture.path(&format!("/conferences?{query}"))).await.expect(200)
    };
    let all = read("").await;
    assert_eq!((list(&all["Items"]), &all["TotalCount"]), (&conferences[..], &json!(4)));
    let second = read("Page=2&PageSize=3").await;
    assert_eq!((list(&second["Items"]), &second["TotalCount"]), (&conferences[3..], &json!(4)));
    let oldest = read("Sort=CreatedAt&PageSize=1").await;
    assert_eq!(list(&oldest["Items"]), &conferences[3..]);
    assert_eq!(list(&read("Status=Ended").await["Items"]), &conferences[1..]);
    assert_eq!(list(&read("Status=Ringing,Active").await["Items"]), &conferences[..1]);
    let at = |conference: &Value| {
        form_urlencoded::byte_serialize(conference["CreatedAt"].as_str().unwrap().as_bytes())
            .collect::<String>()
    };
    let between = read(&format!("From={}&To={}", at(&conferences[2]), at(&conferences[1]))).await;
    assert_eq!(each(list(&between["Items"]), "Id"), [&conferences[2]["Id"]], "From inclusive, To exclusive");
    for (query, field, reason) in [
        ("Status=Over".to_owned(), "/Status", "unknown_value"),
        ("Status=".to_owned(), "/Status", "unknown_value"),
        ("Sort=EndedAt".to_owned(), "/Sort", "unknown_value"),
        ("From=yesterday".to_owned(), "/From", "invalid_type"),
        (format!("From={0}&To={0}", at(&conferences[0])), "/To", "empty_range"),
        ("PageSize=101".to_owned(), "/PageSize", "out_of_range"),
        ("Page=101&PageSize=100".to_owned(), "/Page", "out_of_range"),
    ] {
        let response = fixture.as_user(client).get(&fixture.path(&format!("/conferences?{query}"))).await;
        response.expect_refusal("VALIDATION_FAILED", field, reason);
    }
    assert_eq!(id_of(&conferences[0]["Id"]), ringing);
}
