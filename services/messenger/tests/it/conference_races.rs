//! Concurrent changes of conferences.

use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use testkit::held::HeldLocks;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::clocks::{make_deadline_due, shift_database_clock};
use crate::fixture::{
    ConferenceFixture, ENDED, HOST_CHANGED, INVITED, STARTED, knocks, participant, published_events, state,
    topics,
};
use crate::media_service::{livekit, start};
use crate::{count, id_of};

/// Rounds of a race whose outcome depends on the order.
const ROUNDS: usize = 6;

/// Locks the row of the chat. All changes of a chat and its conferences wait for that row.
async fn hold_chat(fixture: &ConferenceFixture<'_>) -> HeldLocks {
    let lock = format!("select from chat where id = '{}' for update", fixture.chat);
    HeldLocks::lock(fixture.service, &lock).await
}

/// Asserts that one event and one card report the end of a conference.
async fn assert_ended_once(fixture: &ConferenceFixture<'_>, id: uuid::Uuid) {
    assert_eq!(topics(&published_events(fixture.service, id).await), [STARTED, ENDED]);
    assert_eq!(fixture.end_cards(id).await.len(), 1);
}

/// Asserts that the times of a conference rise in the order of its states.
fn assert_times_rise(conference: &Value) {
    let parse = |time: &Value| time.as_str().map(|time| OffsetDateTime::parse(time, &Rfc3339).unwrap());
    let are_sorted = |times: &[&Value]| times.iter().filter_map(|time| parse(time)).is_sorted();
    assert!(
        are_sorted(&[&conference["CreatedAt"], &conference["ActiveAt"], &conference["EndedAt"]]),
        "{conference}"
    );
    for participant in crate::list(&conference["Participants"]) {
        let times = [&conference["CreatedAt"], &participant["JoinedAt"], &participant["LeftAt"]];
        assert!(are_sorted(&times), "{conference}");
    }
}

/// INV-CNF-1, RULE-ALL-031: one of 20 concurrent starts returns 201, and the others return
/// `MESSENGER_CONFERENCE_ALREADY_ACTIVE`.
#[tokio::test]
async fn one_of_twenty_concurrent_starts_succeeds() {
    let fixture = ConferenceFixture::new().await;
    let members: Vec<_> = fixture.users().into_iter().chain(fixture.add_members(17).await).collect();
    let starts = members.iter().map(|member| fixture.start(*member, json!({"Media": "Audio"})));
    let responses = join_all(starts).await;
    assert_eq!((count(&responses, 201), count(&responses, 409)), (1, 19));
    let started = responses.iter().find(|response| response.status == 201).unwrap().body["Id"].clone();
    for response in responses.into_iter().filter(|response| response.status == 409) {
        let problem = response.expect_problem(409, "MESSENGER_CONFERENCE_ALREADY_ACTIVE");
        assert_eq!(problem["conferenceId"], started);
    }
    let page = fixture.as_user(members[0]).get(&fixture.path("/conferences")).await.expect(200);
    assert_eq!(page["TotalCount"], 1);
}

/// INV-CNF-2: one of 20 concurrent joins for the last seat returns 200.
#[tokio::test]
async fn one_of_twenty_concurrent_joins_gets_the_last_seat() {
    let fixture = ConferenceFixture::new().await;
    let more = fixture.add_members(39).await;
    let id = fixture.ring(Some(&more[..19])).await;
    let joins = more[19..].iter().map(|member| fixture.act(*member, id, "join"));
    let responses = join_all(joins).await;
    assert_eq!((count(&responses, 200), count(&responses, 409)), (1, 19));
    for response in responses.into_iter().filter(|response| response.status == 409) {
        response.expect_problem(409, "MESSENGER_CONFERENCE_FULL");
    }
}

/// INV-CNF-3, RULE-MSG-045: a join before the end is 200, and the end makes the user Left. A join
/// after it is `MESSENGER_CONFERENCE_ENDED`.
#[tokio::test]
async fn join_and_end_take_effect_in_their_order() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, _] = fixture.users();
    let id = fixture.ring(None).await;
    let held = hold_chat(&fixture).await;
    let (joined, ended) =
        held.queue(HeldLocks::ANY, fixture.act(agent, id, "join"), fixture.act(client, id, "end")).await;
    joined.expect(200);
    let conference = fixture.conference(id).await;
    assert_eq!(ended.expect(200), conference);
    assert_eq!((&conference["EndReason"], state(&conference, agent)), (&json!("EndedByHost"), "Left"));
    assert_eq!(participant(&conference, agent)["JoinedAt"], conference["ActiveAt"]);
    assert_times_rise(&conference);
    assert_ended_once(&fixture, id).await;

    let id = fixture.ring(None).await;
    let held = hold_chat(&fixture).await;
    let (ended, joined) =
        held.queue(HeldLocks::ANY, fixture.act(client, id, "end"), fixture.act(agent, id, "join")).await;
    joined.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");
    let conference = fixture.conference(id).await;
    assert_eq!(ended.expect(200), conference);
    assert_eq!((state(&conference, agent), &conference["ActiveAt"]), ("Missed", &Value::Null));
    assert_times_rise(&conference);
    assert_ended_once(&fixture, id).await;
}

/// RULE-MSG-045, RULE-MSG-085: a removal that commits before `media-token` leaves no token.
#[tokio::test]
async fn removal_and_media_token_take_effect_in_their_order() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, _] = fixture.users();
    let id = fixture.ring_and_join().await;
    let held = hold_chat(&fixture).await;
    let (removed, token) = held
        .queue(
            HeldLocks::ANY,
            fixture.remove_participant(client, id, agent),
            fixture.act(agent, id, "media-token"),
        )
        .await;
    removed.expect(200);
    token.expect_problem(403, "MESSENGER_PARTICIPANT_REMOVED");

    fixture.act(client, id, "end").await.expect(200);
    let id = fixture.ring_and_join().await;
    let held = hold_chat(&fixture).await;
    let (token, removed) = held
        .queue(
            HeldLocks::ANY,
            fixture.act(agent, id, "media-token"),
            fixture.remove_participant(client, id, agent),
        )
        .await;
    token.expect(200);
    assert_eq!(state(&removed.expect(200), agent), "Removed");
}

/// RULE-MSG-091: an admission before the end is 200, and the user is then Missed. One after it is
/// `MESSENGER_CONFERENCE_ENDED`.
#[tokio::test]
async fn admission_and_end_take_effect_in_their_order() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let ring = async || {
        let id = fixture.ring_with_lobby(&[agent]).await;
        fixture.act(manager, id, "knock").await.expect(200);
        (id, hold_chat(&fixture).await)
    };
    let (id, held) = ring().await;
    let (admitted, ended) =
        held.queue(HeldLocks::ANY, fixture.admit(client, id, manager), fixture.act(client, id, "end")).await;
    assert_eq!(state(&admitted.expect(200), manager), "Invited");
    let conference = fixture.conference(id).await;
    assert_eq!(ended.expect(200), conference);
    assert_eq!((state(&conference, manager), &conference["Knocks"]), ("Missed", &json!([])));
    assert_eq!(topics(&published_events(fixture.service, id).await), [STARTED, INVITED, ENDED]);

    let (id, held) = ring().await;
    let (ended, admitted) =
        held.queue(HeldLocks::ANY, fixture.act(client, id, "end"), fixture.admit(client, id, manager)).await;
    admitted.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");
    let conference = fixture.conference(id).await;
    assert_eq!(ended.expect(200), conference);
    assert_eq!((crate::list(&conference["Participants"]).len(), &conference["Knocks"]), (2, &json!([])));
    assert_ended_once(&fixture, id).await;
    assert!(fixture.log(id).await.is_empty());
}

/// RULE-MSG-091: a user who withdraws before the admission is not admitted. One who withdraws after
/// it is Invited.
#[tokio::test]
async fn admission_and_withdrawal_take_effect_in_their_order() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring_with_lobby(&[agent]).await;
    fixture.act(manager, id, "knock").await.expect(200);
    let held = hold_chat(&fixture).await;
    let (left, admitted) = held
        .queue(HeldLocks::ANY, fixture.act(manager, id, "leave"), fixture.admit(client, id, manager))
        .await;
    assert_eq!(left.expect(200)["Knocks"], json!([]));
    admitted.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");

    fixture.act(manager, id, "knock").await.expect(200);
    let held = hold_chat(&fixture).await;
    let (admitted, left) = held
        .queue(HeldLocks::ANY, fixture.admit(client, id, manager), fixture.act(manager, id, "leave"))
        .await;
    let admitted = admitted.expect(200);
    assert_eq!(left.expect(200), admitted, "only a Joined participant becomes Left");
    assert_eq!((state(&admitted, manager), &admitted["Knocks"]), ("Invited", &json!([])));
    fixture.act(client, id, "end").await.expect(200);
}

/// RULE-MSG-091: a waiting user who loses the chat is not admitted, and one who was admitted before
/// is Removed.
#[tokio::test]
async fn admission_and_removal_from_the_chat_take_effect_in_their_order() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let other = fixture.add_members(1).await[0];
    let id = fixture.ring_with_lobby(&[agent]).await;
    for user in [manager, other] {
        fixture.act(user, id, "knock").await.expect(200);
    }
    let held = hold_chat(&fixture).await;
    let ((), admitted) =
        held.queue(HeldLocks::ANY, fixture.remove_member(manager), fixture.admit(client, id, manager)).await;
    admitted.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    assert_eq!(knocks(&fixture.conference(id).await), [(other, "Waiting")]);

    let held = hold_chat(&fixture).await;
    let (admitted, ()) =
        held.queue(HeldLocks::ANY, fixture.admit(client, id, other), fixture.remove_member(other)).await;
    admitted.expect(200);
    assert_eq!(state(&fixture.conference(id).await, other), "Removed");
    fixture.act(client, id, "end").await.expect(200);
}

/// RULE-MSG-091: the first of a concurrent admission and denial counts.
#[tokio::test]
async fn first_of_two_decisions_about_a_knock_counts() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring_with_lobby(&[agent]).await;
    fixture.act(manager, id, "knock").await.expect(200);
    let held = hold_chat(&fixture).await;
    let (denied, admitted) = held
        .queue(HeldLocks::ANY, fixture.deny(client, id, manager), fixture.admit(client, id, manager))
        .await;
    assert_eq!(knocks(&denied.expect(200)), [(manager, "Denied")]);
    admitted.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    fixture.act(client, id, "end").await.expect(200);

    let id = fixture.ring_with_lobby(&[agent]).await;
    fixture.act(manager, id, "knock").await.expect(200);
    let held = hold_chat(&fixture).await;
    let (admitted, denied) = held
        .queue(HeldLocks::ANY, fixture.admit(client, id, manager), fixture.deny(client, id, manager))
        .await;
    assert_eq!(admitted.expect(200), denied.expect(200));
    assert_eq!(state(&fixture.conference(id).await, manager), "Invited");
    fixture.act(client, id, "end").await.expect(200);
}

/// RULE-MSG-093: a participant who leaves before the hand-over does not become the host. One who
/// leaves after it is an absent host.
#[tokio::test]
async fn hand_over_and_leave_take_effect_in_their_order() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, _] = fixture.users();
    let id = fixture.ring_and_join().await;
    let held = hold_chat(&fixture).await;
    let (left, handed) = held
        .queue(HeldLocks::ANY, fixture.act(agent, id, "leave"), fixture.hand_over(client, id, agent))
        .await;
    left.expect(200);
    handed.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");

    fixture.act(agent, id, "join").await.expect(200);
    let held = hold_chat(&fixture).await;
    let (handed, left) = held
        .queue(HeldLocks::ANY, fixture.hand_over(client, id, agent), fixture.act(agent, id, "leave"))
        .await;
    handed.expect(200);
    let left = left.expect(200);
    assert_eq!((&participant(&left, agent)["Role"], state(&left, agent)), (&json!("Host"), "Left"));
    fixture.act(agent, id, "end").await.expect(200);
    assert_eq!(topics(&published_events(fixture.service, id).await), [STARTED, HOST_CHANGED, ENDED]);
}

/// RULE-MSG-093: the first of two concurrent hand-overs counts, and the other caller is no longer
/// the host.
#[tokio::test]
async fn first_of_two_hand_overs_counts() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring_and_join().await;
    fixture.act(manager, id, "join").await.expect(200);
    let held = hold_chat(&fixture).await;
    let (first, second) = held
        .queue(HeldLocks::ANY, fixture.hand_over(client, id, agent), fixture.hand_over(client, id, manager))
        .await;
    assert_eq!(participant(&first.expect(200), agent)["Role"], "Host");
    second.expect_problem(403, "FORBIDDEN");
    fixture.act(agent, id, "end").await.expect(200);
}

/// RULE-MSG-045: a join before the timer is 200 and keeps the conference. A join after it is
/// `MESSENGER_CONFERENCE_ENDED`.
#[tokio::test]
async fn join_and_ring_timer_take_effect_in_their_order() {
    let own = start(livekit(), &[]);
    let sql = own.sql().await;
    let fixture = ConferenceFixture::of(&own).await;
    let [client, agent, _] = fixture.users();
    let ring = async |from: &str, to: &str| {
        shift_database_clock(&sql, from).await;
        let id = fixture.ring(Some(&[agent])).await;
        let held = hold_chat(&fixture).await;
        shift_database_clock(&sql, to).await;
        (id, held)
    };

    // The conference rings for 60 s. The job runs after 65 s and is the first to wait for the chat.
    let (id, held) = ring("0", "65 seconds").await;
    let ((), joined) =
        held.queue(HeldLocks::ANY, make_deadline_due(&sql, id), fixture.act(agent, id, "join")).await;
    joined.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");
    let conference = fixture.conference(id).await;
    assert_eq!((&conference["EndReason"], state(&conference, agent)), (&json!("NoAnswer"), "Missed"));
    assert_ended_once(&fixture, id).await;

    // The join is the first to wait for the chat. The job runs 65 s after the start of the ringing.
    let (id, held) = ring("65 seconds", "65 seconds").await;
    let due = async {
        shift_database_clock(&sql, "130 seconds").await;
        make_deadline_due(&sql, id).await;
    };
    let (joined, ()) = held.queue(HeldLocks::ANY, fixture.act(agent, id, "join"), due).await;
    joined.expect(200);
    let waits = "select 1 from job where kind = 'conference-deadline' and key = $1 and run is null \
        and due_at > clock_timestamp() + interval '1 hour'";
    let is_done = async || sql.query_opt(waits, &[&id.to_string()]).await.unwrap();
    testkit::eventually("the end of the job", is_done).await;
    let conference = fixture.conference(id).await;
    assert_eq!((&conference["Status"], state(&conference, agent)), (&json!("Active"), "Joined"));
    fixture.act(client, id, "end").await.expect(200);
    assert_ended_once(&fixture, id).await;
}

/// RULE-MSG-045: the last invitee declines on one device and joins on another. The conference is
/// Active, or Ended with `AllDeclined`.
#[tokio::test]
async fn decline_and_join_take_effect_in_their_order() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, _] = fixture.users();
    let id = fixture.ring(Some(&[agent])).await;
    let held = hold_chat(&fixture).await;
    let (joined, declined) =
        held.queue(HeldLocks::ANY, fixture.act(agent, id, "join"), fixture.act(agent, id, "decline")).await;
    joined.expect(200);
    let conference = fixture.conference(id).await;
    assert_eq!(declined.expect(200), conference);
    assert_eq!((&conference["Status"], state(&conference, agent)), (&json!("Active"), "Joined"));
    fixture.act(client, id, "end").await.expect(200);
    assert_ended_once(&fixture, id).await;

    let id = fixture.ring(Some(&[agent])).await;
    let held = hold_chat(&fixture).await;
    let (declined, joined) =
        held.queue(HeldLocks::ANY, fixture.act(agent, id, "decline"), fixture.act(agent, id, "join")).await;
    joined.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");
    let conference = fixture.conference(id).await;
    assert_eq!(declined.expect(200), conference);
    assert_eq!((&conference["EndReason"], state(&conference, agent)), (&json!("AllDeclined"), "Declined"));
    assert_ended_once(&fixture, id).await;
}

/// INV-CNF-4, RULE-MSG-045: concurrent ends, leaves and declines are 200 each, and one end is
/// published.
#[tokio::test]
async fn concurrent_ends_leaves_and_declines_end_the_conference_once() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, manager] = fixture.users();
    for round in 0..ROUNDS {
        let id = if round % 2 == 0 { fixture.ring_and_join().await } else { fixture.ring(None).await };
        let mut acts = [
            (client, "end"),
            (client, "leave"),
            (agent, "leave"),
            (agent, "decline"),
            (manager, "decline"),
            (client, "end"),
        ];
        acts.rotate_left(round);
        let held = hold_chat(&fixture).await;
        let release = async {
            held.wait_for(6, HeldLocks::ANY).await;
            held.release().await;
        };
        let requests = join_all(acts.map(|(user, act)| fixture.act(user, id, act)));
        let (responses, ()) = join(requests, release).await;
        assert_eq!(count(&responses, 200), acts.len(), "{responses:?}");
        let conference = fixture.conference(id).await;
        assert_eq!(conference["Status"], "Ended");
        assert_times_rise(&conference);
        assert_ended_once(&fixture, id).await;
    }
}

/// RULE-MSG-044: the host's removal from the chat, the host's end, a decline and a message at the
/// same time leave one end of the conference, and no gap in the messages.
#[tokio::test]
async fn concurrent_removal_and_end_by_the_host_end_the_conference_once() {
    for _ in 0..ROUNDS {
        let fixture = ConferenceFixture::new().await;
        let [client, agent, manager] = fixture.users();
        let id = id_of(&fixture.start(manager, json!({"Media": "Audio"})).await.expect(201)["Id"]);
        let supervisor = fixture.supervisor();
        let path = fixture.path(&format!("/members/{manager}"));
        let writer = fixture.as_user(client);
        let messages = fixture.path("/messages");
        let held = hold_chat(&fixture).await;
        let release = async {
            held.wait_for(4, HeldLocks::ANY).await;
            held.release().await;
        };
        let (removed, ended, declined, sent, ()) = tokio::join!(
            supervisor.delete(&path),
            fixture.act(manager, id, "end"),
            fixture.act(agent, id, "decline"),
            writer.post(&messages, json!({"Text": "алло?"})),
            release,
        );
        removed.expect(204);
        assert!([200, 404].contains(&ended.status), "{ended:?}");
        declined.expect(200);
        sent.expect(201);
        assert_ended_once(&fixture, id).await;
        let page = fixture.as_user(client).get(&fixture.path("/messages")).await.expect(200);
        let sequences: Vec<_> =
            crate::each(crate::list(&page["Items"]), "Sequence").into_iter().cloned().collect();
        assert_eq!(sequences, [json!(3), json!(2), json!(1)]);
    }
}
