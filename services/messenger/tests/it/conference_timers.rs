//! What time does to conferences: with settings of seconds, and two replicas that look at the same clock.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::livekit::LiveKit;
use testkit::service::Running;
use testkit::{eventually, text};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::{MissedTickBehavior, interval};
use uuid::Uuid;

use crate::calls::{ENDED, Line, participant, published, seconds, start, state};

const RING: i64 = 2_000_000;
const EMPTY: i64 = 2_000_000;
/// Nothing else takes so long.
const MAX: i64 = 20_000_000;

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

/// A time of an answer, in microseconds since 1970. The database has no smaller ones.
fn micros(time: &Value) -> i64 {
    let time = OffsetDateTime::parse(text(time), &Rfc3339).unwrap();
    i64::try_from(time.unix_timestamp_nanos() / 1000).unwrap()
}

/// So long after a time of an answer, exactly.
fn after(time: &Value, wait: i64) -> RangeInclusive<i64> {
    let due = micros(time) + wait;
    due..=due
}

/// The database's time, read ten times a second. It measures how long the service had, not how long the machine stood still:
/// while this test gets no answer, the service gets none either.
struct Beats(Arc<Mutex<Vec<i64>>>);

impl Beats {
    const PERIOD: Duration = Duration::from_millis(100);
    /// Section 8: timers fire within 2 s.
    const MOST: usize = 20;

    #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
    async fn start(service: &Running) -> Self {
        let (sql, beats) = (service.sql().await, Arc::<Mutex<Vec<i64>>>::default());
        let kept = Arc::clone(&beats);
        tokio::spawn(async move {
            let mut ticks = interval(Self::PERIOD);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let now = "select (extract(epoch from clock_timestamp()) * 1000000)::int8";
                let beat = sql.query_one(now, &[]).await.unwrap().get(0);
                kept.lock().unwrap().push(beat);
            }
        });
        let first = async || (!beats.lock().unwrap().is_empty()).then_some(());
        eventually("the first beat", first).await;
        Self(beats)
    }

    /// Asserts that a timer that became due in this range fired neither earlier nor more than 2 s late, by the times that the
    /// service has recorded.
    async fn assert_in_time(&self, due: RangeInclusive<i64>, fired: i64) {
        let (earliest, due) = due.into_inner();
        assert!(fired >= earliest, "fired {} µs before its time", earliest - fired);
        let beats = || self.0.lock().unwrap().clone();
        eventually("a beat after the timer", async || beats().last().filter(|beat| **beat > fired).copied())
            .await;
        let beats = beats();
        assert!(beats[0] < due, "the beats began before the timer was due");
        let between = beats.into_iter().filter(|beat| (due..fired).contains(beat)).count();
        assert!(between <= Self::MOST, "fired {} µs late, {between} beats", fired - due);
    }
}

/// Waits until a conference has ended, and asserts that it ended once, for this reason, within 2 s.
async fn ends(line: &Line<'_>, beats: &Beats, id: Uuid, due: RangeInclusive<i64>, reason: &str) -> Value {
    let card = line.card_when(id, reason, |card| card["Status"] == "Ended").await;
    assert_eq!((&card["EndReason"], &card["EndedByUserId"]), (&json!(reason), &Value::Null));
    beats.assert_in_time(due, micros(&card["EndedAt"])).await;
    // Without a job no timer of this conference fires again.
    let sql = line.service.sql().await;
    let job = "select 1 from job where kind = 'conference-deadline' and key = $1";
    let is_done = async || sql.query(job, &[&id.to_string()]).await.unwrap().is_empty().then_some(());
    eventually("the end of the job", is_done).await;
    let events = published(line.service, id).await;
    let ended: Vec<_> = events.iter().filter(|event| event.topic == ENDED).collect();
    assert_eq!((ended.len(), &ended[0].payload["EndedAt"]), (1, &card["EndedAt"]), "{reason}");
    assert_eq!(line.ends(id).await.len(), 1, "{reason}");
    assert_eq!(line.card(id).await, card, "{reason}");
    card
}

/// When a reader was last notified of a conference.
async fn last_change(line: &Line<'_>, id: Uuid, reader: Uuid) -> i64 {
    let last = "select (extract(epoch from max(at)) * 1000000)::int8 from stream_event \
        where user_id = $1::text::uuid and subject_id = $2::text::uuid and kind = 'conference'";
    let sql = line.service.sql().await;
    sql.query_one(last, &[&reader.to_string(), &id.to_string()]).await.unwrap().get(0)
}

/// Section 4: Ringing → Ended by `NoAnswer`.
#[tokio::test]
async fn an_unanswered_call_ends() {
    let line = Line::of(hasty()).await;
    let beats = Beats::start(line.service).await;
    let id = line.ring(None).await;
    let due = after(&line.card(id).await["CreatedAt"], RING);
    let card = ends(&line, &beats, id, due, "NoAnswer").await;
    assert_eq!((state(&card, line.deal.client), state(&card, line.deal.agent())), ("Left", "Missed"));
    // Section 2: who was Joined when it ended has read its card.
    for (user, unread) in [(line.deal.client, 0), (line.deal.agent(), 1), (line.deal.manager, 1)] {
        let chat = line.person(user).get(&line.path("")).await.expect(200);
        assert_eq!(chat["UnreadCount"], unread);
    }
}

/// Section 4: Active → Ended when no one was Joined for the configured time. A join within that time is in
/// `clocks::a_join_in_time_keeps_an_empty_conference`.
#[tokio::test]
async fn an_empty_conference_ends() {
    let line = Line::of(hasty()).await;
    let [client, agent, _] = line.people();
    let beats = Beats::start(line.service).await;
    let id = line.talk().await;
    line.act(client, id, "leave").await.expect(200);
    let card = line.act(agent, id, "leave").await.expect(200);
    let due = after(&participant(&card, agent)["LeftAt"], EMPTY);
    ends(&line, &beats, id, due, "AllLeft").await;
}

/// Section 5: a webhook that empties a conference starts the same time. No webhook ends a call that rings.
#[tokio::test]
async fn a_broken_connection_empties_a_conference_and_ends_no_ringing_call() {
    let line = Line::of(hasty()).await;
    let [client, agent, manager] = line.people();
    let beats = Beats::start(line.service).await;
    let id = line.ring(Some(&[agent])).await;
    line.act(agent, id, "join").await.expect(200);
    line.act(client, id, "leave").await.expect(200);
    line.tell("participant_left", id, agent, "PA_1", seconds(0)).await;
    // The webhook has whole seconds. The reader was notified a moment after the change.
    let left = micros(&participant(&line.card(id).await, agent)["LeftAt"]);
    let due = left + EMPTY..=last_change(&line, id, manager).await + EMPTY;
    ends(&line, &beats, id, due, "AllLeft").await;

    let id = line.ring(None).await;
    line.tell("participant_left", id, client, "PA_1", seconds(0)).await;
    let card = line.card(id).await;
    assert_eq!((&card["Status"], state(&card, client)), (&json!("Ringing"), "Left"));
    ends(&line, &beats, id, after(&card["CreatedAt"], RING), "NoAnswer").await;
}

/// Section 4: Active → Ended after the longest time, even with participants.
#[tokio::test]
async fn a_conference_ends_after_the_longest_time() {
    let line = Line::of(hasty()).await;
    let beats = Beats::start(line.service).await;
    let id = line.talk().await;
    let due = after(&line.card(id).await["ActiveAt"], MAX);
    let card = ends(&line, &beats, id, due, "MaxDuration").await;
    assert_eq!(state(&card, line.deal.client), "Left");
    assert_eq!(participant(&card, line.deal.agent())["LeftAt"], card["EndedAt"]);
}

/// Section 4: in an Active conference Invited → Missed when the invitation is over; Missed → Invited, → Joined.
#[tokio::test]
async fn an_unanswered_invitation_is_missed() {
    let line = Line::of(hasty()).await;
    let [client, agent, manager] = line.people();
    let beats = Beats::start(line.service).await;
    let id = line.talk().await;
    let missed = line.card_when(id, "Missed", |card| state(card, manager) == "Missed").await;
    assert_eq!((&missed["Status"], &missed["Version"]), (&json!("Active"), &json!(3)));
    let due = after(&participant(&missed, manager)["InvitedAt"], RING);
    beats.assert_in_time(due, last_change(&line, id, manager).await).await;

    let card = line.invite(agent, id, &[manager]).await.expect(200);
    let due = after(&participant(&card, manager)["InvitedAt"], RING);
    line.card_when(id, "Missed again", |card| state(card, manager) == "Missed").await;
    beats.assert_in_time(due, last_change(&line, id, manager).await).await;
    line.act(manager, id, "join").await.expect(200);
    assert_eq!(state(&line.card(id).await, manager), "Joined");
    line.act(client, id, "end").await.expect(200);
}

/// Section 1: the deal has another agent, who leaves the conference empty. The consumer does not know the configured times, so
/// the job sets the deadline.
#[tokio::test]
async fn a_conference_that_the_deal_empties_ends() {
    let line = Line::of(hasty()).await;
    let [client, agent, manager] = line.people();
    let beats = Beats::start(line.service).await;
    let id = line.talk().await;
    line.remove_member(manager).await;
    line.act(client, id, "leave").await.expect(200);
    let changed = line.deal.changed(2, "Booking", "Booking", None);
    line.deal.tell(crate::STAGE_CHANGED, &changed).await;
    let card = line.card_when(id, "Removed", |card| state(card, agent) == "Removed").await;
    let due = after(&participant(&card, agent)["LeftAt"], EMPTY);
    ends(&line, &beats, id, due, "AllLeft").await;
}
