//! Routes of saved views: named queries of lists of deals.

use ::web::{Both, FieldError, FromQuery, Json, PathReference, Problem, Query, Sorting};
use actix_web::web::Data;
use actix_web::{HttpResponse, Responder, delete, get, post, put, web};
use auth::{Permitted, Reach};
use runtime::clock;
use serde::{Deserialize, Serialize};
use service::{Idempotency, Reply};
use utoipa::ToSchema;
use values::Invalid;

use super::deal_list::{DealQuery, DealReader, TenantParam};
use crate::app::App;
use crate::db::deal_list::DealSort;
use crate::domain::{
    ReadDeals, ReadOwnDeals, SavedView, SavedViewId, ViewContent, ViewName, ViewOwner, ViewQuery,
};
use crate::error::{Error, SAVED_VIEW_NOT_FOUND};
use crate::{db, ops};

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct SaveView {
    name: ViewName,
    /// Query of a list of deals, without the page.
    #[schema(value_type = String, max_length = 2000, examples("Statuses=Sale&Sort=-UpdatedAt"))]
    query: ViewQuery,
}

/// The parameters of a page. The query of a saved view must not have them.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PageParams {
    page: Option<String>,
    page_size: Option<String>,
    cursor: Option<String>,
}

/// Returns true if the list of the reader's deals accepts the query of a view, and the query has no
/// parameters of a page.
fn is_accepted(query: &str, reader: &DealReader) -> bool {
    let is_without_page = |Query(PageParams { page, page_size, cursor })| {
        page.is_none() && page_size.is_none() && cursor.is_none()
    };
    let is_tenant_accepted = || match reader.reach {
        Reach::Platform => Query::<TenantParam>::from_query(query).is_ok(),
        Reach::Company(_) => true,
    };
    let listed = Both::<DealQuery, Sorting<DealSort>>::from_query(query);
    !query.starts_with('?')
        && Query::from_query(query).is_ok_and(is_without_page)
        && is_tenant_accepted()
        && listed.is_ok_and(|Both(query, _)| reader.to_list_query(None, query).is_ok())
}

impl SaveView {
    /// Checks that the list of the reader's deals accepts the query.
    fn check(self, reader: &DealReader) -> Result<ViewContent, Problem> {
        let Self { name, query } = self;
        if !is_accepted(query.expose().as_str(), reader) {
            let invalid = Invalid::new("unknown_value");
            return Err(Problem::validation_failed(vec![FieldError { field: "/Query".to_owned(), invalid }]));
        }
        Ok(ViewContent { name, query })
    }
}

/// All views of a person, oldest first.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct SavedViews {
    #[schema(max_items = 50)]
    items: Vec<SavedView>,
}

impl From<Permitted<ReadDeals>> for ViewOwner {
    fn from(permitted: Permitted<ReadDeals>) -> Self {
        Self { user_id: permitted.actor.user_id, reach: Reach::Platform }
    }
}

impl From<Permitted<ReadOwnDeals>> for ViewOwner {
    fn from(permitted: Permitted<ReadOwnDeals>) -> Self {
        Self { user_id: permitted.actor.user_id, reach: Reach::Company(permitted.granted) }
    }
}

async fn list(app: &App, owner: ViewOwner) -> Result<web::Json<SavedViews>, Error> {
    let conn = app.db.conn().await?;
    Ok(web::Json(SavedViews { items: db::saved_view::list(&conn, owner).await? }))
}

async fn read(app: &App, owner: ViewOwner, id: SavedViewId) -> Result<web::Json<SavedView>, Error> {
    let conn = app.db.conn().await?;
    Ok(web::Json(db::saved_view::find(&conn, owner, id).await?.ok_or(SAVED_VIEW_NOT_FOUND)?))
}

async fn create(
    app: &App,
    owner: ViewOwner,
    views: &str,
    idempotency: &Idempotency,
    content: &ViewContent,
) -> Result<HttpResponse, Error> {
    let now = clock::now();
    let create = async |tx: &mut _| {
        let view = ops::saved_view::create(tx, owner, content, now).await?;
        let location = format!("{views}/{}", view.id);
        Ok(Reply::created(view).at(location))
    };
    idempotency.run(&app.db, create).await
}

async fn replace(
    app: &App,
    owner: ViewOwner,
    id: SavedViewId,
    content: &ViewContent,
) -> Result<web::Json<SavedView>, Error> {
    let now = clock::now();
    let view = app.db.tx(async |tx| ops::saved_view::replace(tx, owner, id, content, now).await).await?;
    Ok(web::Json(view))
}

async fn remove(app: &App, owner: ViewOwner, id: SavedViewId) -> Result<HttpResponse, Error> {
    app.db.tx(async |tx| ops::saved_view::delete(tx, owner, id).await).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// The address of the views, which `Location` extends.
const ALL_VIEWS: &str = "/api/platform-manager/crm/saved-views";

/// List my saved views.
///
/// All of them, oldest first. No other person reads them.
#[utoipa::path(tag = "Deals", responses((status = 200, description = "The views", body = SavedViews)))]
#[get("/api/platform-manager/crm/saved-views")]
pub async fn list_saved_views(
    app: Data<App>,
    permitted: Permitted<ReadDeals>,
) -> Result<impl Responder, Error> {
    list(&app, permitted.into()).await
}

/// Read my saved view.
///
/// A view of another person is not found.
#[utoipa::path(
    tag = "Deals", params(("view_id" = SavedViewId, Path)),
    responses((status = 200, description = "The view", body = SavedView))
)]
#[get("/api/platform-manager/crm/saved-views/{view_id}")]
pub async fn get_saved_view(
    app: Data<App>,
    permitted: Permitted<ReadDeals>,
    PathReference(id): PathReference<SavedViewId>,
) -> Result<impl Responder, Error> {
    read(&app, permitted.into(), id).await
}

/// Save a view.
///
/// Gives a name to a query of a list. A person has at most 50 views of the operator's lists.
#[utoipa::path(
    tag = "Deals", request_body = SaveView,
    responses((status = 201, description = "The view", body = SavedView,
            headers(("Location" = String, description = "The view"))))
)]
#[post("/api/platform-manager/crm/saved-views")]
pub async fn create_saved_view(
    app: Data<App>,
    permitted: Permitted<ReadDeals>,
    idempotency: Idempotency,
    body: Json<SaveView>,
) -> Result<HttpResponse, Error> {
    let content = body.0.check(&(&permitted).into())?;
    create(&app, permitted.into(), ALL_VIEWS, &idempotency, &content).await
}

/// Replace my saved view.
///
/// Replaces the name and the query. A view has no version, so the last replacement remains.
#[utoipa::path(
    tag = "Deals", params(("view_id" = SavedViewId, Path)),
    request_body = SaveView,
    responses((status = 200, description = "The view as it is now", body = SavedView))
)]
#[put("/api/platform-manager/crm/saved-views/{view_id}")]
pub async fn replace_saved_view(
    app: Data<App>,
    permitted: Permitted<ReadDeals>,
    id: PathReference<SavedViewId>,
    body: Json<SaveView>,
) -> Result<impl Responder, Error> {
    let content = body.0.check(&(&permitted).into())?;
    replace(&app, permitted.into(), id.0, &content).await
}

/// Delete my saved view.
///
/// A second deletion returns 404.
#[utoipa::path(
    tag = "Deals", params(("view_id" = SavedViewId, Path)),
    responses((status = 204, description = "Deleted"))
)]
#[delete("/api/platform-manager/crm/saved-views/{view_id}")]
pub async fn delete_saved_view(
    app: Data<App>,
    permitted: Permitted<ReadDeals>,
    PathReference(id): PathReference<SavedViewId>,
) -> Result<HttpResponse, Error> {
    remove(&app, permitted.into(), id).await
}

/// The address of the views, which `Location` extends.
const OWN_VIEWS: &str = "/api/v1/crm/saved-views";

/// List my saved views of the own company's deals.
///
/// All of them, oldest first. No other person reads them.
#[utoipa::path(tag = "Own deals", responses((status = 200, description = "The views", body = SavedViews)))]
#[get("/api/v1/crm/saved-views")]
pub async fn list_own_saved_views(
    app: Data<App>,
    permitted: Permitted<ReadOwnDeals>,
) -> Result<impl Responder, Error> {
    list(&app, permitted.into()).await
}

/// Read my saved view of the own company's deals.
///
/// A view of another person or company is not found.
#[utoipa::path(
    tag = "Own deals", params(("view_id" = SavedViewId, Path)),
    responses((status = 200, description = "The view", body = SavedView))
)]
#[get("/api/v1/crm/saved-views/{view_id}")]
pub async fn get_own_saved_view(
    app: Data<App>,
    permitted: Permitted<ReadOwnDeals>,
    PathReference(id): PathReference<SavedViewId>,
) -> Result<impl Responder, Error> {
    read(&app, permitted.into(), id).await
}

/// Save a view of the own company's deals.
///
/// Gives a name to a query of a list. A person has at most 50 views in each company.
#[utoipa::path(
    tag = "Own deals", request_body = SaveView,
    responses((status = 201, description = "The view", body = SavedView,
            headers(("Location" = String, description = "The view"))))
)]
#[post("/api/v1/crm/saved-views")]
pub async fn create_own_saved_view(
    app: Data<App>,
    permitted: Permitted<ReadOwnDeals>,
    idempotency: Idempotency,
    body: Json<SaveView>,
) -> Result<HttpResponse, Error> {
    let content = body.0.check(&(&permitted).into())?;
    create(&app, permitted.into(), OWN_VIEWS, &idempotency, &content).await
}

/// Replace my saved view of the own company's deals.
///
/// Replaces the name and the query. A view has no version, so the last replacement remains.
#[utoipa::path(
    tag = "Own deals", params(("view_id" = SavedViewId, Path)),
    request_body = SaveView,
    responses((status = 200, description = "The view as it is now", body = SavedView))
)]
#[put("/api/v1/crm/saved-views/{view_id}")]
pub async fn replace_own_saved_view(
    app: Data<App>,
    permitted: Permitted<ReadOwnDeals>,
    id: PathReference<SavedViewId>,
    body: Json<SaveView>,
) -> Result<impl Responder, Error> {
    let content = body.0.check(&(&permitted).into())?;
    replace(&app, permitted.into(), id.0, &content).await
}

/// Delete my saved view of the own company's deals.
///
/// A second deletion returns 404.
#[utoipa::path(
    tag = "Own deals", params(("view_id" = SavedViewId, Path)),
    responses((status = 204, description = "Deleted"))
)]
#[delete("/api/v1/crm/saved-views/{view_id}")]
pub async fn delete_own_saved_view(
    app: Data<App>,
    permitted: Permitted<ReadOwnDeals>,
    PathReference(id): PathReference<SavedViewId>,
) -> Result<HttpResponse, Error> {
    remove(&app, permitted.into(), id).await
}
