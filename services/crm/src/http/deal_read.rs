//! Routes that read deals, their timelines and their stages.

use ::db::PipelinedConn;
use ::web::{CursorPage, CursorPaging, PathReference, unknown_cursor};
use actix_web::web::Data;
use actix_web::{Responder, get, web};
use auth::{Actor, CompanyId, Permitted, Reach};
use futures_util::future::try_join;

use crate::app::App;
use crate::db;
use crate::db::deal_view::DealView;
use crate::db::stage_page::{Stage, StageKey};
use crate::db::timeline_page::TimelineKey;
use crate::domain::{DealId, ReadDeals, ReadOwnDeals, TimelineRow, may_read_contracts};
use crate::error::{DEAL_NOT_FOUND, Error};

async fn read(
    lookups: &PipelinedConn,
    actor: &Actor,
    reach: Reach,
    id: DealId,
) -> Result<web::Json<DealView>, Error> {
    let found = lookups.run(async |conn| db::deal_view::look_up(conn, id).await).await?;
    let found = found.filter(|view| reach.covers(view.summary.tenant_id));
    let mut view = found.ok_or(DEAL_NOT_FOUND)?;
    if !may_read_contracts(actor, reach) {
        view.contract_number = None;
    }
    Ok(web::Json(view))
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
    permitted: Permitted<ReadDeals>,
    PathReference(id): PathReference<DealId>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    read(&lookups, &permitted.actor, Reach::Platform, id).await
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
    read(&lookups, &permitted.actor, Reach::Company(permitted.granted), id).await
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
    let rows = db::timeline_page::list(&conn, id, reach, &paging);
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
