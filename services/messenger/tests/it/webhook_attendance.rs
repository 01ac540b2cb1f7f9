//! What LiveKit's webhooks do to who is in a conference.

use futures_util::future::join_all;
use serde_json::json;
use testkit::{eventually, guid};

use crate::calls::{Line, livekit, participant, seconds, state};
use crate::count;

async fn sent_away(id: uuid::Uuid, user: uuid::Uuid, times: usize) {
    let calls = || livekit().calls("RemoveParticipant", &id.to_string()).into_iter();
    let of_user = || calls().filter(|call| call.body["identity"] == json!(user)).count();
    eventually("RemoveParticipant", async || (of_user() >= times).then_some(())).await;
}

/// Section 5, `participant_joined`: Joined, and Ringing → Active, unless it is the host.
#[tokio::test]
async fn who_connects_is_joined() {
    let line = Line::new().await;
    let [client, agent, manager] = line.people();
    let id = line.ring(None).await;
    line.tell("participant_joined", id, client, "PA_0", seconds(0)).await;
    assert_eq!(
        (&line.card(id).await["Status"], &line.card(id).await["Version"]),
        (&json!("Ringing"), &json!(1))
    );
    line.tell("participant_joined", id, agent, "PA_1", seconds(0)).await;
    let card = line.card(id).await;
    assert_eq!(
        (&card["Status"], state(&card, agent), &card["Version"]),
        (&json!("Active"), "Joined", &json!(2))
    );
    assert_eq!(card["ActiveAt"], participant(&card, agent)["JoinedAt"]);
    // Declined → Joined, and Left → Joined.
    line.act(manager, id, "decline").await.expect(200);
    line.tell("participant_joined", id, manager, "PA_2", seconds(0)).await;
    assert_eq!(state(&line.card(id).await, manager), "Joined");
    line.act(manager, id, "leave").await.expect(200);
    line.tell("participant_joined", id, manager, "PA_3", seconds(0)).await;
    assert_eq!(state(&line.card(id).await, manager), "Joined");
    line.act(client, id, "end").await.expect(200);
}

/// Section 5, `participant_left`: Left at its `createdAt`; not by a connection that was replaced, and nobody comes by one that has ended.
#[tokio::test]
async fn who_disconnects_is_left() {
    let line = Line::new().await;
    let [_, agent, _] = line.people();
    let id = line.talk().await;
    line.tell("participant_joined", id, agent, "PA_1", seconds(0)).await;
    line.tell("participant_joined", id, agent, "PA_2", seconds(1)).await;
    line.tell("participant_left", id, agent, "PA_1", seconds(1)).await;
    assert_eq!(state(&line.card(id).await, agent), "Joined", "a reconnect");
    let at = seconds(5);
    line.tell("participant_left", id, agent, "PA_2", at).await;
    let card = line.card(id).await;
    let left = time::OffsetDateTime::from_unix_timestamp(at).unwrap();
    let left = left.format(&time::format_description::well_known::Rfc3339).unwrap();
    assert_eq!((state(&card, agent), &participant(&card, agent)["LeftAt"]), ("Left", &json!(left)));
    line.tell("participant_joined", id, agent, "PA_2", seconds(0)).await;
    assert_eq!(line.card(id).await, card, "a late joined of what has left");
    line.tell("participant_left", id, agent, "PA_2", seconds(9)).await;
    assert_eq!(line.card(id).await, card);

    // Nothing was heard of the connection that has ended now.
    line.act(agent, id, "join").await.expect(200);
    line.tell("participant_left", id, agent, "PA_3", seconds(0)).await;
    assert_eq!(state(&line.card(id).await, agent), "Left");
    line.tell("participant_joined", id, agent, "PA_3", seconds(0)).await;
    assert_eq!(state(&line.card(id).await, agent), "Left");
    // Of who is not Joined nothing changes.
    let [_, _, manager] = line.people();
    let before = line.card(id).await;
    line.tell("participant_left", id, manager, "PA_4", seconds(0)).await;
    assert_eq!(line.card(id).await, before);
}

/// Section 5, `participant_left`: a reconnect, where what tells of the older connection comes after what tells of the newer one.
#[tokio::test]
async fn a_connection_that_is_told_of_late_was_replaced_all_the_same() {
    let line = Line::new().await;
    let agent = line.deal.agent();
    let id = line.talk().await;
    let began = seconds(0);
    line.tell("participant_joined", id, agent, "PA_2", began + 2).await;
    let card = line.card(id).await;
    line.tell("participant_joined", id, agent, "PA_1", began).await;
    line.tell("participant_left", id, agent, "PA_1", began + 2).await;
    assert_eq!(line.card(id).await, card);
    line.tell("participant_left", id, agent, "PA_2", began + 4).await;
    assert_eq!(state(&line.card(id).await, agent), "Left");
}

/// Section 5, `participant_left`: ignored after a `participant_joined` of another connection, also once that one has ended.
#[tokio::test]
async fn a_connection_that_was_replaced_takes_nobody_along() {
    let line = Line::new().await;
    let agent = line.deal.agent();
    let id = line.talk().await;
    let began = seconds(0);
    // In either order in which they are told of.
    for (first, second, replaced, newer) in [(0, 1, "PA_1", "PA_2"), (12, 11, "PA_4", "PA_3")] {
        let [told_first, told_second] = if first < second { [replaced, newer] } else { [newer, replaced] };
        line.tell("participant_joined", id, agent, told_first, began + first).await;
        line.tell("participant_joined", id, agent, told_second, began + second).await;
        line.tell("participant_left", id, agent, newer, began + first + 5).await;
        assert_eq!(state(&line.card(id).await, agent), "Left");
        line.act(agent, id, "join").await.expect(200);
        let card = line.card(id).await;
        line.tell("participant_left", id, agent, replaced, began + first + 6).await;
        assert_eq!(line.card(id).await, card, "{replaced} was replaced");
    }
}

/// Section 5: an old token lets nobody back in: Removed, without an entry, Ended.
#[tokio::test]
async fn an_old_token_lets_nobody_back_in() {
    let line = Line::new().await;
    let [client, agent, manager] = line.people();
    let id = line.ring(Some(&[agent])).await;
    line.act(agent, id, "join").await.expect(200);
    line.remove(client, id, agent).await.expect(200);
    sent_away(id, agent, 1).await;
    let card = line.card(id).await;
    line.tell("participant_joined", id, agent, "PA_1", seconds(0)).await;
    sent_away(id, agent, 2).await;
    for stranger in [manager, guid()] {
        line.tell("participant_joined", id, stranger, "PA_2", seconds(0)).await;
        sent_away(id, stranger, 1).await;
    }
    assert_eq!(line.card(id).await, card, "no change");
    let ended = line.act(client, id, "end").await.expect(200);
    let closed = || livekit().calls("DeleteRoom", &id.to_string()).len();
    eventually("DeleteRoom", async || (closed() == 1).then_some(())).await;
    line.tell("participant_joined", id, client, "PA_3", seconds(0)).await;
    eventually("DeleteRoom again", async || (closed() == 2).then_some(())).await;
    line.tell("participant_left", id, client, "PA_3", seconds(0)).await;
    assert_eq!(line.card(id).await, ended);
}

/// Section 5: who was Left, Declined or Missed, and finds no seat, is sent away.
#[tokio::test]
async fn who_finds_no_seat_is_sent_away() {
    let line = Line::new().await;
    let more = line.add(20).await;
    let agent = line.deal.agent();
    let id = line.ring(Some(&more[..19])).await;
    line.act(agent, id, "join").await.expect(200);
    line.act(agent, id, "leave").await.expect(200);
    sent_away(id, agent, 1).await;
    line.act(more[19], id, "join").await.expect(200);
    line.tell("participant_joined", id, more[3], "PA_0", seconds(0)).await;
    let card = line.card(id).await;
    assert_eq!(state(&card, more[3]), "Joined", "who is Invited has a seat");
    line.tell("participant_joined", id, agent, "PA_1", seconds(0)).await;
    sent_away(id, agent, 2).await;
    assert_eq!(line.card(id).await, card);
}

/// Section 5, `room_finished`: each Joined whose latest join is before its `createdAt`.
#[tokio::test]
async fn a_room_that_is_finished_has_nobody_in_it() {
    let line = Line::new().await;
    let [client, agent, manager] = line.people();
    let id = line.talk().await;
    let finished = async |at: i64| {
        let told = json!({"event": "room_finished", "id": format!("EV_{}", guid()), "createdAt": at, "room": {"name": id}});
        line.hear(&told).await.expect(200);
    };
    finished(seconds(-5)).await;
    let card = line.card(id).await;
    assert_eq!((state(&card, client), state(&card, agent)), ("Joined", "Joined"), "an older room");
    // By webhook later than that, whatever was before.
    let joined = seconds(20);
    line.tell("participant_joined", id, agent, "PA_1", joined).await;
    finished(seconds(10)).await;
    finished(joined).await;
    let card = line.card(id).await;
    assert_eq!((state(&card, client), state(&card, agent)), ("Left", "Joined"));
    assert_eq!(state(&card, manager), "Invited");
    finished(seconds(30)).await;
    assert_eq!(state(&line.card(id).await, agent), "Left");
    assert_eq!(line.card(id).await["Status"], "Active", "for a while");
}

/// Section 5: each `id` counts once, however many tell it at once.
#[tokio::test]
async fn each_webhook_counts_once() {
    let line = Line::new().await;
    let [_, agent, _] = line.people();
    let id = line.ring(None).await;
    let told = json!({
        "event": "participant_joined", "id": "EV_ once ".repeat(300), "createdAt": seconds(0).to_string(),
        "room": {"name": id}, "participant": {"sid": "PA_1", "identity": agent},
    });
    let told = crate::with(told, "id", format!("EV_{id}{}", "x".repeat(5000)));
    let answers = join_all((0..10).map(|_| line.hear(&told))).await;
    assert_eq!(count(&answers, 200), 10);
    assert_eq!(line.card(id).await["Version"], 2);
    line.act(agent, id, "leave").await.expect(200);
    line.hear(&told).await.expect(200);
    assert_eq!(state(&line.card(id).await, agent), "Left");
}
