//! What time does to conferences: with settings of seconds, and two replicas that look at the same clock.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::livekit::LiveKit;
use testkit::service::Running;
use tokio::time::sleep;

use crate::calls::{Line, participant, seconds, start, state, told};

const RING: Duration = Duration::from_secs(2);
const EMPTY: Duration = Duration::from_secs(2);
/// Nothing else may take so long, whatever the machine is at.
const MAX: Duration = Duration::from_secs(20);
/// What a test's clock may have seen later than the service's.
const EARLY: Duration = Duration::from_millis(200);
/// Timers fire within 2 s, and a busy machine is late for all that it does.
const LATE: Duration = Duration::from_secs(10);

/// Two replicas: each timer fires once all the same.
fn hasty() -> &'static Running {
    static REPLICAS: OnceLock<(LiveKit, Running, Running)> = OnceLock::new();
    let (_, first, _) = REPLICAS.get_or_init(|| {
        let livekit = LiveKit::start();
        let short = [
            ("MESSENGER_RING_SECONDS", "2"),
            ("MESSENGER_EMPTY_SECONDS", "2"),
            ("MESSENGER_MAX_SECONDS", "20"),
        ];
        let first = start(&livekit, &short);
        let database = [("DATABASE_URL", first.database_url.as_str())];
        let second = start(&livekit, &[&short[..], &database].concat());
        (livekit, first, second)
    });
    first
}

/// Waits until a conference has ended, and looks whether that was neither too early nor too late, and told once.
async fn ends(line: &Line<'_>, id: uuid::Uuid, since: Instant, after: Duration, reason: &str) {
    let card = line.card_when(id, reason, |card| card["Status"] == "Ended").await;
    let took = since.elapsed();
    assert_eq!(card["EndReason"], reason);
    assert_eq!(card["EndedByUserId"], json!(null));
    assert!(took + EARLY >= after && took < after + LATE, "{reason} after {took:?}");
    told(line.service, id).await;
    sleep(Duration::from_millis(1500)).await;
    assert_eq!(line.ends(id).await.len(), 1, "{reason}");
    let events = line.service.bus().events(&id);
    assert_eq!(events.iter().filter(|event| event.topic == crate::calls::ENDED).count(), 1, "{reason}");
}

/// Section 4: Ringing → Ended by `NoAnswer`.
#[tokio::test]
async fn a_call_that_nobody_answers_ends() {
    let line = Line::of(hasty()).await;
    let since = Instant::now();
    let id = line.ring(None).await;
    ends(&line, id, since, RING, "NoAnswer").await;
    let card = line.card(id).await;
    assert_eq!((state(&card, line.deal.client), state(&card, line.deal.agent())), ("Left", "Missed"));
    // Section 2: who was Joined when it ended has read its card.
    for (user, unread) in [(line.deal.client, 0), (line.deal.agent(), 1), (line.deal.manager, 1)] {
        let chat = line.person(user).get(&line.path("")).await.expect(200);
        assert_eq!(chat["UnreadCount"], unread);
    }
}

/// Section 4: Active → Ended when nobody was Joined for so long; a join within keeps it.
#[tokio::test]
async fn a_conference_that_all_have_left_ends() {
    let line = Line::of(hasty()).await;
    let [client, agent, _] = line.people();
    let id = line.talk().await;
    line.act(client, id, "leave").await.expect(200);
    line.act(agent, id, "leave").await.expect(200);
    sleep(EMPTY / 2).await;
    line.act(agent, id, "join").await.expect(200);
    sleep(EMPTY).await;
    assert_eq!(line.card(id).await["Status"], "Active", "somebody is there again");
    let since = Instant::now();
    line.act(agent, id, "leave").await.expect(200);
    ends(&line, id, since, EMPTY, "AllLeft").await;
}

/// Section 5: who leaves a conference empty by webhook starts the same seconds; no webhook hangs up a call that rings.
#[tokio::test]
async fn a_broken_connection_empties_a_conference_and_hangs_nothing_up() {
    let line = Line::of(hasty()).await;
    let [client, agent, _] = line.people();
    let id = line.talk().await;
    line.act(client, id, "leave").await.expect(200);
    let since = Instant::now();
    line.tell("participant_left", id, agent, "PA_1", seconds(0)).await;
    ends(&line, id, since, EMPTY, "AllLeft").await;

    let since = Instant::now();
    let id = line.ring(None).await;
    line.tell("participant_left", id, client, "PA_1", seconds(0)).await;
    let card = line.card(id).await;
    assert_eq!((&card["Status"], state(&card, client)), (&json!("Ringing"), "Left"));
    ends(&line, id, since, RING, "NoAnswer").await;
}

/// Section 4: Active → Ended after the longest time, whoever is there.
#[tokio::test]
async fn a_conference_that_goes_on_for_too_long_ends() {
    let line = Line::of(hasty()).await;
    let id = line.ring(None).await;
    let since = Instant::now();
    line.act(line.deal.agent(), id, "join").await.expect(200);
    ends(&line, id, since, MAX, "MaxDuration").await;
    let card = line.card(id).await;
    assert_eq!(state(&card, line.deal.client), "Left");
    assert_eq!(participant(&card, line.deal.agent())["LeftAt"], card["EndedAt"]);
}

/// Section 4: in an Active conference Invited → Missed when the invitation is over; Missed → Invited, → Joined.
#[tokio::test]
async fn an_invitation_that_nobody_answers_is_missed() {
    let line = Line::of(hasty()).await;
    let [client, agent, manager] = line.people();
    let id = line.talk().await;
    let missed = line.card_when(id, "Missed", |card| state(card, manager) == "Missed").await;
    assert_eq!((&missed["Status"], &missed["Version"]), (&json!("Active"), &json!(3)));
    line.invite(agent, id, &[manager]).await.expect(200);
    let since = Instant::now();
    line.card_when(id, "Missed again", |card| state(card, manager) == "Missed").await;
    assert!(since.elapsed() < RING + LATE && since.elapsed() + EARLY > RING);
    line.act(manager, id, "join").await.expect(200);
    assert_eq!(state(&line.card(id).await, manager), "Joined");
    line.act(client, id, "end").await.expect(200);
}

/// Section 1: the deal has another agent: the old one's deadline is set by those who know the settings.
#[tokio::test]
async fn a_conference_that_the_deal_empties_ends() {
    let line = Line::of(hasty()).await;
    let [client, agent, manager] = line.people();
    let id = line.talk().await;
    line.remove_member(manager).await;
    line.act(client, id, "leave").await.expect(200);
    let since = Instant::now();
    let changed = line.deal.changed(2, "Booking", "Booking", None);
    line.deal.tell(crate::STAGE_CHANGED, &changed).await;
    line.card_when(id, "Removed", |card| state(card, agent) == "Removed").await;
    ends(&line, id, since, EMPTY, "AllLeft").await;
}
