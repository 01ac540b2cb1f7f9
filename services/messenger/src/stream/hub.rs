//! The registry of open streams.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use auth::UserId;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::frame::{EventBatch, Frame};

/// Maximum number of events that wait for a slow reader.
const MAX_QUEUED_EVENTS: usize = 256;
/// Maximum size of the events that wait for a slow reader.
const MAX_QUEUED_BYTES: u32 = 512 * 1024;
/// The time in which the reader of a full queue must take an event. The stream ends otherwise, and
/// the reader resumes with a new one.
const FULL_QUEUE_TIMEOUT: Duration = Duration::from_millis(250);
/// Maximum number of open streams of one user. A further stream ends the oldest one.
const MAX_STREAMS_PER_USER: usize = 5;
/// Maximum number of responses of one user, whose streams are open or have ended. The response of
/// an ended stream takes memory until its reader has read it or loses the connection.
const MAX_RESPONSES_PER_USER: usize = 10;

/// The open streams of this replica.
#[derive(Default)]
pub struct Hub {
    streams: Arc<Mutex<Streams>>,
    has_woken: Notify,
}

#[derive(Default)]
struct Streams {
    by_user: HashMap<UserId, Vec<Stream>>,
    /// Number of responses of each user, those of ended streams included.
    responses: HashMap<UserId, usize>,
    /// The users whose streams may have new events.
    woken: HashSet<UserId>,
    /// Number of streams opened so far, which numbers the streams.
    opened: u64,
    is_closed: bool,
}

struct Stream {
    number: u64,
    /// Frames are in boxes, because an empty channel already has room for 32 of them.
    sender: Sender<Box<QueuedFrame>>,
    /// The bytes that the queue may still take.
    free_bytes: Arc<Semaphore>,
    /// The newest event sent, or `None` while the stream still catches up.
    last_sent: Option<i64>,
    /// The time at which the queue became full.
    full_since: Option<Instant>,
}

/// A frame in a queue, and its bytes of [`MAX_QUEUED_BYTES`].
struct QueuedFrame {
    frame: Frame,
    _bytes: OwnedSemaphorePermit,
}

/// The reader's end of a stream. Dropping it closes the stream.
pub struct OpenStream {
    user: UserId,
    number: u64,
    queue: Receiver<Box<QueuedFrame>>,
    streams: Arc<Mutex<Streams>>,
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
    /// Opens a stream, which receives no events before [`Self::start_sending`]. Returns `None` if
    /// the user has too many responses.
    pub fn open(&self, user: UserId) -> Option<OpenStream> {
        let (sender, queue) = channel(MAX_QUEUED_EVENTS);
        let mut streams = self.lock();
        let responses = streams.responses.entry(user).or_default();
        if *responses >= MAX_RESPONSES_PER_USER {
            return None;
        }
        *responses += 1;
        streams.opened += 1;
        let number = streams.opened;
        // After shutdown the sender is dropped here, which ends the new stream at once.
        if !streams.is_closed {
            let own = streams.by_user.entry(user).or_default();
            if own.len() == MAX_STREAMS_PER_USER {
                own.remove(0);
            }
            let free_bytes = Arc::new(Semaphore::new(MAX_QUEUED_BYTES as usize));
            own.push(Stream { number, sender, free_bytes, last_sent: None, full_since: None });
        }
        drop(streams);
        Some(OpenStream { user, number, queue, streams: self.streams.clone() })
    }

    /// Sends the events after `last_sent` to the stream from now on.
    pub fn start_sending(&self, stream: &OpenStream, last_sent: i64) {
        if let Some(stream) = self.lock().find(stream) {
            stream.last_sent = Some(last_sent);
        }
        // A wake-up that preceded this call had no effect.
        self.wake([stream.user]);
    }

    /// Marks users whose streams may have new events. Users without a stream here are ignored.
    pub fn wake(&self, users: impl IntoIterator<Item = UserId>) {
        let mut streams = self.lock();
        let Streams { by_user, woken, .. } = &mut *streams;
        woken.extend(users.into_iter().filter(|user| by_user.contains_key(user)));
        if !woken.is_empty() {
            self.has_woken.notify_one();
        }
    }

    /// Waits for marked users, and returns their positions like [`Self::positions`].
    pub async fn woken_positions(&self) -> Vec<(UserId, i64)> {
        self.has_woken.notified().await;
        let mut streams = self.lock();
        let woken = std::mem::take(&mut streams.woken);
        woken.into_iter().filter_map(|user| Some((user, streams.position(user)?))).collect()
    }

    /// Returns each user with a live stream, and the position of the user's stream that is furthest
    /// behind.
    pub fn positions(&self) -> Vec<(UserId, i64)> {
        let streams = self.lock();
        streams.by_user.keys().filter_map(|user| Some((*user, streams.position(*user)?))).collect()
    }

    /// Sends to each stream of the user the events that it has not received. Returns false if a
    /// queue had no room for all.
    pub fn send(&self, batch: &EventBatch) -> bool {
        let mut streams = self.lock();
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
        let mut streams = self.lock();
        streams.is_closed = true;
        streams.by_user.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Streams> {
        lock(&self.streams)
    }
}

fn lock(streams: &Mutex<Streams>) -> MutexGuard<'_, Streams> {
    streams.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OpenStream {
    /// Returns true if the stream has to end.
    pub fn has_ended(&self) -> bool {
        self.queue.is_closed()
    }

    /// Returns the next event, or `None` if the stream has to end.
    pub async fn recv(&mut self) -> Option<Frame> {
        Some(self.queue.recv().await?.frame)
    }

    /// Receives no events until [`Hub::start_sending`], and drops those that wait.
    pub fn stop_sending(&mut self) {
        if let Some(stream) = lock(&self.streams).find(self) {
            (stream.last_sent, stream.full_since) = (None, None);
        }
        while self.queue.try_recv().is_ok() {}
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut streams = lock(&self.streams);
        let Streams { by_user, responses, .. } = &mut *streams;
        if let Some(own) = by_user.get_mut(&self.user) {
            own.retain(|stream| stream.number != self.number);
            if own.is_empty() {
                by_user.remove(&self.user);
            }
        }
        if let Some(count) = responses.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                responses.remove(&self.user);
            }
        }
    }
}

impl Streams {
    /// Returns the hub's end of a stream, unless it has ended.
    fn find(&mut self, stream: &OpenStream) -> Option<&mut Stream> {
        self.by_user.get_mut(&stream.user)?.iter_mut().find(|own| own.number == stream.number)
    }

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
            match self.queue(frame) {
                Ok(()) => (self.last_sent, self.full_since) = (Some(frame.id), None),
                Err(TrySendError::Full(())) => {
                    let full_since = *self.full_since.get_or_insert_with(Instant::now);
                    let is_in_time = full_since.elapsed() < FULL_QUEUE_TIMEOUT;
                    return if is_in_time { Delivery::Partial } else { Delivery::Ended };
                }
                Err(TrySendError::Closed(())) => return Delivery::Ended,
            }
        }
        self.last_sent = self.last_sent.max(Some(batch.last));
        Delivery::Complete
    }

    fn queue(&self, frame: &Frame) -> Result<(), TrySendError<()>> {
        let bytes = u32::try_from(frame.data.len()).unwrap_or(u32::MAX).min(MAX_QUEUED_BYTES);
        let bytes = self.free_bytes.clone().try_acquire_many_owned(bytes);
        let bytes = bytes.map_err(|_| TrySendError::Full(()))?;
        let queued = self.sender.try_send(Box::new(QueuedFrame { frame: frame.clone(), _bytes: bytes }));
        queued.map_err(|error| match error {
            TrySendError::Full(_) => TrySendError::Full(()),
            TrySendError::Closed(_) => TrySendError::Closed(()),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use actix_web::web::Bytes;
    use auth::UserId;
    use tokio::time::Instant;

    use super::{EventBatch, FULL_QUEUE_TIMEOUT, Hub, MAX_QUEUED_BYTES, MAX_QUEUED_EVENTS, OpenStream};
    use crate::stream::Frame;

    fn batch(user_id: UserId, ids: std::ops::RangeInclusive<i64>) -> EventBatch {
        let (last, found) = (*ids.end(), ids.end() - ids.start() + 1);
        let (data, loaded_at) = (Bytes::from_static(b"{}"), Instant::now());
        let frame = |id| Frame { id, event: "message", data: data.clone(), loaded_at };
        EventBatch { user_id, frames: ids.map(frame).collect(), last, found }
    }

    /// Opens a stream that receives the events after `last_sent`.
    fn open(hub: &Hub, user: UserId, last_sent: i64) -> OpenStream {
        let stream = hub.open(user).unwrap();
        hub.start_sending(&stream, last_sent);
        stream
    }

    async fn count_rest(stream: &mut OpenStream) -> usize {
        let mut rest = 0;
        while stream.recv().await.is_some() {
            rest += 1;
        }
        rest
    }

    /// RULE-MSG-028: a stream ends when 256 events wait for a slow reader. A quick reader loses
    /// none.
    #[tokio::test]
    async fn slow_reader_receives_256_events_and_no_more() {
        let (hub, user) = (Hub::default(), UserId::generate());
        let mut stream = open(&hub, user, 0);
        assert!(!hub.send(&batch(user, 1..=300)), "the queue has no room for all");
        assert_eq!(hub.positions(), [(user, 256)], "the next batch has the rest");
        for id in 1..=100 {
            assert_eq!(stream.recv().await.unwrap().id, id);
        }
        assert!(hub.send(&batch(user, 257..=300)));
        assert_eq!(hub.positions(), [(user, 300)]);
        hub.send(&batch(user, 301..=400));
        hub.send(&batch(user, 357..=400));
        assert_eq!(hub.positions(), [(user, 356)], "the reader has time");
        tokio::time::sleep(FULL_QUEUE_TIMEOUT).await;
        hub.send(&batch(user, 357..=400));
        assert_eq!(hub.positions(), [], "the reader took none in time");
        assert!(stream.has_ended());
        assert_eq!(count_rest(&mut stream).await, MAX_QUEUED_EVENTS);
    }

    /// RULE-MSG-028: the events that wait for a slow reader have at most 512 KiB, except for one
    /// that is larger by itself.
    #[tokio::test]
    async fn slow_reader_receives_512_kib_and_no_more() {
        let (hub, user) = (Hub::default(), UserId::generate());
        let mut stream = open(&hub, user, 0);
        let of_size = |id: i64, size: u32| {
            let mut batch = batch(user, id..=id);
            batch.frames[0].data = vec![b' '; size as usize].into();
            batch
        };
        assert!(hub.send(&of_size(1, MAX_QUEUED_BYTES / 2)));
        assert!(hub.send(&of_size(2, MAX_QUEUED_BYTES / 2)));
        assert!(!hub.send(&of_size(3, 1)), "the queue has no room");
        assert_eq!(stream.recv().await.unwrap().id, 1);
        assert!(hub.send(&of_size(3, 1)));
        assert!(!hub.send(&of_size(4, MAX_QUEUED_BYTES * 2)));
        for id in [2, 3] {
            assert_eq!(stream.recv().await.unwrap().id, id);
        }
        assert!(hub.send(&of_size(4, MAX_QUEUED_BYTES * 2)));
        assert_eq!(stream.recv().await.unwrap().id, 4);
    }

    /// RULE-MSG-026: a stream that stops receives no event, and later all events after its
    /// position.
    #[tokio::test]
    async fn stopped_stream_drops_its_queue_and_starts_again() {
        let (hub, user) = (Hub::default(), UserId::generate());
        let mut stream = open(&hub, user, 0);
        hub.send(&batch(user, 1..=3));
        assert_eq!(stream.recv().await.unwrap().id, 1);
        stream.stop_sending();
        hub.send(&batch(user, 4..=4));
        assert_eq!(hub.positions(), []);
        hub.start_sending(&stream, 1);
        assert_eq!(hub.positions(), [(user, 1)]);
        hub.send(&batch(user, 2..=4));
        for id in 2..=4 {
            assert_eq!(stream.recv().await.unwrap().id, id);
        }
    }

    /// RULE-MSG-027: a wake-up names the users of this replica with a live stream, each once, and
    /// a wake-up during the catching up of a stream is not lost.
    #[tokio::test]
    async fn wake_up_concerns_users_with_live_streams() {
        let (hub, user, absent) = (Hub::default(), UserId::generate(), UserId::generate());
        let stream = hub.open(user).unwrap();
        hub.wake([absent, user]);
        assert_eq!(hub.woken_positions().await, [], "the stream still catches up");
        hub.start_sending(&stream, 7);
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
        let mut stream = open(&hub, user, 3);
        hub.send(&batch(user, 2..=5));
        hub.send(&batch(user, 7..=8));
        assert_eq!(hub.positions(), []);
        let mut ids = Vec::new();
        while let Some(frame) = stream.recv().await {
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
        let mut streams: Vec<_> = (0..6).map(|_| open(&hub, user, 0)).collect();
        hub.send(&batch(user, 1..=1));
        let has_ended: Vec<_> = streams.iter().map(OpenStream::has_ended).collect();
        assert_eq!(has_ended, [true, false, false, false, false, false]);
        assert!(streams[0].recv().await.is_none());
        for stream in &mut streams[1..] {
            assert_eq!(stream.recv().await.unwrap().id, 1);
        }
        hub.close();
        let mut late = hub.open(user).unwrap();
        assert!(late.has_ended(), "a stream after shutdown ends at once");
        assert!(late.recv().await.is_none());
        assert!(streams[5].recv().await.is_none());
    }

    /// RULE-MSG-096: a user has at most ten responses, those of ended streams included.
    #[test]
    fn responses_of_ended_streams_count_until_they_are_dropped() {
        let (hub, user) = (Hub::default(), UserId::generate());
        let mut streams: Vec<_> = (0..10).map(|_| hub.open(user).unwrap()).collect();
        assert!(hub.open(user).is_none());
        hub.open(UserId::generate()).unwrap();
        streams.remove(0);
        streams.push(hub.open(user).unwrap());
        assert!(hub.open(user).is_none());
        drop(streams);
        hub.open(user).unwrap();
    }
}
