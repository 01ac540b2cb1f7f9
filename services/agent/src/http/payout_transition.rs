//! Transitions of payouts.

use ::web::{FieldError, Json, OptionalJson, Problem};
use actix_web::web::{Data, Path};
use actix_web::{Responder, post, web};
use auth::{Permitted, UserId};
use runtime::clock;
use serde::Deserialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::{Invalid, Moment};

use crate::app::App;
use crate::domain::{FailureReason, ManagePayouts, PaymentReference, PayoutId, PayoutTransition, PayoutView};
use crate::error::Error;
use crate::ops;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct SendPayout {
    /// The bank's reference.
    reference: Option<PaymentReference>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ConfirmPayout {
    /// Time of the payment, not after now; now if absent.
    paid_at: Option<Moment>,
    /// The bank's reference; the one of `send` if absent.
    reference: Option<PaymentReference>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct FailPayout {
    reason: FailureReason,
}

/// An empty body.
#[derive(Deserialize, ToSchema)]
pub struct CancelPayout {}

async fn apply(
    app: &App,
    id: PayoutId,
    transition: PayoutTransition,
    by: UserId,
    now: OffsetDateTime,
) -> Result<web::Json<PayoutView>, Error> {
    let apply = async |tx: &mut _| ops::payout::apply_transition(tx, id, transition, by, now).await;
    Ok(web::Json(app.db.tx(apply).await?.into()))
}

/// Send a payout.
///
/// Marks the payout as on its way to the agent. A repeated request changes nothing.
#[utoipa::path(
    tag = "Payouts", params(("payout_id" = PayoutId, Path)),
    request_body = Option<SendPayout>,
    responses((status = 200, description = "The payout", body = PayoutView))
)]
#[post("/api/platform-manager/agent/payouts/{payout_id}/send")]
pub async fn send_payout(
    app: Data<App>,
    permitted: Permitted<ManagePayouts>,
    id: Path<PayoutId>,
    body: OptionalJson<SendPayout>,
) -> Result<impl Responder, Error> {
    let (by, transition) = (permitted.actor.user_id, PayoutTransition::Send { reference: body.0.reference });
    apply(&app, *id, transition, by, clock::now()).await
}

/// Confirm a payout.
///
/// Marks the payout and its accruals as paid. A repeated request changes nothing.
#[utoipa::path(
    tag = "Payouts", params(("payout_id" = PayoutId, Path)),
    request_body = Option<ConfirmPayout>,
    responses((status = 200, description = "The payout", body = PayoutView))
)]
#[post("/api/platform-manager/agent/payouts/{payout_id}/confirm")]
pub async fn confirm_payout(
    app: Data<App>,
    permitted: Permitted<ManagePayouts>,
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
    let (by, transition) = (permitted.actor.user_id, PayoutTransition::Confirm { paid_at, reference });
    apply(&app, *id, transition, by, now).await
}

/// Mark a payout as failed.
///
/// Releases its accruals for another run. A repeated request changes nothing.
#[utoipa::path(
    tag = "Payouts", params(("payout_id" = PayoutId, Path)),
    request_body = FailPayout,
    responses((status = 200, description = "The payout", body = PayoutView))
)]
#[post("/api/platform-manager/agent/payouts/{payout_id}/fail")]
pub async fn fail_payout(
    app: Data<App>,
    permitted: Permitted<ManagePayouts>,
    id: Path<PayoutId>,
    body: Json<FailPayout>,
) -> Result<impl Responder, Error> {
    let (by, transition) = (permitted.actor.user_id, PayoutTransition::Fail { reason: body.0.reason });
    apply(&app, *id, transition, by, clock::now()).await
}

/// Cancel a payout.
///
/// Cancels a payout that was not sent, and releases its accruals for another run.
/// A repeated request changes nothing.
#[utoipa::path(
    tag = "Payouts", params(("payout_id" = PayoutId, Path)),
    request_body = Option<CancelPayout>,
    responses((status = 200, description = "The payout", body = PayoutView))
)]
#[post("/api/platform-manager/agent/payouts/{payout_id}/cancel")]
pub async fn cancel_payout(
    app: Data<App>,
    permitted: Permitted<ManagePayouts>,
    id: Path<PayoutId>,
    _: OptionalJson<CancelPayout>,
) -> Result<impl Responder, Error> {
    apply(&app, *id, PayoutTransition::Cancel, permitted.actor.user_id, clock::now()).await
}
