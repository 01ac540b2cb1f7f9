//! Projects of the catalog.

use ::db::{Conn, PipelinedConn};
use ::web::{Both, Check, CheckedQuery, ClientAddress, CommaSeparated, Fields, Page, Paging};
use actix_web::middleware::from_fn;
use actix_web::web::{Data, Path};
use actix_web::{Responder, get, web};
use auth::{AnyCaller, CompanyId};
use futures_util::future::try_join;
use serde::{Deserialize, Serialize};
use service::Reads;
use time::Date;
use utoipa::{IntoParams, ToSchema};
use values::{Text, fold};

use crate::app::App;
use crate::db;
use crate::db::catalog_building::CatalogBuilding;
use crate::db::catalog_facets::Facets;
use crate::db::catalog_project::{CatalogProject, CatalogProjectSort, ProjectFilter};
use crate::domain::{
    BoundingBox, CatalogQuery, PriceBound, ProjectClass, ProjectDescription, ProjectId, RoomCategory,
};
use crate::error::{Error, PROJECT_NOT_FOUND};

/// The filters of the project search.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct SearchProjects {
    /// City, regardless of letter case and of the kinds of spaces and dashes.
    #[param(inline)]
    city: Option<Text<0, 128>>,
    developer_id: Option<CompanyId>,
    /// Values separated by commas.
    #[param(value_type = Option<Vec<ProjectClass>>, inline, min_items = 1, style = Form, explode = false)]
    class: Option<CommaSeparated<ProjectClass>>,
    /// Values separated by commas. 0 means studios.
    #[param(value_type = Option<Vec<RoomCategory>>, inline, min_items = 1, style = Form, explode = false)]
    rooms: Option<CommaSeparated<RoomCategory>>,
    /// Lowest price in minor units, inclusive.
    #[serde(default, deserialize_with = "::web::read_from_str")]
    #[param(inline)]
    price_from: Option<PriceBound>,
    /// Only prices below this amount, in minor units.
    #[serde(default, deserialize_with = "::web::read_from_str")]
    #[param(inline)]
    price_to: Option<PriceBound>,
    /// The building is ready before this date. A building is ready on the last day of its quarter
    /// or year. A commissioned building is always ready.
    #[serde(default, deserialize_with = "::web::read_date")]
    #[param(value_type = Option<String>, format = Date)]
    ready_before: Option<Date>,
    /// `south,west,north,east` in degrees, edges included.
    #[serde(default, deserialize_with = "::web::read_from_str")]
    #[param(value_type = Option<String>, example = "55.5,37.3,55.9,37.9")]
    r#box: Option<BoundingBox>,
    /// Text to find literally anywhere in a name, regardless of letter case and of the kinds of
    /// spaces and dashes.
    #[param(inline)]
    query: Option<CatalogQuery>,
}

impl Check for SearchProjects {
    fn check(&self, fields: &mut Fields) {
        fields.check_range("/PriceTo", self.price_from.as_ref(), self.price_to.as_ref());
    }
}

impl From<SearchProjects> for ProjectFilter {
    fn from(parameters: SearchProjects) -> Self {
        // A blank value does not filter.
        let folded = |text: &str| Some(fold(text)).filter(|text| !text.is_empty());
        Self {
            city: parameters.city.as_ref().and_then(|city| folded(city.as_str())),
            developer_id: parameters.developer_id,
            classes: parameters.class.map(|classes| classes.0),
            rooms: parameters.rooms.map(|rooms| rooms.0),
            price_from: parameters.price_from,
            price_to: parameters.price_to,
            ready_before: parameters.ready_before,
            within: parameters.r#box,
            query: parameters.query.as_ref().and_then(|query| folded(query.as_str())),
        }
    }
}

/// List projects.
///
/// Returns a page of Published projects of Published developers. Projects without a price are last
/// in both directions of `PriceFrom`. `Rooms`, the prices and `ReadyBefore` must match the same
/// Available flat or apartment. Without `Rooms` and prices, one building that matches `ReadyBefore`
/// is enough.
#[utoipa::path(
    tag = "Catalog", security(()), params(SearchProjects, Paging<CatalogProjectSort>),
    responses(
        (status = 200, description = "One page of projects", body = Page<CatalogProject>),
        (status = 304, description = "The caller has the current response already (`If-None-Match`)")
    )
)]
#[get("/api/v1/public/projects", wrap = "from_fn(auth::expensive)", wrap = "from_fn(::web::cacheable)")]
pub async fn list_catalog_projects(
    app: Data<App>,
    caller: AnyCaller,
    address: ClientAddress,
    Both(CheckedQuery(parameters), paging): Both<CheckedQuery<SearchProjects>, Paging<CatalogProjectSort>>,
    lookups: Data<PipelinedConn>,
    reads: Data<Reads>,
) -> Result<impl Responder, Error> {
    app.limit_guest(&caller, address)?;
    let (filter, currency) = (parameters.into(), app.settings.currency);
    let found = app.catalog_index.search(&lookups, &app.db, |projects| projects.page(&filter, &paging)).await;
    let Some((ids, total_count)) = found else {
        let search = async |conn: &Conn| db::catalog_project::search(conn, &filter, &paging, currency).await;
        return Ok(web::Json(reads.query(&caller, search).await?));
    };
    let list = async |conn: &Conn| db::catalog_project::list(conn, &ids, currency).await;
    Ok(web::Json(paging.page(reads.query(&caller, list).await?, total_count)))
}

/// Count the facets of a project search.
///
/// Takes the filters of the project list, with the same meaning. Each list of facets ignores its
/// own filter, so that clients can offer further values.
#[utoipa::path(
    tag = "Catalog", security(()), params(SearchProjects),
    responses(
        (status = 200, description = "The facets", body = Facets),
        (status = 304, description = "The caller has the current response already (`If-None-Match`)")
    )
)]
#[get(
    "/api/v1/public/projects/facets",
    wrap = "from_fn(auth::expensive)",
    wrap = "from_fn(::web::cacheable)"
)]
pub async fn get_catalog_facets(
    app: Data<App>,
    caller: AnyCaller,
    address: ClientAddress,
    CheckedQuery(parameters): CheckedQuery<SearchProjects>,
    lookups: Data<PipelinedConn>,
    reads: Data<Reads>,
) -> Result<impl Responder, Error> {
    app.limit_guest(&caller, address)?;
    let (filter, currency) = (parameters.into(), app.settings.currency);
    let counted = app.catalog_index.search(&lookups, &app.db, |projects| projects.facets(&filter, currency));
    if let Some(facets) = counted.await {
        return Ok(web::Json(facets));
    }
    let count = async |conn: &Conn| db::catalog_facets::count(conn, &filter, currency).await;
    Ok(web::Json(reads.query(&caller, count).await?))
}

/// A project with its description and buildings.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CatalogProjectCard {
    #[serde(flatten)]
    project: CatalogProject,
    description: Option<ProjectDescription>,
    /// Buildings by name.
    #[schema(max_items = 200)]
    buildings: Vec<CatalogBuilding>,
}

/// Read a project.
///
/// The response contains the buildings by name.
#[utoipa::path(
    tag = "Catalog", security(()), params(("project_id" = ProjectId, Path)),
    responses(
        (status = 200, description = "The project", body = CatalogProjectCard),
        (status = 304, description = "The caller has the current response already (`If-None-Match`)")
    )
)]
#[get("/api/v1/public/projects/{project_id}", wrap = "from_fn(::web::cacheable)")]
pub async fn get_catalog_project(
    app: Data<App>,
    caller: AnyCaller,
    address: ClientAddress,
    id: Path<ProjectId>,
    reads: Data<Reads>,
) -> Result<impl Responder, Error> {
    app.limit_guest(&caller, address)?;
    let currency = app.settings.currency;
    let found = reads.look_up(&caller, async |conn| {
        let buildings = db::catalog_building::list_by_project(conn, *id, currency);
        try_join(db::catalog_project::look_up(conn, *id, currency), buildings).await
    });
    let (found, buildings) = found.await?;
    let (project, description) = found.ok_or(PROJECT_NOT_FOUND)?;
    Ok(web::Json(CatalogProjectCard { project, description, buildings }))
}
