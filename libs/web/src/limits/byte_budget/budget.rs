//! Room for bodies and answers: so many bytes of them are in a process at once, and a caller has a share of them.
//! Small ones are not counted. Some wait for room, the rest come again.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::response::problem::Problem;

const MIB: usize = 1024 * 1024;

/// Up to so many bytes a body or an answer is not counted: those of all who are under way together are few.
pub(crate) const SMALL: usize = 16 * 1024;
/// Above so many bytes it waits for room.
pub(crate) const LARGE: usize = MIB;

/// For bodies that come. A large one counts as an eighth, whatever its length: that is what it takes until its request
/// is answered, in bytes that are read, parsed and written.
pub(crate) static BODIES: LazyLock<Room> = LazyLock::new(|| Room::new(64 * MIB, 24));
/// For answers to people who read.
pub(crate) static READERS: LazyLock<Room> = LazyLock::new(|| Room::new(96 * MIB, 63));
/// For answers to those who change something, and to services: no reader keeps them out.
pub(crate) static OTHERS: LazyLock<Room> = LazyLock::new(|| Room::new(96 * MIB, 63));

/// Nobody waits longer.
const PATIENCE: Duration = Duration::from_secs(5);
/// When those who found no room may try again.
const COME_AGAIN: Duration = Duration::from_secs(2);

pub(crate) struct Room {
    bytes: Semaphore,
    size: usize,
    most_waiting: usize,
    callers: Mutex<Callers>,
}

#[derive(Default)]
struct Callers {
    /// What each of them has, or waits for, in bytes.
    bytes: HashMap<String, usize>,
    waiting: usize,
}

/// So many bytes in the room. Whoever drops them leaves.
pub(crate) struct Place<'r> {
    permit: SemaphorePermit<'r>,
    mark: Mark<'r>,
}

impl Room {
    fn new(size: usize, most_waiting: usize) -> Self {
        Self { bytes: Semaphore::new(size), size, most_waiting, callers: Mutex::default() }
    }

    /// What a large body counts as.
    pub(crate) fn share(&self) -> usize {
        self.size / 8
    }

    /// Takes room for so many bytes, or all that there is, if that is less; waits for it in turn. `caller` is nobody
    /// where anybody may have as much as there is.
    ///
    /// # Errors
    /// `429` while the caller has its share, `503` when there is no room.
    pub(crate) async fn wait(&self, caller: Option<String>, bytes: usize) -> Result<Place<'_>, Problem> {
        let mark = self.mark(caller, bytes, self.most())?;
        let bytes = self.permits(bytes);
        if let Ok(permit) = self.bytes.try_acquire_many(bytes) {
            return Ok(Place { permit, mark });
        }
        let _waiting = self.queue()?;
        let permit = timeout(PATIENCE, self.bytes.acquire_many(bytes)).await;
        Ok(Place { permit: permit.ok().and_then(Result::ok).ok_or_else(full)?, mark })
    }

    /// The same at once.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub(crate) fn take(&self, caller: Option<String>, bytes: usize) -> Result<Place<'_>, Problem> {
        let mark = self.mark(caller, bytes, self.most())?;
        let permit = self.bytes.try_acquire_many(self.permits(bytes)).map_err(|_| full())?;
        Ok(Place { permit, mark })
    }

    /// The same for what is there already and cannot be refused: as much as there is room.
    ///
    /// # Errors
    /// `429` while the caller has its share.
    pub(crate) fn squeeze(&self, caller: Option<String>, bytes: usize) -> Result<Place<'_>, Problem> {
        let mark = self.mark(caller, bytes, usize::MAX)?;
        let left = bytes.min(self.bytes.available_permits());
        let permit =
            self.bytes.try_acquire_many(self.permits(left)).or_else(|_| self.bytes.try_acquire_many(0));
        Ok(Place { permit: permit.map_err(|_| full())?, mark })
    }

    fn permits(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.min(self.size)).unwrap_or(u32::MAX)
    }

    /// What a caller may hold.
    fn most(&self) -> usize {
        self.share() + LARGE
    }

    fn mark(&self, caller: Option<String>, bytes: usize, most: usize) -> Result<Mark<'_>, Problem> {
        let mut mark = Mark { room: self, caller, bytes: 0 };
        mark.add(bytes, most)?;
        Ok(mark)
    }

    fn queue(&self) -> Result<Waiting<'_>, Problem> {
        let mut callers = self.callers();
        if callers.waiting == self.most_waiting {
            return Err(full());
        }
        callers.waiting += 1;
        Ok(Waiting(self))
    }

    fn callers(&self) -> MutexGuard<'_, Callers> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn full() -> Problem {
    Problem::unavailable(&"too much is held for others at once").retry_after(COME_AGAIN)
}

impl<'r> Place<'r> {
    /// Takes room for further bytes, at once.
    ///
    /// # Errors
    /// As [`Room::take`].
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        let room: &'r Room = self.mark.room;
        self.permit.merge(room.bytes.try_acquire_many(room.permits(bytes)).map_err(|_| full())?);
        self.mark.add(bytes, room.most())
    }

    /// Takes what room is left for what turned out to be more than was asked for.
    pub(crate) fn fill_to(&mut self, bytes: usize) {
        let room: &'r Room = self.mark.room;
        let missing = bytes.min(room.size).saturating_sub(self.permit.num_permits());
        let left = missing.min(room.bytes.available_permits());
        if let Ok(more) = room.bytes.try_acquire_many(room.permits(left)) {
            self.permit.merge(more);
        }
    }

    /// Keeps no more than so many bytes.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        drop(self.permit.split(self.permit.num_permits().saturating_sub(bytes)));
        self.mark.sub(self.mark.bytes.saturating_sub(bytes));
    }
}

/// What a caller has of a room.
struct Mark<'r> {
    room: &'r Room,
    caller: Option<String>,
    bytes: usize,
}

impl Mark<'_> {
    /// A caller has one share, in one piece or in many, and beside it what is not large.
    fn add(&mut self, bytes: usize, most: usize) -> Result<(), Problem> {
        if let Some(caller) = &self.caller {
            let mut callers = self.room.callers();
            let held = callers.bytes.get(caller).copied().unwrap_or(0);
            if held > 0 && held + bytes > most {
                return Err(Problem::rate_limited(COME_AGAIN));
            }
            callers.bytes.insert(caller.clone(), held + bytes);
        }
        self.bytes += bytes;
        Ok(())
    }

    fn sub(&mut self, bytes: usize) {
        self.bytes -= bytes;
        if let Some(caller) = &self.caller {
            let mut callers = self.room.callers();
            if let Some(held) = callers.bytes.get_mut(caller) {
                *held = held.saturating_sub(bytes);
                if *held == 0 {
                    callers.bytes.remove(caller);
                }
            }
        }
    }
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        self.sub(self.bytes);
    }
}

struct Waiting<'r>(&'r Room);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.callers().waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::{MIB, Place, Room};
    use crate::response::problem::Problem;

    /// One in which a caller has 2 MiB, and another beside.
    fn room(most_waiting: usize) -> Room {
        Room::new(8 * MIB, most_waiting)
    }

    #[track_caller]
    fn refused(result: Result<Place<'_>, Problem>) -> String {
        result.err().unwrap().to_string()
    }

    #[tokio::test]
    async fn some_wait_and_the_rest_come_again() {
        let room = room(1);
        let all = room.take(None, 8 * MIB).unwrap();
        let mut second = pin!(room.wait(Some("second".to_owned()), 2 * MIB));
        assert!(second.as_mut().now_or_never().is_none(), "it waits");

        let enter = |caller: &str| room.wait(Some(caller.to_owned()), 2 * MIB).now_or_never().unwrap();
        assert_eq!(refused(enter("third")), "503 SERVICE_UNAVAILABLE");
        assert_eq!(refused(enter("second")), "429 RATE_LIMITED");
        assert_eq!(refused(room.take(Some("third".to_owned()), 1)), "503 SERVICE_UNAVAILABLE");

        drop(all);
        drop(second.await.unwrap());
        enter("third").unwrap();
    }

    #[tokio::test]
    async fn the_largest_of_all_has_the_room_to_itself() {
        let room = room(8);
        let all = room.wait(Some("large".to_owned()), 9 * MIB).now_or_never().unwrap().unwrap();
        assert!(pin!(room.wait(Some("small".to_owned()), 1)).now_or_never().is_none(), "it waits");
        drop(all);
        let _most = room.take(Some("two".to_owned()), 7 * MIB).unwrap();
        let _rest = room.take(Some("one".to_owned()), MIB).unwrap();
    }

    #[test]
    fn a_caller_has_a_share_in_one_piece_or_in_many() {
        let room = room(8);
        let mut first = room.take(Some("one".to_owned()), MIB).unwrap();
        first.grow(MIB / 2).unwrap();
        let second = room.take(Some("one".to_owned()), MIB / 2).unwrap();
        assert_eq!(refused(room.take(Some("one".to_owned()), 1)), "429 RATE_LIMITED");
        assert_eq!(first.grow(1).unwrap_err().to_string(), "429 RATE_LIMITED");
        drop(second);
        first.shrink_to(MIB);
        let _third = room.take(Some("one".to_owned()), MIB).unwrap();
        let _other = room.take(Some("other".to_owned()), 5 * MIB).unwrap();
    }

    #[test]
    fn what_is_there_already_takes_the_room_that_is_left() {
        let room = room(8);
        let first = room.take(Some("one".to_owned()), 7 * MIB).unwrap();
        let _second = room.squeeze(Some("other".to_owned()), 2 * MIB).unwrap();
        assert_eq!(refused(room.take(Some("third".to_owned()), 1)), "503 SERVICE_UNAVAILABLE");
        let third = room.squeeze(Some("other".to_owned()), MIB).unwrap();
        assert_eq!(
            refused(room.take(Some("other".to_owned()), 1)),
            "429 RATE_LIMITED",
            "its share is used up"
        );
        drop((first, third));
        let mut guessed = room.take(None, MIB).unwrap();
        guessed.fill_to(2 * MIB);
        assert_eq!(room.bytes.available_permits(), 5 * MIB, "a guess that was too low is mended");
        drop(guessed);
        assert_eq!(room.bytes.available_permits(), 7 * MIB);
    }
}
