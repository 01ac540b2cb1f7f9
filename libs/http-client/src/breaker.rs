//! While the other side is plainly down calls fail at once; then a few are let through to see.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};

/// Calls that are looked back at: when half of them have failed, retries included, it opens.
const CALLS: usize = 10;
const OPEN_FOR: Duration = Duration::from_secs(2);
/// At once, after that: the first that succeeds closes it, one that fails opens it anew.
const PROBES: usize = 3;

pub(crate) struct Breaker {
    state: Mutex<State>,
    probes: Semaphore,
}

#[derive(Default)]
struct State {
    /// Whether each of the last calls has failed.
    failed: VecDeque<bool>,
    open_until: Option<Instant>,
}

/// Leave to make one call. Whoever drops it without a word has learned nothing of the other side.
pub(crate) struct Pass<'b> {
    breaker: &'b Breaker,
    probe: Option<SemaphorePermit<'b>>,
}

impl Breaker {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::default(), probes: Semaphore::new(PROBES) }
    }

    /// `None` while it is open, and to all but a few until one of these has succeeded.
    pub(crate) fn pass(&self, now: Instant) -> Option<Pass<'_>> {
        let probe = match self.state().open_until {
            None => None,
            Some(until) if now < until => return None,
            Some(_) => Some(self.probes.try_acquire().ok()?),
        };
        Some(Pass { breaker: self, probe })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass<'_> {
    /// How the call went.
    pub(crate) fn tell(self, failed: bool, now: Instant) {
        let mut state = self.breaker.state();
        if state.open_until.is_none() {
            state.failed.push_back(failed);
            if state.failed.len() > CALLS {
                state.failed.pop_front();
            }
            let failures = state.failed.iter().filter(|failed| **failed).count();
            if state.failed.len() == CALLS && 2 * failures >= CALLS {
                state.open_until = Some(now + OPEN_FOR);
            }
        } else if self.probe.is_some() {
            // One that began before it opened tells nothing new.
            state.failed.clear();
            state.open_until = failed.then(|| now + OPEN_FOR);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{Breaker, CALLS, OPEN_FOR, PROBES};

    /// Whether it was let through.
    fn call(breaker: &Breaker, now: Instant, failed: bool) -> bool {
        breaker.pass(now).map(|pass| pass.tell(failed, now)).is_some()
    }

    fn opened(now: Instant) -> Breaker {
        let breaker = Breaker::new();
        for _ in 0..CALLS {
            assert!(call(&breaker, now, true));
        }
        breaker
    }

    #[test]
    fn it_opens_when_half_of_the_last_calls_have_failed() {
        let (breaker, now) = (Breaker::new(), Instant::now());
        for failed in [[false; CALLS / 2], [true; CALLS / 2]].concat() {
            assert!(call(&breaker, now, failed));
        }
        assert!(!call(&breaker, now, false));
    }

    #[test]
    fn a_few_are_let_through_to_see() {
        let now = Instant::now();
        let breaker = opened(now);
        assert!(breaker.pass(now).is_none());
        let probes: Vec<_> = std::iter::from_fn(|| breaker.pass(now + OPEN_FOR)).take(100).collect();
        assert_eq!(probes.len(), PROBES);
        drop(probes);
        assert!(breaker.pass(now + OPEN_FOR).is_some(), "who hangs up keeps no place");
    }

    #[test]
    fn one_that_fails_opens_it_anew_and_one_that_succeeds_closes_it() {
        let now = Instant::now();
        let breaker = opened(now);
        assert!(call(&breaker, now + OPEN_FOR, true));
        assert!(!call(&breaker, now + OPEN_FOR, false));
        assert!(call(&breaker, now + 2 * OPEN_FOR, false));
        let all = std::iter::from_fn(|| breaker.pass(now + 2 * OPEN_FOR)).take(100);
        assert_eq!(all.collect::<Vec<_>>().len(), 100);
    }

    #[test]
    fn a_call_that_began_before_it_opened_does_not_close_it() {
        let (breaker, now) = (Breaker::new(), Instant::now());
        let early = breaker.pass(now).unwrap();
        for _ in 0..CALLS {
            call(&breaker, now, true);
        }
        early.tell(false, now);
        assert!(breaker.pass(now).is_none());
    }
}
