//! Routes of the status override, which platform managers use for arbitration.

use ::db::PipelinedConn;
use ::web::{FieldError, Json, PathReference, Problem};
use actix_web::web::Data;
use actix_web::{Responder, post, web};
use auth::Permitted;
use runtime::clock;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::{Invalid, Moment};

use crate::app::App;
use crate::db;
use crate::domain::{
    Change, Deal, DealCard, DealEventType, DealId, DealStatus, FreeText, ManageDeals, NoteAudience,
    ObjectAvailability, ObjectState, Operation, SeenVersion, StatusOverride, StepGroup, StepId, check_expiry,
};
use crate::error::{DEAL_STATUS_OVERRIDE_FORBIDDEN, Error};
use crate::ops::deal_command::{DealCommand, Decision};

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct OverrideStatus {
    /// Any status except `Completed`.
    target_status: DealStatus,
    /// Comment for the timeline and the register of overrides.
    comment: FreeText,
    /// Readers of the comment. `Platform` hides it on company routes; by default everyone reads it.
    /// A cancellation shows its comment as the reason, so only `Everyone` is possible there.
    audience: Option<NoteAudience>,
    /// Books the object in the same change. Possible for the targets `Booking` and `Sale`. Without
    /// it no booking is made. A deal that already has the status is not booked.
    booking: Option<BookInOverride>,
    /// The version that the caller has seen. If it is stale, the change returns
    /// `CRM_DEAL_CONFLICT`.
    row_version: Option<SeenVersion>,
}

/// A booking that an override makes in the same change.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct BookInOverride {
    /// Expiry time, after now and at most 90 days ahead. By default the configured life of a
    /// booking, three days.
    expires_at: Option<Moment>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct PreviewOverride {
    /// Any status except `Completed`.
    target_status: DealStatus,
    /// The booking that the override would make.
    booking: Option<BookInOverride>,
    /// The version that the caller has seen. If it is stale, the change returns
    /// `CRM_DEAL_CONFLICT`.
    row_version: Option<SeenVersion>,
}

/// The effect that an override would have.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct OverridePreview {
    /// True if the deal already has the target status.
    no_op: bool,
    /// The deal before the change.
    from: DealCard,
    /// The deal after the change.
    to: OverrideTarget,
    /// True if the change cancels the active booking.
    cancels_booking: bool,
    /// Types of the events, in the order of publication.
    events: Vec<DealEventType>,
    /// Availability of the object for a booking. `null` unless the deal leaves `Cancelled`.
    object_availability: Option<ObjectAvailability>,
}

/// The status and the step after an override.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct OverrideTarget {
    status: DealStatus,
    step_id: StepId,
    step_group: StepGroup,
}

impl From<&Deal> for OverrideTarget {
    fn from(deal: &Deal) -> Self {
        Self { status: deal.status, step_id: deal.step_id, step_group: deal.step_group }
    }
}

/// Override the status of a deal.
///
/// The target is any status except Completed. A Cancelled deal can be overridden, too. The deal
/// enters the default step of the target group, or the first live step without a default. With the
/// member `Booking`, for the targets Booking and Sale, the object is booked in the same change, or
/// the request is refused as a booking. Without it no booking is made, also for the target Booking.
/// A deal that already has the status is not booked.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    request_body = OverrideStatus,
    responses((status = 200, description = "The deal as it is now", body = DealCard))
)]
#[post("/api/platform-manager/crm/deals/{deal_id}/override-status")]
pub async fn override_deal_status(
    app: Data<App>,
    permitted: Permitted<ManageDeals>,
    id: PathReference<DealId>,
    lookups: Data<PipelinedConn>,
    body: Json<OverrideStatus>,
) -> Result<impl Responder, Error> {
    let OverrideStatus { target_status, comment, audience, booking, row_version } = body.0;
    let audience = audience.unwrap_or(NoteAudience::Everyone);
    if target_status == DealStatus::Cancelled && !audience.is_everyone() {
        return Err(invalid_member("/Audience").into());
    }
    let now = clock::now();
    let booked_until = read_booked_until(&app, target_status, booking.as_ref(), now)?;
    let requested = StatusOverride { target: target_status, comment: Some(comment), audience, booked_until };
    let operation = create_operation(requested)?;
    let command =
        DealCommand { caller: permitted.into(), deal_id: id.0, seen_version: row_version, operation, now };
    Ok(web::Json(DealCard::from(&command.execute(&app.db, &lookups).await?.deal)))
}

/// Preview an override.
///
/// Returns the same refusals as the override, and changes nothing.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    request_body = PreviewOverride,
    responses((status = 200, description = "The effect that the override would have", body = OverridePreview))
)]
#[post("/api/platform-manager/crm/deals/{deal_id}/override-status/preview")]
pub async fn preview_deal_override(
    app: Data<App>,
    permitted: Permitted<ManageDeals>,
    id: PathReference<DealId>,
    lookups: Data<PipelinedConn>,
    body: Json<PreviewOverride>,
) -> Result<impl Responder, Error> {
    let PreviewOverride { target_status, booking, row_version } = body.0;
    let now = clock::now();
    let booked_until = read_booked_until(&app, target_status, booking.as_ref(), now)?;
    let audience = NoteAudience::Everyone;
    let operation =
        create_operation(StatusOverride { target: target_status, comment: None, audience, booked_until })?;
    let (id, caller) = (id.0, permitted.into());
    let command = DealCommand { caller, deal_id: id, seen_version: row_version, operation, now };
    let state = lookups.run(async |conn| db::deal_state::look_up_with_object(conn, id).await).await?;
    let Decision { state, change } = command.decide(state)?;
    let is_revival = state.deal.status == DealStatus::Cancelled && change.is_some();
    let to = change.as_ref().map_or(&state.deal, |change| &change.after);
    Ok(web::Json(OverridePreview {
        no_op: change.is_none(),
        from: DealCard::from(&state.deal),
        to: OverrideTarget::from(to),
        cancels_booking: change.as_ref().is_some_and(Change::has_ended_booking),
        events: change.as_ref().map(Change::event_types).unwrap_or_default(),
        object_availability: state.object.filter(|_| is_revival).map(ObjectState::availability),
    }))
}

/// Creates the operation of an override.
///
/// # Errors
/// [`DEAL_STATUS_OVERRIDE_FORBIDDEN`] for the target Completed (INV-DEAL-7).
fn create_operation(requested: StatusOverride) -> Result<Operation, Error> {
    if requested.target == DealStatus::Completed {
        return Err(DEAL_STATUS_OVERRIDE_FORBIDDEN.into());
    }
    Ok(Operation::Override(requested))
}

/// Returns the expiry time of a requested booking.
///
/// # Errors
/// `VALIDATION_FAILED` if the target is Application or Cancelled, or if the expiry time is out of
/// bounds.
fn read_booked_until(
    app: &App,
    target: DealStatus,
    booking: Option<&BookInOverride>,
    now: OffsetDateTime,
) -> Result<Option<OffsetDateTime>, Problem> {
    let Some(BookInOverride { expires_at }) = booking else { return Ok(None) };
    if matches!(target, DealStatus::Application | DealStatus::Cancelled) {
        return Err(invalid_member("/Booking"));
    }
    let Some(Moment(expires_at)) = *expires_at else { return Ok(Some(now + app.settings.booking_ttl)) };
    check_expiry(expires_at, now).map(Some).map_err(|invalid| {
        Problem::validation_failed(vec![FieldError { field: "/Booking/ExpiresAt".to_owned(), invalid }])
    })
}

/// The problem of a member that the target status excludes.
fn invalid_member(field: &str) -> Problem {
    let invalid = Invalid::new("excluded_by_target");
    Problem::validation_failed(vec![FieldError { field: field.to_owned(), invalid }])
}
