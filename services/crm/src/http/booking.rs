//! Bookings of deals.

use ::db::Lookups;
use ::web::{FieldError, Json, Moment, PathReference, Problem};
use actix_web::web::Data;
use actix_web::{HttpResponse, Responder, post, put, web};
use auth::Permitted;
use runtime::clock;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::order::{Changed, Manager, Order};
use crate::app::App;
use crate::domain::{
    BookingId, BookingStatus, ChangeOwnDeals, DealCard, DealId, ManageDeals, Operation, PropertyObjectId,
    SeenVersion, check_expiry,
};
use crate::error::{DEAL_BOOKING_REQUIRED, Error};

/// A booking, and the deal after the change.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct BookingView {
    id: BookingId,
    deal_id: DealId,
    property_object_id: PropertyObjectId,
    status: BookingStatus,
    #[serde(with = "time::serde::rfc3339")]
    expires_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    ended_at: Option<OffsetDateTime>,
    deal: DealCard,
}

impl BookingView {
    /// # Errors
    /// [`DEAL_BOOKING_REQUIRED`] where there is none.
    fn of(changed: Changed) -> Result<Self, Error> {
        let booking = changed.booking.ok_or(DEAL_BOOKING_REQUIRED)?;
        Ok(Self {
            id: booking.id,
            deal_id: booking.deal_id,
            property_object_id: booking.property_object_id,
            status: booking.status,
            expires_at: booking.expires_at,
            created_at: booking.created_at,
            ended_at: booking.ended_at,
            deal: DealCard::from(&changed.deal),
        })
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Book {
    /// After now, at most 90 days ahead. Left out, it is as the service is configured: three days.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Moment>,
    /// The version that the caller has seen; another one is a conflict.
    row_version: Option<SeenVersion>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Prolong {
    /// After now, at most 90 days ahead; later than before, or sooner.
    #[schema(value_type = String, format = DateTime)]
    expires_at: Moment,
    /// The version that the caller has seen; another one is a conflict.
    row_version: Option<SeenVersion>,
}

/// Book the object of a deal.
///
/// A deal in Application comes into Booking by that.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    request_body(content = Book, description = "At most 256 KiB."),
    responses((status = 201, description = "The booking", body = BookingView))
)]
#[post("/api/platform-manager/crm/deals/{deal_id}/booking")]
pub async fn book_deal(
    app: Data<App>,
    permitted: Permitted<ManageDeals>,
    id: PathReference<DealId>,
    lookups: Data<Lookups>,
    body: Json<Book>,
) -> Result<HttpResponse, Error> {
    book(&app, &lookups, permitted.into(), id.0, &body.0).await
}

/// Book the object of a deal of one's own company.
///
/// A deal in Application comes into Booking by that.
#[utoipa::path(
    tag = "Own deals", params(("deal_id" = DealId, Path)),
    request_body(content = Book, description = "At most 256 KiB."),
    responses((status = 201, description = "The booking", body = BookingView))
)]
#[post("/api/v1/crm/deals/{deal_id}/booking")]
pub async fn book_own_deal(
    app: Data<App>,
    permitted: Permitted<ChangeOwnDeals>,
    id: PathReference<DealId>,
    lookups: Data<Lookups>,
    body: Json<Book>,
) -> Result<HttpResponse, Error> {
    book(&app, &lookups, permitted.into(), id.0, &body.0).await
}

async fn book(
    app: &App,
    lookups: &Lookups,
    manager: Manager,
    id: DealId,
    body: &Book,
) -> Result<HttpResponse, Error> {
    let now = clock::now();
    let expires_at = match body.expires_at {
        Some(moment) => within_bounds(moment, now)?,
        None => now + app.settings.booking_ttl,
    };
    let operation = Operation::Book { expires_at };
    let order = Order { manager, id, seen: body.row_version, operation, now };
    Ok(HttpResponse::Created().json(BookingView::of(order.carry_out(app, lookups).await?)?))
}

/// Give the booking of a deal another end.
///
/// Later or sooner, 90 days from now at most; the same end again changes nothing.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    request_body(content = Prolong, description = "At most 256 KiB."),
    responses((status = 200, description = "The booking", body = BookingView))
)]
#[put("/api/platform-manager/crm/deals/{deal_id}/booking")]
pub async fn prolong_booking(
    app: Data<App>,
    permitted: Permitted<ManageDeals>,
    id: PathReference<DealId>,
    lookups: Data<Lookups>,
    body: Json<Prolong>,
) -> Result<impl Responder, Error> {
    prolong(&app, &lookups, permitted.into(), id.0, &body.0).await.map(web::Json)
}

/// Give the booking of a deal of one's own company another end.
///
/// Later or sooner, 90 days from now at most; the same end again changes nothing.
#[utoipa::path(
    tag = "Own deals", params(("deal_id" = DealId, Path)),
    request_body(content = Prolong, description = "At most 256 KiB."),
    responses((status = 200, description = "The booking", body = BookingView))
)]
#[put("/api/v1/crm/deals/{deal_id}/booking")]
pub async fn prolong_own_booking(
    app: Data<App>,
    permitted: Permitted<ChangeOwnDeals>,
    id: PathReference<DealId>,
    lookups: Data<Lookups>,
    body: Json<Prolong>,
) -> Result<impl Responder, Error> {
    prolong(&app, &lookups, permitted.into(), id.0, &body.0).await.map(web::Json)
}

async fn prolong(
    app: &App,
    lookups: &Lookups,
    manager: Manager,
    id: DealId,
    body: &Prolong,
) -> Result<BookingView, Error> {
    let now = clock::now();
    let operation = Operation::Prolong { expires_at: within_bounds(body.expires_at, now)? };
    let order = Order { manager, id, seen: body.row_version, operation, now };
    BookingView::of(order.carry_out(app, lookups).await?)
}

/// # Errors
/// `VALIDATION_FAILED`
fn within_bounds(Moment(expires_at): Moment, now: OffsetDateTime) -> Result<OffsetDateTime, Problem> {
    check_expiry(expires_at, now).map_err(|invalid| {
        Problem::validation_failed(vec![FieldError { field: "/ExpiresAt".to_owned(), invalid }])
    })
}
