//! Sales without an agent or without a rate, and their assignment.

use ::web::{Both, Json, Page, Paging, Query};
use actix_web::web::{Data, Path};
use actix_web::{Responder, get, post, web};
use auth::{Permitted, UserId};
use ids::Reference;
use runtime::clock;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use values::{BasisPoints, Whole};

use super::accrual::AgentParam;
use super::deal_list::DeveloperParam;
use crate::app::App;
use crate::db::accrual_view::AccrualView;
use crate::db::assignment::{UnassignedFilter, UnassignedSale};
use crate::db::deal_list::UnratedSort;
use crate::domain::{Comment, DealId, MAX_BPS, ManageCommissions, MissingTerm};
use crate::error::Error;
use crate::ops::assignment::NewAssignment;
use crate::{db, ops};

/// The missing term of a list.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct MissingParam {
    /// Term that the sales lack. If absent, sales that lack either term are listed.
    #[param(inline)]
    missing: Option<MissingTerm>,
}

type UnassignedQuery =
    Both<Query<MissingParam>, Both<Query<AgentParam>, Both<Query<DeveloperParam>, Paging<UnratedSort>>>>;

/// List unassigned sales.
///
/// Returns a page of active sales without an accrual, because they have no agent or no rate.
#[utoipa::path(
    tag = "Commissions", params(MissingParam, AgentParam, DeveloperParam, Paging<UnratedSort>),
    responses((status = 200, description = "One page", body = Page<UnassignedSale>))
)]
#[get("/api/platform-manager/agent/unassigned-sales")]
pub async fn list_unassigned_sales(
    app: Data<App>,
    _: Permitted<ManageCommissions>,
    Both(Query(missing), Both(Query(agent), Both(Query(developer), paging))): UnassignedQuery,
) -> Result<impl Responder, Error> {
    let filter = UnassignedFilter {
        missing: missing.missing,
        agent_user_id: agent.agent_user_id.map(|id| id.0),
        developer_company_id: developer.developer_company_id.map(|id| id.0),
    };
    let conn = app.db.conn().await?;
    Ok(web::Json(db::assignment::list_unassigned(&conn, &filter, &paging).await?))
}

/// The agent and the rate of a sale.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct AssignSale {
    /// Agent of an active agency. A sale that has an agent keeps this agent.
    #[schema(value_type = UserId)]
    agent_user_id: Reference<UserId>,
    /// Commission rate in basis points. If absent, the rate card that covers `SoldAt` decides.
    rate_bps: Option<Whole<0, { MAX_BPS }>>,
    /// Reason for the assignment.
    comment: Comment,
    /// Expected `SaleRowVersion`. If absent, the request assigns the active sale.
    sale_row_version: Option<Whole<0, { u32::MAX as i64 }>>,
}

/// Assign a sale.
///
/// Sets the missing agent and rate of a deal's active sale, and creates its accruals. The accruals
/// of a completed sale are Approved, unless they need a release. All others are Pending.
/// A repeated request changes nothing.
#[utoipa::path(
    tag = "Commissions", params(("deal_id" = DealId, Path)),
    request_body = AssignSale,
    responses((status = 200, description = "The Base accrual", body = AccrualView))
)]
#[post("/api/platform-manager/agent/unassigned-sales/{deal_id}/assign")]
pub async fn assign_sale(
    app: Data<App>,
    permitted: Permitted<ManageCommissions>,
    id: Path<DealId>,
    body: Json<AssignSale>,
) -> Result<impl Responder, Error> {
    let AssignSale { agent_user_id, rate_bps, comment, sale_row_version } = body.0;
    let rate = rate_bps.and_then(|rate| u32::try_from(rate.get()).ok()).map(BasisPoints);
    let new = NewAssignment {
        agent: agent_user_id.0,
        rate,
        comment,
        sale_row_version: sale_row_version.map(Whole::get),
        by: permitted.actor.user_id,
    };
    let (limit, now) = (app.settings.approval_limit, clock::now());
    let assigned = app.db.tx(async |tx| {
        let base = ops::assignment::assign(tx, *id, new, limit, now).await?;
        Ok::<AccrualView, Error>(db::accrual_view::view(tx.conn(), base).await?)
    });
    Ok(web::Json(assigned.await?))
}
