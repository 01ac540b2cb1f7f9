//! Tenants, for administrators of the platform.

use ::db::PipelinedConn;
use ::web::{
    Both, Check, CheckedQuery, CommaSeparated, Fields, Json, Limit, OptionalJson, Page, Paging, Query,
};
use actix_web::web::{Data, Path};
use actix_web::{HttpResponse, Responder, get, post, put, web};
use auth::{CompanyId, Permitted};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::{IntoParams, ToSchema};

use super::LARGEST_BODY;
use crate::app::App;
use crate::db;
use crate::db::tenant::{TenantFilter, TenantSort};
use crate::domain::{
    Fold, LegalName, ManageTenants, ReadTenants, Reason, SearchText, TaxNumber, Tenant, TenantName,
    TenantReference, TenantStatus, TenantType,
};
use crate::error::{Error, TENANT_NOT_FOUND};
use crate::ops;
use crate::ops::tenant::Description;

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct SearchTenants {
    /// From three characters on found anywhere in a name, a legal name or a tax number, shorter where a name or a tax
    /// number begins; letter case does not count.
    #[param(inline)]
    query: Option<SearchText>,
    /// Separated by commas.
    #[param(value_type = Option<Vec<TenantType>>, inline, min_items = 1, style = Form, explode = false)]
    types: Option<CommaSeparated<TenantType>>,
    /// Separated by commas.
    #[param(value_type = Option<Vec<TenantStatus>>, inline, min_items = 1, style = Form, explode = false)]
    statuses: Option<CommaSeparated<TenantStatus>>,
    #[serde(default, deserialize_with = "::web::read_time")]
    #[param(value_type = Option<String>, format = DateTime)]
    created_from: Option<OffsetDateTime>,
    /// Exclusive.
    #[serde(default, deserialize_with = "::web::read_time")]
    #[param(value_type = Option<String>, format = DateTime)]
    created_to: Option<OffsetDateTime>,
}

impl Check for SearchTenants {
    fn check(&self, fields: &mut Fields) {
        fields.check_range("/CreatedTo", self.created_from.as_ref(), self.created_to.as_ref());
    }
}

/// Search tenants.
///
/// Of any status.
#[utoipa::path(
    tag = "Tenants", params(SearchTenants, Paging<TenantSort>),
    responses((status = 200, description = "One page", body = Page<Tenant>))
)]
#[get("/api/identity/admin/tenants/search")]
pub async fn search_tenants(
    app: Data<App>,
    _: Permitted<ReadTenants>,
    Both(CheckedQuery(asked), paging): Both<CheckedQuery<SearchTenants>, Paging<TenantSort>>,
) -> Result<impl Responder, Error> {
    let filter = TenantFilter {
        query: Fold::of(asked.query.as_ref()),
        types: asked.types.map(|types| types.0),
        statuses: asked.statuses.map(|statuses| statuses.0),
        created_from: asked.created_from,
        created_to: asked.created_to,
    };
    let conn = app.db.conn().await?;
    Ok(web::Json(db::tenant::search(&conn, &filter, &paging).await?))
}

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct LookupTenants {
    /// As for a search.
    #[param(inline)]
    query: Option<SearchText>,
    #[serde(default)]
    #[param(value_type = Option<u8>, minimum = 1, maximum = 50, default = 20)]
    limit: Limit,
    /// Separated by commas.
    #[param(value_type = Option<Vec<TenantType>>, inline, min_items = 1, style = Form, explode = false)]
    types: Option<CommaSeparated<TenantType>>,
    /// Separated by commas; those that are active or suspended, where none is named.
    #[param(value_type = Option<Vec<TenantStatus>>, inline, min_items = 1, style = Form, explode = false)]
    statuses: Option<CommaSeparated<TenantStatus>>,
}

/// Tenants for autocomplete.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct FoundTenants {
    #[schema(max_items = 50)]
    items: Vec<TenantReference>,
}

/// Look tenants up, for autocomplete.
///
/// Names that begin with the query, then the others, each by name.
#[utoipa::path(
    tag = "Tenants", params(LookupTenants),
    responses((status = 200, description = "The first ones", body = FoundTenants))
)]
#[get("/api/identity/admin/tenants/lookup")]
pub async fn lookup_tenants(
    app: Data<App>,
    _: Permitted<ReadTenants>,
    Query(asked): Query<LookupTenants>,
) -> Result<impl Responder, Error> {
    let live = || vec![TenantStatus::Active, TenantStatus::Suspended];
    let filter = TenantFilter {
        query: Fold::of(asked.query.as_ref()),
        types: asked.types.map(|types| types.0),
        statuses: Some(asked.statuses.map_or_else(live, |statuses| statuses.0)),
        ..TenantFilter::default()
    };
    let conn = app.db.conn().await?;
    let items = db::tenant::look_up_some(&conn, &filter, asked.limit.get()).await?;
    Ok(web::Json(FoundTenants { items }))
}

/// Look a tenant up.
///
/// Of any status.
#[utoipa::path(
    tag = "Tenants", params(("tenant_id" = CompanyId, Path)),
    responses((status = 200, description = "What others show of it", body = TenantReference))
)]
#[get("/api/identity/admin/tenants/lookup/{tenant_id}")]
pub async fn look_up_tenant(
    _: Permitted<ReadTenants>,
    id: Path<CompanyId>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    let found = lookups.run(async |conn| db::tenant::look_up_reference(conn, *id).await).await?;
    Ok(web::Json(found.ok_or(TENANT_NOT_FOUND)?))
}

/// Read a tenant.
///
/// Of any status.
#[utoipa::path(
    tag = "Tenants", params(("tenant_id" = CompanyId, Path)),
    responses((status = 200, description = "The tenant", body = Tenant))
)]
#[get("/api/identity/admin/tenants/{tenant_id}")]
pub async fn get_tenant(
    _: Permitted<ReadTenants>,
    id: Path<CompanyId>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    let found = lookups.run(async |conn| db::tenant::look_up(conn, *id).await).await?;
    Ok(web::Json(found.ok_or(TENANT_NOT_FOUND)?))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CreateTenant {
    name: TenantName,
    legal_name: Option<LegalName>,
    #[serde(rename = "Type")]
    kind: TenantType,
    tax_number: Option<TaxNumber>,
}

/// Create a tenant.
///
/// A repeat makes another one.
#[utoipa::path(
    tag = "Tenants", request_body(content = CreateTenant, description = "At most 64 KiB."),
    responses((status = 201, description = "Created", body = Tenant))
)]
#[post("/api/identity/admin/tenants")]
pub async fn create_tenant(
    app: Data<App>,
    permitted: Permitted<ManageTenants>,
    body: Json<CreateTenant, LARGEST_BODY>,
) -> Result<HttpResponse, Error> {
    let Json(CreateTenant { name, legal_name, kind, tax_number }) = body;
    let described = Description { name, legal_name, tax_number };
    let acting = app.acting(&permitted.actor);
    let tenant = app.db.tx(async |tx| ops::tenant::create_tenant(tx, &acting, kind, described).await).await?;
    Ok(HttpResponse::Created().json(tenant))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct UpdateTenant {
    name: TenantName,
    /// `null`, or nothing, removes it.
    legal_name: Option<LegalName>,
    /// `null`, or nothing, removes it.
    tax_number: Option<TaxNumber>,
    /// The version that the caller has seen; another one is a conflict.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

/// Replace what a tenant is described by.
///
/// What is the same already changes nothing, not even the version.
#[utoipa::path(
    tag = "Tenants", params(("tenant_id" = CompanyId, Path)),
    request_body(content = UpdateTenant, description = "At most 64 KiB."),
    responses((status = 200, description = "As it is now", body = Tenant))
)]
#[put("/api/identity/admin/tenants/{tenant_id}")]
pub async fn update_tenant(
    app: Data<App>,
    permitted: Permitted<ManageTenants>,
    id: Path<CompanyId>,
    body: Json<UpdateTenant, LARGEST_BODY>,
) -> Result<impl Responder, Error> {
    let Json(UpdateTenant { name, legal_name, tax_number, version }) = body;
    let described = Description { name, legal_name, tax_number };
    let acting = app.acting(&permitted.actor);
    let tenant =
        app.db.tx(async |tx| ops::tenant::update_tenant(tx, &acting, *id, version, described).await).await?;
    Ok(web::Json(tenant))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct MoveTenant {
    /// For the audit log; of a suspension also for those whom it concerns.
    reason: Option<Reason>,
    /// The version that the caller has seen; another one is a conflict.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ActivateTenant {
    /// The version that the caller has seen; another one is a conflict.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

async fn move_to(
    app: &App,
    permitted: &Permitted<ManageTenants>,
    id: CompanyId,
    to: TenantStatus,
    MoveTenant { reason, version }: MoveTenant,
) -> Result<web::Json<Tenant>, Error> {
    let acting = app.acting(&permitted.actor);
    let moved =
        app.db.tx(async |tx| ops::tenant::move_tenant(tx, &acting, id, version, to, reason).await).await?;
    Ok(web::Json(moved))
}

/// Suspend a tenant.
///
/// Its employees hold nothing of their roles until it is active again.
#[utoipa::path(
    tag = "Tenants", params(("tenant_id" = CompanyId, Path)),
    request_body(content = Option<MoveTenant>, description = "At most 64 KiB."),
    responses((status = 200, description = "As it is now", body = Tenant))
)]
#[post("/api/identity/admin/tenants/{tenant_id}/suspend")]
pub async fn suspend_tenant(
    app: Data<App>,
    permitted: Permitted<ManageTenants>,
    id: Path<CompanyId>,
    body: OptionalJson<MoveTenant, LARGEST_BODY>,
) -> Result<impl Responder, Error> {
    move_to(&app, &permitted, *id, TenantStatus::Suspended, body.0).await
}

/// Activate a suspended tenant.
///
/// Its employees hold again what their roles give.
#[utoipa::path(
    tag = "Tenants", params(("tenant_id" = CompanyId, Path)),
    request_body(content = Option<ActivateTenant>, description = "At most 64 KiB."),
    responses((status = 200, description = "As it is now", body = Tenant))
)]
#[post("/api/identity/admin/tenants/{tenant_id}/activate")]
pub async fn activate_tenant(
    app: Data<App>,
    permitted: Permitted<ManageTenants>,
    id: Path<CompanyId>,
    body: OptionalJson<ActivateTenant, LARGEST_BODY>,
) -> Result<impl Responder, Error> {
    let asked = MoveTenant { reason: None, version: body.0.version };
    move_to(&app, &permitted, *id, TenantStatus::Active, asked).await
}

/// Archive a tenant, for good.
///
/// Its tax number may be another's from now on.
#[utoipa::path(
    tag = "Tenants", params(("tenant_id" = CompanyId, Path)),
    request_body(content = Option<MoveTenant>, description = "At most 64 KiB."),
    responses((status = 200, description = "As it is now", body = Tenant))
)]
#[post("/api/identity/admin/tenants/{tenant_id}/archive")]
pub async fn archive_tenant(
    app: Data<App>,
    permitted: Permitted<ManageTenants>,
    id: Path<CompanyId>,
    body: OptionalJson<MoveTenant, LARGEST_BODY>,
) -> Result<impl Responder, Error> {
    move_to(&app, &permitted, *id, TenantStatus::Archived, body.0).await
}
