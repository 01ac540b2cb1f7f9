//! Adjustment requests.

use ::web::{Both, CommaSeparated, Json, OptionalJson, Page, Paging, Query};
use actix_web::web::{Data, Path};
use actix_web::{HttpResponse, Responder, get, post, web};
use auth::{Permitted, UserId};
use ids::Reference;
use runtime::clock;
use serde::Deserialize;
use service::{Idempotency, Reply};
use utoipa::{IntoParams, ToSchema};
use values::{Currency, Money, Whole};

use crate::app::App;
use crate::db::adjustment::{AdjustmentFilter, AdjustmentSort};
use crate::domain::{
    AccrualId, AdjustmentReason, AdjustmentRequest, AdjustmentRequestId, AdjustmentRequestView,
    AdjustmentStatus, Comment, ManageCommissions, OptionalComment, UseCabinet, non_empty_comment,
};
use crate::error::Error;
use crate::{db, ops};

/// The whole amount of an accrual.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct WholeAmount {
    amount_minor: Whole<0, { i64::MAX }>,
    #[schema(value_type = String, pattern = "^[A-Z]{3}$", examples("RUB"))]
    currency: Currency,
}

impl From<WholeAmount> for Money {
    fn from(amount: WholeAmount) -> Self {
        Self { amount_minor: amount.amount_minor.get(), currency: amount.currency }
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct AskForAdjustment {
    /// The reason for the request.
    reason: AdjustmentReason,
    /// Whole amount in the accrual's currency, at most its `BaseAmount`.
    requested_amount: Option<WholeAmount>,
    /// Comment for the employee who decides, 1 to 2,000 characters after trimming.
    comment: Comment,
    /// If true, the accrual may be Paid. An approval then adds a Correction and leaves the Paid
    /// accrual unchanged.
    #[serde(default)]
    #[schema(required = false)]
    dispute_paid: bool,
}

/// File an adjustment request.
///
/// Requests another amount for a Base accrual. A Paid accrual requires `DisputePaid`.
/// An accrual has at most one open request.
#[utoipa::path(
    tag = "Cabinet", params(("accrual_id" = AccrualId, Path)),
    request_body = AskForAdjustment,
    responses((status = 201, description = "The request", body = AdjustmentRequestView))
)]
#[post("/api/v1/my/commission-accruals/{accrual_id}/adjustment-requests")]
pub async fn ask_for_adjustment(
    app: Data<App>,
    permitted: Permitted<UseCabinet>,
    id: Path<AccrualId>,
    idempotency: Idempotency,
    body: Json<AskForAdjustment>,
) -> Result<HttpResponse, Error> {
    let AskForAdjustment { reason, requested_amount, comment, dispute_paid } = body.0;
    let requested = requested_amount.map(Money::from);
    let request = AdjustmentRequest {
        id: AdjustmentRequestId::generate(),
        accrual_id: *id,
        agent_user_id: permitted.actor.user_id,
        reason,
        requested_amount: requested.map(|money| money.amount_minor),
        comment,
        status: AdjustmentStatus::Open,
        granted_amount: None,
        decision_comment: None,
        result_accrual_id: None,
        created_at: clock::now(),
        decided_at: None,
        decided_by_user_id: None,
        version: 1,
    };
    let file = async |tx: &mut _| {
        Ok(Reply::created(ops::adjustment::file(tx, request, requested, dispute_paid).await?))
    };
    idempotency.run(&app.db, file).await
}

/// The filter of a list of requests or of bonus proposals. An item has to match every parameter.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct AdjustmentQuery {
    /// One or several values, separated by commas.
    #[param(value_type = Option<Vec<AdjustmentStatus>>, inline, min_items = 1, style = Form, explode = false)]
    status: Option<CommaSeparated<AdjustmentStatus>>,
    #[param(value_type = Option<UserId>)]
    agent_user_id: Option<Reference<UserId>>,
    #[param(value_type = Option<AccrualId>)]
    accrual_id: Option<Reference<AccrualId>>,
}

impl AdjustmentQuery {
    pub(super) fn filter(self) -> AdjustmentFilter {
        AdjustmentFilter {
            statuses: self.status.map(|statuses| statuses.0),
            agent_user_id: self.agent_user_id.map(|id| id.0),
            accrual_id: self.accrual_id.map(|id| id.0),
        }
    }
}

/// List adjustment requests.
///
/// Returns a page of requests, by default the oldest first.
#[utoipa::path(
    tag = "Commissions", params(AdjustmentQuery, Paging<AdjustmentSort>),
    responses((status = 200, description = "One page", body = Page<AdjustmentRequestView>))
)]
#[get("/api/platform-manager/agent/adjustment-requests")]
pub async fn list_adjustment_requests(
    app: Data<App>,
    _: Permitted<ManageCommissions>,
    Both(Query(query), paging): Both<Query<AdjustmentQuery>, Paging<AdjustmentSort>>,
) -> Result<impl Responder, Error> {
    let conn = app.db.conn().await?;
    Ok(web::Json(db::adjustment::list(&conn, &query.filter(), &paging).await?))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ApproveAdjustment {
    /// Whole amount that the accrual gets; the requested amount if absent.
    amount: Option<WholeAmount>,
    /// An empty comment counts as absent.
    comment: Option<OptionalComment>,
}

/// Approve an adjustment request.
///
/// Creates an accrual for the difference between the whole amount and the current total. The
/// adjusted accrual may be Paid already.
#[utoipa::path(
    tag = "Commissions", params(("request_id" = AdjustmentRequestId, Path)),
    request_body = Option<ApproveAdjustment>,
    responses((status = 200, description = "The approved request", body = AdjustmentRequestView))
)]
#[post("/api/platform-manager/agent/adjustment-requests/{request_id}/approve")]
pub async fn approve_adjustment(
    app: Data<App>,
    permitted: Permitted<ManageCommissions>,
    id: Path<AdjustmentRequestId>,
    body: OptionalJson<ApproveAdjustment>,
) -> Result<impl Responder, Error> {
    let ApproveAdjustment { amount, comment } = body.0;
    let (amount, comment) = (amount.map(Money::from), non_empty_comment(comment));
    let (by, now) = (permitted.actor.user_id, clock::now());
    let approve = async |tx: &mut _| ops::adjustment::approve(tx, *id, by, amount, comment, now).await;
    Ok(web::Json(app.db.tx(approve).await?))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct RejectAdjustment {
    /// Comment for the agent, 1 to 2,000 characters after trimming.
    comment: Comment,
}

/// Reject an adjustment request.
///
/// The agent may file another request.
#[utoipa::path(
    tag = "Commissions", params(("request_id" = AdjustmentRequestId, Path)),
    request_body = RejectAdjustment,
    responses((status = 200, description = "The rejected request", body = AdjustmentRequestView))
)]
#[post("/api/platform-manager/agent/adjustment-requests/{request_id}/reject")]
pub async fn reject_adjustment(
    app: Data<App>,
    permitted: Permitted<ManageCommissions>,
    id: Path<AdjustmentRequestId>,
    body: Json<RejectAdjustment>,
) -> Result<impl Responder, Error> {
    let (by, comment, now) = (permitted.actor.user_id, body.0.comment, clock::now());
    let reject = async |tx: &mut _| ops::adjustment::reject(tx, *id, by, comment, now).await;
    Ok(web::Json(app.db.tx(reject).await?))
}
