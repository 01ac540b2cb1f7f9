//! The registry of open streams.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use auth::UserId;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::frame::{EventBatch, Frame};

/// Maximum number of events that wait for a slow reader. A stream with a full queue ends, and the
/// reader resumes with a new stream.
const MAX_QUEUED_EVENTS: usize = 256;
/// Maximum number of open streams of one user. A further stream ends the oldest one.
const MAX_STREAMS_PER_USER: usize = 5;

/// The open streams of this replica.
#[derive(Default)]
pub struct Hub(Mutex<Streams>);

#[derive(Default)]
struct Streams {
    by_user: HashMap<UserId, Vec<Stream>>,
    opened: u64,
    is_closed: bool,
}

struct Stream {
    number: u64,
    sender: Sender<Frame>,
    /// The newest event sent, or `None` while the stream still catches up.
    last_sent: Option<i64>,
}

impl Hub {
    /// Opens a stream, which receives no events until it [is live](Self::go_live).
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
            own.push(Stream { number, sender, last_sent: None });
        }
        (number, receiver)
    }

    /// Sends the events after `last_sent` to the stream from now on.
    pub fn go_live(&self, user: UserId, number: u64, last_sent: i64) {
        let mut streams = self.streams();
        let own = streams.by_user.get_mut(&user);
        if let Some(stream) = own.into_iter().flatten().find(|stream| stream.number == number) {
            stream.last_sent = Some(last_sent);
        }
    }

    /// Returns each user with a live stream, and the oldest event last sent to one of them.
    pub fn positions(&self) -> Vec<(UserId, i64)> {
        let mut streams = self.streams();
        streams.by_user.retain(|_, own| {
            own.retain(|stream| !stream.sender.is_closed());
            !own.is_empty()
        });
        let last_sent = |own: &[Stream]| own.iter().filter_map(|stream| stream.last_sent).min();
        streams.by_user.iter().filter_map(|(user, own)| Some((*user, last_sent(own)?))).collect()
    }

    /// Sends to each stream of the user the events that it has not received.
    pub fn send(&self, batch: &EventBatch) {
        let mut streams = self.streams();
        let own = streams.by_user.get_mut(&batch.user_id);
        if let Some(own) = own {
            own.retain_mut(|stream| stream.send(batch));
        }
    }

    /// Ends all streams, and every stream that opens later.
    pub fn close(&self) {
        let mut streams = self.streams();
        streams.is_closed = true;
        streams.by_user.clear();
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stream {
    /// Sends the events of the batch. Returns false if the stream has to end.
    ///
    /// A reader whose queue has just become full has time until the next batch.
    fn send(&mut self, batch: &EventBatch) -> bool {
        let Some(last_sent) = self.last_sent else { return true };
        if !batch.follows(last_sent) {
            return false;
        }
        let was_full = self.sender.capacity() == 0;
        for frame in batch.frames.iter().filter(|frame| frame.id > last_sent) {
            match self.sender.try_send(frame.clone()) {
                Ok(()) => self.last_sent = Some(frame.id),
                Err(TrySendError::Full(_)) => return !was_full,
                Err(TrySendError::Closed(_)) => return false,
            }
        }
        self.last_sent = self.last_sent.max(Some(batch.last));
        true
    }
}

#[cfg(test)]
mod tests {
    use actix_web::web::Bytes;
    use auth::UserId;

    use super::{EventBatch, Hub, MAX_QUEUED_EVENTS};
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
        hub.go_live(user, number, 0);
        hub.send(&batch(user, 1..=300));
        assert_eq!(hub.positions(), [(user, 256)], "the next batch has the rest");
        for id in 1..=100 {
            assert_eq!(receiver.recv().await.unwrap().id, id);
        }
        hub.send(&batch(user, 257..=300));
        assert_eq!(hub.positions(), [(user, 300)]);
        hub.send(&batch(user, 301..=400));
        hub.send(&batch(user, 357..=400));
        assert_eq!(hub.positions(), [], "the queue was full for a whole batch");
        let mut rest = 0;
        while receiver.recv().await.is_some() {
            rest += 1;
        }
        assert_eq!(rest, MAX_QUEUED_EVENTS);
    }

    /// RULE-MSG-025: a stream ends instead of leaving out events that are no longer stored.
    #[tokio::test]
    async fn stream_ends_at_a_gap() {
        let (hub, user) = (Hub::default(), UserId::generate());
        let (number, mut receiver) = hub.open(user);
        hub.go_live(user, number, 3);
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
            hub.go_live(user, *number, 0);
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
