//! Limits of what users add to the deals of a developer.

use std::num::NonZeroU32;

use time::{Duration, OffsetDateTime};
use values::Code;

use crate::error::{CLIENT_DEALS_LIMIT_EXCEEDED, DEALS_LIMIT_EXCEEDED, NOTES_LIMIT_EXCEEDED};

/// The default of `CRM_MAX_DEALS_PER_PERSON_PER_HOUR` in the charts.
pub const CHART_MAX_DEALS: u32 = 3_600;
/// The default of `CRM_MAX_DEALS_PER_CLIENT_PER_DAY` in the charts.
pub const CHART_MAX_DEALS_OF_CLIENT: u32 = 20;
/// The default of `CRM_MAX_NOTES_PER_PERSON_PER_HOUR` in the charts.
pub const CHART_MAX_NOTES: u32 = 600;

values::text_enum! {
    /// The kind of an addition that is counted for a user in the deals of a developer.
    pub enum AdditionKind {
        /// A deal that the user has created.
        DealCreated,
        /// A deal whose client is the user. Each one adds a chat that the client cannot leave.
        DealReceived,
        /// A note that the user has written.
        NoteWritten,
    }
}

/// The limits of each user in the deals of each developer. `None` means no limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdditionLimits {
    pub deals: Option<NonZeroU32>,
    pub deals_of_client: Option<NonZeroU32>,
    pub notes: Option<NonZeroU32>,
}

/// The additions of a user in the present period, which begins with the first addition after the
/// previous period.
#[derive(Clone, Copy, Debug)]
pub struct Additions {
    pub count: i32,
    pub period_began_at: OffsetDateTime,
}

impl AdditionKind {
    pub const fn period(self) -> Duration {
        match self {
            Self::DealCreated | Self::NoteWritten => Duration::HOUR,
            Self::DealReceived => Duration::DAY,
        }
    }

    const fn refusal(self) -> Code {
        match self {
            Self::DealCreated => DEALS_LIMIT_EXCEEDED,
            Self::DealReceived => CLIENT_DEALS_LIMIT_EXCEEDED,
            Self::NoteWritten => NOTES_LIMIT_EXCEEDED,
        }
    }

    /// Checks the additions of a period, the new one included.
    ///
    /// # Errors
    /// The code of the limit, with the rest of the period as `Retry-After`.
    pub fn check(self, added: Additions, max: NonZeroU32, now: OffsetDateTime) -> Result<(), Code> {
        if u32::try_from(added.count).is_ok_and(|count| count <= max.get()) {
            return Ok(());
        }
        let end = added.period_began_at + self.period();
        Err(self.refusal().with_arg("max", max.get().into()).retry_at(end, now))
    }
}

impl AdditionLimits {
    pub fn of(self, kind: AdditionKind) -> Option<NonZeroU32> {
        match kind {
            AdditionKind::DealCreated => self.deals,
            AdditionKind::DealReceived => self.deals_of_client,
            AdditionKind::NoteWritten => self.notes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use time::{Duration, OffsetDateTime};

    use super::{AdditionKind, Additions};

    /// RULE-CRM-086: the addition above the maximum is refused until the period ends.
    #[test]
    fn addition_above_the_maximum_waits_for_the_next_period() {
        let (max, now) = (NonZeroU32::new(2).unwrap(), OffsetDateTime::UNIX_EPOCH);
        let added = |count, minutes| Additions { count, period_began_at: now - Duration::minutes(minutes) };
        assert!(AdditionKind::NoteWritten.check(added(2, 1), max, now).is_ok());
        for (kind, minutes, wait) in [
            (AdditionKind::NoteWritten, 59, 61),
            (AdditionKind::DealCreated, 61, 1),
            (AdditionKind::DealReceived, 23 * 60, 3_601),
            (AdditionKind::DealReceived, 0, u16::MAX),
        ] {
            let refused = kind.check(added(3, minutes), max, now).unwrap_err();
            assert_eq!((refused.retry_after, refused.arg), (Some(wait), Some(("max", 2))), "{kind}");
        }
    }
}
