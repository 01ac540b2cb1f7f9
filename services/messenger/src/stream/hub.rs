//! Who listens.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use auth::UserId;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::Frame;

/// So many events wait for a slow reader; then its stream ends, and it may come again for the rest.
const MOST_WAITING: usize = 256;
/// Streams that one person has open; a further one ends the oldest.
const MOST_OF_ONE: usize = 5;

/// The streams of this replica.
#[derive(Default)]
pub struct Hub(Mutex<Streams>);

#[derive(Default)]
struct Streams {
    by_person: HashMap<UserId, Vec<Stream>>,
    opened: u64,
    is_closed: bool,
}

struct Stream {
    number: u64,
    sender: Sender<Frame>,
    /// The event that it was told last. `None`: it still reads what came before it was opened.
    told: Option<i64>,
}

/// What came for a person, as far as it was asked for.
pub struct News {
    pub user_id: UserId,
    pub frames: Vec<Frame>,
    /// The last event that was found, also where it is nothing to be told any more.
    pub last: i64,
    /// Events that were found.
    pub found: i64,
}

impl News {
    /// Whether nothing is missing between the event `told` and these: events of a person are numbered without gaps, and what is no
    /// longer kept cannot be told.
    pub fn follows(&self, told: i64) -> bool {
        self.last - self.found <= told
    }
}

impl Hub {
    /// Opens a stream, which is told nothing until it [goes live](Self::go_live).
    pub fn open(&self, user: UserId) -> (u64, Receiver<Frame>) {
        let (sender, receiver) = channel(MOST_WAITING);
        let mut streams = self.streams();
        streams.opened += 1;
        let number = streams.opened;
        // After the end of the process's work nobody is listened to, and the sender goes at once.
        if !streams.is_closed {
            let own = streams.by_person.entry(user).or_default();
            own.retain(|stream| !stream.sender.is_closed());
            if own.len() == MOST_OF_ONE {
                own.remove(0);
            }
            own.push(Stream { number, sender, told: None });
        }
        (number, receiver)
    }

    /// From now on the stream is told what comes after the event `told`.
    pub fn go_live(&self, user: UserId, number: u64, told: i64) {
        let mut streams = self.streams();
        let own = streams.by_person.get_mut(&user);
        if let Some(stream) = own.into_iter().flatten().find(|stream| stream.number == number) {
            stream.told = Some(told);
        }
    }

    /// Everybody who listens, and from where on they have to be told something.
    pub fn listeners(&self) -> Vec<(UserId, i64)> {
        let mut streams = self.streams();
        streams.by_person.retain(|_, own| {
            own.retain(|stream| !stream.sender.is_closed());
            !own.is_empty()
        });
        let told = |own: &[Stream]| own.iter().filter_map(|stream| stream.told).min();
        streams.by_person.iter().filter_map(|(user, own)| Some((*user, told(own)?))).collect()
    }

    /// Tells a person's streams what they have not been told.
    pub fn tell(&self, news: &News) {
        let mut streams = self.streams();
        let own = streams.by_person.get_mut(&news.user_id);
        if let Some(own) = own {
            own.retain_mut(|stream| stream.tell(news));
        }
    }

    /// Ends all streams, those to come among them.
    pub fn close(&self) {
        let mut streams = self.streams();
        streams.is_closed = true;
        streams.by_person.clear();
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stream {
    /// `false`: it is over, and its reader comes again. Whoever has just let the queue run full is given until the next time.
    fn tell(&mut self, news: &News) -> bool {
        let Some(told) = self.told else { return true };
        if !news.follows(told) {
            return false;
        }
        let was_full = self.sender.capacity() == 0;
        for frame in news.frames.iter().filter(|frame| frame.id > told) {
            match self.sender.try_send(frame.clone()) {
                Ok(()) => self.told = Some(frame.id),
                Err(TrySendError::Full(_)) => return !was_full,
                Err(TrySendError::Closed(_)) => return false,
            }
        }
        self.told = self.told.max(Some(news.last));
        true
    }
}

#[cfg(test)]
mod tests {
    use actix_web::web::Bytes;
    use auth::UserId;

    use super::{Hub, MOST_WAITING, News};
    use crate::stream::Frame;

    fn news(user_id: UserId, ids: std::ops::RangeInclusive<i64>) -> News {
        let (last, found) = (*ids.end(), ids.end() - ids.start() + 1);
        let frame = |id| Frame { id, event: "message", data: Bytes::from_static(b"{}") };
        News { user_id, frames: ids.map(frame).collect(), last, found }
    }

    /// Section 6: a stream ends when 256 events wait for a slow reader, and a quick one loses none.
    #[tokio::test]
    async fn a_slow_reader_is_told_256_events_and_no_more() {
        let (hub, user) = (Hub::default(), UserId::generate());
        let (number, mut receiver) = hub.open(user);
        hub.go_live(user, number, 0);
        hub.tell(&news(user, 1..=300));
        assert_eq!(hub.listeners(), [(user, 256)], "the rest comes the next time");
        for id in 1..=100 {
            assert_eq!(receiver.recv().await.unwrap().id, id);
        }
        hub.tell(&news(user, 257..=300));
        assert_eq!(hub.listeners(), [(user, 300)]);
        hub.tell(&news(user, 301..=400));
        hub.tell(&news(user, 357..=400));
        assert_eq!(hub.listeners(), [], "it was full for a whole turn");
        let mut rest = 0;
        while receiver.recv().await.is_some() {
            rest += 1;
        }
        assert_eq!(rest, MOST_WAITING);
    }

    /// Section 6: at least once: a stream of whose events some are not kept any more ends instead of leaving them out.
    #[tokio::test]
    async fn a_stream_leaves_nothing_out() {
        let (hub, user) = (Hub::default(), UserId::generate());
        let (number, mut receiver) = hub.open(user);
        hub.go_live(user, number, 3);
        hub.tell(&news(user, 2..=5));
        hub.tell(&news(user, 7..=8));
        assert_eq!(hub.listeners(), []);
        let mut heard = Vec::new();
        while let Some(frame) = receiver.recv().await {
            heard.push(frame.id);
        }
        assert_eq!(heard, [4, 5]);
        // What is nothing to be told any more is no gap.
        let silent = News { frames: Vec::new(), ..news(user, 4..=6) };
        assert!(silent.follows(3) && silent.follows(5) && !silent.follows(2));
    }

    /// Section 6: a sixth stream of one person ends the oldest.
    #[tokio::test]
    async fn a_sixth_stream_ends_the_oldest() {
        let (hub, user) = (Hub::default(), UserId::generate());
        let mut streams: Vec<_> = (0..6).map(|_| hub.open(user)).collect();
        for (number, _) in &streams {
            hub.go_live(user, *number, 0);
        }
        hub.tell(&news(user, 1..=1));
        let received: Vec<_> = streams.iter_mut().map(|(_, receiver)| receiver.try_recv().is_ok()).collect();
        assert_eq!(received, [false, true, true, true, true, true]);
        hub.close();
        let (_, mut late) = hub.open(user);
        assert!(late.recv().await.is_none(), "at the end of the process");
        assert!(streams[5].1.recv().await.is_none());
    }
}
