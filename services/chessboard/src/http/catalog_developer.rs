//! Developers of the catalog.

use ::db::Conn;
use ::web::{Both, ClientAddress, Page, Paging, Query};
use actix_web::middleware::from_fn;
use actix_web::web::{Data, Path};
use actix_web::{Responder, get, web};
use auth::{AnyCaller, CompanyId};
use serde::Deserialize;
use service::Reads;
use utoipa::IntoParams;
use values::Text;

use crate::app::App;
use crate::db;
use crate::db::catalog_developer::{CatalogDeveloper, CatalogDeveloperSort};
use crate::domain::CatalogQuery;
use crate::error::{DEVELOPER_NOT_FOUND, Error};

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct ListCatalogDevelopers {
    /// Text to find literally anywhere in a name, regardless of letter case and of the kinds of
    /// spaces and dashes.
    #[param(inline)]
    query: Option<CatalogQuery>,
}

/// List developers.
///
/// Returns Published developers only.
#[utoipa::path(
    tag = "Catalog", security(()), params(ListCatalogDevelopers, Paging<CatalogDeveloperSort>),
    responses(
        (status = 200, description = "One page of developers", body = Page<CatalogDeveloper>),
        (status = 304, description = "The caller has the current response already (`If-None-Match`)")
    )
)]
#[get("/api/v1/public/developers", wrap = "from_fn(auth::expensive)", wrap = "from_fn(::web::cacheable)")]
pub async fn list_catalog_developers(
    app: Data<App>,
    caller: AnyCaller,
    address: ClientAddress,
    Both(Query(parameters), paging): Both<Query<ListCatalogDevelopers>, Paging<CatalogDeveloperSort>>,
    reads: Data<Reads>,
) -> Result<impl Responder, Error> {
    app.limit_guest(&caller, address)?;
    let query = parameters.query.as_ref().map(Text::as_str);
    let search = async |conn: &Conn| db::catalog_developer::search(conn, query, &paging).await;
    Ok(web::Json(reads.query(&caller, search).await?))
}

/// Read a developer.
///
/// Returns Published developers only.
#[utoipa::path(
    tag = "Catalog", security(()), params(("developer_id" = CompanyId, Path)),
    responses(
        (status = 200, description = "The developer", body = CatalogDeveloper),
        (status = 304, description = "The caller has the current response already (`If-None-Match`)")
    )
)]
#[get("/api/v1/public/developers/{developer_id}", wrap = "from_fn(::web::cacheable)")]
pub async fn get_catalog_developer(
    app: Data<App>,
    caller: AnyCaller,
    address: ClientAddress,
    id: Path<CompanyId>,
    reads: Data<Reads>,
) -> Result<impl Responder, Error> {
    app.limit_guest(&caller, address)?;
    let found = reads.look_up(&caller, async |conn| db::catalog_developer::look_up(conn, *id).await).await?;
    Ok(web::Json(found.ok_or(DEVELOPER_NOT_FOUND)?))
}
