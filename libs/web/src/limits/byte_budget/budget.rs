//! The byte budgets of a process, and the reservations in them. Decision 0015 has their sizes.
//!
//! Small bodies are not counted. Large bodies wait in a bounded queue. A full queue rejects them.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::response::problem::Problem;

const MIB: usize = 1024 * 1024;

/// The size up to which bodies and responses are not counted, because they need little memory.
pub(crate) const MAX_UNCOUNTED_BYTES: usize = 16 * 1024;
/// The size above which bodies and responses wait for an exhausted budget.
pub(crate) const MAX_UNQUEUED_BYTES: usize = MIB;

/// The size above which a response counts against the budget of the largest responses. A caller's
/// share of the budget below it has room for one response of this size.
const MAX_MEDIUM_BYTES: usize = 8 * MIB;

/// The budget of request bodies up to [`MAX_UNQUEUED_BYTES`].
pub(crate) static SMALL_BODIES: LazyLock<ByteBudget> = LazyLock::new(|| ByteBudget::new(32 * MIB, 0));
/// The budget of larger request bodies.
///
/// Each of them counts as 8 MiB, an eighth of the budget. Reading, parsing and writing such a body
/// takes several times its length.
pub(crate) static LARGE_BODIES: LazyLock<ByteBudget> = LazyLock::new(|| ByteBudget::new(64 * MIB, 24));
/// The budgets of responses to `GET` requests of users and guests.
pub(crate) static READ_RESPONSES: LazyLock<ResponseBudgets> = LazyLock::new(ResponseBudgets::new);
/// The budgets of all other responses: those to requests that change data, and those to services.
/// Readers cannot exhaust them.
pub(crate) static OTHER_RESPONSES: LazyLock<ResponseBudgets> = LazyLock::new(ResponseBudgets::new);

/// The budgets of responses by their size. Callers who read large responses slowly therefore do not
/// block the callers of smaller ones.
pub(crate) struct ResponseBudgets {
    small: ByteBudget,
    medium: ByteBudget,
    large: ByteBudget,
}

impl ResponseBudgets {
    fn new() -> Self {
        Self {
            small: ByteBudget::new(32 * MIB, 0),
            medium: ByteBudget::new(8 * MAX_MEDIUM_BYTES, 63),
            large: ByteBudget::new(96 * MIB, 63),
        }
    }

    /// Returns the budget of responses of this size.
    pub(crate) fn for_size(&self, bytes: usize) -> &ByteBudget {
        if bytes <= MAX_UNQUEUED_BYTES {
            &self.small
        } else if bytes <= MAX_MEDIUM_BYTES {
            &self.medium
        } else {
            &self.large
        }
    }
}

/// The longest wait for bytes of a budget.
const RESERVE_TIMEOUT: Duration = Duration::from_secs(5);
/// The `Retry-After` of a rejected reservation.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// The number of bytes that a process may hold for one purpose, with a share for each caller.
pub(crate) struct ByteBudget {
    bytes: Semaphore,
    size: usize,
    /// The number of reservations that may still start to wait.
    queue: Semaphore,
    /// The bytes that each caller holds or waits for.
    bytes_by_caller: Mutex<HashMap<String, usize>>,
}

/// A reservation of bytes in a budget. Dropping it releases them.
pub(crate) struct ByteReservation<'b> {
    permit: SemaphorePermit<'b>,
    usage: CallerUsage<'b>,
}

impl ByteBudget {
    fn new(size: usize, max_waiting: usize) -> Self {
        Self {
            bytes: Semaphore::new(size),
            size,
            queue: Semaphore::new(max_waiting),
            bytes_by_caller: Mutex::default(),
        }
    }

    /// Returns the bytes of one caller's share, an eighth of the budget.
    pub(crate) fn caller_share(&self) -> usize {
        self.size / 8
    }

    /// Reserves `bytes`, or the whole budget if the budget is smaller. Waits for up to
    /// [`RESERVE_TIMEOUT`], in the order of the calls.
    ///
    /// A `caller` of `None` is not limited to a share and may reserve the whole budget.
    ///
    /// # Errors
    /// `429` while the caller's share is used up, `503` if the queue is full or the wait times out.
    pub(crate) async fn reserve(
        &self,
        caller: Option<String>,
        bytes: usize,
    ) -> Result<ByteReservation<'_>, Problem> {
        let usage = self.track_usage(caller, bytes, self.max_bytes_per_caller())?;
        let bytes = self.permits(bytes);
        if let Ok(permit) = self.bytes.try_acquire_many(bytes) {
            return Ok(ByteReservation { permit, usage });
        }
        let _place = self.queue.try_acquire().map_err(|_| exhausted())?;
        let permit = timeout(RESERVE_TIMEOUT, self.bytes.acquire_many(bytes)).await;
        Ok(ByteReservation { permit: permit.ok().and_then(Result::ok).ok_or_else(exhausted)?, usage })
    }

    /// Reserves `bytes` like [`reserve`](Self::reserve), but fails instead of waiting.
    ///
    /// # Errors
    /// `429` while the caller's share is used up, `503` while the budget is exhausted.
    pub(crate) fn try_reserve(
        &self,
        caller: Option<String>,
        bytes: usize,
    ) -> Result<ByteReservation<'_>, Problem> {
        let usage = self.track_usage(caller, bytes, self.max_bytes_per_caller())?;
        let permit = self.bytes.try_acquire_many(self.permits(bytes)).map_err(|_| exhausted())?;
        Ok(ByteReservation { permit, usage })
    }

    /// Reserves the available bytes, up to `bytes`, for a body that cannot be rejected.
    /// All `bytes` count against the caller's share, even those that are not available.
    pub(crate) fn reserve_available(
        &self,
        caller: Option<String>,
        bytes: usize,
    ) -> Result<ByteReservation<'_>, Problem> {
        let usage = self.track_usage(caller, bytes, usize::MAX)?;
        // Another thread can take the available bytes first. The reservation then has none.
        let available = bytes.min(self.bytes.available_permits());
        let permit =
            self.bytes.try_acquire_many(self.permits(available)).or_else(|_| self.bytes.try_acquire_many(0));
        Ok(ByteReservation { permit: permit.map_err(|_| exhausted())?, usage })
    }

    fn permits(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.min(self.size)).unwrap_or(u32::MAX)
    }

    /// Returns the limit of one caller: its share plus the largest body that does not wait.
    fn max_bytes_per_caller(&self) -> usize {
        self.caller_share() + MAX_UNQUEUED_BYTES
    }

    fn track_usage(
        &self,
        caller: Option<String>,
        bytes: usize,
        max_bytes: usize,
    ) -> Result<CallerUsage<'_>, Problem> {
        let mut usage = CallerUsage { budget: self, caller, bytes: 0 };
        usage.add(bytes, max_bytes)?;
        Ok(usage)
    }

    fn bytes_by_caller(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.bytes_by_caller.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn exhausted() -> Problem {
    Problem::unavailable(&"the byte budget is exhausted").retry_after(RETRY_AFTER)
}

impl<'b> ByteReservation<'b> {
    /// Grows the reservation to `bytes`, without waiting.
    ///
    /// # Errors
    /// As [`ByteBudget::try_reserve`].
    pub(crate) fn try_grow_to(&mut self, bytes: usize) -> Result<(), Problem> {
        let budget: &'b ByteBudget = self.usage.budget;
        let more = bytes.saturating_sub(self.usage.bytes);
        if more == 0 {
            return Ok(());
        }
        self.permit.merge(budget.bytes.try_acquire_many(budget.permits(more)).map_err(|_| exhausted())?);
        self.usage.add(more, budget.max_bytes_per_caller())
    }

    /// Changes the reservation to the actual size `bytes`. A reservation grows only as far as the
    /// budget allows.
    pub(crate) fn resize(&mut self, bytes: usize) {
        let budget: &'b ByteBudget = self.usage.budget;
        let held = self.permit.num_permits();
        drop(self.permit.split(held.saturating_sub(bytes)));
        self.usage.sub(self.usage.bytes.saturating_sub(bytes));
        let missing = bytes.min(budget.size).saturating_sub(held).min(budget.bytes.available_permits());
        if let Ok(more) = budget.bytes.try_acquire_many(budget.permits(missing)) {
            self.permit.merge(more);
        }
    }
}

/// The bytes of one reservation that count against its caller's share.
struct CallerUsage<'b> {
    budget: &'b ByteBudget,
    caller: Option<String>,
    bytes: usize,
}

impl CallerUsage<'_> {
    /// Adds `bytes`, up to `max_bytes` per caller. A caller's first reservation may be larger.
    fn add(&mut self, bytes: usize, max_bytes: usize) -> Result<(), Problem> {
        if let Some(caller) = &self.caller {
            let mut bytes_by_caller = self.budget.bytes_by_caller();
            let held = bytes_by_caller.get(caller).copied().unwrap_or(0);
            if held > 0 && held + bytes > max_bytes {
                return Err(Problem::rate_limited(RETRY_AFTER));
            }
            bytes_by_caller.insert(caller.clone(), held + bytes);
        }
        self.bytes += bytes;
        Ok(())
    }

    fn sub(&mut self, bytes: usize) {
        self.bytes -= bytes;
        if let Some(caller) = &self.caller {
            let mut bytes_by_caller = self.budget.bytes_by_caller();
            if let Some(held) = bytes_by_caller.get_mut(caller) {
                *held = held.saturating_sub(bytes);
                if *held == 0 {
                    bytes_by_caller.remove(caller);
                }
            }
        }
    }
}

impl Drop for CallerUsage<'_> {
    fn drop(&mut self) {
        self.sub(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::{ByteBudget, ByteReservation, MIB, ResponseBudgets};
    use crate::response::problem::Problem;

    /// A budget of 8 MiB, in which a caller may hold 2 MiB.
    fn budget(max_waiting: usize) -> ByteBudget {
        ByteBudget::new(8 * MIB, max_waiting)
    }

    #[track_caller]
    fn refusal(result: Result<ByteReservation<'_>, Problem>) -> String {
        result.err().unwrap().to_string()
    }

    #[tokio::test]
    async fn full_queue_rejects_further_callers() {
        let budget = budget(1);
        let whole = budget.try_reserve(None, 8 * MIB).unwrap();
        let mut second = pin!(budget.reserve(Some("second".to_owned()), 2 * MIB));
        assert!(second.as_mut().now_or_never().is_none(), "the reservation waits");

        let reserve = |caller: &str| budget.reserve(Some(caller.to_owned()), 2 * MIB).now_or_never().unwrap();
        assert_eq!(refusal(reserve("third")), "503 SERVICE_UNAVAILABLE");
        assert_eq!(refusal(reserve("second")), "429 RATE_LIMITED");
        assert_eq!(refusal(budget.try_reserve(Some("third".to_owned()), 1)), "503 SERVICE_UNAVAILABLE");

        drop(whole);
        drop(second.await.unwrap());
        reserve("third").unwrap();
    }

    #[tokio::test]
    async fn oversized_reservation_takes_the_whole_budget() {
        let budget = budget(8);
        let whole = budget.reserve(Some("large".to_owned()), 9 * MIB).now_or_never().unwrap().unwrap();
        assert!(
            pin!(budget.reserve(Some("small".to_owned()), 1)).now_or_never().is_none(),
            "the reservation waits"
        );
        drop(whole);
        let _first = budget.try_reserve(Some("first".to_owned()), 7 * MIB).unwrap();
        let _second = budget.try_reserve(Some("second".to_owned()), MIB).unwrap();
    }

    #[test]
    fn caller_share_limits_the_sum_of_reservations() {
        let budget = budget(8);
        let mut first = budget.try_reserve(Some("one".to_owned()), MIB).unwrap();
        first.try_grow_to(MIB + MIB / 2).unwrap();
        let second = budget.try_reserve(Some("one".to_owned()), MIB / 2).unwrap();
        assert_eq!(refusal(budget.try_reserve(Some("one".to_owned()), 1)), "429 RATE_LIMITED");
        first.try_grow_to(MIB).unwrap();
        assert_eq!(first.try_grow_to(MIB + MIB / 2 + 1).unwrap_err().to_string(), "429 RATE_LIMITED");
        drop(second);
        first.resize(MIB);
        let _third = budget.try_reserve(Some("one".to_owned()), MIB).unwrap();
        let _other = budget.try_reserve(Some("other".to_owned()), 5 * MIB).unwrap();
    }

    #[test]
    fn large_responses_leave_room_for_smaller_ones() {
        let budgets = ResponseBudgets::new();
        let reserve = |caller: usize, bytes: usize| {
            budgets.for_size(bytes).try_reserve(Some(caller.to_string()), bytes)
        };
        let largest: Vec<_> = (0..2).map(|caller| reserve(caller, 48 * MIB).unwrap()).collect();
        assert_eq!(refusal(reserve(2, 9 * MIB)), "503 SERVICE_UNAVAILABLE");
        let large: Vec<_> = (0..8).map(|caller| reserve(caller, 8 * MIB).unwrap()).collect();
        assert_eq!(refusal(reserve(8, 2 * MIB)), "503 SERVICE_UNAVAILABLE");
        reserve(8, MIB).unwrap();
        assert_eq!((largest.len(), large.len()), (2, 8));
    }

    #[test]
    fn existing_body_reserves_the_available_bytes() {
        let budget = budget(8);
        let first = budget.try_reserve(Some("one".to_owned()), 7 * MIB).unwrap();
        let _second = budget.reserve_available(Some("other".to_owned()), 2 * MIB).unwrap();
        assert_eq!(refusal(budget.try_reserve(Some("third".to_owned()), 1)), "503 SERVICE_UNAVAILABLE");
        let third = budget.reserve_available(Some("other".to_owned()), MIB).unwrap();
        assert_eq!(
            refusal(budget.try_reserve(Some("other".to_owned()), 1)),
            "429 RATE_LIMITED",
            "the caller's share is used up"
        );
        drop((first, third));
        let mut estimated = budget.try_reserve(None, MIB).unwrap();
        estimated.resize(2 * MIB);
        assert_eq!(budget.bytes.available_permits(), 5 * MIB, "the reservation grows to the actual size");
        drop(estimated);
        assert_eq!(budget.bytes.available_permits(), 7 * MIB);
    }
}
