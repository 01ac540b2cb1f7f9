//! A booking of an object by a deal.

use diesel::pg::Pg;
use diesel::prelude::*;
use time::{Duration, OffsetDateTime};
use values::Invalid;

use super::{BookingId, Deal, DealId, PropertyObjectId, StepGroup};
use crate::db::schema::booking;

/// No booking ends later than so long from now.
pub const LONGEST_BOOKING: Duration = Duration::days(90);

values::text_enum! {
    /// Whether a booking holds its object, or how it has ended.
    pub enum BookingStatus {
        Active,
        Cancelled,
        Completed,
        Expired,
    }
}

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
    /// The deal's, with which it was made.
    pub row_version: i64,
    /// INV-BKG-4: it does not expire now.
    pub is_kept: bool,
}

impl Booking {
    /// Of a deal that has just changed for it.
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
            is_kept: deal.step_group == StepGroup::Contract,
        }
    }

    /// INV-BKG-3
    #[must_use]
    pub fn ended(self, status: BookingStatus, at: OffsetDateTime) -> Self {
        Self { status, ended_at: Some(at), ..self }
    }

    /// INV-BKG-4
    pub fn is_overdue(&self, now: OffsetDateTime) -> bool {
        !self.is_kept && self.expires_at <= now
    }
}

/// When a booking that is made or prolonged now may end.
///
/// # Errors
/// `out_of_bounds`
pub fn check_expiry(expires_at: OffsetDateTime, now: OffsetDateTime) -> Result<OffsetDateTime, Invalid> {
    let is_within = now < expires_at && expires_at <= now + LONGEST_BOOKING;
    if is_within { Ok(expires_at) } else { Err(Invalid::new("out_of_bounds")) }
}
