//! Clocks that differ: a replica's from the database's, and the database's from what it was.

use runtime::clock;
use serde_json::{Value, json};
use testkit::{eventually, text};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::calls::{Line, act_as, livekit, participant, start, state};
use crate::streams::Stream;
use crate::{CHATS, list, path};

/// Has this database's clock run ahead of the service's, or behind it.
pub async fn shift(sql: &Client, by: &str) {
    let shifted = format!(
        "create or replace function pg_catalog.clock_timestamp() returns timestamptz language sql volatile \
         as $$ select statement_timestamp() + interval '{by}' $$"
    );
    sql.batch_execute(&shifted).await.unwrap();
}

/// Makes the deadline job of a conference due.
pub async fn run_deadline(sql: &Client, conference: Uuid) {
    let due = "update job set due_at = clock_timestamp() where kind = 'conference-deadline' and key = $1";
    assert_eq!(
        sql.execute(due, &[&conference.to_string()]).await.unwrap(),
        1,
        "the conference has a deadline"
    );
}

fn time(value: &Value) -> OffsetDateTime {
    OffsetDateTime::parse(text(value), &Rfc3339).unwrap()
}

/// Whether it is about an hour from now.
fn is_in_an_hour(value: &Value) -> bool {
    (time(value) - clock::now() - Duration::HOUR).abs() < Duration::minutes(10)
}

/// Section 8: a replica's clock is an hour behind. Whatever happens happens by the database's, which all share: chats are made, people
/// join, write and call, time ends what it should, and streams go on.
#[tokio::test]
async fn a_replica_that_is_behind_changes_nothing() {
    let own = start(livekit(), &[("MESSENGER_RING_SECONDS", "1")]);
    shift(&own.sql().await, "1 hour").await;
    let line = Line::of(&own).await;
    let [client, agent, manager] = line.people();
    let chat = line.person(client).get(&path(line.chat, "")).await.expect(200);
    assert!(is_in_an_hour(&chat["CreatedAt"]) && chat["LastActivityAt"] == chat["CreatedAt"], "{chat}");
    assert!(list(&chat["Members"]).iter().all(|member| member["JoinedAt"] == chat["CreatedAt"]), "{chat}");
    let direct = line.person(client).post(CHATS, json!({"UserId": agent})).await.expect(201);
    assert!(is_in_an_hour(&direct["CreatedAt"]), "{direct}");

    let mut stream = Stream::ask(&line.person(manager), None).await;
    let ready = stream.next_of("ready").await;
    let messages = path(line.chat, "/messages");
    let said = line.person(client).post(&messages, json!({"Text": "а"})).await.expect(201);
    assert!(time(&said["CreatedAt"]) > time(&chat["CreatedAt"]), "{said}");
    let place = format!("{messages}/{}", text(&said["Id"]));
    let edited = line.person(client).put(&place, json!({"Text": "б"})).await.expect(200);
    assert!(time(&edited["EditedAt"]) > time(&said["CreatedAt"]), "{edited}");
    assert_eq!(stream.next_of("message").await.data["Sequence"], 1);

    let conference = line.ring(None).await;
    let ended = eventually("the end of the call", async || {
        let card = line.card(conference).await;
        (card["Status"] == "Ended").then_some(card)
    })
    .await;
    assert_eq!(ended["EndReason"], "NoAnswer");
    let rang = time(&ended["EndedAt"]) - time(&ended["CreatedAt"]);
    assert!(is_in_an_hour(&ended["CreatedAt"]) && rang >= Duration::SECOND, "{ended}");
    // What was told an hour from now is kept as long as everything.
    let mut resumed = Stream::ask(&line.person(manager), Some(ready.id.to_string())).await;
    assert_eq!(resumed.next_of("ready").await.data, json!({"Resumed": true}));
    assert_eq!(resumed.next_of("message").await.data["Sequence"], 1);
}

/// INV-MSG-2: the database's clock is set back an hour. Messages go on in their order and none is before the one before it; markers move, and
/// a call that was begun by the old clock can be joined and ended.
#[tokio::test]
async fn a_clock_that_is_set_back_moves_no_message() {
    let own = start(livekit(), &[]);
    let sql = own.sql().await;
    shift(&sql, "1 hour").await;
    let line = Line::of(&own).await;
    let [client, agent, _] = line.people();
    let messages = path(line.chat, "/messages");
    let first = line.person(client).post(&messages, json!({"Text": "а"})).await.expect(201);
    let conference = line.ring(None).await;
    shift(&sql, "0").await;

    let second = line.person(agent).post(&messages, json!({"Text": "б"})).await.expect(201);
    assert_eq!((&second["Sequence"], &second["CreatedAt"]), (&json!(2), &first["CreatedAt"]));
    let place = format!("{messages}/{}", text(&first["Id"]));
    let edited = line.person(client).put(&place, json!({"Text": "в"})).await.expect(200);
    assert_eq!(edited["EditedAt"], first["CreatedAt"], "nothing is edited before it was written");
    let read = line.person(client).put(&path(line.chat, "/read"), json!({"Sequence": 2})).await.expect(200);
    assert_eq!((&read["ReadSequence"], &read["UnreadCount"]), (&json!(2), &json!(0)));

    line.act(agent, conference, "join").await.expect(200);
    let ended = act_as(&line.person(client), conference, "end").await.expect(200);
    assert_eq!(ended["EndReason"], "EndedByHost");
    let page = line.person(client).get(&format!("{messages}?AfterSequence=0")).await.expect(200);
    let times: Vec<_> = list(&page["Items"]).iter().map(|message| time(&message["CreatedAt"])).collect();
    assert!(times.len() == 3 && times.is_sorted(), "{page}");
    assert_eq!(page["Items"][2]["Card"]["Type"], "ConferenceEnded");
}

/// Section 4: a call rings 60 s from `CreatedAt` on; who is asked in later rings no longer than it does.
#[tokio::test]
async fn a_later_invitation_does_not_make_a_call_ring_longer() {
    let own = start(livekit(), &[]);
    let sql = own.sql().await;
    let line = Line::of(&own).await;
    let [client, agent, manager] = line.people();
    let id = line.ring(Some(&[agent])).await;
    shift(&sql, "40 seconds").await;
    let card = line.invite(client, id, &[manager]).await.expect(200);
    assert_eq!((&card["Status"], state(&card, manager)), (&json!("Ringing"), "Invited"));
    shift(&sql, "65 seconds").await;
    let card = line.card_when(id, "its end", |card| card["Status"] == "Ended").await;
    assert_eq!(card["EndReason"], "NoAnswer");
    assert_eq!((state(&card, agent), state(&card, manager)), ("Missed", "Missed"));
    let [asked, ended] = [&participant(&card, manager)["InvitedAt"], &card["EndedAt"]].map(time);
    assert!(ended - asked < Duration::MINUTE, "{card}");
}

/// Section 4: a join within 30 s keeps a conference that all have left. The job that runs after those 30 s changes nothing and
/// waits for the longest time.
#[tokio::test]
async fn a_join_in_time_keeps_an_empty_conference() {
    let own = start(livekit(), &[]);
    let sql = own.sql().await;
    let line = Line::of(&own).await;
    let [client, agent, _] = line.people();
    let id = line.ring(Some(&[agent])).await;
    line.act(agent, id, "join").await.expect(200);
    line.act(client, id, "leave").await.expect(200);
    line.act(agent, id, "leave").await.expect(200);
    shift(&sql, "25 seconds").await;
    line.act(agent, id, "join").await.expect(200);
    let card = line.card(id).await;
    shift(&sql, "35 seconds").await;
    run_deadline(&sql, id).await;
    let last = "select 1 from job where kind = 'conference-deadline' and key = $1 and run is null \
        and due_at = $2::text::timestamptz + interval '4 hours'";
    let is_set = async || sql.query_opt(last, &[&id.to_string(), &text(&card["ActiveAt"])]).await.unwrap();
    eventually("the deadline to be the longest time", is_set).await;
    assert_eq!((&line.card(id).await, &card["Status"]), (&card, &json!("Active")));
    line.act(client, id, "end").await.expect(200);
}
