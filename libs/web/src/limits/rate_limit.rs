//! Rate limits per caller.

use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, NotUntil, Quota, RateLimiter};

use crate::response::problem::Problem;

/// The number of checks after which callers with a full allowance are removed.
///
/// The memory and the cost of the cleanup therefore depend only on the traffic.
const CHECKS_BETWEEN_CLEANUPS: u32 = 10_000;

/// The size for which a response counts as one more request.
const BYTES_PER_REQUEST: usize = 1024 * 1024;

/// A limit of requests per minute for each caller: the address of a guest or the id of a user.
pub struct RateLimit<K: Hash + Eq + Clone = IpAddr> {
    limiter: Option<Limiter<K>>,
    checks: AtomicU32,
}

struct Limiter<K: Hash + Eq + Clone> {
    by_caller: DefaultKeyedRateLimiter<K>,
    /// The most that one response takes: half of the allowance, so that a caller with a partly used
    /// allowance can still read the largest one.
    max_weight: u32,
}

impl<K: Hash + Eq + Clone> RateLimit<K> {
    /// Limits each caller to `requests` per minute. `0` means no limit.
    pub fn per_minute(requests: u32) -> Self {
        let limiter = NonZeroU32::new(requests).map(|requests| Limiter {
            by_caller: RateLimiter::keyed(Quota::per_minute(requests)),
            max_weight: requests.get() / 2,
        });
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
            limiter.by_caller.retain_recent();
        }
        limiter.by_caller.check_key(&caller.into()).map_err(|denied| rate_limited(&denied))
    }

    /// Takes one more request for each whole MiB of a response, up to half of the allowance.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_size(&self, caller: impl Into<K>, bytes: usize) -> Result<(), Problem> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        let weight = u32::try_from(bytes / BYTES_PER_REQUEST).unwrap_or(u32::MAX).min(limiter.max_weight);
        let Some(weight) = NonZeroU32::new(weight) else { return Ok(()) };
        match limiter.by_caller.check_key_n(&caller.into(), weight) {
            // The weight is at most half of the allowance, so it always fits into it.
            Ok(Ok(())) | Err(_) => Ok(()),
            Ok(Err(denied)) => Err(rate_limited(&denied)),
        }
    }
}

fn rate_limited(denied: &NotUntil<<DefaultClock as Clock>::Instant>) -> Problem {
    let wait = denied.wait_time_from(DefaultClock::default().now());
    Problem::rate_limited(wait.max(Duration::from_secs(1)))
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

    /// RULE-ALL-027: a response of several MiB counts as several requests, and the largest one as
    /// half of the allowance.
    #[test]
    fn large_response_counts_as_several_requests() {
        const MIB: usize = 1024 * 1024;
        let limit = RateLimit::<IpAddr>::per_minute(8);
        let caller = |text: &str| ClientAddress(text.parse().unwrap());
        for _ in 0..3 {
            limit.check_size(caller("192.0.2.1"), MIB - 1).unwrap();
            limit.check_size(caller("192.0.2.1"), 2 * MIB).unwrap();
        }
        limit.check_size(caller("192.0.2.1"), 3 * MIB).unwrap_err();
        limit.check_size(caller("192.0.2.1"), 2 * MIB).unwrap();
        limit.check(caller("192.0.2.1")).unwrap_err();
        for _ in 0..2 {
            limit.check_size(caller("192.0.2.2"), 1000 * MIB).unwrap();
        }
        limit.check_size(caller("192.0.2.2"), MIB).unwrap_err();
        RateLimit::<IpAddr>::per_minute(0).check_size(caller("192.0.2.2"), 1000 * MIB).unwrap();
    }
}
