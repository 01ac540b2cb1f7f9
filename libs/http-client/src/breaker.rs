//! A circuit breaker: calls fail immediately while the called service is down.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};

/// The number of recent calls that determine the state. The breaker opens when half of them failed
/// in spite of their retries.
const WINDOW_CALLS: usize = 10;
const OPEN_DURATION: Duration = Duration::from_secs(2);
/// The number of concurrent calls while the breaker is half-open. A success closes the breaker, a
/// failure opens it again.
const MAX_PROBES: usize = 3;

pub(crate) struct Breaker {
    state: Mutex<State>,
    probes: Semaphore,
}

#[derive(Default)]
struct State {
    /// The results of the recent calls, true for a failure.
    failures: VecDeque<bool>,
    open_until: Option<Instant>,
}

/// The permission for one call. Dropping it records no result.
pub(crate) struct CallPermit<'b> {
    breaker: &'b Breaker,
    probe: Option<SemaphorePermit<'b>>,
}

impl Breaker {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::default(), probes: Semaphore::new(MAX_PROBES) }
    }

    /// Returns a permit, or `None` while the breaker is open or all probes of the half-open breaker
    /// are in use.
    pub(crate) fn try_acquire(&self, now: Instant) -> Option<CallPermit<'_>> {
        let probe = match self.state().open_until {
            None => None,
            Some(until) if now < until => return None,
            Some(_) => Some(self.probes.try_acquire().ok()?),
        };
        Some(CallPermit { breaker: self, probe })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallPermit<'_> {
    /// Records the result of the call.
    pub(crate) fn record(self, failed: bool, now: Instant) {
        let mut state = self.breaker.state();
        if state.open_until.is_none() {
            state.failures.push_back(failed);
            if state.failures.len() > WINDOW_CALLS {
                state.failures.pop_front();
            }
            let failures = state.failures.iter().filter(|failed| **failed).count();
            if state.failures.len() == WINDOW_CALLS && 2 * failures >= WINDOW_CALLS {
                state.open_until = Some(now + OPEN_DURATION);
            }
        } else if self.probe.is_some() {
            // Calls that began before the breaker opened are not probes, and their results are
            // stale.
            state.failures.clear();
            state.open_until = failed.then(|| now + OPEN_DURATION);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{Breaker, MAX_PROBES, OPEN_DURATION, WINDOW_CALLS};

    /// Makes a call. Returns false if the breaker rejected it.
    fn call(breaker: &Breaker, now: Instant, failed: bool) -> bool {
        breaker.try_acquire(now).map(|permit| permit.record(failed, now)).is_some()
    }

    fn open_breaker(now: Instant) -> Breaker {
        let breaker = Breaker::new();
        for _ in 0..WINDOW_CALLS {
            assert!(call(&breaker, now, true));
        }
        breaker
    }

    /// RULE-ALL-041: the breaker opens when half of the recent calls have failed.
    #[test]
    fn breaker_opens_when_half_of_the_recent_calls_failed() {
        let (breaker, now) = (Breaker::new(), Instant::now());
        for failed in [[false; WINDOW_CALLS / 2], [true; WINDOW_CALLS / 2]].concat() {
            assert!(call(&breaker, now, failed));
        }
        assert!(!call(&breaker, now, false));
    }

    /// RULE-ALL-041: a half-open breaker permits three probes.
    #[test]
    fn half_open_breaker_permits_three_probes() {
        let now = Instant::now();
        let breaker = open_breaker(now);
        assert!(breaker.try_acquire(now).is_none());
        let probes: Vec<_> =
            std::iter::from_fn(|| breaker.try_acquire(now + OPEN_DURATION)).take(100).collect();
        assert_eq!(probes.len(), MAX_PROBES);
        drop(probes);
        assert!(breaker.try_acquire(now + OPEN_DURATION).is_some(), "an abandoned probe frees its permit");
    }

    #[test]
    fn failed_probe_reopens_and_successful_probe_closes_the_breaker() {
        let now = Instant::now();
        let breaker = open_breaker(now);
        assert!(call(&breaker, now + OPEN_DURATION, true));
        assert!(!call(&breaker, now + OPEN_DURATION, false));
        assert!(call(&breaker, now + 2 * OPEN_DURATION, false));
        let permits = std::iter::from_fn(|| breaker.try_acquire(now + 2 * OPEN_DURATION)).take(100);
        assert_eq!(permits.collect::<Vec<_>>().len(), 100);
    }

    /// RULE-ALL-041: a call that began before the breaker opened does not close it.
    #[test]
    fn call_that_began_before_the_breaker_opened_does_not_close_it() {
        let (breaker, now) = (Breaker::new(), Instant::now());
        let early = breaker.try_acquire(now).unwrap();
        for _ in 0..WINDOW_CALLS {
            call(&breaker, now, true);
        }
        early.record(false, now);
        assert!(breaker.try_acquire(now).is_none());
    }
}
