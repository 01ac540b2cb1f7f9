//! Routes of bookings.

use ::db::PipelinedConn;
use ::web::{FieldError, Json, PathReference, Problem};
use actix_web::web::Data;
use actix_web::{HttpResponse, Responder, post, put, web};
use auth::Permitted;
use runtime::clock;
use serde::{Deserialize, Serialize};
use service::{Idempotency, Reply};
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::Moment;

use super::{ALL_DEALS, OWN_DEALS};
use crate::app::App;
use crate::domain::{
    BookingId, BookingStatus, ChangeOwnDeals, DealCard, DealId, ManageDeals, Operation, PropertyObjectId,
    SeenVersion, check_expiry,
};
use crate::error::{DEAL_BOOKING_REQUIRED, Error};
use crate::ops::deal_command::{CommandCaller, DealCommand, Outcome};

/// A booking with its deal after the change.
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
    /// The deal of the booking.
    deal: DealCard,
}

impl BookingView {
    /// Shows the booking of an outcome.
    ///
    /// # Errors
    /// [`DEAL_BOOKING_REQUIRED`] if the outcome has no booking.
    fn of(outcome: Outcome) -> Result<Self, Error> {
        let booking = outcome.booking.ok_or(DEAL_BOOKING_REQUIRED)?;
        Ok(Self {
            id: booking.id,
            deal_id: booking.deal_id,
            property_object_id: booking.property_object_id,
            status: booking.status,
            expires_at: booking.expires_at,
            created_at: booking.created_at,
            ended_at: booking.ended_at,
            deal: DealCard::from(&outcome.deal),
        })
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct BookDeal {
    /// Expiry time, after now and at most 90 days ahead. By default the configured life of a
    /// booking, three days.
    expires_at: Option<Moment>,
    /// The version that the caller has seen. If it is stale, the change returns
    /// `CRM_DEAL_CONFLICT`.
    row_version: Option<SeenVersion>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ProlongBooking {
    /// New expiry time, after now and at most 90 days ahead. It may be before or after the old one.
    expires_at: Moment,
    /// The version that the caller has seen. If it is stale, the change returns
    /// `CRM_DEAL_CONFLICT`.
    row_version: Option<SeenVersion>,
}

/// Book the object of a deal.
///
/// A deal in Application enters Booking. Any other deal stays in its step.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    request_body = BookDeal,
    responses((status = 201, description = "The booking", body = BookingView,
            headers(("Location" = String, description = "The deal"))))
)]
#[post("/api/platform-manager/crm/deals/{deal_id}/booking")]
pub async fn book_deal(
    app: Data<App>,
    permitted: Permitted<ManageDeals>,
    id: PathReference<DealId>,
    idempotency: Idempotency,
    body: Json<BookDeal>,
) -> Result<HttpResponse, Error> {
    book(&app, permitted.into(), ALL_DEALS, id.0, &idempotency, &body.0).await
}

/// Book the object of a deal of the own company.
///
/// A deal in Application enters Booking. Any other deal stays in its step.
#[utoipa::path(
    tag = "Own deals", params(("deal_id" = DealId, Path)),
    request_body = BookDeal,
    responses((status = 201, description = "The booking", body = BookingView,
            headers(("Location" = String, description = "The deal"))))
)]
#[post("/api/v1/crm/deals/{deal_id}/booking")]
pub async fn book_own_deal(
    app: Data<App>,
    permitted: Permitted<ChangeOwnDeals>,
    id: PathReference<DealId>,
    idempotency: Idempotency,
    body: Json<BookDeal>,
) -> Result<HttpResponse, Error> {
    book(&app, permitted.into(), OWN_DEALS, id.0, &idempotency, &body.0).await
}

async fn book(
    app: &App,
    caller: CommandCaller,
    deals: &str,
    id: DealId,
    idempotency: &Idempotency,
    body: &BookDeal,
) -> Result<HttpResponse, Error> {
    // A repeat returns the stored response before any check: its `ExpiresAt` may have passed.
    if let Some(response) = idempotency.find_response(&app.db).await? {
        return Ok(response);
    }
    let now = clock::now();
    let expires_at = match body.expires_at {
        Some(moment) => check_expires_at(moment, now)?,
        None => now + app.settings.booking_ttl,
    };
    let operation = Operation::Book { expires_at };
    let command = DealCommand { caller, deal_id: id, seen_version: body.row_version, operation, now };
    let book = async |tx: &mut _| {
        let view = BookingView::of(command.execute_locked(tx).await?)?;
        Ok(Reply::created(view).at(format!("{deals}/{id}")))
    };
    idempotency.run(&app.db, book).await
}

/// Change the expiry time of a booking.
///
/// A repeat with the same expiry time changes nothing.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    request_body = ProlongBooking,
    responses((status = 200, description = "The booking", body = BookingView))
)]
#[put("/api/platform-manager/crm/deals/{deal_id}/booking")]
pub async fn prolong_booking(
    app: Data<App>,
    permitted: Permitted<ManageDeals>,
    id: PathReference<DealId>,
    lookups: Data<PipelinedConn>,
    body: Json<ProlongBooking>,
) -> Result<impl Responder, Error> {
    prolong(&app, &lookups, permitted.into(), id.0, &body.0).await.map(web::Json)
}

/// Change the expiry time of a booking of the own company.
///
/// A repeat with the same expiry time changes nothing.
#[utoipa::path(
    tag = "Own deals", params(("deal_id" = DealId, Path)),
    request_body = ProlongBooking,
    responses((status = 200, description = "The booking", body = BookingView))
)]
#[put("/api/v1/crm/deals/{deal_id}/booking")]
pub async fn prolong_own_booking(
    app: Data<App>,
    permitted: Permitted<ChangeOwnDeals>,
    id: PathReference<DealId>,
    lookups: Data<PipelinedConn>,
    body: Json<ProlongBooking>,
) -> Result<impl Responder, Error> {
    prolong(&app, &lookups, permitted.into(), id.0, &body.0).await.map(web::Json)
}

async fn prolong(
    app: &App,
    lookups: &PipelinedConn,
    caller: CommandCaller,
    id: DealId,
    body: &ProlongBooking,
) -> Result<BookingView, Error> {
    let now = clock::now();
    let operation = Operation::Prolong { expires_at: check_expires_at(body.expires_at, now)? };
    let command = DealCommand { caller, deal_id: id, seen_version: body.row_version, operation, now };
    BookingView::of(command.execute(&app.db, lookups).await?)
}

/// Checks the member `ExpiresAt` of a request.
///
/// # Errors
/// `VALIDATION_FAILED` at `/ExpiresAt` if the time is out of bounds.
fn check_expires_at(Moment(expires_at): Moment, now: OffsetDateTime) -> Result<OffsetDateTime, Problem> {
    check_expiry(expires_at, now).map_err(|invalid| {
        Problem::validation_failed(vec![FieldError { field: "/ExpiresAt".to_owned(), invalid }])
    })
}
