//! Rate limits per caller.

use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::response::problem::Problem;

/// After so many checks the callers who are back at their full allowance are forgotten: what is
/// remembered stays in proportion to the traffic, and so does the effort of forgetting.
const CHECKS_TO_FORGETTING: u32 = 10_000;

/// So many requests a minute for each caller: a guest's address, or a person's id.
pub struct RateLimit<K: Hash + Eq + Clone = IpAddr> {
    limiter: Option<DefaultKeyedRateLimiter<K>>,
    checks: AtomicU32,
}

impl<K: Hash + Eq + Clone> RateLimit<K> {
    /// `0`: no limit.
    pub fn per_minute(requests: u32) -> Self {
        let limiter =
            NonZeroU32::new(requests).map(|requests| RateLimiter::keyed(Quota::per_minute(requests)));
        Self { limiter, checks: AtomicU32::new(0) }
    }

    /// Takes one request off the caller's allowance.
    ///
    /// # Errors
    /// `429 RATE_LIMITED` when it is used up.
    pub fn check(&self, caller: impl Into<K>) -> Result<(), Problem> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        if self.checks.fetch_add(1, Ordering::Relaxed) % CHECKS_TO_FORGETTING == CHECKS_TO_FORGETTING - 1 {
            limiter.retain_recent();
        }
        limiter.check_key(&caller.into()).map_err(|denied| {
            let wait = denied.wait_time_from(DefaultClock::default().now());
            Problem::rate_limited(wait.max(Duration::from_secs(1)))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::RateLimit;

    #[test]
    fn the_request_after_the_last_allowed_one_is_refused() {
        let limit = RateLimit::<IpAddr>::per_minute(3);
        let caller = |text: &str| ClientAddress(text.parse().unwrap());
        for _ in 0..3 {
            limit.check(caller("2001:db8::1")).unwrap();
        }
        assert!(limit.check(caller("2001:db8::2")).is_err(), "one /64 is one caller");
        limit.check(caller("2001:db9::1")).unwrap();
        RateLimit::<IpAddr>::per_minute(0).check(caller("::1")).unwrap();
    }
}
