//! Room for large bodies, those that come and those that go: a few are held at once, one for each caller; some wait, the
//! rest come again.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::Problem;

/// A body above so many bytes is large.
pub(crate) const LARGE: usize = 1024 * 1024;

/// For bodies that come, a place for each. Who waits holds no more than what is not yet large.
pub(crate) static REQUESTS: LazyLock<Room> = LazyLock::new(|| Room::new(8, 32));
/// For answers to readers, a place for each [`LARGE`] of them.
pub(crate) static READERS: LazyLock<Room> = LazyLock::new(|| Room::new(96, 64));
/// For answers to those who change something: no reader keeps them out.
pub(crate) static AUTHORS: LazyLock<Room> = LazyLock::new(|| Room::new(96, 64));

/// Nobody waits longer.
const PATIENCE: Duration = Duration::from_secs(5);
/// When those who found no room may try again.
const COME_AGAIN: Duration = Duration::from_secs(2);

pub(crate) struct Room {
    places: Semaphore,
    size: u32,
    /// Who has a place or waits for one.
    callers: Mutex<HashSet<String>>,
    most_callers: usize,
}

/// Places in the room. Whoever drops them leaves.
pub(crate) struct Place<'r> {
    _caller: Caller<'r>,
    _permit: SemaphorePermit<'r>,
}

impl Room {
    fn new(size: u32, most_callers: usize) -> Self {
        Self { places: Semaphore::new(size as usize), size, callers: Mutex::default(), most_callers }
    }

    /// Takes `places`, or all that there are, if these are fewer.
    ///
    /// # Errors
    /// `429` while the caller's last large body is still here, `503` when there is no room.
    pub(crate) async fn enter(&self, caller: String, places: u32) -> Result<Place<'_>, Problem> {
        let caller = self.admit(caller)?;
        let permit = timeout(PATIENCE, self.places.acquire_many(places.min(self.size))).await;
        let permit = permit.ok().and_then(Result::ok);
        Ok(Place { _caller: caller, _permit: permit.ok_or_else(full)? })
    }

    fn admit(&self, id: String) -> Result<Caller<'_>, Problem> {
        let mut callers = self.callers();
        if callers.contains(&id) {
            return Err(Problem::rate_limited(COME_AGAIN));
        }
        if callers.len() == self.most_callers {
            return Err(full());
        }
        callers.insert(id.clone());
        Ok(Caller { room: self, id })
    }

    fn callers(&self) -> MutexGuard<'_, HashSet<String>> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn full() -> Problem {
    Problem::unavailable(&"too many large bodies at once").retry_after(COME_AGAIN)
}

struct Caller<'r> {
    room: &'r Room,
    id: String,
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.room.callers().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::Room;

    #[tokio::test]
    async fn some_wait_and_the_rest_come_again() {
        let room = Room::new(1, 2);
        let enter = |caller: &str| room.enter(caller.to_owned(), 1);
        let first = enter("first").await.unwrap();
        let mut second = pin!(enter("second"));
        assert!(second.as_mut().now_or_never().is_none(), "it waits");

        let refused = |caller| enter(caller).now_or_never().unwrap().err().unwrap().to_string();
        assert_eq!(refused("third"), "503 SERVICE_UNAVAILABLE");
        assert_eq!(refused("first"), "429 RATE_LIMITED");
        assert_eq!(refused("second"), "429 RATE_LIMITED");

        drop(first);
        drop(second.await.unwrap());
        enter("third").now_or_never().unwrap().unwrap();
    }

    #[tokio::test]
    async fn the_largest_of_all_has_the_room_to_itself() {
        let room = Room::new(3, 8);
        let enter = |caller: &str, places| room.enter(caller.to_owned(), places);
        let all = enter("large", 4).now_or_never().unwrap().unwrap();
        assert!(pin!(enter("small", 1)).now_or_never().is_none(), "it waits");
        drop(all);
        let _two = enter("two", 2).now_or_never().unwrap().unwrap();
        let _one = enter("one", 1).now_or_never().unwrap().unwrap();
    }
}
