//! What an agent's statistics are about.

use std::iter;

use time::macros::datetime;
use time::{Duration, OffsetDateTime, Time};
use values::{Decimal, Invalid, half_to_even};

/// 366 × 24 h.
const LONGEST: Duration = Duration::hours(366 * 24);

/// No time before it can be told.
const EARLIEST: OffsetDateTime = datetime!(0000-01-01 00:00 UTC);

/// A day in microseconds.
const DAY: i128 = 86_400_000_000;

/// How long sales took, in days.
pub type CycleDays = Decimal<1, -40_000_000, 40_000_000>;

/// From a moment until before another, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    pub from: OffsetDateTime,
    pub to: OffsetDateTime,
}

impl Period {
    /// The one that is asked for; without an end until now, without a start from the first of the month eleven months before
    /// that of its end.
    ///
    /// # Errors
    /// `empty_range`, `out_of_bounds` where it is longer than 366 days.
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
        if to - from > LONGEST {
            return Err(Invalid::new("out_of_bounds"));
        }
        Ok(Self { from, to })
    }

    /// The starts of the months that it touches, oldest first.
    pub fn months(&self) -> Vec<OffsetDateTime> {
        let months = iter::successors(Some(month_of(self.from)), |month| next_month(*month));
        months.take_while(|month| *month < self.to).collect()
    }
}

fn eleven_months_before(to: OffsetDateTime) -> OffsetDateTime {
    let month = month_of(to);
    let a_year_before = month.replace_year(month.year() - 1).ok();
    a_year_before.and_then(next_month).map_or(EARLIEST, |start| start.max(EARLIEST))
}

/// Its start.
fn month_of(moment: OffsetDateTime) -> OffsetDateTime {
    moment.replace_day(1).unwrap_or(moment).replace_time(Time::MIDNIGHT)
}

/// `None` after the last that there is.
fn next_month(start: OffsetDateTime) -> Option<OffsetDateTime> {
    start.checked_add(Duration::days(31)).map(month_of)
}

/// Which share of deals was sold, in basis points; of none there is none.
pub fn conversion(sold: i64, of: i64) -> Option<i64> {
    let share = (of > 0).then(|| half_to_even(i128::from(sold) * 10_000, i128::from(of)))?;
    i64::try_from(share).ok()
}

/// The mean of times that come to so many microseconds, in days; of none there is none.
pub fn mean_days(sum: i128, of: i64) -> Option<CycleDays> {
    let tenths = (of > 0).then(|| half_to_even(sum * 10, i128::from(of) * DAY))?;
    CycleDays::of_units(i64::try_from(tenths).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::macros::datetime;
    use time::{Duration, OffsetDateTime};

    use super::{DAY, Period, conversion, mean_days};

    fn period(from: OffsetDateTime, to: OffsetDateTime) -> Period {
        Period::parse(Some(from), Some(to), datetime!(2026-11-22 12:00 UTC)).unwrap()
    }

    /// Performance: `To` defaults to now, `From` to the first of the month eleven months before `To`'s.
    #[test]
    fn without_bounds_it_is_twelve_months_until_now() {
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

    /// Performance: at most 366 × 24 h.
    #[test]
    fn it_has_an_end_after_its_start_and_no_more_than_366_days() {
        let now = datetime!(2026-11-22 12:00 UTC);
        let refused = |to| Period::parse(Some(now), Some(to), now).err().map(|invalid| invalid.code);
        assert_eq!(refused(now), Some("empty_range"));
        assert_eq!(refused(now + Duration::microseconds(1)), None);
        assert_eq!(refused(now + Duration::days(366)), None);
        assert_eq!(refused(now + Duration::days(366) + Duration::microseconds(1)), Some("out_of_bounds"));
    }

    /// Performance: each UTC month that the period touches.
    #[test]
    fn a_month_that_begins_with_the_end_is_not_touched() {
        let months = |from, to| period(from, to).months();
        let (may, june) = (datetime!(2026-05-01 00:00 UTC), datetime!(2026-06-01 00:00 UTC));
        assert_eq!(months(datetime!(2026-05-31 23:59 UTC), june), [may]);
        assert_eq!(months(datetime!(2026-05-31 23:59 UTC), june + Duration::microseconds(1)), [may, june]);
        assert_eq!(months(datetime!(2027-01-31 12:00 UTC), datetime!(2028-02-01 12:00 UTC)).len(), 14);
        assert_eq!(months(datetime!(9999-11-30 00:00 UTC), datetime!(9999-12-31 23:59 UTC)).len(), 2);
    }

    /// Performance: half to even.
    #[test]
    fn halves_go_to_the_even_neighbour() {
        assert_eq!([conversion(1, 0), conversion(0, 3), conversion(3, 3)], [None, Some(0), Some(10_000)]);
        // 312.5 and 937.5 basis points
        assert_eq!([conversion(1, 32), conversion(3, 32)], [Some(312), Some(938)]);
        let units = |sum, of| mean_days(sum, of).map(super::CycleDays::units);
        assert_eq!(units(0, 0), None);
        let quarter = DAY / 4;
        // 0.25, 0.75, −0.25 days
        assert_eq!(
            [units(quarter, 1), units(3 * quarter, 1), units(-quarter, 1)],
            [Some(2), Some(8), Some(-2)]
        );
        assert_eq!(units(quarter + 1, 1), Some(3));
    }

    proptest! {
        /// Months follow each other, and the period is within them.
        #[test]
        fn months_cover_a_period(start in 0_i64..4_000_000_000, seconds in 1_i64..366 * 86_400) {
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
