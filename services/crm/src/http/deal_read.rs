//! Routes that read deals, their timelines and their stages.

use ::db::PipelinedConn;
use ::web::{
    Both, Check, CheckedQuery, CommaSeparated, CursorPage, CursorPaging, Fields, Page, Paging, PathReference,
    Query, unknown_cursor,
};
use actix_web::middleware::from_fn;
use actix_web::web::Data;
use actix_web::{Responder, get, web};
use auth::{CompanyId, Permitted, Reach, UserId};
use futures_util::future::try_join;
use ids::Reference;
use serde::Deserialize;
use time::OffsetDateTime;
use utoipa::IntoParams;

use crate::app::App;
use crate::db;
use crate::db::deal_view::{DealFilter, DealListQuery, DealSort, DealSummary, DealView};
use crate::db::stage_page::{Stage, StageKey};
use crate::db::timeline_page::TimelineKey;
use crate::domain::{DealId, DealStatus, PropertyObjectId, ReadDeals, ReadOwnDeals, StepId, TimelineRow};
use crate::error::{DEAL_NOT_FOUND, Error};

/// The developer whose deals are listed.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct TenantParam {
    /// Company id of the developer. By default the deals of all developers.
    #[param(value_type = Option<CompanyId>)]
    tenant_id: Option<Reference<CompanyId>>,
}

/// The status and the step of listed deals.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct StateParams {
    /// Statuses, separated by commas. By default all statuses.
    #[param(value_type = Option<Vec<DealStatus>>, inline, min_items = 1, style = Form, explode = false)]
    statuses: Option<CommaSeparated<DealStatus>>,
    #[param(value_type = Option<StepId>)]
    step_id: Option<Reference<StepId>>,
}

/// The filters that lists and boards share.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct DealFilterParams {
    #[param(value_type = Option<PropertyObjectId>)]
    property_object_id: Option<Reference<PropertyObjectId>>,
    #[param(value_type = Option<UserId>)]
    client_user_id: Option<Reference<UserId>>,
    #[param(value_type = Option<UserId>)]
    agent_user_id: Option<Reference<UserId>>,
    /// Inclusive lower bound of the creation time.
    #[serde(default, deserialize_with = "::web::read_time")]
    #[param(value_type = Option<String>, format = DateTime)]
    created_from: Option<OffsetDateTime>,
    /// Exclusive upper bound of the creation time.
    #[serde(default, deserialize_with = "::web::read_time")]
    #[param(value_type = Option<String>, format = DateTime)]
    created_to: Option<OffsetDateTime>,
}

impl Check for DealFilterParams {
    fn check(&self, fields: &mut Fields) {
        fields.check_range("/CreatedTo", self.created_from.as_ref(), self.created_to.as_ref());
    }
}

impl From<DealFilterParams> for DealFilter {
    fn from(params: DealFilterParams) -> Self {
        Self {
            property_object_id: params.property_object_id.map(|id| id.0),
            client_user_id: params.client_user_id.map(|id| id.0),
            agent_user_id: params.agent_user_id.map(|id| id.0),
            created_from: params.created_from,
            created_to: params.created_to,
        }
    }
}

type ListQuery = Both<Both<Query<StateParams>, CheckedQuery<DealFilterParams>>, Paging<DealSort>>;

async fn list(
    app: &App,
    tenant_id: Option<CompanyId>,
    Both(Both(Query(state), CheckedQuery(filter)), paging): ListQuery,
) -> Result<web::Json<Page<DealSummary>>, Error> {
    let query = DealListQuery {
        tenant_id,
        statuses: state.statuses.map(|statuses| statuses.0),
        step_id: state.step_id.map(|id| id.0),
        filter: filter.into(),
    };
    let conn = app.db.conn().await?;
    Ok(web::Json(db::deal_view::list(&conn, query, &paging).await?))
}

/// List deals.
///
/// Lists the deals of all developers or of one. A deal must match all filters.
#[utoipa::path(
    tag = "Deals", params(TenantParam, StateParams, DealFilterParams, Paging<DealSort>),
    responses((status = 200, description = "One page", body = Page<DealSummary>))
)]
#[get("/api/platform-manager/crm/deals", wrap = "from_fn(auth::expensive)")]
pub async fn list_deals(
    app: Data<App>,
    _: Permitted<ReadDeals>,
    Both(Query(tenant), query): Both<Query<TenantParam>, ListQuery>,
) -> Result<impl Responder, Error> {
    list(&app, tenant.tenant_id.map(|id| id.0), query).await
}

/// List the deals of the own company.
///
/// A deal must match all filters.
#[utoipa::path(
    tag = "Own deals", params(StateParams, DealFilterParams, Paging<DealSort>),
    responses((status = 200, description = "One page", body = Page<DealSummary>))
)]
#[get("/api/v1/crm/deals", wrap = "from_fn(auth::expensive)")]
pub async fn list_own_deals(
    app: Data<App>,
    permitted: Permitted<ReadOwnDeals>,
    query: ListQuery,
) -> Result<impl Responder, Error> {
    list(&app, Some(permitted.granted), query).await
}

async fn read(lookups: &PipelinedConn, reach: Reach, id: DealId) -> Result<web::Json<DealView>, Error> {
    let found = lookups.run(async |conn| db::deal_view::look_up(conn, id).await).await?;
    let found = found.filter(|view| reach.covers(view.summary.tenant_id));
    Ok(web::Json(found.ok_or(DEAL_NOT_FOUND)?))
}

/// Read a deal.
///
/// Includes the names of its object and developer, without escrow account number and fixation data.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path)),
    responses((status = 200, description = "The deal", body = DealView))
)]
#[get("/api/platform-manager/crm/deals/{deal_id}")]
pub async fn get_deal(
    _: Permitted<ReadDeals>,
    PathReference(id): PathReference<DealId>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    read(&lookups, Reach::Platform, id).await
}

/// Read a deal of the own company.
///
/// Includes the names of its object and developer, without escrow account number and fixation data.
#[utoipa::path(
    tag = "Own deals", params(("deal_id" = DealId, Path)),
    responses((status = 200, description = "The deal", body = DealView))
)]
#[get("/api/v1/crm/deals/{deal_id}")]
pub async fn get_own_deal(
    permitted: Permitted<ReadOwnDeals>,
    PathReference(id): PathReference<DealId>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    read(&lookups, Reach::Company(permitted.granted), id).await
}

/// Returns the response unless the deal is unknown or outside the reach.
fn check_reach<T>(reach: Reach, tenant: Option<CompanyId>, found: T) -> Result<web::Json<T>, Error> {
    let is_within = tenant.is_some_and(|tenant| reach.covers(tenant));
    if is_within { Ok(web::Json(found)) } else { Err(DEAL_NOT_FOUND.into()) }
}

async fn read_timeline(
    app: &App,
    reach: Reach,
    id: DealId,
    paging: CursorPaging<TimelineKey>,
) -> Result<web::Json<CursorPage<TimelineRow>>, Error> {
    if paging.after.is_some_and(|after| !after.is_in(id)) {
        return Err(unknown_cursor().into());
    }
    let conn = app.db.conn().await?;
    let rows = db::timeline_page::list(&conn, id, &paging);
    let (tenant, page) = try_join(db::deal_view::tenant_of(&conn, id), rows).await?;
    check_reach(reach, tenant, page)
}

/// Read the timeline of a deal.
///
/// Newest first. A walk along the cursors returns each existing row once.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path), CursorPaging<TimelineKey>),
    responses((status = 200, description = "One page", body = CursorPage<TimelineRow>))
)]
#[get("/api/platform-manager/crm/deals/{deal_id}/timeline")]
pub async fn list_deal_timeline(
    app: Data<App>,
    _: Permitted<ReadDeals>,
    PathReference(id): PathReference<DealId>,
    paging: CursorPaging<TimelineKey>,
) -> Result<impl Responder, Error> {
    read_timeline(&app, Reach::Platform, id, paging).await
}

/// Read the timeline of a deal of the own company.
///
/// Newest first. A walk along the cursors returns each existing row once.
#[utoipa::path(
    tag = "Own deals", params(("deal_id" = DealId, Path), CursorPaging<TimelineKey>),
    responses((status = 200, description = "One page", body = CursorPage<TimelineRow>))
)]
#[get("/api/v1/crm/deals/{deal_id}/timeline")]
pub async fn list_own_deal_timeline(
    app: Data<App>,
    permitted: Permitted<ReadOwnDeals>,
    PathReference(id): PathReference<DealId>,
    paging: CursorPaging<TimelineKey>,
) -> Result<impl Responder, Error> {
    read_timeline(&app, Reach::Company(permitted.granted), id, paging).await
}

async fn read_stages(
    app: &App,
    reach: Reach,
    id: DealId,
    paging: CursorPaging<StageKey>,
) -> Result<web::Json<CursorPage<Stage>>, Error> {
    if paging.after.is_some_and(|after| !after.is_in(id)) {
        return Err(unknown_cursor().into());
    }
    let conn = app.db.conn().await?;
    let rows = db::stage_page::list(&conn, id, &paging, runtime::clock::now());
    let (tenant, page) = try_join(db::deal_view::tenant_of(&conn, id), rows).await?;
    check_reach(reach, tenant, page)
}

/// Read the time of a deal in each step.
///
/// Newest first.
#[utoipa::path(
    tag = "Deals", params(("deal_id" = DealId, Path), CursorPaging<StageKey>),
    responses((status = 200, description = "One page", body = CursorPage<Stage>))
)]
#[get("/api/platform-manager/crm/deals/{deal_id}/stages")]
pub async fn list_deal_stages(
    app: Data<App>,
    _: Permitted<ReadDeals>,
    PathReference(id): PathReference<DealId>,
    paging: CursorPaging<StageKey>,
) -> Result<impl Responder, Error> {
    read_stages(&app, Reach::Platform, id, paging).await
}

/// Read the time of a deal of the own company in each step.
///
/// Newest first.
#[utoipa::path(
    tag = "Own deals", params(("deal_id" = DealId, Path), CursorPaging<StageKey>),
    responses((status = 200, description = "One page", body = CursorPage<Stage>))
)]
#[get("/api/v1/crm/deals/{deal_id}/stages")]
pub async fn list_own_deal_stages(
    app: Data<App>,
    permitted: Permitted<ReadOwnDeals>,
    PathReference(id): PathReference<DealId>,
    paging: CursorPaging<StageKey>,
) -> Result<impl Responder, Error> {
    read_stages(&app, Reach::Company(permitted.granted), id, paging).await
}
