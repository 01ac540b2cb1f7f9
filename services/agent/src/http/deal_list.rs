//! Lists of unrated deals and of held deals.

use ::web::{Both, Page, Paging, Query};
use actix_web::web::Data;
use actix_web::{Responder, get, web};
use auth::{CompanyId, Permitted};
use ids::Reference;
use serde::Deserialize;
use utoipa::IntoParams;

use super::accrual::AgentParam;
use crate::app::App;
use crate::db;
use crate::db::deal_list::{HeldDeal, HeldSort, UnratedDeal, UnratedFilter, UnratedSort};
use crate::domain::ManageCommissions;
use crate::error::Error;

/// The developer of a list.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct DeveloperParam {
    /// Developer; all developers if absent.
    #[param(value_type = Option<CompanyId>)]
    pub developer_company_id: Option<Reference<CompanyId>>,
}

/// List unrated deals.
///
/// Returns a page of sold deals for which no card has a rate.
/// A card that covers `SoldAt` creates their accruals within seconds.
#[utoipa::path(
    tag = "Commissions", params(AgentParam, DeveloperParam, Paging<UnratedSort>),
    responses((status = 200, description = "One page", body = Page<UnratedDeal>))
)]
#[get("/api/platform-manager/agent/unrated-deals")]
pub async fn list_unrated_deals(
    app: Data<App>,
    _: Permitted<ManageCommissions>,
    Both(Query(agent), Both(Query(developer), paging)): Both<
        Query<AgentParam>,
        Both<Query<DeveloperParam>, Paging<UnratedSort>>,
    >,
) -> Result<impl Responder, Error> {
    let filter = UnratedFilter {
        agent_user_id: agent.agent_user_id.map(|id| id.0),
        developer_company_id: developer.developer_company_id.map(|id| id.0),
    };
    let conn = app.db.conn().await?;
    Ok(web::Json(db::deal_list::list_unrated(&conn, &filter, &paging).await?))
}

/// List held deals.
///
/// Returns a page of deals with a newer version than the ledger has applied.
/// None of their accruals enters a payout until the ledger has caught up.
#[utoipa::path(
    tag = "Commissions", params(AgentParam, Paging<HeldSort>),
    responses((status = 200, description = "One page", body = Page<HeldDeal>))
)]
#[get("/api/platform-manager/agent/held-deals")]
pub async fn list_held_deals(
    app: Data<App>,
    _: Permitted<ManageCommissions>,
    Both(Query(agent), paging): Both<Query<AgentParam>, Paging<HeldSort>>,
) -> Result<impl Responder, Error> {
    let conn = app.db.conn().await?;
    let agent = agent.agent_user_id.map(|id| id.0);
    Ok(web::Json(db::deal_list::list_held(&conn, agent, &paging).await?))
}
