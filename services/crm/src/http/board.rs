//! The board: a developer's deals by the steps of their pipeline.

use ::db::Lookups;
use ::web::{Both, CursorPaging, Filter, PathReference, Query, Several, unknown_cursor};
use actix_web::web::Data;
use actix_web::{Responder, get, web};
use auth::{CompanyId, Permitted, Reach};
use ids::Reference;
use serde::Deserialize;
use utoipa::IntoParams;
use values::Whole;

use super::deal_read::AskedDeals;
use crate::app::App;
use crate::db;
use crate::db::board::{Board, Column, ColumnKey, ColumnPaging, Shown};
use crate::domain::{ReadDeals, ReadOwnDeals, StepGroup, StepId};
use crate::error::{DEVELOPER_NOT_FOUND, Error, STEP_NOT_FOUND};

/// Whose it is.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct OfDeveloper {
    #[param(value_type = CompanyId)]
    tenant_id: Reference<CompanyId>,
}

impl OfDeveloper {
    pub fn id(self) -> CompanyId {
        self.tenant_id.0
    }
}

/// What of a board is asked for.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct AskedBoard {
    /// Separated by commas; all where none is named.
    #[param(value_type = Option<Vec<StepGroup>>, inline, min_items = 1, style = Form, explode = false)]
    groups: Option<Several<StepGroup>>,
    /// Cards in each column.
    #[serde(default, deserialize_with = "::web::parsed")]
    #[param(value_type = Option<u8>, minimum = 1, maximum = 100, default = 20)]
    page_size: Option<Whole<1, 100>>,
}

type Asked = Both<Query<AskedBoard>, Filter<AskedDeals>>;

async fn read(
    app: &App,
    tenant: CompanyId,
    Both(Query(board), Filter(asked)): Asked,
) -> Result<web::Json<Board>, Error> {
    let page_size = board.page_size.map_or(20, Whole::get);
    let paging = CursorPaging { page_size: u32::try_from(page_size).unwrap_or(20), after: None };
    let shown = Shown::Board(board.groups.map(|groups| groups.0));
    let conn = app.db.conn().await?;
    if let Some(board) = db::board::columns(&conn, tenant, shown, &asked.into(), &paging).await? {
        return Ok(web::Json(board));
    }
    let pipeline_version = db::step::version(&conn, tenant).await?.ok_or(DEVELOPER_NOT_FOUND)?;
    Ok(web::Json(Board { tenant_id: tenant, pipeline_version, columns: Vec::new() }))
}

/// Read a developer's board.
///
/// Each step with its newest deals, and how many and how much there is in it altogether, all of one moment.
#[utoipa::path(
    tag = "Board", params(OfDeveloper, AskedBoard, AskedDeals),
    responses((status = 200, description = "The board", body = Board))
)]
#[get("/api/platform-manager/crm/board")]
pub async fn get_board(
    app: Data<App>,
    _: Permitted<ReadDeals>,
    Both(Query(of), asked): Both<Query<OfDeveloper>, Asked>,
) -> Result<impl Responder, Error> {
    read(&app, of.id(), asked).await
}

/// Read the board of one's own company.
///
/// Each step with its newest deals, and how many and how much there is in it altogether, all of one moment.
#[utoipa::path(
    tag = "Board", params(AskedBoard, AskedDeals),
    responses((status = 200, description = "The board", body = Board))
)]
#[get("/api/v1/crm/board")]
pub async fn get_own_board(
    app: Data<App>,
    permitted: Permitted<ReadOwnDeals>,
    asked: Asked,
) -> Result<impl Responder, Error> {
    read(&app, permitted.granted, asked).await
}

type AskedColumn = Both<Filter<AskedDeals>, ColumnPaging>;

async fn column(
    app: &App,
    lookups: &Lookups,
    reach: Reach,
    id: StepId,
    Both(Filter(asked), paging): AskedColumn,
) -> Result<web::Json<Column>, Error> {
    if paging.after.is_some_and(|after| !after.is_of(id)) {
        return Err(unknown_cursor().into());
    }
    let tenant = lookups.run(async |conn| db::step::tenant_of(conn, id).await).await?;
    let tenant = tenant.filter(|tenant| reach.covers(*tenant)).ok_or(STEP_NOT_FOUND)?;
    let conn = app.db.conn().await?;
    let board = db::board::columns(&conn, tenant, Shown::One(id), &asked.into(), &paging).await?;
    let column = board.and_then(|board| board.columns.into_iter().next());
    Ok(web::Json(column.ok_or(STEP_NOT_FOUND)?))
}

/// Read one column of a developer's board.
///
/// Who follows the cursors sees each deal that stays in the step once.
#[utoipa::path(
    tag = "Board", params(("step_id" = StepId, Path), AskedDeals, CursorPaging<ColumnKey>),
    responses((status = 200, description = "The column", body = Column))
)]
#[get("/api/platform-manager/crm/board/columns/{step_id}")]
pub async fn get_board_column(
    app: Data<App>,
    _: Permitted<ReadDeals>,
    PathReference(id): PathReference<StepId>,
    asked: AskedColumn,
    lookups: Data<Lookups>,
) -> Result<impl Responder, Error> {
    column(&app, &lookups, Reach::Platform, id, asked).await
}

/// Read one column of the board of one's own company.
///
/// Who follows the cursors sees each deal that stays in the step once.
#[utoipa::path(
    tag = "Board", params(("step_id" = StepId, Path), AskedDeals, CursorPaging<ColumnKey>),
    responses((status = 200, description = "The column", body = Column))
)]
#[get("/api/v1/crm/board/columns/{step_id}")]
pub async fn get_own_board_column(
    app: Data<App>,
    permitted: Permitted<ReadOwnDeals>,
    PathReference(id): PathReference<StepId>,
    asked: AskedColumn,
    lookups: Data<Lookups>,
) -> Result<impl Responder, Error> {
    column(&app, &lookups, Reach::Company(permitted.granted), id, asked).await
}
