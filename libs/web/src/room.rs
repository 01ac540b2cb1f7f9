//! Room for large bodies: a few are held at once, one for each caller; some wait, the rest come again.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::Problem;

/// A body above so many bytes is large.
pub(crate) const LARGE: usize = 1024 * 1024;

/// What a process has. Who waits holds no more than what is not yet large.
pub(crate) static ROOM: LazyLock<Room> = LazyLock::new(|| Room::new(8, 24));

/// Nobody waits longer.
const PATIENCE: Duration = Duration::from_secs(5);
/// When those who found no room may try again.
const COME_AGAIN: Duration = Duration::from_secs(2);

pub(crate) struct Room {
    places: Semaphore,
    /// Who has a place or waits for one.
    callers: Mutex<HashSet<String>>,
    most_callers: usize,
}

/// A place in the room. Whoever drops it leaves.
pub(crate) struct Place<'r> {
    _caller: Caller<'r>,
    _permit: SemaphorePermit<'r>,
}

impl Room {
    fn new(places: usize, waiting: usize) -> Self {
        Self { places: Semaphore::new(places), callers: Mutex::default(), most_callers: places + waiting }
    }

    /// # Errors
    /// `429` while the caller's last large body is still here, `503` when there is no room.
    pub(crate) async fn enter(&self, caller: String) -> Result<Place<'_>, Problem> {
        let caller = self.admit(caller)?;
        let permit = timeout(PATIENCE, self.places.acquire()).await.ok().and_then(Result::ok);
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
        let room = Room::new(1, 1);
        let enter = |caller: &str| room.enter(caller.to_owned());
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
}
