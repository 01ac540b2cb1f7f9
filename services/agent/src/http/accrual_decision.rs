//! What the platform decides about an accrual.

use ::web::Json;
use actix_web::web::{Data, Path};
use actix_web::{Responder, post, web};
use auth::Permitted;
use runtime::clock;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::db;
use crate::db::accrual_view::AccrualShown;
use crate::domain::{AccrualId, ManageCommissions, Words};
use crate::error::Error;
use crate::ops;
use crate::ops::accrual::Decision;

/// Why.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct DecideAccrual {
    comment: Words,
}

/// Reject an accrual.
///
/// With what adjusts it, as long as none of it is in a payout; again, nothing changes.
#[utoipa::path(
    tag = "Commissions", params(("accrual_id" = AccrualId, Path)),
    request_body(content = DecideAccrual, description = "At most 256 KiB."),
    responses((status = 200, description = "As it is now", body = AccrualShown))
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
        Ok::<AccrualShown, Error>(db::accrual_view::show(tx.conn(), accrual).await?)
    });
    Ok(web::Json(rejected.await?))
}

/// Reverse an accrual that is in a payout, or was paid.
///
/// What adjusts it is undone with it. The Reversal lowers the next payout; again, it is the same one.
#[utoipa::path(
    tag = "Commissions", params(("accrual_id" = AccrualId, Path)),
    request_body(content = DecideAccrual, description = "At most 256 KiB."),
    responses((status = 200, description = "The Reversal", body = AccrualShown))
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
        Ok::<AccrualShown, Error>(db::accrual_view::show(tx.conn(), accrual).await?)
    });
    Ok(web::Json(reversal.await?))
}
