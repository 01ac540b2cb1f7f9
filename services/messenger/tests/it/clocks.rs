//! Clocks of replicas and of the database that differ or are set back.

use runtime::clock;
use serde_json::{Value, json};
use testkit::{eventually, text};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::fixture::{ConferenceFixture, act_as, participant, state};
use crate::media_service::{livekit, start};
use crate::stream_client::Stream;
use crate::{CHATS, list, path};

/// Shifts the database's clock against the clock of the replica.
pub async fn shift_database_clock(sql: &Client, by: &str) {
    let shifted = format!(
        "create or replace function pg_catalog.clock_timestamp() returns timestamptz language sql volatile \
         as $$ select statement_timestamp() + interval '{by}' $$"
    );
    sql.batch_execute(&shifted).await.unwrap();
}

/// Makes the deadline job of a conference due.
pub async fn make_deadline_due(sql: &Client, conference: Uuid) {
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

/// Returns true for a time about an hour from now.
fn is_in_an_hour(value: &Value) -> bool {
    (time(value) - clock::now() - Duration::HOUR).abs() < Duration::minutes(10)
}

/// RULE-MSG-011: all times in chats come from the database's clock, which in this test is an hour
/// ahead of the replica's clock.
#[tokio::test]
async fn changes_are_dated_by_the_database_clock() {
    let own = start(livekit(), &[("MESSENGER_RING_SECONDS", "1")]);
    shift_database_clock(&own.sql().await, "1 hour").await;
    let fixture = ConferenceFixture::of(&own).await;
    let [client, agent, manager] = fixture.users();
    let chat = fixture.as_user(client).get(&path(fixture.chat, "")).await.expect(200);
    assert!(is_in_an_hour(&chat["CreatedAt"]) && chat["LastActivityAt"] == chat["CreatedAt"], "{chat}");
    assert!(list(&chat["Members"]).iter().all(|member| member["JoinedAt"] == chat["CreatedAt"]), "{chat}");
    let direct = fixture.as_user(client).post(CHATS, json!({"UserId": agent})).await.expect(201);
    assert!(is_in_an_hour(&direct["CreatedAt"]), "{direct}");

    let mut stream = Stream::request(&fixture.as_user(manager), None).await;
    let ready = stream.next_of("ready").await;
    let messages = path(fixture.chat, "/messages");
    let sent = fixture.as_user(client).post(&messages, json!({"Text": "а"})).await.expect(201);
    assert!(time(&sent["CreatedAt"]) > time(&chat["CreatedAt"]), "{sent}");
    let target = format!("{messages}/{}", text(&sent["Id"]));
    let edited = fixture.as_user(client).put(&target, json!({"Text": "б"})).await.expect(200);
    assert!(time(&edited["EditedAt"]) > time(&sent["CreatedAt"]), "{edited}");
    assert_eq!(stream.next_of("message").await.data["Sequence"], 1);

    let id = fixture.ring(None).await;
    let ended = eventually("the end of the conference", async || {
        let conference = fixture.conference(id).await;
        (conference["Status"] == "Ended").then_some(conference)
    })
    .await;
    assert_eq!(ended["EndReason"], "NoAnswer");
    let ringing_time = time(&ended["EndedAt"]) - time(&ended["CreatedAt"]);
    assert!(is_in_an_hour(&ended["CreatedAt"]) && ringing_time >= Duration::SECOND, "{ended}");
    // The retention of stream events follows the database's clock too.
    let mut resumed = Stream::request(&fixture.as_user(manager), Some(ready.id.to_string())).await;
    assert_eq!(resumed.next_of("ready").await.data, json!({"Resumed": true}));
    assert_eq!(resumed.next_of("message").await.data["Sequence"], 1);
}

/// INV-MSG-2: after the database's clock was set back an hour, messages keep their order and no
/// time falls. Markers and conferences still change.
#[tokio::test]
async fn database_clock_set_back_keeps_the_message_order() {
    let own = start(livekit(), &[]);
    let sql = own.sql().await;
    shift_database_clock(&sql, "1 hour").await;
    let fixture = ConferenceFixture::of(&own).await;
    let [client, agent, _] = fixture.users();
    let messages = path(fixture.chat, "/messages");
    let first = fixture.as_user(client).post(&messages, json!({"Text": "а"})).await.expect(201);
    let id = fixture.ring(None).await;
    shift_database_clock(&sql, "0").await;

    let second = fixture.as_user(agent).post(&messages, json!({"Text": "б"})).await.expect(201);
    assert_eq!((&second["Sequence"], &second["CreatedAt"]), (&json!(2), &first["CreatedAt"]));
    let target = format!("{messages}/{}", text(&first["Id"]));
    let edited = fixture.as_user(client).put(&target, json!({"Text": "в"})).await.expect(200);
    assert_eq!(edited["EditedAt"], first["CreatedAt"], "an edit is not before its message");
    let read =
        fixture.as_user(client).put(&path(fixture.chat, "/read"), json!({"Sequence": 2})).await.expect(200);
    assert_eq!((&read["ReadSequence"], &read["UnreadCount"]), (&json!(2), &json!(0)));

    fixture.act(agent, id, "join").await.expect(200);
    let ended = act_as(&fixture.as_user(client), id, "end").await.expect(200);
    assert_eq!(ended["EndReason"], "EndedByHost");
    let page = fixture.as_user(client).get(&format!("{messages}?AfterSequence=0")).await.expect(200);
    let times: Vec<_> = list(&page["Items"]).iter().map(|message| time(&message["CreatedAt"])).collect();
    assert!(times.len() == 3 && times.is_sorted(), "{page}");
    assert_eq!(page["Items"][2]["Card"]["Type"], "ConferenceEnded");
}

/// RULE-MSG-039: a conference rings for 60 s from `CreatedAt`, also after a later invitation.
#[tokio::test]
async fn later_invitation_does_not_extend_the_ringing() {
    let own = start(livekit(), &[]);
    let sql = own.sql().await;
    let fixture = ConferenceFixture::of(&own).await;
    let [client, agent, manager] = fixture.users();
    let id = fixture.ring(Some(&[agent])).await;
    shift_database_clock(&sql, "40 seconds").await;
    let conference = fixture.invite(client, id, &[manager]).await.expect(200);
    assert_eq!((&conference["Status"], state(&conference, manager)), (&json!("Ringing"), "Invited"));
    shift_database_clock(&sql, "65 seconds").await;
    let conference =
        fixture.conference_when(id, "its end", |conference| conference["Status"] == "Ended").await;
    assert_eq!(conference["EndReason"], "NoAnswer");
    assert_eq!((state(&conference, agent), state(&conference, manager)), ("Missed", "Missed"));
    let [invited, ended] =
        [&participant(&conference, manager)["InvitedAt"], &conference["EndedAt"]].map(time);
    assert!(ended - invited < Duration::MINUTE, "{conference}");
}

/// RULE-MSG-040: an empty conference goes on if a user joins within 30 s. The later run of the job
/// does not change the conference, and sets the deadline to its longest time.
#[tokio::test]
async fn join_keeps_an_empty_conference() {
    let own = start(livekit(), &[]);
    let sql = own.sql().await;
    let fixture = ConferenceFixture::of(&own).await;
    let [client, agent, _] = fixture.users();
    let id = fixture.ring(Some(&[agent])).await;
    fixture.act(agent, id, "join").await.expect(200);
    fixture.act(client, id, "leave").await.expect(200);
    fixture.act(agent, id, "leave").await.expect(200);
    shift_database_clock(&sql, "25 seconds").await;
    fixture.act(agent, id, "join").await.expect(200);
    let conference = fixture.conference(id).await;
    shift_database_clock(&sql, "35 seconds").await;
    make_deadline_due(&sql, id).await;
    let job = "select 1 from job where kind = 'conference-deadline' and key = $1 and run is null \
        and due_at = $2::text::timestamptz + interval '4 hours'";
    let is_set =
        async || sql.query_opt(job, &[&id.to_string(), &text(&conference["ActiveAt"])]).await.unwrap();
    eventually("the deadline of the longest time", is_set).await;
    assert_eq!((&fixture.conference(id).await, &conference["Status"]), (&conference, &json!("Active")));
    fixture.act(client, id, "end").await.expect(200);
}
