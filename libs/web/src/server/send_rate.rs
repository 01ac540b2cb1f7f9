//! The minimum rate at which a caller must accept the bytes of its responses.

use std::time::Duration;

use tokio::time::Instant;

/// The time for which a caller may accept nothing.
const MAX_ALLOWANCE: Duration = Duration::from_secs(30);
/// The transfer rate at which a used allowance grows again. A slower caller uses it up.
///
/// A client on a mobile network with 25 KiB/s receives 1 MiB before it has used its allowance.
const MIN_BYTES_PER_SECOND: u32 = 64 * 1024;

/// The progress of a caller while the kernel's buffer of its connection is full.
///
/// A timeout between two writes, as nginx has it, would let a caller hold a response for hours with
/// a few bytes every minute.
pub(super) struct SendRate {
    /// The time for which the caller may still accept nothing.
    allowance: Duration,
    /// The deadline of a caller that accepts nothing now.
    deadline: Option<Instant>,
}

impl SendRate {
    pub(super) fn new() -> Self {
        Self { allowance: MAX_ALLOWANCE, deadline: None }
    }

    /// Returns the deadline of a caller that accepts nothing at `now`.
    pub(super) fn block(&mut self, now: Instant) -> Instant {
        *self.deadline.get_or_insert(now + self.allowance)
    }

    /// Adds bytes that the kernel has accepted at `now`.
    pub(super) fn accept(&mut self, bytes: usize, now: Instant) {
        if let Some(deadline) = self.deadline.take() {
            self.allowance = deadline.saturating_duration_since(now);
        }
        if self.allowance < MAX_ALLOWANCE {
            let earned = Duration::from_secs(bytes as u64) / MIN_BYTES_PER_SECOND;
            self.allowance = MAX_ALLOWANCE.min(self.allowance + earned);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{MAX_ALLOWANCE, MIN_BYTES_PER_SECOND, SendRate};

    const SECOND: Duration = Duration::from_secs(1);

    /// RULE-ALL-122: a caller at the minimum rate is never late. A slower one is, although it
    /// accepts some bytes every second.
    #[test]
    fn caller_below_the_minimum_rate_is_late() {
        for (bytes_per_second, is_late) in [(MIN_BYTES_PER_SECOND, false), (MIN_BYTES_PER_SECOND / 2, true)] {
            let (mut rate, mut now, mut was_late) = (SendRate::new(), Instant::now(), false);
            for _ in 0..MAX_ALLOWANCE.as_secs() * 4 {
                let deadline = rate.block(now);
                now += SECOND;
                was_late |= now > deadline;
                rate.accept(bytes_per_second as usize, now);
            }
            assert_eq!(was_late, is_late, "{bytes_per_second} bytes a second");
        }
    }

    /// RULE-ALL-122: a caller that accepts nothing has the same time after a fast transfer as
    /// before, and repeated waits do not extend it.
    #[test]
    fn fast_transfer_saves_no_time_for_a_later_pause() {
        let (mut rate, now) = (SendRate::new(), Instant::now());
        assert_eq!(rate.block(now), now + MAX_ALLOWANCE);
        assert_eq!(rate.block(now + SECOND), now + MAX_ALLOWANCE);
        rate.accept(1 << 30, now + SECOND);
        assert_eq!(rate.block(now + SECOND), now + SECOND + MAX_ALLOWANCE);
    }
}
