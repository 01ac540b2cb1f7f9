//! Projects, for anybody.

use ::db::Lookups;
use ::web::{Both, Check, ClientAddress, Fields, Filter, Page, Paging, Several};
use actix_web::middleware::from_fn;
use actix_web::web::{Data, Path};
use actix_web::{Responder, get, web};
use auth::{CompanyId, Guest};
use futures_util::future::try_join;
use serde::{Deserialize, Serialize};
use time::Date;
use utoipa::{IntoParams, ToSchema};
use values::{Text, fold};

use crate::app::App;
use crate::db;
use crate::db::catalog_building::CatalogBuilding;
use crate::db::catalog_facets::Facets;
use crate::db::catalog_project::{CatalogProject, CatalogProjectSort, ProjectFilter};
use crate::domain::{
    BoundingBox, CatalogQuery, PriceBound, ProjectClass, ProjectDescription, ProjectId, RoomsAsked,
};
use crate::error::{Error, PROJECT_NOT_FOUND};

/// What is asked for of rooms, prices and readiness holds together, for one available flat or apartment; of readiness
/// alone, for any building.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct SearchProjects {
    /// Letter case does not count.
    #[param(inline)]
    city: Option<Text<0, 128>>,
    developer_id: Option<CompanyId>,
    /// Separated by commas.
    #[param(value_type = Option<Vec<ProjectClass>>, inline, min_items = 1, style = Form, explode = false)]
    class: Option<Several<ProjectClass>>,
    /// Separated by commas; 0 for studios.
    #[param(value_type = Option<Vec<RoomsAsked>>, inline, min_items = 1, style = Form, explode = false)]
    rooms: Option<Several<RoomsAsked>>,
    /// In minor units.
    #[serde(default, deserialize_with = "::web::parsed")]
    #[param(inline)]
    price_from: Option<PriceBound>,
    /// In minor units; exclusive.
    #[serde(default, deserialize_with = "::web::parsed")]
    #[param(inline)]
    price_to: Option<PriceBound>,
    /// A building is ready on the last day of its quarter, or of its year; what is commissioned always.
    #[serde(default, deserialize_with = "::web::date")]
    #[param(value_type = Option<String>, format = Date)]
    ready_before: Option<Date>,
    /// `south,west,north,east` in degrees; the edges are within.
    #[serde(default, deserialize_with = "::web::parsed")]
    #[param(value_type = Option<String>, example = "55.5,37.3,55.9,37.9")]
    r#box: Option<BoundingBox>,
    /// Found anywhere in a name, as it is written; letter case does not count.
    #[param(inline)]
    query: Option<CatalogQuery>,
}

impl Check for SearchProjects {
    fn check(&self, fields: &mut Fields) {
        fields.range("/PriceTo", self.price_from.as_ref(), self.price_to.as_ref());
    }
}

impl From<SearchProjects> for ProjectFilter {
    fn from(asked: SearchProjects) -> Self {
        // What is empty is as good as left out.
        let folded = |text: &str| (!text.is_empty()).then(|| fold(text));
        Self {
            city: asked.city.as_ref().and_then(|city| folded(city.as_str())),
            developer_id: asked.developer_id,
            classes: asked.class.map(|classes| classes.0),
            rooms: asked.rooms.map(|rooms| rooms.0),
            price_from: asked.price_from,
            price_to: asked.price_to,
            ready_before: asked.ready_before,
            within: asked.r#box,
            query: asked.query.as_ref().and_then(|query| folded(query.as_str())),
        }
    }
}

/// List projects.
///
/// Those that are published, of developers that are; without a price last, however they are sorted by it.
#[utoipa::path(
    tag = "Catalog", security(()), params(SearchProjects, Paging<CatalogProjectSort>),
    responses(
        (status = 200, description = "One page", body = Page<CatalogProject>),
        (status = 304, description = "As the guest has it already (`If-None-Match`)")
    )
)]
#[get("/api/v1/public/projects", wrap = "from_fn(::web::cacheable)")]
pub async fn list_catalog_projects(
    app: Data<App>,
    guest: Guest,
    address: ClientAddress,
    Both(Filter(asked), paging): Both<Filter<SearchProjects>, Paging<CatalogProjectSort>>,
) -> Result<impl Responder, Error> {
    app.admit(&guest, address)?;
    let conn = app.db.conn().await?;
    let page = db::catalog_project::search(&conn, &asked.into(), &paging, app.settings.currency).await?;
    Ok(web::Json(page))
}

/// Count what a search of projects could be narrowed down to.
///
/// Takes the same filters. Each list leaves out the filter of its own kind, so that a choice can be widened.
#[utoipa::path(
    tag = "Catalog", security(()), params(SearchProjects),
    responses(
        (status = 200, description = "The facets", body = Facets),
        (status = 304, description = "As the guest has it already (`If-None-Match`)")
    )
)]
#[get("/api/v1/public/projects/facets", wrap = "from_fn(::web::cacheable)")]
pub async fn get_catalog_facets(
    app: Data<App>,
    guest: Guest,
    address: ClientAddress,
    Filter(asked): Filter<SearchProjects>,
) -> Result<impl Responder, Error> {
    app.admit(&guest, address)?;
    let conn = app.db.conn().await?;
    Ok(web::Json(db::catalog_facets::count(&conn, &asked.into(), app.settings.currency).await?))
}

/// A project whole.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CatalogProjectCard {
    #[serde(flatten)]
    project: CatalogProject,
    description: Option<ProjectDescription>,
    /// By name.
    #[schema(max_items = 200)]
    buildings: Vec<CatalogBuilding>,
}

/// Read a project.
///
/// With its buildings.
#[utoipa::path(
    tag = "Catalog", security(()), params(("project_id" = ProjectId, Path)),
    responses(
        (status = 200, description = "The project", body = CatalogProjectCard),
        (status = 304, description = "As the guest has it already (`If-None-Match`)")
    )
)]
#[get("/api/v1/public/projects/{project_id}", wrap = "from_fn(::web::cacheable)")]
pub async fn get_catalog_project(
    app: Data<App>,
    guest: Guest,
    address: ClientAddress,
    id: Path<ProjectId>,
    lookups: Data<Lookups>,
) -> Result<impl Responder, Error> {
    app.admit(&guest, address)?;
    let currency = app.settings.currency;
    let found = lookups.run(async |conn| {
        let buildings = db::catalog_building::of_project(conn, *id, currency);
        try_join(db::catalog_project::look_up(conn, *id, currency), buildings).await
    });
    let (found, buildings) = found.await?;
    let (project, description) = found.ok_or(PROJECT_NOT_FOUND)?;
    Ok(web::Json(CatalogProjectCard { project, description, buildings }))
}
