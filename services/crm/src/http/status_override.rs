//! The override of a deal's status: arbitration by the platform.

use ::db::Lookups;
use ::web::{Json, PathReference};
use actix_web::web::Data;
use actix_web::{Responder, post, web};
use auth::Permitted;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::order::{Decided, Order};
use crate::app::App;
use crate::db;
use crate::domain::{
    Change, Deal, DealCard, DealId, DealStatus, ManageDeals, Operation, SeenVersion, StepGroup, StepId, Told,
    Words,
};
use crate::error::{DEAL_STATUS_OVERRIDE_FORBIDDEN, Error};

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct OverrideStatus {
    /// Any but Completed.
    target_status: DealStatus,
    /// Why: for the timeline.
    comment: Words,
    /// The version that the caller has seen; another one is a conflict.
    row_version: Option<SeenVersion>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct PreviewOverride {
    /// Any but Completed.
    target_status: DealStatus,
    /// The version that the caller has seen; another one is a conflict.
    row_version: Option<SeenVersion>,
}

/// What an override would do.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct OverridePreview {
    /// The deal has that status already.
    no_op: bool,
    from: DealCard,
    to: OverrideTarget,
    cancels_booking: bool,
    /// What would be told, in order.
    events: Vec<Told>,
}

/// Where a deal would stand.
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
/// Backwards and over other statuses, too, and back from Cancelled; to Completed never. The deal comes into the default
/// step of the status, else the first one.
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
    lookups: Data<Lookups>,
    body: Json<OverrideStatus>,
) -> Result<impl Responder, Error> {
    let OverrideStatus { target_status, comment, row_version } = body.0;
    let operation = overriding(target_status, Some(comment))?;
    let changed = Order::new(permitted, id.0, row_version, operation).carry_out(&app, &lookups).await?;
    Ok(web::Json(DealCard::from(&changed.deal)))
}

/// See what an override would do.
///
/// It is refused as the override would be, and changes nothing.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    request_body(content = PreviewOverride, description = "At most 256 KiB."),
    responses((status = 200, description = "What would become of the deal", body = OverridePreview))
)]
#[post("/api/platform-manager/crm/deals/{deal_id}/override-status/preview")]
pub async fn preview_deal_override(
    permitted: Permitted<ManageDeals>,
    id: PathReference<DealId>,
    lookups: Data<Lookups>,
    body: Json<PreviewOverride>,
) -> Result<impl Responder, Error> {
    let PreviewOverride { target_status, row_version } = body.0;
    let order = Order::new(permitted, id.0, row_version, overriding(target_status, None)?);
    let id = id.0;
    let situation = lookups.run(async |conn| db::situation::look_up(conn, id).await).await?;
    let Decided { situation, change } = order.decide(situation)?;
    let to = change.as_ref().map_or(&situation.deal, |change| &change.after);
    Ok(web::Json(OverridePreview {
        no_op: change.is_none(),
        from: DealCard::from(&situation.deal),
        to: OverrideTarget::from(to),
        cancels_booking: change.as_ref().is_some_and(Change::ends_booking),
        events: change.as_ref().map(Change::told).unwrap_or_default(),
    }))
}

/// # Errors
/// [`DEAL_STATUS_OVERRIDE_FORBIDDEN`]: INV-DEAL-7.
fn overriding(target: DealStatus, comment: Option<Words>) -> Result<Operation, Error> {
    if target == DealStatus::Completed {
        return Err(DEAL_STATUS_OVERRIDE_FORBIDDEN.into());
    }
    Ok(Operation::Override { target, comment })
}
