//! Transitions of conferences and participants from the tables of the specification, and actions
//! that change nothing.

use serde_json::{Value, json};
use testkit::{guid, text};

use crate::fixture::{
    CONFERENCES, ConferenceFixture, ENDED, INVITED, MODERATE, STARTED, act_as, participant, published_events,
    state, topics,
};
use crate::{STAGE_CHANGED, claims_with, id_of, list, put};

/// RULE-MSG-032, RULE-MSG-038: the first join beside the host makes a conference Active. `JoinedAt`
/// is the time of the first join. `LeftAt` is the time of the last leave, and null while Joined.
#[tokio::test]
async fn first_join_makes_the_conference_active() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring(None).await;
    fixture.act(client, id, "join").await.expect(200);
    assert_eq!(fixture.conference(id).await["Version"], 1, "the host is Joined already");
    fixture.act(agent, id, "join").await.expect(200);
    let conference = fixture.conference(id).await;
    assert_eq!((&conference["Status"], &conference["Version"]), (&json!("Active"), &json!(2)));
    let joined = participant(&conference, agent).clone();
    assert_eq!((&joined["State"], &joined["JoinedAt"]), (&json!("Joined"), &conference["ActiveAt"]));

    let left = fixture.act(agent, id, "leave").await.expect(200);
    assert_eq!((state(&left, agent), &left["Version"]), ("Left", &json!(3)));
    assert_eq!(participant(&left, agent)["JoinedAt"], joined["JoinedAt"]);
    assert!(participant(&left, agent)["LeftAt"].is_string());
    fixture.act(agent, id, "join").await.expect(200);
    let again = fixture.conference(id).await;
    assert_eq!(*participant(&again, agent), joined, "JoinedAt is unchanged, and LeftAt is null again");
    assert_eq!(again["ActiveAt"], conference["ActiveAt"]);

    fixture.act(manager, id, "join").await.expect(200);
    assert_eq!(fixture.conference(id).await["ActiveAt"], conference["ActiveAt"]);
    let ended = fixture.act(client, id, "end").await.expect(200);
    assert_eq!((&ended["Status"], &ended["EndReason"]), (&json!("Ended"), &json!("EndedByHost")));
    for user in [client, agent, manager] {
        assert_eq!(participant(&ended, user)["LeftAt"], ended["EndedAt"]);
    }
}

/// RULE-MSG-039: a Ringing conference ends when the host ends or leaves, or when a moderator ends.
/// Invited users become Missed.
#[tokio::test]
async fn host_or_moderator_ends_a_ringing_conference() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, _] = fixture.users();
    for act in ["end", "leave"] {
        let id = fixture.ring(None).await;
        let conference = fixture.act(client, id, act).await.expect(200);
        assert_eq!(
            (&conference["Status"], &conference["EndReason"]),
            (&json!("Ended"), &json!("EndedByHost")),
            "{act}"
        );
        assert_eq!((state(&conference, client), state(&conference, agent)), ("Left", "Missed"));
        assert_eq!((&conference["EndedByUserId"], &conference["ActiveAt"]), (&json!(client), &Value::Null));
    }
    let id = fixture.ring(None).await;
    let moderator = fixture.moderator();
    let conference = act_as(&moderator, id, "end").await.expect(200);
    assert_eq!(conference["EndReason"], "EndedByHost");
    assert!(conference["EndedByUserId"] != json!(client) && conference["EndedByUserId"].is_string());
}

/// RULE-MSG-039: a Ringing conference ends when declining or removal leaves no participant Invited.
#[tokio::test]
async fn ringing_conference_without_invitees_ends() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring(None).await;
    let conference = fixture.act(agent, id, "decline").await.expect(200);
    assert_eq!((&conference["Status"], state(&conference, agent)), (&json!("Ringing"), "Declined"));
    let conference = fixture.remove_participant(client, id, manager).await.expect(200);
    assert_eq!((&conference["Status"], &conference["EndReason"]), (&json!("Ended"), &json!("AllDeclined")));
    assert_eq!((state(&conference, manager), &conference["EndedByUserId"]), ("Removed", &Value::Null));

    let id = fixture.ring(Some(&[agent])).await;
    let conference = fixture.act(agent, id, "decline").await.expect(200);
    assert_eq!(conference["EndReason"], "AllDeclined");
    let cards = fixture.end_cards(id).await;
    let expected = json!({
        "Type": "ConferenceEnded", "ConferenceId": id, "Media": "Video", "EndReason": "AllDeclined",
        "DurationSeconds": 0,
    });
    assert_eq!(cards, [expected]);
}

/// INV-CNF-3, RULE-MSG-033: a leave changes only a Joined participant, and a decline only an
/// Invited one. An Ended conference does not change. Only a change raises `Version`.
#[tokio::test]
async fn repeated_answer_changes_nothing() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring(None).await;
    let assert_version = async |user, act: &str, version: i64| {
        let conference = fixture.act(user, id, act).await.expect(200);
        assert_eq!(conference["Version"], version, "{act}");
    };
    assert_version(manager, "leave", 1).await;
    assert_version(client, "decline", 1).await;
    assert_version(agent, "decline", 2).await;
    assert_version(agent, "decline", 2).await;
    assert_version(agent, "leave", 2).await;
    fixture.act(agent, id, "join").await.expect(200);
    assert_version(agent, "decline", 3).await;
    assert_version(agent, "leave", 4).await;
    assert_version(agent, "leave", 4).await;
    fixture.remove_participant(client, id, agent).await.expect(200);
    assert_version(agent, "leave", 5).await;
    assert_version(agent, "decline", 5).await;
    let conference = fixture.remove_participant(client, id, agent).await.expect(200);
    assert_eq!((state(&conference, agent), &conference["Version"]), ("Removed", &json!(5)));
    let ended = fixture.act(client, id, "end").await.expect(200);
    for (user, act) in [(client, "leave"), (client, "decline"), (client, "end"), (manager, "decline")] {
        assert_eq!(fixture.act(user, id, act).await.expect(200), ended);
    }
    assert_eq!(fixture.remove_participant(client, id, manager).await.expect(200), ended);
}

/// RULE-MSG-031, RULE-MSG-046, RULE-MSG-062, RULE-EVT-018: an invitation makes new, Declined, Left
/// and Missed users Invited, all or none. Invited and Joined users and the host keep their states.
#[tokio::test]
async fn invitation_makes_absent_users_invited() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let new = fixture.add_members(2).await;
    let id = fixture.ring(Some(&[agent, manager])).await;
    fixture.act(agent, id, "join").await.expect(200);
    fixture.act(manager, id, "decline").await.expect(200);
    let before = fixture.conference(id).await;
    fixture.invite(agent, id, &[new[0], guid()]).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    assert_eq!(fixture.conference(id).await, before, "a refused invitation invites no user");

    // A member without an entry in the conference may invite.
    let conference = fixture.invite(new[1], id, &[client, agent, manager, new[0]]).await.expect(200);
    assert_eq!((state(&conference, client), state(&conference, agent)), ("Joined", "Joined"));
    assert_eq!((state(&conference, manager), state(&conference, new[0])), ("Invited", "Invited"));
    let invited_at = |conference| text(&participant(conference, manager)["InvitedAt"]).to_owned();
    assert!(invited_at(&conference) > invited_at(&before));
    let order: Vec<_> = list(&conference["Participants"]).iter().map(|one| id_of(&one["UserId"])).collect();
    assert_eq!(order, [client, agent, manager, new[0]], "the host, then by InvitedAt");
    let again = fixture.invite(agent, id, &[manager, new[0]]).await.expect(200);
    assert_eq!(again, conference, "an Invited user stays Invited");

    // A participant without invitation is sorted by JoinedAt.
    fixture.act(new[1], id, "join").await.expect(200);
    let conference = fixture.conference(id).await;
    assert_eq!(conference["Participants"][4]["UserId"], json!(new[1]));
    assert_eq!(
        (&conference["Participants"][4]["InvitedAt"], state(&conference, new[1])),
        (&Value::Null, "Joined")
    );
    fixture.act(client, id, "end").await.expect(200);
    fixture.invite(agent, id, &[manager]).await.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");

    let events = published_events(fixture.service, id).await;
    assert_eq!(topics(&events), [STARTED, INVITED, ENDED], "an invitation without effect is not published");
    let payload = &events[1].payload;
    let expected = json!({
        "ConferenceId": id, "ChatId": fixture.chat, "DealId": fixture.deal.id, "TenantId": fixture.deal.tenant,
        "Media": "Video", "InvitedUserIds": [manager, new[0]], "ByUserId": new[1], "At": payload["At"],
    });
    assert_eq!(*payload, expected);
}

/// RULE-MSG-034, RULE-MSG-042, RULE-MSG-062, RULE-MSG-064: only the host can invite a
/// participant who is Removed.
#[tokio::test]
async fn only_the_host_invites_a_removed_participant() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring_and_join().await;
    fixture.act(manager, id, "join").await.expect(200);
    let conference = fixture.remove_participant(client, id, agent).await.expect(200);
    assert_eq!(state(&conference, agent), "Removed");
    assert!(participant(&conference, agent)["LeftAt"].is_string());
    for act in ["join", "media-token"] {
        fixture.act(agent, id, act).await.expect_problem(403, "MESSENGER_PARTICIPANT_REMOVED");
    }
    fixture.invite(agent, id, &[manager]).await.expect_problem(403, "MESSENGER_PARTICIPANT_REMOVED");
    fixture.invite(manager, id, &[agent]).await.expect_problem(403, "MESSENGER_PARTICIPANT_REMOVED");
    // For a Removed caller this refusal precedes all others.
    fixture.invite(agent, id, &[guid()]).await.expect_problem(403, "MESSENGER_PARTICIPANT_REMOVED");
    fixture
        .invite(manager, id, &[agent, guid()])
        .await
        .expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    let moderator = fixture.service.caller(&claims_with(manager, Some(fixture.deal.tenant), &[MODERATE]));
    let refused = moderator.post(&format!("{CONFERENCES}/{id}/invite"), json!({"UserIds": [agent]})).await;
    refused.expect_problem(403, "MESSENGER_PARTICIPANT_REMOVED");

    let conference = fixture.invite(client, id, &[agent]).await.expect(200);
    assert_eq!(state(&conference, agent), "Invited");
    fixture.act(agent, id, "join").await.expect(200);
    fixture.remove_participant(client, id, agent).await.expect(200);
    fixture.act(client, id, "end").await.expect(200);
    fixture.act(agent, id, "join").await.expect_problem(403, "MESSENGER_PARTICIPANT_REMOVED");
    fixture.act(manager, id, "join").await.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");
}

/// RULE-MSG-031: an invitation with two flaws gets the refusal that is first in the table.
#[tokio::test]
async fn invite_refusals_follow_the_order_of_the_table() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let more = fixture.add_members(20).await;
    let id = fixture.ring(Some(&[agent, manager])).await;
    fixture.remove_participant(client, id, agent).await.expect(200);
    fixture.invite(client, id, &more[..19]).await.expect(200);
    // All seats are taken now.
    for (by, users, status, code) in [
        (manager, vec![agent, guid(), more[19]], 404, "MESSENGER_PARTICIPANT_NOT_FOUND"),
        (manager, vec![agent, more[19]], 403, "MESSENGER_PARTICIPANT_REMOVED"),
        (client, vec![agent], 409, "MESSENGER_CONFERENCE_FULL"),
        (client, vec![more[19]], 409, "MESSENGER_CONFERENCE_FULL"),
    ] {
        fixture.invite(by, id, &users).await.expect_problem(status, code);
    }
    fixture.invite(client, id, &[manager, more[0]]).await.expect(200);
    fixture.act(client, id, "end").await.expect(200);
    fixture.invite(agent, id, &[guid()]).await.expect_problem(403, "MESSENGER_PARTICIPANT_REMOVED");
    fixture.invite(manager, id, &[agent, guid()]).await.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");
    let body = json!({"UserIds": [guid()]});
    let path = format!("{CONFERENCES}/{id}/invite");
    fixture.moderator().post(&path, body.clone()).await.expect_problem(403, "FORBIDDEN");
    fixture.as_user(guid()).post(&path, body).await.expect_problem(404, "MESSENGER_CONFERENCE_NOT_FOUND");
}

/// INV-CNF-2, RULE-MSG-063: Invited and Joined participants take the 21 seats.
#[tokio::test]
async fn conference_has_twenty_one_seats() {
    let fixture = ConferenceFixture::new().await;
    let more = fixture.add_members(20).await;
    let client = fixture.deal.client;
    let id = fixture.ring(Some(&more[..19])).await;
    fixture.act(more[0], id, "join").await.expect(200);
    // Twenty seats are taken: the host's and nineteen.
    fixture
        .invite(client, id, &[fixture.deal.agent(), fixture.deal.manager])
        .await
        .expect_problem(409, "MESSENGER_CONFERENCE_FULL");
    fixture.act(more[19], id, "join").await.expect(200);
    for late in [fixture.deal.agent(), fixture.deal.manager] {
        fixture.act(late, id, "join").await.expect_problem(409, "MESSENGER_CONFERENCE_FULL");
        fixture.invite(client, id, &[late]).await.expect_problem(409, "MESSENGER_CONFERENCE_FULL");
    }
    fixture.act(more[1], id, "join").await.expect(200);
    fixture.act(more[2], id, "decline").await.expect(200);
    fixture.act(fixture.deal.agent(), id, "join").await.expect(200);
    fixture.act(more[2], id, "join").await.expect_problem(409, "MESSENGER_CONFERENCE_FULL");
    // Other participants may take the seat of an absent host.
    fixture.act(client, id, "leave").await.expect(200);
    fixture.act(more[2], id, "join").await.expect(200);
    fixture.act(client, id, "join").await.expect_problem(409, "MESSENGER_CONFERENCE_FULL");
    fixture.act(more[3], id, "decline").await.expect(200);
    fixture.act(client, id, "join").await.expect(200);
    assert_eq!(fixture.conference(id).await["Participants"][0]["Role"], "Host");
    fixture.act(client, id, "end").await.expect(200);
}

/// RULE-MSG-040, RULE-MSG-046, RULE-EVT-018: `conference-ended` lists the users who were ever
/// Joined, the host first. The card has the duration.
#[tokio::test]
async fn conference_end_is_published_once() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring_and_join().await;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    fixture.act(agent, id, "leave").await.expect(200);
    let conference = act_as(&fixture.moderator(), id, "end").await.expect(200);
    let events = published_events(fixture.service, id).await;
    assert_eq!(topics(&events), [STARTED, ENDED]);
    let expected = json!({
        "ConferenceId": id, "ChatId": fixture.chat, "DealId": fixture.deal.id, "TenantId": fixture.deal.tenant,
        "EndReason": "EndedByHost", "StartedAt": conference["ActiveAt"], "EndedAt": conference["EndedAt"],
        "ParticipantUserIds": [client, agent],
    });
    assert_eq!(events[1].payload, expected);
    let cards = fixture.end_cards(id).await;
    assert_eq!(cards.len(), 1);
    assert!(cards[0]["DurationSeconds"] == 1 || cards[0]["DurationSeconds"] == 2, "{cards:?}");

    // The card is read for the members who were Joined at the end and have read all earlier
    // messages.
    let unread =
        async |user| fixture.as_user(user).get(&fixture.path("")).await.expect(200)["UnreadCount"].clone();
    assert_eq!(
        (unread(client).await, unread(agent).await, unread(manager).await),
        (json!(0), json!(1), json!(1))
    );
}

/// RULE-MSG-044: a user who stops being a member is Removed. If the user is the host, the
/// conference ends.
#[tokio::test]
async fn removed_member_is_removed_from_the_conference() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring_and_join().await;
    fixture.remove_member(agent).await;
    let conference = fixture.conference(id).await;
    assert_eq!((state(&conference, agent), &conference["Status"]), ("Removed", &json!("Active")));
    for act in ["join", "leave", "media-token"] {
        fixture.act(agent, id, act).await.expect_problem(404, "MESSENGER_CONFERENCE_NOT_FOUND");
    }
    fixture
        .as_user(agent)
        .get(&format!("{CONFERENCES}/{id}"))
        .await
        .expect_problem(404, "MESSENGER_CONFERENCE_NOT_FOUND");
    // A user who is added again is a member, and stays Removed in the conference.
    put(&fixture.supervisor(), &fixture.path(&format!("/members/{agent}"))).await.expect(204);
    fixture.act(agent, id, "join").await.expect_problem(403, "MESSENGER_PARTICIPANT_REMOVED");
    fixture.act(client, id, "end").await.expect(200);

    let own = id_of(&fixture.start(manager, json!({"Media": "Audio"})).await.expect(201)["Id"]);
    fixture.remove_member(manager).await;
    let conference = fixture.conference(own).await;
    assert_eq!((&conference["Status"], &conference["EndReason"]), (&json!("Ended"), &json!("EndedByHost")));
    let types = fixture.as_user(client).get(&fixture.path("/messages")).await.expect(200);
    let types: Vec<_> = list(&types["Items"]).iter().map(|message| message["Card"]["Type"].clone()).collect();
    assert_eq!(types[..2], [json!("ConferenceEnded"), json!("MemberRemoved")], "newest first");
}

/// RULE-MSG-044: an agent whom the deal replaces is Removed, and the agent's own conference ends.
#[tokio::test]
async fn replaced_agent_is_removed_from_the_conference() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let own = id_of(&fixture.start(agent, json!({"Media": "Audio"})).await.expect(201)["Id"]);
    fixture.act(client, own, "join").await.expect(200);
    let new_agent = guid();
    let change = fixture.deal.changed(2, "Application", "Sale", Some(new_agent));
    fixture.deal.publish(STAGE_CHANGED, &change).await;
    let conference =
        fixture.conference_when(own, "its end", |conference| conference["Status"] == "Ended").await;
    assert_eq!(conference["EndReason"], "EndedByHost");
    assert_eq!((state(&conference, client), state(&conference, manager)), ("Left", "Missed"));
    let page = fixture.as_user(client).get(&fixture.path("/messages")).await.expect(200);
    let types: Vec<_> = list(&page["Items"]).iter().map(|message| text(&message["Card"]["Type"])).collect();
    let mut found = types.clone();
    found.sort_unstable();
    assert_eq!(found, ["ConferenceEnded", "DealStatusChanged", "MemberAdded", "MemberRemoved"]);
    assert_eq!(types[0], "MemberAdded", "MemberRemoved precedes MemberAdded");

    let id = fixture.ring(Some(&[new_agent])).await;
    fixture.act(new_agent, id, "join").await.expect(200);
    fixture.deal.publish(STAGE_CHANGED, &fixture.deal.changed(3, "Sale", "Sale", None)).await;
    let conference =
        fixture.conference_when(id, "Removed", |conference| state(conference, new_agent) == "Removed").await;
    assert_eq!(conference["Status"], "Active");
    fixture.act(client, id, "end").await.expect(200);
}
