//! Routes of the board.

use ::db::PipelinedConn;
use ::web::{Both, CheckedQuery, CommaSeparated, CursorPaging, PathReference, Query, unknown_cursor};
use actix_web::middleware::from_fn;
use actix_web::web::Data;
use actix_web::{Responder, get, web};
use auth::{CompanyId, Permitted, Reach};
use ids::Reference;
use serde::Deserialize;
use utoipa::IntoParams;
use values::Whole;

use super::deal_list::DealFilterParams;
use crate::app::App;
use crate::db;
use crate::db::board::{Board, Column, ColumnKey, ColumnPaging, RequestedColumns};
use crate::domain::{ReadDeals, ReadOwnDeals, StepGroup, StepId};
use crate::error::{DEVELOPER_NOT_FOUND, Error, STEP_NOT_FOUND};

/// The developer whose board or pipeline is read or changed.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct DeveloperParam {
    #[param(value_type = CompanyId)]
    tenant_id: Reference<CompanyId>,
}

impl DeveloperParam {
    pub fn id(self) -> CompanyId {
        self.tenant_id.0
    }
}

/// The columns of a board and the number of deals in each.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct BoardParams {
    /// Groups of the columns, separated by commas. By default all groups.
    #[param(value_type = Option<Vec<StepGroup>>, inline, min_items = 1, style = Form, explode = false)]
    groups: Option<CommaSeparated<StepGroup>>,
    /// Number of deals in each column.
    #[serde(default, deserialize_with = "::web::read_from_str")]
    #[param(value_type = Option<u8>, minimum = 1, maximum = 100, default = 20)]
    page_size: Option<Whole<1, 100>>,
}

type BoardQuery = Both<Query<BoardParams>, CheckedQuery<DealFilterParams>>;

async fn read_board(
    app: &App,
    tenant: CompanyId,
    Both(Query(board), CheckedQuery(filter)): BoardQuery,
) -> Result<web::Json<Board>, Error> {
    let page_size = board.page_size.map_or(20, Whole::get);
    let paging = CursorPaging { page_size: u32::try_from(page_size).unwrap_or(20), after: None };
    let selected = RequestedColumns::Board(board.groups.map(|groups| groups.0));
    let conn = app.db.conn().await?;
    if let Some(board) = db::board::read(&conn, tenant, selected, &filter.into(), &paging).await? {
        return Ok(web::Json(board));
    }
    let pipeline_version = db::step::pipeline_version(&conn, tenant).await?.ok_or(DEVELOPER_NOT_FOUND)?;
    Ok(web::Json(Board { tenant_id: tenant, pipeline_version, columns: Vec::new() }))
}

/// Read the board of a developer.
///
/// Returns a column for each step with its newest deals, and with the exact count and totals of all
/// its deals. The whole response is from one snapshot.
#[utoipa::path(
    tag = "Board", params(DeveloperParam, BoardParams, DealFilterParams),
    responses((status = 200, description = "The board", body = Board))
)]
#[get("/api/platform-manager/crm/board", wrap = "from_fn(auth::expensive)")]
pub async fn get_board(
    app: Data<App>,
    _: Permitted<ReadDeals>,
    Both(Query(developer), query): Both<Query<DeveloperParam>, BoardQuery>,
) -> Result<impl Responder, Error> {
    read_board(&app, developer.id(), query).await
}

/// Read the board of the own company.
///
/// Returns a column for each step with its newest deals, and with the exact count and totals of all
/// its deals. The whole response is from one snapshot.
#[utoipa::path(
    tag = "Board", params(BoardParams, DealFilterParams),
    responses((status = 200, description = "The board", body = Board))
)]
#[get("/api/v1/crm/board", wrap = "from_fn(auth::expensive)")]
pub async fn get_own_board(
    app: Data<App>,
    permitted: Permitted<ReadOwnDeals>,
    query: BoardQuery,
) -> Result<impl Responder, Error> {
    read_board(&app, permitted.granted, query).await
}

type ColumnQuery = Both<CheckedQuery<DealFilterParams>, ColumnPaging>;

async fn read_column(
    app: &App,
    lookups: &PipelinedConn,
    reach: Reach,
    id: StepId,
    Both(CheckedQuery(filter), paging): ColumnQuery,
) -> Result<web::Json<Column>, Error> {
    if paging.after.is_some_and(|after| !after.is_in(id)) {
        return Err(unknown_cursor().into());
    }
    let tenant = lookups.run(async |conn| db::step::tenant_of(conn, id).await).await?;
    let tenant = tenant.filter(|tenant| reach.covers(*tenant)).ok_or(STEP_NOT_FOUND)?;
    let conn = app.db.conn().await?;
    let board = db::board::read(&conn, tenant, RequestedColumns::Column(id), &filter.into(), &paging).await?;
    let column = board.and_then(|board| board.columns.into_iter().next());
    Ok(web::Json(column.ok_or(STEP_NOT_FOUND)?))
}

/// Read one column of the board of a developer.
///
/// A walk along the cursors returns each deal that stays in the step once.
#[utoipa::path(
    tag = "Board", params(("step_id" = StepId, Path), DealFilterParams, CursorPaging<ColumnKey>),
    responses((status = 200, description = "The column", body = Column))
)]
#[get("/api/platform-manager/crm/board/columns/{step_id}", wrap = "from_fn(auth::expensive)")]
pub async fn get_board_column(
    app: Data<App>,
    _: Permitted<ReadDeals>,
    PathReference(id): PathReference<StepId>,
    query: ColumnQuery,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    read_column(&app, &lookups, Reach::Platform, id, query).await
}

/// Read one column of the board of the own company.
///
/// A walk along the cursors returns each deal that stays in the step once.
#[utoipa::path(
    tag = "Board", params(("step_id" = StepId, Path), DealFilterParams, CursorPaging<ColumnKey>),
    responses((status = 200, description = "The column", body = Column))
)]
#[get("/api/v1/crm/board/columns/{step_id}", wrap = "from_fn(auth::expensive)")]
pub async fn get_own_board_column(
    app: Data<App>,
    permitted: Permitted<ReadOwnDeals>,
    PathReference(id): PathReference<StepId>,
    query: ColumnQuery,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    read_column(&app, &lookups, Reach::Company(permitted.granted), id, query).await
}
