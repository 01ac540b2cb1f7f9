//! A booking of an object by a deal.

use diesel::pg::Pg;
use diesel::prelude::*;
use time::{Duration, OffsetDateTime};
use values::Invalid;

use super::{BookingId, Deal, DealId, PropertyObjectId, StepGroup};
use crate::schema::booking;

/// The longest time from a request to the expiry of its booking.
pub const MAX_BOOKING_TERM: Duration = Duration::days(90);

values::text_enum! {
    /// The state of a booking. Every state except Active is final.
    pub enum BookingStatus {
        Active,
        Cancelled,
        Completed,
        Expired,
    }
}

/// A booking as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = booking, check_for_backend(Pg))]
#[diesel(treat_none_as_null = true, treat_none_as_default_value = false)]
pub struct Booking {
    pub id: BookingId,
    pub deal_id: DealId,
    pub property_object_id: PropertyObjectId,
    pub status: BookingStatus,
    pub expires_at: OffsetDateTime,
    pub created_at: OffsetDateTime,
    pub ended_at: Option<OffsetDateTime>,
    /// Version of the deal under which the booking was published last: by the change that created
    /// it, or by the command `restored`.
    pub row_version: i64,
    /// INV-BKG-4: the deal is in Contract, so the booking does not expire.
    pub is_expiry_suspended: bool,
}

impl Booking {
    /// Creates an Active booking. `deal` is the deal after the change that books its object.
    pub fn new(deal: &Deal, expires_at: OffsetDateTime) -> Self {
        Self {
            id: BookingId::generate(),
            deal_id: deal.id,
            property_object_id: deal.property_object_id,
            status: BookingStatus::Active,
            expires_at,
            created_at: deal.updated_at,
            ended_at: None,
            row_version: deal.row_version,
            is_expiry_suspended: deal.step_group == StepGroup::Contract,
        }
    }

    /// Ends the booking (INV-BKG-3).
    #[must_use]
    pub fn end(self, status: BookingStatus, at: OffsetDateTime) -> Self {
        Self { status, ended_at: Some(at), ..self }
    }

    /// Returns true if the expiry time has passed and the expiry is not suspended (INV-BKG-4).
    pub fn is_overdue(&self, now: OffsetDateTime) -> bool {
        !self.is_expiry_suspended && self.expires_at <= now
    }
}

/// Checks the expiry time of a booking that is created or changed at `now`.
///
/// # Errors
/// `out_of_bounds` unless the time is after now and at most [`MAX_BOOKING_TERM`] ahead.
pub fn check_expiry(expires_at: OffsetDateTime, now: OffsetDateTime) -> Result<OffsetDateTime, Invalid> {
    let is_within = now < expires_at && expires_at <= now + MAX_BOOKING_TERM;
    if is_within { Ok(expires_at) } else { Err(Invalid::new("out_of_bounds")) }
}

#[cfg(test)]
mod tests {
    use time::{Duration, OffsetDateTime};

    use super::{Booking, BookingStatus, MAX_BOOKING_TERM, check_expiry};
    use crate::domain::{BookingId, DealId, PropertyObjectId};

    const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    fn booking(is_expiry_suspended: bool) -> Booking {
        Booking {
            id: BookingId::generate(),
            deal_id: DealId::generate(),
            property_object_id: PropertyObjectId::generate(),
            status: BookingStatus::Active,
            expires_at: NOW,
            created_at: NOW,
            ended_at: None,
            row_version: 1,
            is_expiry_suspended,
        }
    }

    /// A booking is overdue from its expiry on, unless the expiry is suspended.
    #[test]
    fn booking_is_overdue_from_its_expiry_on() {
        let before = NOW - Duration::SECOND;
        assert!(booking(false).is_overdue(NOW) && !booking(false).is_overdue(before));
        assert!(!booking(true).is_overdue(NOW) && !booking(true).is_overdue(before));
    }

    /// An ended booking has its last state and the time of its end.
    #[test]
    fn ended_booking_has_its_state_and_time() {
        let active = booking(false);
        let expected = Booking { status: BookingStatus::Expired, ended_at: Some(NOW), ..active.clone() };
        assert_eq!(active.end(BookingStatus::Expired, NOW), expected);
    }

    /// An expiry is after now and at most 90 days ahead.
    #[test]
    fn expiry_is_after_now_and_within_the_term() {
        for (expires_at, is_valid) in [
            (NOW - Duration::SECOND, false),
            (NOW, false),
            (NOW + Duration::SECOND, true),
            (NOW + MAX_BOOKING_TERM, true),
            (NOW + MAX_BOOKING_TERM + Duration::SECOND, false),
        ] {
            assert_eq!(check_expiry(expires_at, NOW).ok(), is_valid.then_some(expires_at), "{expires_at}");
        }
    }
}
