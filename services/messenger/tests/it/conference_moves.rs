//! What becomes of conferences: both tables of states, row by row, and what changes nothing.

use serde_json::{Value, json};
use testkit::{guid, text};

use crate::calls::{
    CONFERENCES, ENDED, INVITED, Line, MODERATE, STARTED, act_as, participant, published, state, topics,
};
use crate::{STAGE_CHANGED, holder, id_of, list, put};

/// Section 4: Ringing → Active at the first join beside the host; `JoinedAt` is the first time, `LeftAt` the last.
#[tokio::test]
async fn the_first_who_answers_makes_it_active() {
    let line = Line::new().await;
    let [client, agent, manager] = line.people();
    let id = line.ring(None).await;
    line.act(client, id, "join").await.expect(200);
    assert_eq!(line.card(id).await["Version"], 1, "the host is there already");
    line.act(agent, id, "join").await.expect(200);
    let card = line.card(id).await;
    assert_eq!((&card["Status"], &card["Version"]), (&json!("Active"), &json!(2)));
    let joined = participant(&card, agent).clone();
    assert_eq!((&joined["State"], &joined["JoinedAt"]), (&json!("Joined"), &card["ActiveAt"]));

    let left = line.act(agent, id, "leave").await.expect(200);
    assert_eq!((state(&left, agent), &left["Version"]), ("Left", &json!(3)));
    assert_eq!(participant(&left, agent)["JoinedAt"], joined["JoinedAt"]);
    assert!(participant(&left, agent)["LeftAt"].is_string());
    line.act(agent, id, "join").await.expect(200);
    let again = line.card(id).await;
    assert_eq!(*participant(&again, agent), joined, "as if nothing had been");
    assert_eq!(again["ActiveAt"], card["ActiveAt"]);

    line.act(manager, id, "join").await.expect(200);
    assert_eq!(line.card(id).await["ActiveAt"], card["ActiveAt"]);
    let ended = line.act(client, id, "end").await.expect(200);
    assert_eq!((&ended["Status"], &ended["EndReason"]), (&json!("Ended"), &json!("EndedByHost")));
    for user in [client, agent, manager] {
        assert_eq!(participant(&ended, user)["LeftAt"], ended["EndedAt"]);
    }
}

/// Section 4: the host ends, or asks to leave, while it rings; a moderator ends. Who was Invited has missed it.
#[tokio::test]
async fn a_call_that_rings_ends_by_its_host_or_a_moderator() {
    let line = Line::new().await;
    let [client, agent, _] = line.people();
    for how in ["end", "leave"] {
        let id = line.ring(None).await;
        let card = line.act(client, id, how).await.expect(200);
        assert_eq!((&card["Status"], &card["EndReason"]), (&json!("Ended"), &json!("EndedByHost")), "{how}");
        assert_eq!((state(&card, client), state(&card, agent)), ("Left", "Missed"));
        assert_eq!((&card["EndedByUserId"], &card["ActiveAt"]), (&json!(client), &Value::Null));
    }
    let id = line.ring(None).await;
    let moderator = line.moderator();
    let card = act_as(&moderator, id, "end").await.expect(200);
    assert_eq!(card["EndReason"], "EndedByHost");
    assert!(card["EndedByUserId"] != json!(client) && card["EndedByUserId"].is_string());
}

/// Section 4: by declining or removal nobody is Invited any more.
#[tokio::test]
async fn a_call_that_nobody_can_answer_any_more_ends() {
    let line = Line::new().await;
    let [client, agent, manager] = line.people();
    let id = line.ring(None).await;
    let card = line.act(agent, id, "decline").await.expect(200);
    assert_eq!((&card["Status"], state(&card, agent)), (&json!("Ringing"), "Declined"));
    let card = line.remove(client, id, manager).await.expect(200);
    assert_eq!((&card["Status"], &card["EndReason"]), (&json!("Ended"), &json!("AllDeclined")));
    assert_eq!((state(&card, manager), &card["EndedByUserId"]), ("Removed", &Value::Null));

    let id = line.ring(Some(&[agent])).await;
    let card = line.act(agent, id, "decline").await.expect(200);
    assert_eq!(card["EndReason"], "AllDeclined");
    let card = line.ends(id).await;
    let expected = json!({
        "Type": "ConferenceEnded", "ConferenceId": id, "Media": "Video", "EndReason": "AllDeclined",
        "DurationSeconds": 0,
    });
    assert_eq!(card, [expected]);
}

/// Section 4: any other state stays, since one's other device has answered; only a change raises `Version`.
#[tokio::test]
async fn what_was_answered_already_changes_nothing() {
    let line = Line::new().await;
    let [client, agent, manager] = line.people();
    let id = line.ring(None).await;
    let same = async |user, act: &str, version: i64| {
        let card = line.act(user, id, act).await.expect(200);
        assert_eq!(card["Version"], version, "{act}");
    };
    same(manager, "leave", 1).await;
    same(client, "decline", 1).await;
    same(agent, "decline", 2).await;
    same(agent, "decline", 2).await;
    same(agent, "leave", 2).await;
    line.act(agent, id, "join").await.expect(200);
    same(agent, "decline", 3).await;
    same(agent, "leave", 4).await;
    same(agent, "leave", 4).await;
    line.remove(client, id, agent).await.expect(200);
    same(agent, "leave", 5).await;
    same(agent, "decline", 5).await;
    let card = line.remove(client, id, agent).await.expect(200);
    assert_eq!((state(&card, agent), &card["Version"]), ("Removed", &json!(5)));
    let ended = line.act(client, id, "end").await.expect(200);
    for (user, act) in [(client, "leave"), (client, "decline"), (client, "end"), (manager, "decline")] {
        assert_eq!(line.act(user, id, act).await.expect(200), ended);
    }
    assert_eq!(line.remove(client, id, manager).await.expect(200), ended);
}

/// Section 4, invite: all or none of new, Declined, Left and Missed; Invited, Joined and the host stay.
#[tokio::test]
async fn those_who_are_asked_in_ring() {
    let line = Line::new().await;
    let [client, agent, manager] = line.people();
    let new = line.add(2).await;
    let id = line.ring(Some(&[agent, manager])).await;
    line.act(agent, id, "join").await.expect(200);
    line.act(manager, id, "decline").await.expect(200);
    let before = line.card(id).await;
    line.invite(agent, id, &[new[0], guid()]).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    assert_eq!(line.card(id).await, before, "all or none");

    // By a member who is in no conference at all.
    let card = line.invite(new[1], id, &[client, agent, manager, new[0]]).await.expect(200);
    assert_eq!((state(&card, client), state(&card, agent)), ("Joined", "Joined"));
    assert_eq!((state(&card, manager), state(&card, new[0])), ("Invited", "Invited"));
    let invited_at = |card| text(&participant(card, manager)["InvitedAt"]).to_owned();
    assert!(invited_at(&card) > invited_at(&before));
    let order: Vec<_> = list(&card["Participants"]).iter().map(|one| id_of(&one["UserId"])).collect();
    assert_eq!(order, [client, agent, manager, new[0]], "the host, then by InvitedAt");
    let again = line.invite(agent, id, &[manager, new[0]]).await.expect(200);
    assert_eq!(again, card, "who rings already rings on");

    // Who comes unasked stands where they joined.
    line.act(new[1], id, "join").await.expect(200);
    let card = line.card(id).await;
    assert_eq!(card["Participants"][4]["UserId"], json!(new[1]));
    assert_eq!((&card["Participants"][4]["InvitedAt"], state(&card, new[1])), (&Value::Null, "Joined"));
    line.act(client, id, "end").await.expect(200);
    line.invite(agent, id, &[manager]).await.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");

    let events = published(line.service, id).await;
    assert_eq!(topics(&events), [STARTED, INVITED, ENDED], "an invitation without effect is not published");
    let payload = &events[1].payload;
    let expected = json!({
        "ConferenceId": id, "ChatId": line.chat, "DealId": line.deal.id, "TenantId": line.deal.tenant,
        "Media": "Video", "InvitedUserIds": [manager, new[0]], "ByUserId": new[1], "At": payload["At"],
    });
    assert_eq!(*payload, expected);
}

/// Section 4: from Removed nothing leads but the host's invitation.
#[tokio::test]
async fn only_the_host_asks_back_who_was_removed() {
    let line = Line::new().await;
    let [client, agent, manager] = line.people();
    let id = line.talk().await;
    line.act(manager, id, "join").await.expect(200);
    let card = line.remove(client, id, agent).await.expect(200);
    assert_eq!(state(&card, agent), "Removed");
    assert!(participant(&card, agent)["LeftAt"].is_string());
    for act in ["join", "media-token"] {
        line.act(agent, id, act).await.expect_problem(403, "MESSENGER_PARTICIPANT_REMOVED");
    }
    line.invite(agent, id, &[manager]).await.expect_problem(403, "MESSENGER_PARTICIPANT_REMOVED");
    line.invite(manager, id, &[agent]).await.expect_problem(403, "MESSENGER_PARTICIPANT_REMOVED");
    // A Removed one is told so before anything else.
    line.invite(agent, id, &[guid()]).await.expect_problem(403, "MESSENGER_PARTICIPANT_REMOVED");
    line.invite(manager, id, &[agent, guid()]).await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    let moderator = line.service.caller(&holder(manager, Some(line.deal.tenant), &[MODERATE]));
    let asked = moderator.post(&format!("{CONFERENCES}/{id}/invite"), json!({"UserIds": [agent]})).await;
    asked.expect_problem(403, "MESSENGER_PARTICIPANT_REMOVED");

    let card = line.invite(client, id, &[agent]).await.expect(200);
    assert_eq!(state(&card, agent), "Invited");
    line.act(agent, id, "join").await.expect(200);
    line.remove(client, id, agent).await.expect(200);
    line.act(client, id, "end").await.expect(200);
    line.act(agent, id, "join").await.expect_problem(403, "MESSENGER_PARTICIPANT_REMOVED");
    line.act(manager, id, "join").await.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");
}

/// Section 4, the order of checks of invite: each of two that stand in the way is told before the one behind it.
#[tokio::test]
async fn an_invitation_is_refused_in_the_order_of_the_table() {
    let line = Line::new().await;
    let [client, agent, manager] = line.people();
    let more = line.add(20).await;
    let id = line.ring(Some(&[agent, manager])).await;
    line.remove(client, id, agent).await.expect(200);
    line.invite(client, id, &more[..19]).await.expect(200);
    // All seats are taken now.
    for (by, users, status, code) in [
        (manager, vec![agent, guid(), more[19]], 404, "MESSENGER_PARTICIPANT_NOT_FOUND"),
        (manager, vec![agent, more[19]], 403, "MESSENGER_PARTICIPANT_REMOVED"),
        (client, vec![agent], 409, "MESSENGER_CONFERENCE_FULL"),
        (client, vec![more[19]], 409, "MESSENGER_CONFERENCE_FULL"),
    ] {
        line.invite(by, id, &users).await.expect_problem(status, code);
    }
    line.invite(client, id, &[manager, more[0]]).await.expect(200);
    line.act(client, id, "end").await.expect(200);
    line.invite(agent, id, &[guid()]).await.expect_problem(403, "MESSENGER_PARTICIPANT_REMOVED");
    line.invite(manager, id, &[agent, guid()]).await.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");
    let body = json!({"UserIds": [guid()]});
    let path = format!("{CONFERENCES}/{id}/invite");
    line.moderator().post(&path, body.clone()).await.expect_problem(403, "FORBIDDEN");
    line.person(guid()).post(&path, body).await.expect_problem(404, "MESSENGER_CONFERENCE_NOT_FOUND");
}

/// INV-CNF-2: Invited and Joined take a seat, and there are 21.
#[tokio::test]
async fn there_are_twenty_one_seats() {
    let line = Line::new().await;
    let more = line.add(20).await;
    let client = line.deal.client;
    let rung: Vec<_> = more[..19].to_vec();
    let id = line.ring(Some(&rung)).await;
    line.act(more[0], id, "join").await.expect(200);
    // Twenty seats are taken: the host's and nineteen.
    line.invite(client, id, &[line.deal.agent(), line.deal.manager])
        .await
        .expect_problem(409, "MESSENGER_CONFERENCE_FULL");
    line.act(more[19], id, "join").await.expect(200);
    for late in [line.deal.agent(), line.deal.manager] {
        line.act(late, id, "join").await.expect_problem(409, "MESSENGER_CONFERENCE_FULL");
        line.invite(client, id, &[late]).await.expect_problem(409, "MESSENGER_CONFERENCE_FULL");
    }
    line.act(more[1], id, "join").await.expect(200);
    line.act(more[2], id, "decline").await.expect(200);
    line.act(line.deal.agent(), id, "join").await.expect(200);
    line.act(more[2], id, "join").await.expect_problem(409, "MESSENGER_CONFERENCE_FULL");
    // The host's seat is anybody's while they are away.
    line.act(client, id, "leave").await.expect(200);
    line.act(more[2], id, "join").await.expect(200);
    line.act(client, id, "join").await.expect_problem(409, "MESSENGER_CONFERENCE_FULL");
    line.act(more[3], id, "decline").await.expect(200);
    line.act(client, id, "join").await.expect(200);
    assert_eq!(line.card(id).await["Participants"][0]["Role"], "Host");
    line.act(client, id, "end").await.expect(200);
}

/// Section 8: `conference-ended` lists who was ever Joined, the host first, and since when it was Active. The card has the
/// duration.
#[tokio::test]
async fn its_end_is_published_once() {
    let line = Line::new().await;
    let [client, agent, manager] = line.people();
    let id = line.talk().await;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    line.act(agent, id, "leave").await.expect(200);
    let card = act_as(&line.moderator(), id, "end").await.expect(200);
    let events = published(line.service, id).await;
    assert_eq!(topics(&events), [STARTED, ENDED]);
    let expected = json!({
        "ConferenceId": id, "ChatId": line.chat, "DealId": line.deal.id, "TenantId": line.deal.tenant,
        "EndReason": "EndedByHost", "StartedAt": card["ActiveAt"], "EndedAt": card["EndedAt"],
        "ParticipantUserIds": [client, agent],
    });
    assert_eq!(events[1].payload, expected);
    let cards = line.ends(id).await;
    assert_eq!(cards.len(), 1);
    assert!(cards[0]["DurationSeconds"] == 1 || cards[0]["DurationSeconds"] == 2, "{cards:?}");

    // Section 2: who was Joined when it ended has read its card, who had read all before.
    let unread = async |user| line.person(user).get(&line.path("")).await.expect(200)["UnreadCount"].clone();
    assert_eq!(
        (unread(client).await, unread(agent).await, unread(manager).await),
        (json!(0), json!(1), json!(1))
    );
}

/// Section 1: who stops being a member is Removed from the live conference; if it is theirs, it ends.
#[tokio::test]
async fn who_is_no_member_any_more_is_in_no_call() {
    let line = Line::new().await;
    let [client, agent, manager] = line.people();
    let id = line.talk().await;
    line.remove_member(agent).await;
    let card = line.card(id).await;
    assert_eq!((state(&card, agent), &card["Status"]), ("Removed", &json!("Active")));
    for act in ["join", "leave", "media-token"] {
        line.act(agent, id, act).await.expect_problem(404, "MESSENGER_CONFERENCE_NOT_FOUND");
    }
    line.person(agent)
        .get(&format!("{CONFERENCES}/{id}"))
        .await
        .expect_problem(404, "MESSENGER_CONFERENCE_NOT_FOUND");
    // Who is added again is a member, and stays Removed.
    put(&line.supervisor(), &line.path(&format!("/members/{agent}"))).await.expect(204);
    line.act(agent, id, "join").await.expect_problem(403, "MESSENGER_PARTICIPANT_REMOVED");
    line.act(client, id, "end").await.expect(200);

    let own = id_of(&line.start(manager, json!({"Media": "Audio"})).await.expect(201)["Id"]);
    line.remove_member(manager).await;
    let card = line.card(own).await;
    assert_eq!((&card["Status"], &card["EndReason"]), (&json!("Ended"), &json!("EndedByHost")));
    let types = line.person(client).get(&line.path("/messages")).await.expect(200);
    let types: Vec<_> = list(&types["Items"]).iter().map(|message| message["Card"]["Type"].clone()).collect();
    assert_eq!(types[..2], [json!("ConferenceEnded"), json!("MemberRemoved")], "newest first");
}

/// Section 1: so it is for the agent whom the deal replaces: a call of theirs ends, in another's they are Removed.
#[tokio::test]
async fn an_agent_whom_the_deal_replaces_is_in_no_call() {
    let line = Line::new().await;
    let [client, agent, manager] = line.people();
    let own = id_of(&line.start(agent, json!({"Media": "Audio"})).await.expect(201)["Id"]);
    line.act(client, own, "join").await.expect(200);
    let next = guid();
    line.deal.tell(STAGE_CHANGED, &line.deal.changed(2, "Application", "Sale", Some(next))).await;
    let card = line.card_when(own, "its end", |card| card["Status"] == "Ended").await;
    assert_eq!(card["EndReason"], "EndedByHost");
    assert_eq!((state(&card, client), state(&card, manager)), ("Left", "Missed"));
    let page = line.person(client).get(&line.path("/messages")).await.expect(200);
    let types: Vec<_> = list(&page["Items"]).iter().map(|message| text(&message["Card"]["Type"])).collect();
    let mut found = types.clone();
    found.sort_unstable();
    assert_eq!(found, ["ConferenceEnded", "DealStatusChanged", "MemberAdded", "MemberRemoved"]);
    assert_eq!(types[0], "MemberAdded", "who comes comes after who goes");

    let id = line.ring(Some(&[next])).await;
    line.act(next, id, "join").await.expect(200);
    line.deal.tell(STAGE_CHANGED, &line.deal.changed(3, "Sale", "Sale", None)).await;
    let card = line.card_when(id, "Removed", |card| state(card, next) == "Removed").await;
    assert_eq!(card["Status"], "Active");
    line.act(client, id, "end").await.expect(200);
}
