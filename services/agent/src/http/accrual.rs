//! Lists of accruals: the caller's own, and those of all agents for the platform.

use ::web::{Both, Check, CheckedQuery, CommaSeparated, Fields, Page, Paging, Query};
use actix_web::web::Data;
use actix_web::{Responder, get, web};
use auth::{CompanyId, Permitted, UserId};
use ids::Reference;
use serde::Deserialize;
use time::OffsetDateTime;
use utoipa::IntoParams;
use values::Currency;

use super::own::{Extent, Own};
use crate::app::App;
use crate::db;
use crate::db::accrual_view::{AccrualFilter, AccrualSort, AccrualView};
use crate::domain::{AccrualKind, AccrualStatus, DealId, ManageCommissions, PayoutId};
use crate::error::Error;

/// The agent of a list.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct AgentParam {
    /// Agent; all agents if absent.
    #[param(value_type = Option<UserId>)]
    pub agent_user_id: Option<Reference<UserId>>,
}

/// The filter of a list of accruals. An accrual has to match every parameter.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct AccrualQuery {
    /// One or several values, separated by commas.
    #[param(value_type = Option<Vec<AccrualStatus>>, inline, min_items = 1, style = Form, explode = false)]
    status: Option<CommaSeparated<AccrualStatus>>,
    /// One or several values, separated by commas.
    #[param(value_type = Option<Vec<AccrualKind>>, inline, min_items = 1, style = Form, explode = false)]
    kind: Option<CommaSeparated<AccrualKind>>,
    /// True for accruals that await a release, false for all others.
    awaits_release: Option<bool>,
    #[param(value_type = Option<DealId>)]
    deal_id: Option<Reference<DealId>>,
    #[param(value_type = Option<CompanyId>)]
    developer_company_id: Option<Reference<CompanyId>>,
    #[param(value_type = Option<PayoutId>)]
    payout_id: Option<Reference<PayoutId>>,
    #[param(value_type = Option<String>, pattern = "^[A-Z]{3}$")]
    currency: Option<Currency>,
    /// Lower bound of `CreatedAt`, inclusive.
    #[serde(default, deserialize_with = "::web::read_time")]
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<OffsetDateTime>,
    /// Upper bound of `CreatedAt`, exclusive.
    #[serde(default, deserialize_with = "::web::read_time")]
    #[param(value_type = Option<String>, format = DateTime)]
    to: Option<OffsetDateTime>,
}

impl Check for AccrualQuery {
    fn check(&self, fields: &mut Fields) {
        fields.check_range("/To", self.from.as_ref(), self.to.as_ref());
    }
}

type ListQuery = Both<CheckedQuery<AccrualQuery>, Paging<AccrualSort>>;

async fn list(
    app: &App,
    agent_user_id: Option<UserId>,
    extent: Extent,
    Both(CheckedQuery(query), paging): ListQuery,
) -> Result<web::Json<Page<AccrualView>>, Error> {
    let filter = AccrualFilter {
        agent_user_id,
        statuses: query.status.map(|statuses| statuses.0),
        kinds: query.kind.map(|kinds| kinds.0),
        awaits_release: query.awaits_release,
        is_owed: extent == Extent::Owed,
        deal_id: query.deal_id.map(|id| id.0),
        developer_company_id: query.developer_company_id.map(|id| id.0),
        payout_id: query.payout_id.map(|id| id.0),
        currency: query.currency,
        created_from: query.from,
        created_to: query.to,
    };
    let conn = app.db.conn().await?;
    Ok(web::Json(db::accrual_view::list(&conn, &filter, &paging).await?))
}

/// List my accruals.
///
/// Returns a page of the caller's accruals, corrections and reversals included.
/// A former agent gets the accruals that are `Pending` or `Approved`.
#[utoipa::path(
    tag = "Cabinet", params(AccrualQuery, Paging<AccrualSort>),
    responses((status = 200, description = "One page", body = Page<AccrualView>))
)]
#[get("/api/v1/my/commission-accruals")]
pub async fn list_own_accruals(app: Data<App>, own: Own<ListQuery>) -> Result<impl Responder, Error> {
    list(&app, Some(own.agent), own.extent, own.query).await
}

/// List accruals.
///
/// Returns a page of the accruals of all agents, or of one agent.
#[utoipa::path(
    tag = "Commissions", params(AgentParam, AccrualQuery, Paging<AccrualSort>),
    responses((status = 200, description = "One page", body = Page<AccrualView>))
)]
#[get("/api/platform-manager/agent/commission-accruals")]
pub async fn list_accruals(
    app: Data<App>,
    _: Permitted<ManageCommissions>,
    Both(Query(agent), query): Both<Query<AgentParam>, ListQuery>,
) -> Result<impl Responder, Error> {
    list(&app, agent.agent_user_id.map(|id| id.0), Extent::All, query).await
}
