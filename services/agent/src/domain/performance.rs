//! The period of an agent's statistics, and their rounded figures.

use std::iter;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use time::macros::datetime;
use time::{Duration, OffsetDateTime};
use values::{Decimal, Invalid, div_half_to_even};

/// The longest period of the statistics.
const MAX_PERIOD: Duration = Duration::hours(366 * 24);

/// The earliest time that RFC 3339 can represent.
const EARLIEST: OffsetDateTime = datetime!(0000-01-01 00:00 UTC);

/// A day in microseconds.
const DAY_MICROS: i128 = 86_400_000_000;

/// The mean time from creation to sale, in days.
pub type CycleDays = Decimal<1, -40_000_000, 40_000_000>;

values::text_enum! {
    /// The agent for whom the statistics count a deal.
    pub enum CountBy {
        /// The agent whom the deal names now.
        DealAgent,
        /// The agent who earns the commission of the active sale, else the agent of the deal.
        CommissionAgent,
    }
}

/// A time zone of the IANA database. The statistics use its calendar months.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// Finds a time zone by its IANA name, in any letter case. The default is UTC.
    ///
    /// # Errors
    /// `unknown_value` if the database has no such name.
    pub fn parse(name: Option<&str>) -> Result<Self, Invalid> {
        let zone = name.map_or(Ok(TimeZone::UTC), |name| jiff::tz::db().get(name));
        zone.map(Self).map_err(|_| Invalid::new("unknown_value"))
    }

    /// Returns the first day of a moment's month.
    fn month_of(&self, moment: OffsetDateTime) -> Date {
        let nearest = if moment < EARLIEST { Timestamp::MIN } else { Timestamp::MAX };
        let moment = Timestamp::from_second(moment.unix_timestamp()).unwrap_or(nearest);
        // `Timestamp` lacks the first and the last 26 hours of the years -9999 to 9999. The nearest
        // timestamp is in the same month.
        moment.to_zoned(self.0.clone()).date().first_of_month()
    }

    /// Returns the first moment of a day, or `None` if `OffsetDateTime` cannot represent it.
    fn start_of(&self, day: Date) -> Option<OffsetDateTime> {
        let start = day.to_zoned(self.0.clone()).ok()?.timestamp();
        OffsetDateTime::from_unix_timestamp(start.as_second()).ok()
    }
}

/// A calendar month.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalendarMonth {
    pub start: OffsetDateTime,
    /// Year and month, as in `2026-05`.
    pub name: String,
}

/// A period with the time zone of its months. Its end is exclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period {
    pub from: OffsetDateTime,
    pub to: OffsetDateTime,
    zone: Zone,
}

impl Period {
    /// Creates a period from optional bounds.
    ///
    /// The end defaults to `now`. The start defaults to the first day of the month that is eleven
    /// months before the end's month.
    ///
    /// # Errors
    /// - `empty_range` if the start is not before the end.
    /// - `out_of_bounds` if the period is longer than 366 × 24 h.
    pub fn parse(
        from: Option<OffsetDateTime>,
        to: Option<OffsetDateTime>,
        zone: Zone,
        now: OffsetDateTime,
    ) -> Result<Self, Invalid> {
        let to = to.map_or(now, OffsetDateTime::truncate_to_microsecond);
        let from =
            from.map_or_else(|| eleven_months_before(to, &zone), OffsetDateTime::truncate_to_microsecond);
        if to <= from {
            return Err(Invalid::new("empty_range"));
        }
        if to - from > MAX_PERIOD {
            return Err(Invalid::new("out_of_bounds"));
        }
        Ok(Self { from, to, zone })
    }

    /// Returns the months that the period touches, oldest first.
    pub fn months(&self) -> Vec<CalendarMonth> {
        let days =
            iter::successors(Some(self.zone.month_of(self.from)), |day| day.checked_add(1.month()).ok());
        let months = days.map_while(|day| {
            let start = self.zone.start_of(day)?;
            Some(CalendarMonth { start, name: format!("{:04}-{:02}", day.year(), day.month()) })
        });
        months.take_while(|month| month.start < self.to).collect()
    }
}

/// Returns the beginning of the month that is eleven months before the month of `to`.
fn eleven_months_before(to: OffsetDateTime, zone: &Zone) -> OffsetDateTime {
    let month = zone.month_of(to).checked_sub(11.months()).ok();
    month.and_then(|month| zone.start_of(month)).map_or(EARLIEST, |start| start.max(EARLIEST))
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
    use jiff::civil::date;
    use proptest::prelude::*;
    use time::macros::datetime;
    use time::{Duration, OffsetDateTime};

    use super::{DAY_MICROS, Period, Zone, conversion_bps, mean_cycle_days};

    fn zone(name: &str) -> Zone {
        Zone::parse(Some(name)).unwrap()
    }

    fn period(from: OffsetDateTime, to: OffsetDateTime) -> Period {
        Period::parse(Some(from), Some(to), zone("UTC"), datetime!(2026-11-22 12:00 UTC)).unwrap()
    }

    fn starts(period: &Period) -> Vec<OffsetDateTime> {
        period.months().into_iter().map(|month| month.start).collect()
    }

    /// RULE-AGT-049: `To` defaults to now, and `From` to the first day of the month that is eleven
    /// months before the month of `To`.
    #[test]
    fn default_period_is_twelve_months_until_now() {
        let now = datetime!(2026-11-22 12:34:56 UTC);
        let utc = || zone("UTC");
        assert_eq!(Zone::parse(None), Ok(utc()));
        let by_default = Period::parse(None, None, utc(), now).unwrap();
        assert_eq!(by_default, Period { from: datetime!(2025-12-01 00:00 UTC), to: now, zone: utc() });
        assert_eq!(by_default.months().len(), 12);
        let until = |to| Period::parse(None, Some(to), utc(), now).unwrap().from;
        assert_eq!(until(datetime!(2026-12-01 00:00 UTC)), datetime!(2026-01-01 00:00 UTC));
        assert_eq!(until(datetime!(2024-02-29 23:00 UTC)), datetime!(2023-03-01 00:00 UTC));
        assert_eq!(until(datetime!(0000-01-02 00:00 UTC)), datetime!(0000-01-01 00:00 UTC));
        assert!(Period::parse(Some(now), None, utc(), now).is_err());
    }

    /// RULE-AGT-066: months begin at the midnight of the time zone, also where a clock change skips
    /// that midnight, and in the last month of the year 9999.
    #[test]
    fn months_begin_at_midnight_of_the_time_zone() {
        let of = |name: &str, from, to| starts(&Period { zone: zone(name), ..period(from, to) });
        let (from, to) = (datetime!(2026-03-31 20:00 UTC), datetime!(2026-04-30 21:00:00.000001 UTC));
        assert_eq!(of("UTC", from, to), [datetime!(2026-03-01 00:00 UTC), datetime!(2026-04-01 00:00 UTC)]);
        let moscow = [
            datetime!(2026-02-28 21:00 UTC),
            datetime!(2026-03-31 21:00 UTC),
            datetime!(2026-04-30 21:00 UTC),
        ];
        assert_eq!(of("Europe/Moscow", from, to), moscow);
        // The month of March begins in winter time, and the month of April in summer time.
        let berlin = [datetime!(2026-02-28 23:00 UTC), datetime!(2026-03-31 22:00 UTC)];
        assert_eq!(of("Europe/Berlin", from, datetime!(2026-04-30 22:00 UTC)), berlin);
        // In Asunción the first midnight of October 2017 did not exist.
        let (from, to) = (datetime!(2017-09-30 12:00 UTC), datetime!(2017-10-02 12:00 UTC));
        let asuncion = [datetime!(2017-09-01 04:00 UTC), datetime!(2017-10-01 04:00 UTC)];
        assert_eq!(of("America/Asuncion", from, to), asuncion);
        let last = (datetime!(9999-12-01 12:00 UTC), datetime!(9999-12-31 23:59 UTC));
        assert_eq!(of("Pacific/Kiritimati", last.0, last.1).len(), 1);
        let by_default = Period::parse(None, Some(from), zone("Europe/Moscow"), from).unwrap();
        assert_eq!(by_default.from, datetime!(2016-09-30 21:00 UTC));
    }

    /// RULE-AGT-066: the earliest and the latest time belong to a month, too.
    #[test]
    fn month_of_the_earliest_and_latest_time_is_known() {
        let month = |moment| zone("UTC").month_of(moment);
        assert_eq!(month(datetime!(-9999-01-01 00:00 UTC)), date(-9999, 1, 1));
        assert_eq!(month(datetime!(9999-12-31 23:59 UTC)), date(9999, 12, 1));
    }

    /// RULE-AGT-066: only names of the IANA database are time zones.
    #[test]
    fn unknown_time_zone_is_refused() {
        for name in ["", "Moscow", "UTC+3", "EST5EDT4", "<-03>3", "../etc/passwd", "Europe/Moscow ", "+03:00"]
        {
            assert!(Zone::parse(Some(name)).is_err(), "{name}");
        }
        for name in ["Etc/UTC", "europe/moscow", "Asia/Yekaterinburg", "Etc/GMT-3"] {
            assert!(Zone::parse(Some(name)).is_ok(), "{name}");
        }
    }

    /// RULE-AGT-049, RULE-ALL-019: an empty period and a period above 366 × 24 h are refused.
    #[test]
    fn empty_or_too_long_period_is_refused() {
        let now = datetime!(2026-11-22 12:00 UTC);
        let refused =
            |to| Period::parse(Some(now), Some(to), zone("UTC"), now).err().map(|invalid| invalid.code);
        assert_eq!(refused(now), Some("empty_range"));
        assert_eq!(refused(now + Duration::microseconds(1)), None);
        assert_eq!(refused(now + Duration::days(366)), None);
        assert_eq!(refused(now + Duration::days(366) + Duration::microseconds(1)), Some("out_of_bounds"));
    }

    /// RULE-AGT-047: a month that begins at the exclusive end is not touched.
    #[test]
    fn month_starting_at_period_end_is_left_out() {
        let months = |from, to| starts(&period(from, to));
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
            let months = starts(&period);
            let next = |start: OffsetDateTime| starts(&self::period(start, start + Duration::days(32)))[1];
            prop_assert!(months[0] <= period.from && months.iter().skip(1).all(|month| *month > period.from));
            prop_assert!(months.iter().all(|month| *month < period.to && month.day() == 1));
            let last = months[months.len() - 1];
            prop_assert!(next(last) >= period.to);
            prop_assert!(months.windows(2).all(|two| next(two[0]) == two[1]));
        }
    }
}
