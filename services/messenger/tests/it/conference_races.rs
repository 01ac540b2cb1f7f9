//! What holds when people call, join, leave and hang up at once.

use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::calls::{ENDED, Line, state, told};
use crate::{count, id_of};

/// Rounds of a race whose outcome hangs on who is first.
const ROUNDS: usize = 6;

/// However a conference ends, one event and one card tell of it.
async fn is_told_once(line: &Line<'_>, id: uuid::Uuid) {
    let events = told(line.service, id).await;
    assert_eq!(events.iter().filter(|event| event.topic == ENDED).count(), 1);
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

/// Section 7: a join that meets the end is 200, and then Left, or `_ENDED`.
#[tokio::test]
async fn a_join_that_meets_the_end_is_before_or_after_it() {
    let line = Line::new().await;
    let [client, agent, _] = line.people();
    for _ in 0..ROUNDS {
        let id = line.ring(None).await;
        let (joined, ended) = join(line.act(agent, id, "join"), line.act(client, id, "end")).await;
        ended.expect(200);
        let card = line.card(id).await;
        assert_eq!(card["Status"], "Ended");
        times_rise(&card);
        if joined.status == 200 {
            assert_eq!(state(&card, agent), "Left");
        } else {
            joined.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");
            assert_eq!(state(&card, agent), "Missed");
        }
        is_told_once(&line, id).await;
    }
}

/// Section 7: the last one declines on one device and joins on the other: Active, or `AllDeclined` and `_ENDED`.
#[tokio::test]
async fn a_decline_that_meets_a_join_is_before_or_after_it() {
    let line = Line::new().await;
    let [client, agent, _] = line.people();
    for _ in 0..ROUNDS {
        let id = line.ring(Some(&[agent])).await;
        let (declined, joined) = join(line.act(agent, id, "decline"), line.act(agent, id, "join")).await;
        declined.expect(200);
        let card = line.card(id).await;
        if joined.status == 200 {
            assert_eq!((&card["Status"], state(&card, agent)), (&json!("Active"), "Joined"));
            line.act(client, id, "end").await.expect(200);
        } else {
            joined.expect_problem(409, "MESSENGER_CONFERENCE_ENDED");
            assert_eq!(card["EndReason"], "AllDeclined");
        }
        is_told_once(&line, id).await;
    }
}

/// Section 7: end, leave and decline together are 200 each, and the end is told once.
#[tokio::test]
async fn all_hang_up_at_once() {
    let line = Line::new().await;
    let [client, agent, manager] = line.people();
    for round in 0..ROUNDS {
        let id = if round % 2 == 0 { line.talk().await } else { line.ring(None).await };
        let acts = [
            (client, "end"),
            (client, "leave"),
            (agent, "leave"),
            (agent, "decline"),
            (manager, "decline"),
            (client, "end"),
        ];
        let answers = join_all(acts.map(|(user, act)| line.act(user, id, act))).await;
        assert_eq!(count(&answers, 200), acts.len(), "{answers:?}");
        let card = line.card(id).await;
        assert_eq!(card["Status"], "Ended");
        times_rise(&card);
        is_told_once(&line, id).await;
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
        let (removed, (ended, (declined, said))) = join(
            supervisor.delete(&path),
            join(
                line.act(manager, id, "end"),
                join(line.act(agent, id, "decline"), says.post(&messages, json!({"Text": "алло?"}))),
            ),
        )
        .await;
        removed.expect(204);
        assert!([200, 404].contains(&ended.status), "{ended:?}");
        declined.expect(200);
        said.expect(201);
        is_told_once(&line, id).await;
        let page = line.person(client).get(&line.path("/messages")).await.expect(200);
        let sequences: Vec<_> =
            crate::each(crate::list(&page["Items"]), "Sequence").into_iter().cloned().collect();
        assert_eq!(sequences, [json!(3), json!(2), json!(1)]);
    }
}
