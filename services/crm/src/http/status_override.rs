//! Routes of the status override, which platform managers use for arbitration.

use ::db::PipelinedConn;
use ::web::{Json, PathReference};
use actix_web::web::Data;
use actix_web::{Responder, post, web};
use auth::Permitted;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::db;
use crate::domain::{
    Change, Deal, DealCard, DealEventType, DealId, DealStatus, FreeText, ManageDeals, Operation, SeenVersion,
    StepGroup, StepId,
};
use crate::error::{DEAL_STATUS_OVERRIDE_FORBIDDEN, Error};
use crate::ops::deal_command::{DealCommand, Decision};

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct OverrideStatus {
    /// Any status except `Completed`.
    target_status: DealStatus,
    /// Comment for the timeline.
    comment: FreeText,
    /// The version that the caller has seen. If it is stale, the change returns
    /// `CRM_DEAL_CONFLICT`.
    row_version: Option<SeenVersion>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct PreviewOverride {
    /// Any status except `Completed`.
    target_status: DealStatus,
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
/// The target is any status except Completed. A Cancelled deal can be overridden, too.
/// The deal enters the default step of the target group, or the first live step without a default.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    request_body(content = OverrideStatus, description = "At most 256 KiB."),
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
    let OverrideStatus { target_status, comment, row_version } = body.0;
    let operation = create_operation(target_status, Some(comment))?;
    let command = DealCommand::new(permitted, id.0, row_version, operation);
    Ok(web::Json(DealCard::from(&command.execute(&app.db, &lookups).await?.deal)))
}

/// Preview an override.
///
/// Returns the same refusals as the override, and changes nothing.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    request_body(content = PreviewOverride, description = "At most 256 KiB."),
    responses((status = 200, description = "The effect that the override would have", body = OverridePreview))
)]
#[post("/api/platform-manager/crm/deals/{deal_id}/override-status/preview")]
pub async fn preview_deal_override(
    permitted: Permitted<ManageDeals>,
    id: PathReference<DealId>,
    lookups: Data<PipelinedConn>,
    body: Json<PreviewOverride>,
) -> Result<impl Responder, Error> {
    let PreviewOverride { target_status, row_version } = body.0;
    let command = DealCommand::new(permitted, id.0, row_version, create_operation(target_status, None)?);
    let id = id.0;
    let state = lookups.run(async |conn| db::deal_state::look_up(conn, id).await).await?;
    let Decision { state, change } = command.decide(state)?;
    let to = change.as_ref().map_or(&state.deal, |change| &change.after);
    Ok(web::Json(OverridePreview {
        no_op: change.is_none(),
        from: DealCard::from(&state.deal),
        to: OverrideTarget::from(to),
        cancels_booking: change.as_ref().is_some_and(Change::has_ended_booking),
        events: change.as_ref().map(Change::event_types).unwrap_or_default(),
    }))
}

/// Creates the operation of an override.
///
/// # Errors
/// [`DEAL_STATUS_OVERRIDE_FORBIDDEN`] for the target Completed (INV-DEAL-7).
fn create_operation(target: DealStatus, comment: Option<FreeText>) -> Result<Operation, Error> {
    if target == DealStatus::Completed {
        return Err(DEAL_STATUS_OVERRIDE_FORBIDDEN.into());
    }
    Ok(Operation::Override { target, comment })
}
