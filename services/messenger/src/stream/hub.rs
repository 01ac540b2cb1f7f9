//! The registry of open streams.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use auth::UserId;
use tokio::sync::Notify;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::Instant;

use super::frame::{EventBatch, Frame};

/// Maximum number of events that wait for a slow reader.
const MAX_QUEUED_EVENTS: usize = 256;
/// The time in which the reader of a full queue must take an event. The stream ends otherwise, and
/// the reader resumes with a new one.
const FULL_QUEUE_TIMEOUT: Duration = Duration::from_millis(250);
/// Maximum number of open streams of one user. A further stream ends the oldest one.
const MAX_STREAMS_PER_USER: usize = 5;

/// The open streams of this replica.
#[derive(Default)]
pub struct Hub {
    streams: Mutex<Streams>,
    has_woken: Notify,
}

#[derive(Default)]
struct Streams {
    by_user: HashMap<UserId, Vec<Stream>>,
    /// The users whose streams may have new events.
    woken: HashSet<UserId>,
    /// Number of streams opened so far, which numbers the streams.
    opened: u64,
    is_closed: bool,
}

struct Stream {
    number: u64,
    sender: Sender<Frame>,
    /// The newest event sent, or `None` while the stream still catches up.
    last_sent: Option<i64>,
    /// The time at which the queue became full.
    full_since: Option<Instant>,
}

/// The result of sending a batch of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    Complete,
    /// The queue is full, so the rest has to be sent again.
    Partial,
    /// The stream has to end.
    Ended,
}

impl Hub {
    /// Opens a stream, which receives no events before [`Self::start_sending`]. Returns its number
    /// and the receiver of its events.
    pub fn open(&self, user: UserId) -> (u64, Receiver<Frame>) {
        let (sender, receiver) = channel(MAX_QUEUED_EVENTS);
        let mut streams = self.streams();
        streams.opened += 1;
        let number = streams.opened;
        // After shutdown the sender is dropped here, which ends the new stream at once.
        if !streams.is_closed {
            let own = streams.by_user.entry(user).or_default();
            own.retain(|stream| !stream.sender.is_closed());
            if own.len() == MAX_STREAMS_PER_USER {
                own.remove(0);
            }
            own.push(Stream { number, sender, last_sent: None, full_since: None });
        }
        (number, receiver)
    }

    /// Sends the events after `last_sent` to the stream from now on.
    pub fn start_sending(&self, user: UserId, number: u64, last_sent: i64) {
        let mut streams = self.streams();
        let own = streams.by_user.get_mut(&user);
        if let Some(stream) = own.into_iter().flatten().find(|stream| stream.number == number) {
            stream.last_sent = Some(last_sent);
        }
        drop(streams);
        // A wake-up that preceded this call had no effect.
        self.wake([user]);
    }

    /// Marks users whose streams may have new events. Users without a stream here are ignored.
    pub fn wake(&self, users: impl IntoIterator<Item = UserId>) {
        let mut streams = self.streams();
        let Streams { by_user, woken, .. } = &mut *streams;
        woken.extend(users.into_iter().filter(|user| by_user.contains_key(user)));
        if !woken.is_empty() {
            self.has_woken.notify_one();
        }
    }

    /// Waits for marked users, and returns their positions like [`Self::positions`].
    pub async fn woken_positions(&self) -> Vec<(UserId, i64)> {
        self.has_woken.notified().await;
        let mut streams = self.streams();
        let woken = std::mem::take(&mut streams.woken);
        woken.into_iter().filter_map(|user| Some((user, streams.position(user)?))).collect()
    }

    /// Returns each user with a live stream, and the position of the user's stream that is furthest
    /// behind.
    pub fn positions(&self) -> Vec<(UserId, i64)> {
        let mut streams = self.streams();
        streams.by_user.retain(|_, own| {
            own.retain(|stream| !stream.sender.is_closed());
            !own.is_empty()
        });
        streams.by_user.keys().filter_map(|user| Some((*user, streams.position(*user)?))).collect()
    }

    /// Sends to each stream of the user the events that it has not received. Returns false if a
    /// queue had no room for all.
    pub fn send(&self, batch: &EventBatch) -> bool {
        let mut streams = self.streams();
        let Some(own) = streams.by_user.get_mut(&batch.user_id) else { return true };
        let mut is_complete = true;
        own.retain_mut(|stream| {
            let delivery = stream.send(batch);
            is_complete &= delivery != Delivery::Partial;
            delivery != Delivery::Ended
        });
        is_complete
    }

    /// Ends all streams, and every stream that opens later.
    pub fn close(&self) {
        let mut streams = self.streams();
        streams.is_closed = true;
        streams.by_user.clear();
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Streams {
    /// Returns the position of the user's live stream that is furthest behind.
    fn position(&self, user: UserId) -> Option<i64> {
        self.by_user.get(&user)?.iter().filter_map(|stream| stream.last_sent).min()
    }
}

impl Stream {
    /// Sends the events of the batch that the stream has not received.
    fn send(&mut self, batch: &EventBatch) -> Delivery {
        let Some(last_sent) = self.last_sent else { return Delivery::Complete };
        if !batch.follows(last_sent) {
            return Delivery::Ended;
        }
        for frame in batch.frames.iter().filter(|frame| frame.id > last_sent) {
            match self.sender.try_send(frame.clone()) {
                Ok(()) => (self.last_sent, self.full_since) = (Some(frame.id), None),
                Err(TrySendError::Full(_)) => {
                    let full_since = *self.full_since.get_or_insert_with(Instant::now);
                    let is_in_time = full_since.elapsed() < FULL_QUEUE_TIMEOUT;
                    return if is_in_time { Delivery::Partial } else { Delivery::Ended };
                }
                Err(TrySendError::Closed(_)) => return Delivery::Ended,
            }
        }
        self.last_sent = self.last_sent.max(Some(batch.last));
        Delivery::Complete
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use actix_web::web::Bytes;
    use auth::UserId;

    use super::{EventBatch, FULL_QUEUE_TIMEOUT, Hub, MAX_QUEUED_EVENTS};
    use crate::stream::Frame;

    fn batch(user_id: UserId, ids: std::ops::RangeInclusive<i64>) -> EventBatch {
        let (last, found) = (*ids.end(), ids.end() - ids.start() + 1);
        let frame = |id| Frame { id, event: "message", data: Bytes::from_static(b"{}") };
        EventBatch { user_id, frames: ids.map(frame).collect(), last, found }
    }

    /// RULE-MSG-028: a stream ends when 256 events wait for a slow reader. A quick reader loses
    /// none.
    #[tokio::test]
    async fn slow_reader_receives_256_events_and_no_more() {
        let (hub, user) = (Hub::default(), UserId::generate());
        let (number, mut receiver) = hub.open(user);
        hub.start_sending(user, number, 0);
        assert!(!hub.send(&batch(user, 1..=300)), "the queue has no room for all");
        assert_eq!(hub.positions(), [(user, 256)], "the next batch has the rest");
        for id in 1..=100 {
            assert_eq!(receiver.recv().await.unwrap().id, id);
        }
        assert!(hub.send(&batch(user, 257..=300)));
        assert_eq!(hub.positions(), [(user, 300)]);
        hub.send(&batch(user, 301..=400));
        hub.send(&batch(user, 357..=400));
        assert_eq!(hub.positions(), [(user, 356)], "the reader has time");
        tokio::time::sleep(FULL_QUEUE_TIMEOUT).await;
        hub.send(&batch(user, 357..=400));
        assert_eq!(hub.positions(), [], "the reader took none in time");
        let mut rest = 0;
        while receiver.recv().await.is_some() {
            rest += 1;
        }
        assert_eq!(rest, MAX_QUEUED_EVENTS);
    }

    /// RULE-MSG-027: a wake-up names the users of this replica with a live stream, each once, and
    /// a wake-up during the catching up of a stream is not lost.
    #[tokio::test]
    async fn wake_up_concerns_users_with_live_streams() {
        let (hub, user, absent) = (Hub::default(), UserId::generate(), UserId::generate());
        let (number, _receiver) = hub.open(user);
        hub.wake([absent, user]);
        assert_eq!(hub.woken_positions().await, [], "the stream still catches up");
        hub.start_sending(user, number, 7);
        assert_eq!(hub.woken_positions().await, [(user, 7)]);
        hub.wake([absent]);
        let woken = tokio::time::timeout(Duration::from_millis(50), hub.woken_positions()).await;
        assert!(woken.is_err(), "{woken:?}");
        hub.wake([user]);
        hub.wake([user, absent]);
        assert_eq!(hub.woken_positions().await, [(user, 7)]);
    }

    /// RULE-MSG-025: a stream ends instead of leaving out events that are no longer stored.
    #[tokio::test]
    async fn stream_ends_at_a_gap() {
        let (hub, user) = (Hub::default(), UserId::generate());
        let (number, mut receiver) = hub.open(user);
        hub.start_sending(user, number, 3);
        hub.send(&batch(user, 2..=5));
        hub.send(&batch(user, 7..=8));
        assert_eq!(hub.positions(), []);
        let mut ids = Vec::new();
        while let Some(frame) = receiver.recv().await {
            ids.push(frame.id);
        }
        assert_eq!(ids, [4, 5]);
        // Events without a frame make no gap.
        let silent = EventBatch { frames: Vec::new(), ..batch(user, 4..=6) };
        assert!(silent.follows(3) && silent.follows(5) && !silent.follows(2));
    }

    /// RULE-MSG-028: a sixth stream of one user ends the oldest.
    #[tokio::test]
    async fn sixth_stream_ends_the_oldest() {
        let (hub, user) = (Hub::default(), UserId::generate());
        let mut streams: Vec<_> = (0..6).map(|_| hub.open(user)).collect();
        for (number, _) in &streams {
            hub.start_sending(user, *number, 0);
        }
        hub.send(&batch(user, 1..=1));
        let received: Vec<_> = streams.iter_mut().map(|(_, receiver)| receiver.try_recv().is_ok()).collect();
        assert_eq!(received, [false, true, true, true, true, true]);
        hub.close();
        let (_, mut late) = hub.open(user);
        assert!(late.recv().await.is_none(), "a stream after shutdown ends at once");
        assert!(streams[5].1.recv().await.is_none());
    }
}
