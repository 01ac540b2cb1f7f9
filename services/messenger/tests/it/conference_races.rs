//! What holds when people call, join, leave and hang up at once.

use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use testkit::held::Held;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::calls::{ENDED, Line, STARTED, livekit, participant, published, start, state, topics};
use crate::clocks::{run_deadline, shift};
use crate::{count, id_of};

/// Rounds of a race whose outcome depends on the order.
const ROUNDS: usize = 6;

/// Locks the row of the chat. All changes of a chat and its conferences wait for that row.
async fn hold_chat(line: &Line<'_>) -> Held {
    let lock = format!("select from chat where id = '{}' for update", line.chat);
    Held::by(line.service, &lock).await
}

/// Asserts that one event and one card report the end of a conference.
async fn ended_once(line: &Line<'_>, id: uuid::Uuid) {
    assert_eq!(topics(&published(line.service, id).await), [STARTED, ENDED]);
    assert_eq!(line.ends(id).await.len(), 1);
}

/// What comes later in a conference's life has a later time, whoever waited for whom.
fn times_rise(card: &Value) {
    let moment = |time: &Value| time.as_str().map(|time| OffsetDateTime::parse(time, &Rfc3339).unwrap());
    let rise = |times: &[&Value]| times.iter().filter_map(|time| moment(time)).is_sorted();
    assert!(rise(&[&card["CreatedAt"], &card["ActiveAt"], &card["EndedAt"]]), "{card}");
    for one in crate::list(&card["Participants"]) {
        assert!(rise(&[&card["CreatedAt"], &one["JoinedAt"], &one["LeftAt"]]), "{card}");
    }
}

/// INV-CNF-1, section 7: twenty starts at once give one 201 and nineteen `_ALREADY_ACTIVE`.
#[tokio::test]
async fn of_twenty_starts_one_happens() {
    let line = Line::new().await;
    let members: Vec<_> = line.people().into_iter().chain(line.add(17).await).collect();
    let starts = members.iter().map(|member| line.start(*member, json!({"Media": "Audio"})));
    let answers = join_all(starts).await;
    assert_eq!((count(&answers, 201), count(&answers, 409)), (1, 19));
    let started = answers.iter().find(|answer| answer.status == 201).unwrap().body["Id"].clone();
    for answer in answers.into_iter().filter(|answer| answer.status == 409) {
        let problem = answer.expect_problem(409, "MESSENGER_CONFERENCE_ALREADY_ACTIVE");
        assert_eq!(problem["conferenceId"], started);
    }
    let page = line.person(members[0]).get(&line.path("/conferences")).await.expect(200);
    assert_eq!(page["TotalCount"], 1);
}

/// INV-CNF-2, section 7: of twenty joins for the last seat one gets it.
#[tokio::test]
async fn of_twenty_joins_for_the_last_seat_one_happens() {
    let line = Line::new().await;
    let more = line.add(39).await;
    let id = line.ring(Some(&more[..19])).await;
    let joins = more[19..].iter().map(|member| line.act(*member, id, "join"));
    let answers = join_all(joins).await;
    assert_eq!((count(&answers, 200), count(&answers, 409)), (1, 19));
    for answer in answers.into_iter().filter(|answer| answer.status == 409) {
        answer.expect_problem(409, "MESSENGER_CONFERENCE_FULL");
    }
}

/// Section 7: a join before the end is 200, and then Left; after it, it is `_ENDED`.
#[tokio::test]
async fn a_join_and_an_end_take_effect_in_the_order_in_which_they_come() {
    let line = Line::new().await;
    let [client, agent, _] = line.people();
    let id = line.ring(None).await;
    let held = hold_chat(&line).await;
    let (joined, ended) =
        held.queue(Held::ANY, line.act(agent, id, "join"), line.act(client, id, "end")).await;
    joined.expect(200);
    let card = line.card(id).await;
    assert_eq!(ended.expect(200), card);
    assert_eq!((&card["EndReason"], state(&card, agent)), (&json!("EndedByHost"), "Left"));
    assert_eq!(participant(&card, agent)["JoinedAt"], card["ActiveAt"]);
    times_rise(&card);
    ended_once(&line, id).await;

    let id = line.ring(None).await;
    let held = hold_chat(&line).await;
    let (ended, joined) =
        held.queue(Held::ANY, line.act(client, id, "end"), line.act(agent, id, "join")).await;
    joined.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");
    let card = line.card(id).await;
    assert_eq!(ended.expect(200), card);
    assert_eq!((state(&card, agent), &card["ActiveAt"]), ("Missed", &Value::Null));
    times_rise(&card);
    ended_once(&line, id).await;
}

/// Section 7: a join before the timer is 200, and the call goes on; after it, it is `_ENDED`.
#[tokio::test]
async fn a_join_and_the_ring_timer_take_effect_in_the_order_in_which_they_come() {
    let own = start(livekit(), &[]);
    let sql = own.sql().await;
    let line = Line::of(&own).await;
    let [client, agent, _] = line.people();
    let ring = async |from: &str, to: &str| {
        shift(&sql, from).await;
        let id = line.ring(Some(&[agent])).await;
        let held = hold_chat(&line).await;
        shift(&sql, to).await;
        (id, held)
    };

    // The call rings for 60 s, and the job waits for the chat.
    let (id, held) = ring("0", "65 seconds").await;
    let ((), joined) = held.queue(Held::ANY, run_deadline(&sql, id), line.act(agent, id, "join")).await;
    joined.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");
    let card = line.card(id).await;
    assert_eq!((&card["EndReason"], state(&card, agent)), (&json!("NoAnswer"), "Missed"));
    ended_once(&line, id).await;

    let (id, held) = ring("65 seconds", "65 seconds").await;
    let due = async {
        shift(&sql, "130 seconds").await;
        run_deadline(&sql, id).await;
    };
    let (joined, ()) = held.queue(Held::ANY, line.act(agent, id, "join"), due).await;
    joined.expect(200);
    let waits = "select 1 from job where kind = 'conference-deadline' and key = $1 and run is null \
        and due_at > clock_timestamp() + interval '1 hour'";
    let is_done = async || sql.query_opt(waits, &[&id.to_string()]).await.unwrap();
    testkit::eventually("the end of the job", is_done).await;
    let card = line.card(id).await;
    assert_eq!((&card["Status"], state(&card, agent)), (&json!("Active"), "Joined"));
    line.act(client, id, "end").await.expect(200);
    ended_once(&line, id).await;
}

/// Section 7: the last one declines on one device and joins on the other: Active, or `AllDeclined` and `_ENDED`.
#[tokio::test]
async fn a_decline_and_a_join_take_effect_in_the_order_in_which_they_come() {
    let line = Line::new().await;
    let [client, agent, _] = line.people();
    let id = line.ring(Some(&[agent])).await;
    let held = hold_chat(&line).await;
    let (joined, declined) =
        held.queue(Held::ANY, line.act(agent, id, "join"), line.act(agent, id, "decline")).await;
    joined.expect(200);
    let card = line.card(id).await;
    assert_eq!(declined.expect(200), card);
    assert_eq!((&card["Status"], state(&card, agent)), (&json!("Active"), "Joined"));
    line.act(client, id, "end").await.expect(200);
    ended_once(&line, id).await;

    let id = line.ring(Some(&[agent])).await;
    let held = hold_chat(&line).await;
    let (declined, joined) =
        held.queue(Held::ANY, line.act(agent, id, "decline"), line.act(agent, id, "join")).await;
    joined.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");
    let card = line.card(id).await;
    assert_eq!(declined.expect(200), card);
    assert_eq!((&card["EndReason"], state(&card, agent)), (&json!("AllDeclined"), "Declined"));
    ended_once(&line, id).await;
}

/// Section 7: simultaneous end, leave and decline are 200 each, and the end is published once.
#[tokio::test]
async fn simultaneous_ends_leaves_and_declines_succeed_and_end_the_call_once() {
    let line = Line::new().await;
    let [client, agent, manager] = line.people();
    for round in 0..ROUNDS {
        let id = if round % 2 == 0 { line.talk().await } else { line.ring(None).await };
        let mut acts = [
            (client, "end"),
            (client, "leave"),
            (agent, "leave"),
            (agent, "decline"),
            (manager, "decline"),
            (client, "end"),
        ];
        acts.rotate_left(round);
        let held = hold_chat(&line).await;
        let release = async {
            held.waiting(6, Held::ANY).await;
            held.release().await;
        };
        let requests = join_all(acts.map(|(user, act)| line.act(user, id, act)));
        let (answers, ()) = join(requests, release).await;
        assert_eq!(count(&answers, 200), acts.len(), "{answers:?}");
        let card = line.card(id).await;
        assert_eq!(card["Status"], "Ended");
        times_rise(&card);
        ended_once(&line, id).await;
    }
}

/// Section 7: calls, members who go and messages of one chat at once leave no gap and no call without its end.
#[tokio::test]
async fn a_host_who_is_removed_while_they_hang_up_ends_it_once() {
    for _ in 0..ROUNDS {
        let line = Line::new().await;
        let [client, agent, manager] = line.people();
        let id = id_of(&line.start(manager, json!({"Media": "Audio"})).await.expect(201)["Id"]);
        let supervisor = line.supervisor();
        let path = line.path(&format!("/members/{manager}"));
        let says = line.person(client);
        let messages = line.path("/messages");
        let held = hold_chat(&line).await;
        let release = async {
            held.waiting(4, Held::ANY).await;
            held.release().await;
        };
        let (removed, ended, declined, said, ()) = tokio::join!(
            supervisor.delete(&path),
            line.act(manager, id, "end"),
            line.act(agent, id, "decline"),
            says.post(&messages, json!({"Text": "алло?"})),
            release,
        );
        removed.expect(204);
        assert!([200, 404].contains(&ended.status), "{ended:?}");
        declined.expect(200);
        said.expect(201);
        ended_once(&line, id).await;
        let page = line.person(client).get(&line.path("/messages")).await.expect(200);
        let sequences: Vec<_> =
            crate::each(crate::list(&page["Items"]), "Sequence").into_iter().cloned().collect();
        assert_eq!(sequences, [json!(3), json!(2), json!(1)]);
    }
}
