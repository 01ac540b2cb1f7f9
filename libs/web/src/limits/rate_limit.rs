//! Rate limits per caller.

use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::response::problem::Problem;

/// The number of checks after which callers with a full allowance are removed.
///
/// The memory and the cost of the cleanup therefore depend only on the traffic.
const CHECKS_BETWEEN_CLEANUPS: u32 = 10_000;

/// A limit of requests per minute for each caller: the address of a guest or the id of a user.
pub struct RateLimit<K: Hash + Eq + Clone = IpAddr> {
    limiter: Option<DefaultKeyedRateLimiter<K>>,
    checks: AtomicU32,
}

impl<K: Hash + Eq + Clone> RateLimit<K> {
    /// Limits each caller to `requests` per minute. `0` means no limit.
    pub fn per_minute(requests: u32) -> Self {
        let limiter =
            NonZeroU32::new(requests).map(|requests| RateLimiter::keyed(Quota::per_minute(requests)));
        Self { limiter, checks: AtomicU32::new(0) }
    }

    /// Takes one request from the caller's allowance.
    ///
    /// # Errors
    /// `429 RATE_LIMITED` when the allowance is used up.
    pub fn check(&self, caller: impl Into<K>) -> Result<(), Problem> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        if self.checks.fetch_add(1, Ordering::Relaxed) % CHECKS_BETWEEN_CLEANUPS
            == CHECKS_BETWEEN_CLEANUPS - 1
        {
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
    use crate::limits::caller::ClientAddress;

    /// RULE-ALL-027: requests above the limit of a caller are rejected.
    #[test]
    fn request_above_the_limit_is_rejected() {
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
