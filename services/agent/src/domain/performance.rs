//! The period of an agent's statistics, and their rounded figures.

use std::iter;

use time::macros::datetime;
use time::{Duration, OffsetDateTime, Time};
use values::{Decimal, Invalid, div_half_to_even};

/// The longest period of the statistics.
const MAX_PERIOD: Duration = Duration::hours(366 * 24);

/// The earliest time that RFC 3339 can represent.
const EARLIEST: OffsetDateTime = datetime!(0000-01-01 00:00 UTC);

/// A day in microseconds.
const DAY_MICROS: i128 = 86_400_000_000;

/// The mean time from creation to sale, in days.
pub type CycleDays = Decimal<1, -40_000_000, 40_000_000>;

/// A period in UTC. Its end is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    pub from: OffsetDateTime,
    pub to: OffsetDateTime,
}

impl Period {
    /// Creates a period from optional bounds.
    ///
    /// The end defaults to `now`.
    /// The start defaults to the first of the month, eleven months before the month of the end.
    ///
    /// # Errors
    /// - `empty_range` if the start is not before the end.
    /// - `out_of_bounds` if the period is longer than 366 × 24 h.
    pub fn parse(
        from: Option<OffsetDateTime>,
        to: Option<OffsetDateTime>,
        now: OffsetDateTime,
    ) -> Result<Self, Invalid> {
        let to = to.map_or(now, OffsetDateTime::truncate_to_microsecond);
        let from = from.map_or_else(|| eleven_months_before(to), OffsetDateTime::truncate_to_microsecond);
        if to <= from {
            return Err(Invalid::new("empty_range"));
        }
        if to - from > MAX_PERIOD {
            return Err(Invalid::new("out_of_bounds"));
        }
        Ok(Self { from, to })
    }

    /// Returns the starts of the months that the period touches, oldest first.
    pub fn months(&self) -> Vec<OffsetDateTime> {
        let months = iter::successors(Some(month_of(self.from)), |month| next_month(*month));
        months.take_while(|month| *month < self.to).collect()
    }
}

fn eleven_months_before(to: OffsetDateTime) -> OffsetDateTime {
    let month = month_of(to);
    let year_before = month.replace_year(month.year() - 1).ok();
    year_before.and_then(next_month).map_or(EARLIEST, |start| start.max(EARLIEST))
}

/// Returns the start of a moment's month.
fn month_of(moment: OffsetDateTime) -> OffsetDateTime {
    moment.replace_day(1).unwrap_or(moment).replace_time(Time::MIDNIGHT)
}

/// Returns the start of the next month, or `None` after the last representable one.
fn next_month(start: OffsetDateTime) -> Option<OffsetDateTime> {
    start.checked_add(Duration::days(31)).map(month_of)
}

/// Returns the share of deals that were sold, in basis points, or `None` without deals.
pub fn conversion_bps(sold: i64, deals: i64) -> Option<i64> {
    let share = (deals > 0).then(|| div_half_to_even(i128::from(sold) * 10_000, i128::from(deals)))?;
    i64::try_from(share).ok()
}

/// Returns the mean of `count` durations in days, or `None` without durations.
///
/// `sum_micros` is their sum in microseconds.
pub fn mean_cycle_days(sum_micros: i128, count: i64) -> Option<CycleDays> {
    let tenths = (count > 0).then(|| div_half_to_even(sum_micros * 10, i128::from(count) * DAY_MICROS))?;
    CycleDays::from_units(i64::try_from(tenths).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::macros::datetime;
    use time::{Duration, OffsetDateTime};

    use super::{DAY_MICROS, Period, conversion_bps, mean_cycle_days};

    fn period(from: OffsetDateTime, to: OffsetDateTime) -> Period {
        Period::parse(Some(from), Some(to), datetime!(2026-11-22 12:00 UTC)).unwrap()
    }

    /// RULE-AGT-049: `To` defaults to now, `From` to the first of the month, eleven months before
    /// `To`'s.
    #[test]
    fn default_period_is_twelve_months_until_now() {
        let now = datetime!(2026-11-22 12:34:56 UTC);
        let by_default = Period::parse(None, None, now).unwrap();
        assert_eq!(by_default, Period { from: datetime!(2025-12-01 00:00 UTC), to: now });
        assert_eq!(by_default.months().len(), 12);
        let until = |to| Period::parse(None, Some(to), now).unwrap().from;
        assert_eq!(until(datetime!(2026-12-01 00:00 UTC)), datetime!(2026-01-01 00:00 UTC));
        assert_eq!(until(datetime!(2024-02-29 23:00 UTC)), datetime!(2023-03-01 00:00 UTC));
        assert_eq!(until(datetime!(0000-01-02 00:00 UTC)), datetime!(0000-01-01 00:00 UTC));
        assert!(Period::parse(Some(now), None, now).is_err());
    }

    /// RULE-AGT-049, RULE-ALL-019: an empty period and one above 366 × 24 h are refused.
    #[test]
    fn empty_or_too_long_period_is_refused() {
        let now = datetime!(2026-11-22 12:00 UTC);
        let refused = |to| Period::parse(Some(now), Some(to), now).err().map(|invalid| invalid.code);
        assert_eq!(refused(now), Some("empty_range"));
        assert_eq!(refused(now + Duration::microseconds(1)), None);
        assert_eq!(refused(now + Duration::days(366)), None);
        assert_eq!(refused(now + Duration::days(366) + Duration::microseconds(1)), Some("out_of_bounds"));
    }

    /// RULE-AGT-047: a month that begins at the exclusive end is not touched.
    #[test]
    fn month_starting_at_period_end_is_left_out() {
        let months = |from, to| period(from, to).months();
        let (may, june) = (datetime!(2026-05-01 00:00 UTC), datetime!(2026-06-01 00:00 UTC));
        assert_eq!(months(datetime!(2026-05-31 23:59 UTC), june), [may]);
        assert_eq!(months(datetime!(2026-05-31 23:59 UTC), june + Duration::microseconds(1)), [may, june]);
        assert_eq!(months(datetime!(2027-01-31 12:00 UTC), datetime!(2028-02-01 12:00 UTC)).len(), 14);
        assert_eq!(months(datetime!(9999-11-30 00:00 UTC), datetime!(9999-12-31 23:59 UTC)).len(), 2);
    }

    /// RULE-AGT-044, RULE-AGT-046: conversion and mean cycle are rounded half to even.
    #[test]
    fn conversion_and_mean_cycle_are_rounded_half_to_even() {
        assert_eq!(
            [conversion_bps(1, 0), conversion_bps(0, 3), conversion_bps(3, 3)],
            [None, Some(0), Some(10_000)]
        );
        // 312.5 and 937.5 basis points
        assert_eq!([conversion_bps(1, 32), conversion_bps(3, 32)], [Some(312), Some(938)]);
        let units = |sum, count| mean_cycle_days(sum, count).map(super::CycleDays::units);
        assert_eq!(units(0, 0), None);
        let quarter = DAY_MICROS / 4;
        // 0.25, 0.75, −0.25 days
        assert_eq!(
            [units(quarter, 1), units(3 * quarter, 1), units(-quarter, 1)],
            [Some(2), Some(8), Some(-2)]
        );
        assert_eq!(units(quarter + 1, 1), Some(3));
    }

    proptest! {
        /// RULE-AGT-047: consecutive months cover the whole period.
        #[test]
        fn consecutive_months_cover_the_period(start in 0_i64..4_000_000_000, seconds in 1_i64..366 * 86_400) {
            let from = OffsetDateTime::from_unix_timestamp(start).unwrap();
            let period = period(from, from + Duration::seconds(seconds));
            let months = period.months();
            prop_assert!(months[0] <= period.from && months.iter().skip(1).all(|month| *month > period.from));
            prop_assert!(months.iter().all(|month| *month < period.to && month.day() == 1));
            let last = months[months.len() - 1];
            prop_assert!(super::next_month(last).unwrap() >= period.to);
            prop_assert!(months.windows(2).all(|two| super::next_month(two[0]) == Some(two[1])));
        }
    }
}
