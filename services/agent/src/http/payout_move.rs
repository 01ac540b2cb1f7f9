//! What the platform does about a payout.

use ::web::{FieldError, Json, Moment, OptionalJson, Problem};
use actix_web::web::{Data, Path};
use actix_web::{Responder, post, web};
use auth::Permitted;
use runtime::clock;
use serde::Deserialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::Invalid;

use crate::app::App;
use crate::domain::{FailureReason, ManagePayouts, Move, PaymentReference, PayoutId, PayoutShown};
use crate::error::Error;
use crate::ops;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct SendPayout {
    /// What the bank calls it.
    reference: Option<PaymentReference>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ConfirmPayout {
    /// At most now, which it is where it is left out.
    #[schema(value_type = Option<String>, format = DateTime)]
    paid_at: Option<Moment>,
    /// What the bank calls it; left out, it is as it was sent.
    reference: Option<PaymentReference>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct FailPayout {
    reason: FailureReason,
}

/// Nothing is to be said.
#[derive(Deserialize, ToSchema)]
pub struct CancelPayout {}

async fn move_to(
    app: &App,
    id: PayoutId,
    by: Move,
    now: OffsetDateTime,
) -> Result<web::Json<PayoutShown>, Error> {
    let moved = app.db.tx(async |tx| ops::payout::move_payout(tx, id, by, now).await).await?;
    Ok(web::Json(moved.into()))
}

/// Send a payout.
///
/// It is on its way to the agent; again, nothing changes.
#[utoipa::path(
    tag = "Payouts", params(("payout_id" = PayoutId, Path)),
    request_body(content = Option<SendPayout>, description = "At most 256 KiB."),
    responses((status = 200, description = "As it is now", body = PayoutShown))
)]
#[post("/api/platform-manager/agent/payouts/{payout_id}/send")]
pub async fn send_payout(
    app: Data<App>,
    _: Permitted<ManagePayouts>,
    id: Path<PayoutId>,
    body: OptionalJson<SendPayout>,
) -> Result<impl Responder, Error> {
    move_to(&app, *id, Move::Send { reference: body.0.reference }, clock::now()).await
}

/// Confirm a payout.
///
/// It was paid, and so were its accruals; again, nothing changes.
#[utoipa::path(
    tag = "Payouts", params(("payout_id" = PayoutId, Path)),
    request_body(content = Option<ConfirmPayout>, description = "At most 256 KiB."),
    responses((status = 200, description = "As it is now", body = PayoutShown))
)]
#[post("/api/platform-manager/agent/payouts/{payout_id}/confirm")]
pub async fn confirm_payout(
    app: Data<App>,
    _: Permitted<ManagePayouts>,
    id: Path<PayoutId>,
    body: OptionalJson<ConfirmPayout>,
) -> Result<impl Responder, Error> {
    let (now, ConfirmPayout { paid_at, reference }) = (clock::now(), body.0);
    let paid_at = paid_at.map(|Moment(paid_at)| paid_at);
    if paid_at.is_some_and(|paid_at| paid_at > now) {
        let invalid = Invalid::new("out_of_bounds");
        return Err(
            Problem::validation_failed(vec![FieldError { field: "/PaidAt".to_owned(), invalid }]).into()
        );
    }
    move_to(&app, *id, Move::Confirm { paid_at, reference }, now).await
}

/// Say that a payout failed.
///
/// Its accruals wait for another run; again, nothing changes.
#[utoipa::path(
    tag = "Payouts", params(("payout_id" = PayoutId, Path)),
    request_body(content = FailPayout, description = "At most 256 KiB."),
    responses((status = 200, description = "As it is now", body = PayoutShown))
)]
#[post("/api/platform-manager/agent/payouts/{payout_id}/fail")]
pub async fn fail_payout(
    app: Data<App>,
    _: Permitted<ManagePayouts>,
    id: Path<PayoutId>,
    body: Json<FailPayout>,
) -> Result<impl Responder, Error> {
    move_to(&app, *id, Move::Fail { reason: body.0.reason }, clock::now()).await
}

/// Cancel a payout.
///
/// Before it is sent. Its accruals wait for another run; again, nothing changes.
#[utoipa::path(
    tag = "Payouts", params(("payout_id" = PayoutId, Path)),
    request_body(content = Option<CancelPayout>, description = "At most 256 KiB."),
    responses((status = 200, description = "As it is now", body = PayoutShown))
)]
#[post("/api/platform-manager/agent/payouts/{payout_id}/cancel")]
pub async fn cancel_payout(
    app: Data<App>,
    _: Permitted<ManagePayouts>,
    id: Path<PayoutId>,
    _: OptionalJson<CancelPayout>,
) -> Result<impl Responder, Error> {
    move_to(&app, *id, Move::Cancel, clock::now()).await
}
