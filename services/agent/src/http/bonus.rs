//! Bonus proposals.

use ::web::{Both, Json, OptionalJson, Page, Paging, Query};
use actix_web::web::{Data, Path};
use actix_web::{HttpResponse, Responder, get, post, web};
use auth::Permitted;
use runtime::clock;
use serde::Deserialize;
use service::{Idempotency, Reply};
use utoipa::ToSchema;
use values::{Currency, Money, Whole};

use super::adjustment::AdjustmentQuery;
use crate::app::App;
use crate::db::adjustment::AdjustmentSort;
use crate::domain::{
    AccrualId, BonusProposalId, BonusProposalView, Comment, ManageCommissions, OptionalComment,
    non_empty_comment,
};
use crate::error::Error;
use crate::ops::bonus::NewBonus;
use crate::{db, ops};

/// The amount of a bonus.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct BonusAmount {
    #[schema(example = 5_000_000)]
    amount_minor: Whole<1, { i64::MAX }>,
    #[schema(value_type = String, pattern = "^[A-Z]{3}$", examples("RUB"))]
    currency: Currency,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ProposeBonus {
    /// Amount that the agent gets in addition, in the accrual's currency.
    amount: BonusAmount,
    reason: Comment,
}

/// Propose a bonus.
///
/// Proposes an amount in addition to the Base of a completed sale. The proposal has no effect until
/// another employee approves it.
#[utoipa::path(
    tag = "Commissions", params(("accrual_id" = AccrualId, Path)),
    request_body = ProposeBonus,
    responses((status = 201, description = "The proposal", body = BonusProposalView))
)]
#[post("/api/platform-manager/agent/commission-accruals/{accrual_id}/bonus-proposals")]
pub async fn propose_bonus(
    app: Data<App>,
    permitted: Permitted<ManageCommissions>,
    id: Path<AccrualId>,
    idempotency: Idempotency,
    body: Json<ProposeBonus>,
) -> Result<HttpResponse, Error> {
    let ProposeBonus { amount: BonusAmount { amount_minor, currency }, reason } = body.0;
    let amount = Money { amount_minor: amount_minor.get(), currency };
    let new = NewBonus { accrual_id: *id, amount, reason, by: permitted.actor.user_id };
    let (limit, now) = (app.settings.bonus_limit, clock::now());
    let propose = async |tx: &mut _| Ok(Reply::created(ops::bonus::propose(tx, new, limit, now).await?));
    idempotency.run(&app.db, propose).await
}

/// List bonus proposals.
///
/// Returns a page of proposals, by default the oldest first.
#[utoipa::path(
    tag = "Commissions", params(AdjustmentQuery, Paging<AdjustmentSort>),
    responses((status = 200, description = "One page", body = Page<BonusProposalView>))
)]
#[get("/api/platform-manager/agent/bonus-proposals")]
pub async fn list_bonus_proposals(
    app: Data<App>,
    _: Permitted<ManageCommissions>,
    Both(Query(query), paging): Both<Query<AdjustmentQuery>, Paging<AdjustmentSort>>,
) -> Result<impl Responder, Error> {
    let conn = app.db.conn().await?;
    Ok(web::Json(db::bonus::list(&conn, &query.filter(), &paging).await?))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ApproveBonus {
    /// An empty comment counts as absent.
    comment: Option<OptionalComment>,
}

/// Approve a bonus proposal.
///
/// Creates an Approved accrual of kind Bonus, which enters the next payout.
/// Neither the agent nor the employee who proposed the bonus can approve it.
#[utoipa::path(
    tag = "Commissions", params(("proposal_id" = BonusProposalId, Path)),
    request_body = Option<ApproveBonus>,
    responses((status = 200, description = "The approved proposal", body = BonusProposalView))
)]
#[post("/api/platform-manager/agent/bonus-proposals/{proposal_id}/approve")]
pub async fn approve_bonus(
    app: Data<App>,
    permitted: Permitted<ManageCommissions>,
    id: Path<BonusProposalId>,
    body: OptionalJson<ApproveBonus>,
) -> Result<impl Responder, Error> {
    let comment = non_empty_comment(body.0.comment);
    let (by, limit, now) = (permitted.actor.user_id, app.settings.bonus_limit, clock::now());
    let approve = async |tx: &mut _| ops::bonus::approve(tx, *id, by, comment, limit, now).await;
    Ok(web::Json(app.db.tx(approve).await?))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct RejectBonus {
    /// Comment on the decision, 1 to 2,000 characters after trimming.
    comment: Comment,
}

/// Reject a bonus proposal.
///
/// Creates no accrual. Neither the agent nor the employee who proposed the bonus can reject it.
#[utoipa::path(
    tag = "Commissions", params(("proposal_id" = BonusProposalId, Path)),
    request_body = RejectBonus,
    responses((status = 200, description = "The rejected proposal", body = BonusProposalView))
)]
#[post("/api/platform-manager/agent/bonus-proposals/{proposal_id}/reject")]
pub async fn reject_bonus(
    app: Data<App>,
    permitted: Permitted<ManageCommissions>,
    id: Path<BonusProposalId>,
    body: Json<RejectBonus>,
) -> Result<impl Responder, Error> {
    let (by, now) = (permitted.actor.user_id, clock::now());
    let reject = async |tx: &mut _| ops::bonus::reject(tx, *id, by, body.0.comment, now).await;
    Ok(web::Json(app.db.tx(reject).await?))
}
