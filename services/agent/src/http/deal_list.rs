//! Deals that wait: for a rate, or for the ledger.

use ::web::{Both, Page, Paging, Query};
use actix_web::web::Data;
use actix_web::{Responder, get, web};
use auth::{CompanyId, Permitted};
use ids::Reference;
use serde::Deserialize;
use utoipa::IntoParams;

use super::accrual::OfAgent;
use crate::app::App;
use crate::db;
use crate::db::deal_list::{HeldDeal, HeldSort, UnratedDeal, UnratedFilter, UnratedSort};
use crate::domain::ManageCommissions;
use crate::error::Error;

/// Whose sales are listed.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct OfDeveloper {
    #[param(value_type = Option<CompanyId>)]
    developer_company_id: Option<Reference<CompanyId>>,
}

/// List deals without a rate.
///
/// They are sold, and no card had a rate for it; one that covers when they were sold accrues them within seconds.
#[utoipa::path(
    tag = "Commissions", params(OfAgent, OfDeveloper, Paging<UnratedSort>),
    responses((status = 200, description = "One page", body = Page<UnratedDeal>))
)]
#[get("/api/platform-manager/agent/unrated-deals")]
pub async fn list_unrated_deals(
    app: Data<App>,
    _: Permitted<ManageCommissions>,
    Both(Query(agent), Both(Query(developer), paging)): Both<
        Query<OfAgent>,
        Both<Query<OfDeveloper>, Paging<UnratedSort>>,
    >,
) -> Result<impl Responder, Error> {
    let filter = UnratedFilter {
        agent_user_id: agent.agent_user_id.map(|id| id.0),
        developer_company_id: developer.developer_company_id.map(|id| id.0),
    };
    let conn = app.db.conn().await?;
    Ok(web::Json(db::deal_list::unrated(&conn, &filter, &paging).await?))
}

/// List deals that are held.
///
/// More is known of them than the ledger has applied, so nothing of them is paid until it has.
#[utoipa::path(
    tag = "Commissions", params(OfAgent, Paging<HeldSort>),
    responses((status = 200, description = "One page", body = Page<HeldDeal>))
)]
#[get("/api/platform-manager/agent/held-deals")]
pub async fn list_held_deals(
    app: Data<App>,
    _: Permitted<ManageCommissions>,
    Both(Query(agent), paging): Both<Query<OfAgent>, Paging<HeldSort>>,
) -> Result<impl Responder, Error> {
    let conn = app.db.conn().await?;
    let agent = agent.agent_user_id.map(|id| id.0);
    Ok(web::Json(db::deal_list::held(&conn, agent, &paging).await?))
}
