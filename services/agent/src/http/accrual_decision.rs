//! Decisions of the platform about accruals.

use ::web::Json;
use actix_web::web::{Data, Path};
use actix_web::{Responder, post, web};
use auth::Permitted;
use runtime::clock;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::db;
use crate::db::accrual_view::AccrualView;
use crate::domain::{AccrualId, Comment, ManageCommissions};
use crate::error::Error;
use crate::ops;
use crate::ops::accrual::Decision;

/// A decision about an accrual.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct DecideAccrual {
    /// Reason for the decision.
    comment: Comment,
}

/// Release an accrual.
///
/// Approves the accrual of a completed sale that awaits a release: its amount is above the limit of
/// automatic approval, or its agent set the rate.
/// Every other accrual of the sale that awaits its release is released too.
/// A repeated request changes nothing.
#[utoipa::path(
    tag = "Commissions", params(("accrual_id" = AccrualId, Path)),
    responses((status = 200, description = "The approved accrual", body = AccrualView))
)]
#[post("/api/platform-manager/agent/commission-accruals/{accrual_id}/release")]
pub async fn release_accrual(
    app: Data<App>,
    permitted: Permitted<ManageCommissions>,
    id: Path<AccrualId>,
) -> Result<impl Responder, Error> {
    let (by, now) = (permitted.actor.user_id, clock::now());
    let released = app.db.tx(async |tx| {
        let accrual = ops::accrual::release(tx, *id, by, now).await?;
        Ok::<AccrualView, Error>(db::accrual_view::view(tx.conn(), accrual).await?)
    });
    Ok(web::Json(released.await?))
}

/// Reject an accrual.
///
/// Rejects the accrual with its adjustments and closes open requests about it.
/// None of these accruals may be in a payout. A repeated request changes nothing.
#[utoipa::path(
    tag = "Commissions", params(("accrual_id" = AccrualId, Path)),
    request_body = DecideAccrual,
    responses((status = 200, description = "The rejected accrual", body = AccrualView))
)]
#[post("/api/platform-manager/agent/commission-accruals/{accrual_id}/reject")]
pub async fn reject_accrual(
    app: Data<App>,
    permitted: Permitted<ManageCommissions>,
    id: Path<AccrualId>,
    body: Json<DecideAccrual>,
) -> Result<impl Responder, Error> {
    let (by, comment, now) = (permitted.actor.user_id, &body.0.comment, clock::now());
    let rejected = app.db.tx(async |tx| {
        let accrual = ops::accrual::reject(tx, *id, Decision { by, comment, now }).await?;
        Ok::<AccrualView, Error>(db::accrual_view::view(tx.conn(), accrual).await?)
    });
    Ok(web::Json(rejected.await?))
}

/// Reverse an accrual.
///
/// Undoes an accrual that is in a payout, paid or not, with its adjustments.
/// The Reversal lowers the next payout. A repeated request returns the same Reversal.
#[utoipa::path(
    tag = "Commissions", params(("accrual_id" = AccrualId, Path)),
    request_body = DecideAccrual,
    responses((status = 200, description = "The Reversal", body = AccrualView))
)]
#[post("/api/platform-manager/agent/commission-accruals/{accrual_id}/reverse")]
pub async fn reverse_accrual(
    app: Data<App>,
    permitted: Permitted<ManageCommissions>,
    id: Path<AccrualId>,
    body: Json<DecideAccrual>,
) -> Result<impl Responder, Error> {
    let (by, comment, now) = (permitted.actor.user_id, &body.0.comment, clock::now());
    let reversal = app.db.tx(async |tx| {
        let accrual = ops::accrual::reverse(tx, *id, Decision { by, comment, now }).await?;
        Ok::<AccrualView, Error>(db::accrual_view::view(tx.conn(), accrual).await?)
    });
    Ok(web::Json(reversal.await?))
}
