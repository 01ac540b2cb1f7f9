//! Timers of conferences, with timeouts of seconds and two replicas.

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

use crate::fixture::{ConferenceFixture, ENDED, participant, published_events, state, unix_seconds};
use crate::media_service::start;

const RING_MICROS: i64 = 2_000_000;
const EMPTY_MICROS: i64 = 2_000_000;
/// Much longer than the other timeouts, so that no other test reaches it.
const MAX_MICROS: i64 = 20_000_000;

/// Returns the first of two replicas with short timeouts. Each timer still fires once.
fn short_timeouts() -> &'static Running {
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

/// Returns a time of a response in microseconds since 1970, the precision of the database.
fn micros(time: &Value) -> i64 {
    let time = OffsetDateTime::parse(text(time), &Rfc3339).unwrap();
    i64::try_from(time.unix_timestamp_nanos() / 1000).unwrap()
}

/// Returns the exact due time of a timer that starts at `time`, as a range of one value.
fn due_after(time: &Value, timeout_micros: i64) -> RangeInclusive<i64> {
    let due = micros(time) + timeout_micros;
    due..=due
}

/// Samples of the database's clock, ten a second.
///
/// The number of samples between the due time and the firing of a timer measures its lateness. A
/// busy machine delays the samples as well as the service, so its load does not count as lateness.
struct ClockSamples(Arc<Mutex<Vec<i64>>>);

impl ClockSamples {
    const PERIOD: Duration = Duration::from_millis(100);
    /// RULE-MSG-043: timers fire within 2 s.
    const MAX_LATE_SAMPLES: usize = 20;

    #[expect(clippy::disallowed_methods, reason = "the task ends with the test's runtime")]
    async fn start(service: &Running) -> Self {
        let (sql, samples) = (service.sql().await, Arc::<Mutex<Vec<i64>>>::default());
        let collected = Arc::clone(&samples);
        tokio::spawn(async move {
            let mut ticks = interval(Self::PERIOD);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let now = "select (extract(epoch from clock_timestamp()) * 1000000)::int8";
                let sample = sql.query_one(now, &[]).await.unwrap().get(0);
                collected.lock().unwrap().push(sample);
            }
        });
        let first = async || (!samples.lock().unwrap().is_empty()).then_some(());
        eventually("the first sample", first).await;
        Self(samples)
    }

    /// Asserts that a timer that became due in this range fired neither earlier nor more than 2 s
    /// late.
    async fn assert_in_time(&self, due: RangeInclusive<i64>, fired: i64) {
        let (earliest, latest) = due.into_inner();
        assert!(fired >= earliest, "fired {} µs before its time", earliest - fired);
        let samples = || self.0.lock().unwrap().clone();
        eventually("a sample after the timer", async || {
            samples().last().filter(|sample| **sample > fired).copied()
        })
        .await;
        let samples = samples();
        assert!(samples[0] < latest, "the samples began before the timer was due");
        let between = samples.into_iter().filter(|sample| (latest..fired).contains(sample)).count();
        assert!(between <= Self::MAX_LATE_SAMPLES, "fired {} µs late, {between} samples", fired - latest);
    }
}

/// Waits for the end of a conference, and asserts that it ended once, for this reason, within 2 s.
async fn assert_ends(
    fixture: &ConferenceFixture<'_>,
    samples: &ClockSamples,
    id: Uuid,
    due: RangeInclusive<i64>,
    reason: &str,
) -> Value {
    let conference = fixture.conference_when(id, reason, |conference| conference["Status"] == "Ended").await;
    assert_eq!((&conference["EndReason"], &conference["EndedByUserId"]), (&json!(reason), &Value::Null));
    samples.assert_in_time(due, micros(&conference["EndedAt"])).await;
    // Without a job no timer of this conference fires again.
    let sql = fixture.service.sql().await;
    let job = "select 1 from job where kind = 'conference-deadline' and key = $1";
    let is_done = async || sql.query(job, &[&id.to_string()]).await.unwrap().is_empty().then_some(());
    eventually("the end of the job", is_done).await;
    let events = published_events(fixture.service, id).await;
    let ended: Vec<_> = events.iter().filter(|event| event.topic == ENDED).collect();
    assert_eq!((ended.len(), &ended[0].payload["EndedAt"]), (1, &conference["EndedAt"]), "{reason}");
    assert_eq!(fixture.end_cards(id).await.len(), 1, "{reason}");
    assert_eq!(fixture.conference(id).await, conference, "{reason}");
    conference
}

/// Returns the time of a user's newest stream event about a conference.
async fn last_notified_at(fixture: &ConferenceFixture<'_>, id: Uuid, reader: Uuid) -> i64 {
    let last = "select (extract(epoch from max(at)) * 1000000)::int8 from stream_event \
        where user_id = $1::text::uuid and subject_id = $2::text::uuid and kind = 'conference'";
    let sql = fixture.service.sql().await;
    sql.query_one(last, &[&reader.to_string(), &id.to_string()]).await.unwrap().get(0)
}

/// RULE-MSG-039, RULE-MSG-043: an unanswered conference ends with `NoAnswer` at its time.
#[tokio::test]
async fn unanswered_conference_ends() {
    let fixture = ConferenceFixture::of(short_timeouts()).await;
    let samples = ClockSamples::start(fixture.service).await;
    let id = fixture.ring(None).await;
    let due = due_after(&fixture.conference(id).await["CreatedAt"], RING_MICROS);
    let conference = assert_ends(&fixture, &samples, id, due, "NoAnswer").await;
    assert_eq!(
        (state(&conference, fixture.deal.client), state(&conference, fixture.deal.agent())),
        ("Left", "Missed")
    );
    // The card is read for the members who were Joined at the end.
    for (user, unread) in [(fixture.deal.client, 0), (fixture.deal.agent(), 1), (fixture.deal.manager, 1)] {
        let chat = fixture.as_user(user).get(&fixture.path("")).await.expect(200);
        assert_eq!(chat["UnreadCount"], unread);
    }
}

/// RULE-MSG-040, RULE-MSG-043: a conference that was empty for the configured time ends with
/// `AllLeft`.
/// `clocks::join_keeps_an_empty_conference` tests a join within that time.
#[tokio::test]
async fn empty_conference_ends() {
    let fixture = ConferenceFixture::of(short_timeouts()).await;
    let [client, agent, _] = fixture.users();
    let samples = ClockSamples::start(fixture.service).await;
    let id = fixture.ring_and_join().await;
    fixture.act(client, id, "leave").await.expect(200);
    let conference = fixture.act(agent, id, "leave").await.expect(200);
    let due = due_after(&participant(&conference, agent)["LeftAt"], EMPTY_MICROS);
    assert_ends(&fixture, &samples, id, due, "AllLeft").await;
}

/// RULE-MSG-059: a webhook that empties an Active conference starts the timer of empty conferences.
/// No webhook ends a Ringing conference.
#[tokio::test]
async fn broken_connection_does_not_end_a_ringing_conference() {
    let fixture = ConferenceFixture::of(short_timeouts()).await;
    let [client, agent, manager] = fixture.users();
    let samples = ClockSamples::start(fixture.service).await;
    let id = fixture.ring(Some(&[agent])).await;
    fixture.act(agent, id, "join").await.expect(200);
    fixture.act(client, id, "leave").await.expect(200);
    fixture.send_participant_webhook("participant_left", id, agent, "PA_1", unix_seconds(0)).await;
    // The timer starts at the change. `LeftAt` is the webhook's time in whole seconds, shortly
    // before the change, and the stream event is a moment later.
    let left = micros(&participant(&fixture.conference(id).await, agent)["LeftAt"]);
    let due = left + EMPTY_MICROS..=last_notified_at(&fixture, id, manager).await + EMPTY_MICROS;
    assert_ends(&fixture, &samples, id, due, "AllLeft").await;

    let id = fixture.ring(None).await;
    fixture.send_participant_webhook("participant_left", id, client, "PA_1", unix_seconds(0)).await;
    let conference = fixture.conference(id).await;
    assert_eq!((&conference["Status"], state(&conference, client)), (&json!("Ringing"), "Left"));
    assert_ends(&fixture, &samples, id, due_after(&conference["CreatedAt"], RING_MICROS), "NoAnswer").await;
}

/// RULE-MSG-040, RULE-MSG-043: an Active conference ends after its longest time, even with
/// participants.
#[tokio::test]
async fn conference_ends_after_its_longest_time() {
    let fixture = ConferenceFixture::of(short_timeouts()).await;
    let samples = ClockSamples::start(fixture.service).await;
    let id = fixture.ring_and_join().await;
    let due = due_after(&fixture.conference(id).await["ActiveAt"], MAX_MICROS);
    let conference = assert_ends(&fixture, &samples, id, due, "MaxDuration").await;
    assert_eq!(state(&conference, fixture.deal.client), "Left");
    assert_eq!(participant(&conference, fixture.deal.agent())["LeftAt"], conference["EndedAt"]);
}

/// RULE-MSG-031, RULE-MSG-041, RULE-MSG-043: in an Active conference an invitation is Missed after
/// its time. A Missed user can be invited again.
#[tokio::test]
async fn unanswered_invitation_is_missed() {
    let fixture = ConferenceFixture::of(short_timeouts()).await;
    let [client, agent, manager] = fixture.users();
    let samples = ClockSamples::start(fixture.service).await;
    let id = fixture.ring_and_join().await;
    let missed =
        fixture.conference_when(id, "Missed", |conference| state(conference, manager) == "Missed").await;
    assert_eq!((&missed["Status"], &missed["Version"]), (&json!("Active"), &json!(3)));
    let due = due_after(&participant(&missed, manager)["InvitedAt"], RING_MICROS);
    samples.assert_in_time(due, last_notified_at(&fixture, id, manager).await).await;

    let conference = fixture.invite(agent, id, &[manager]).await.expect(200);
    let due = due_after(&participant(&conference, manager)["InvitedAt"], RING_MICROS);
    fixture.conference_when(id, "Missed again", |conference| state(conference, manager) == "Missed").await;
    samples.assert_in_time(due, last_notified_at(&fixture, id, manager).await).await;
    fixture.act(manager, id, "join").await.expect(200);
    assert_eq!(state(&fixture.conference(id).await, manager), "Joined");
    fixture.act(client, id, "end").await.expect(200);
}

/// RULE-MSG-044: a change of agent empties the conference.
/// The consumer does not know the timeouts, so the job sets the deadline.
#[tokio::test]
async fn conference_emptied_by_the_deal_ends() {
    let fixture = ConferenceFixture::of(short_timeouts()).await;
    let [client, agent, manager] = fixture.users();
    let samples = ClockSamples::start(fixture.service).await;
    let id = fixture.ring_and_join().await;
    fixture.remove_member(manager).await;
    fixture.act(client, id, "leave").await.expect(200);
    let changed = fixture.deal.changed(2, "Booking", "Booking", None);
    fixture.deal.publish(crate::STAGE_CHANGED, &changed).await;
    let conference =
        fixture.conference_when(id, "Removed", |conference| state(conference, agent) == "Removed").await;
    let due = due_after(&participant(&conference, agent)["LeftAt"], EMPTY_MICROS);
    assert_ends(&fixture, &samples, id, due, "AllLeft").await;
}
