//! Events of bookings.

use auth::{CompanyId, UserId};
use messaging::Event;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::deal::DEAL;
use crate::domain::{Booking, BookingId, Deal, DealId, PropertyObjectId};

/// A deal has booked its object.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.crm.booking-created.v1", version = 1, aggregate = DEAL, key = deal_id)]
pub struct BookingCreated {
    pub booking_id: BookingId,
    pub deal_id: DealId,
    pub tenant_id: CompanyId,
    pub property_object_id: PropertyObjectId,
    pub client_user_id: UserId,
    #[serde(with = "time::serde::rfc3339")]
    pub expires_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[schema(minimum = 1, maximum = 4_294_967_295_i64)]
    pub row_version: i64,
}

impl BookingCreated {
    pub fn of(deal: &Deal, booking: &Booking) -> Self {
        Self {
            booking_id: booking.id,
            deal_id: deal.id,
            tenant_id: deal.tenant_id,
            property_object_id: deal.property_object_id,
            client_user_id: deal.client_user_id,
            expires_at: booking.expires_at,
            created_at: booking.created_at,
            row_version: booking.row_version,
        }
    }
}

/// A booking has expired. Its deal stays in its step.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.crm.booking-expired.v1", version = 1, aggregate = DEAL, key = deal_id)]
pub struct BookingExpired {
    pub booking_id: BookingId,
    pub deal_id: DealId,
    pub tenant_id: CompanyId,
    pub property_object_id: PropertyObjectId,
    #[serde(with = "time::serde::rfc3339")]
    pub expired_at: OffsetDateTime,
    #[schema(minimum = 1, maximum = 4_294_967_295_i64)]
    pub row_version: i64,
}

impl BookingExpired {
    /// `deal` is the deal after the change that ended the booking.
    pub fn of(deal: &Deal, booking: &Booking) -> Self {
        Self {
            booking_id: booking.id,
            deal_id: deal.id,
            tenant_id: deal.tenant_id,
            property_object_id: deal.property_object_id,
            expired_at: deal.updated_at,
            row_version: deal.row_version,
        }
    }
}
