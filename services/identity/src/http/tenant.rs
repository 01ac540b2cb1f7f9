//! Tenants, for administrators of the platform.

use ::db::PipelinedConn;
use ::web::{
    Both, Check, CheckedQuery, CommaSeparated, Fields, Json, Limit, OptionalJson, Page, Paging, Query,
};
use actix_web::middleware::from_fn;
use actix_web::web::{Data, Path};
use actix_web::{HttpResponse, Responder, get, post, put, web};
use auth::{CompanyId, Permitted};
use serde::{Deserialize, Serialize};
use service::{Idempotency, Reply};
use time::OffsetDateTime;
use utoipa::{IntoParams, ToSchema};

use super::body_limit::MAX_BODY_BYTES;
use super::permitted_now::PermittedNow;
use crate::app::App;
use crate::db;
use crate::db::tenant::{TenantFilter, TenantSort};
use crate::domain::{
    FoldedQuery, LegalName, ManageTenants, ReadTenants, Reason, SearchText, TaxNumber, Tenant, TenantName,
    TenantReference, TenantStatus, TenantType,
};
use crate::error::{Error, TENANT_NOT_FOUND};
use crate::ops;
use crate::ops::tenant::TenantDetails;

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct SearchTenants {
    /// Three or more characters match anywhere in a name, a legal name or a tax number. A shorter
    /// query matches the beginning of a name or a tax number. Letter case is ignored.
    #[param(inline)]
    query: Option<SearchText>,
    /// Types, separated by commas.
    #[param(value_type = Option<Vec<TenantType>>, inline, min_items = 1, style = Form, explode = false)]
    types: Option<CommaSeparated<TenantType>>,
    /// Statuses, separated by commas.
    #[param(value_type = Option<Vec<TenantStatus>>, inline, min_items = 1, style = Form, explode = false)]
    statuses: Option<CommaSeparated<TenantStatus>>,
    #[serde(default, deserialize_with = "::web::read_time")]
    #[param(value_type = Option<String>, format = DateTime)]
    created_from: Option<OffsetDateTime>,
    /// Upper bound of `CreatedAt`, exclusive.
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
/// Returns tenants of any status.
#[utoipa::path(
    tag = "Tenants", params(SearchTenants, Paging<TenantSort>),
    responses((status = 200, description = "One page", body = Page<Tenant>))
)]
#[get("/api/identity/admin/tenants/search", wrap = "from_fn(auth::expensive)")]
pub async fn search_tenants(
    app: Data<App>,
    _: PermittedNow<ReadTenants>,
    Both(CheckedQuery(query), paging): Both<CheckedQuery<SearchTenants>, Paging<TenantSort>>,
) -> Result<impl Responder, Error> {
    let filter = TenantFilter {
        query: FoldedQuery::new(query.query.as_ref()),
        types: query.types.map(|types| types.0),
        statuses: query.statuses.map(|statuses| statuses.0),
        created_from: query.created_from,
        created_to: query.created_to,
    };
    let conn = app.db.conn().await?;
    Ok(web::Json(db::tenant::search(&conn, &filter, &paging).await?))
}

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct LookupTenants {
    /// Text that matches as in the search.
    #[param(inline)]
    query: Option<SearchText>,
    #[serde(default)]
    #[param(value_type = Option<u8>, minimum = 1, maximum = 50, default = 20)]
    limit: Limit,
    /// Types, separated by commas.
    #[param(value_type = Option<Vec<TenantType>>, inline, min_items = 1, style = Form, explode = false)]
    types: Option<CommaSeparated<TenantType>>,
    /// Statuses, separated by commas. The default is `Active` and `Suspended`.
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

/// Look up tenants for autocomplete.
///
/// Names that begin with the query precede the others. Both groups are sorted by name.
#[utoipa::path(
    tag = "Tenants", params(LookupTenants),
    responses((status = 200, description = "The first matches", body = FoundTenants))
)]
#[get("/api/identity/admin/tenants/lookup", wrap = "from_fn(auth::expensive)")]
pub async fn lookup_tenants(
    app: Data<App>,
    _: PermittedNow<ReadTenants>,
    Query(query): Query<LookupTenants>,
) -> Result<impl Responder, Error> {
    let default = || vec![TenantStatus::Active, TenantStatus::Suspended];
    let filter = TenantFilter {
        query: FoldedQuery::new(query.query.as_ref()),
        types: query.types.map(|types| types.0),
        statuses: Some(query.statuses.map_or_else(default, |statuses| statuses.0)),
        ..TenantFilter::default()
    };
    let conn = app.db.conn().await?;
    let items = db::tenant::look_up_by_query(&conn, &filter, query.limit.get()).await?;
    Ok(web::Json(FoundTenants { items }))
}

/// Look up a tenant.
///
/// Returns a tenant of any status.
#[utoipa::path(
    tag = "Tenants", params(("tenant_id" = CompanyId, Path)),
    responses((status = 200, description = "The reference", body = TenantReference))
)]
#[get("/api/identity/admin/tenants/lookup/{tenant_id}")]
pub async fn look_up_tenant(
    _: PermittedNow<ReadTenants>,
    id: Path<CompanyId>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    let found = lookups.run(async |conn| db::tenant::look_up_reference(conn, *id).await).await?;
    Ok(web::Json(found.ok_or(TENANT_NOT_FOUND)?))
}

/// Read a tenant.
///
/// Returns a tenant of any status.
#[utoipa::path(
    tag = "Tenants", params(("tenant_id" = CompanyId, Path)),
    responses((status = 200, description = "The tenant", body = Tenant))
)]
#[get("/api/identity/admin/tenants/{tenant_id}")]
pub async fn get_tenant(
    _: PermittedNow<ReadTenants>,
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
    /// Tax number of the company, digits alone.
    tax_number: Option<TaxNumber>,
}

/// Create a tenant.
///
/// A repeated request creates another tenant, unless it has the same `Idempotency-Key`.
#[utoipa::path(
    tag = "Tenants", request_body(content = CreateTenant, description = "At most 64 KiB."),
    responses((status = 201, description = "Created", body = Tenant,
            headers(("Location" = String, description = "The company"))))
)]
#[post("/api/identity/admin/tenants")]
pub async fn create_tenant(
    app: Data<App>,
    permitted: Permitted<ManageTenants>,
    idempotency: Idempotency,
    body: Json<CreateTenant, MAX_BODY_BYTES>,
) -> Result<HttpResponse, Error> {
    let Json(CreateTenant { name, legal_name, kind, tax_number }) = body;
    let details = TenantDetails { name, legal_name, tax_number };
    let context = app.actor_context(&permitted.actor);
    let create = async |tx: &mut _| {
        let created = ops::tenant::create_tenant(tx, &context, kind, details).await?;
        let location = format!("/api/identity/admin/tenants/{}", created.id);
        Ok(Reply::created(created).at(location))
    };
    idempotency.run(&app.db, create).await
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct UpdateTenant {
    name: TenantName,
    /// Legal name. `null` or an absent member removes the stored one.
    legal_name: Option<LegalName>,
    /// Tax number. `null` or an absent member removes the stored one.
    tax_number: Option<TaxNumber>,
    /// Version that the caller has read. Another stored version returns 409, unless the content is
    /// already the same.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

/// Update a tenant.
///
/// Replaces all members: an optional one that is absent or `null` is cleared. An identical body
/// changes nothing and keeps the version.
#[utoipa::path(
    tag = "Tenants", params(("tenant_id" = CompanyId, Path)),
    request_body(content = UpdateTenant, description = "At most 64 KiB."),
    responses((status = 200, description = "The tenant after the change", body = Tenant))
)]
#[put("/api/identity/admin/tenants/{tenant_id}")]
pub async fn update_tenant(
    app: Data<App>,
    permitted: Permitted<ManageTenants>,
    id: Path<CompanyId>,
    body: Json<UpdateTenant, MAX_BODY_BYTES>,
) -> Result<impl Responder, Error> {
    let Json(UpdateTenant { name, legal_name, tax_number, version }) = body;
    let details = TenantDetails { name, legal_name, tax_number };
    let context = app.actor_context(&permitted.actor);
    let tenant =
        app.db.tx(async |tx| ops::tenant::update_tenant(tx, &context, *id, version, details).await).await?;
    Ok(web::Json(tenant))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct MoveTenant {
    /// Reason for the audit log. A suspension also stores it in the tenant.
    reason: Option<Reason>,
    /// Version that the caller has read. Another stored version returns 409.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ActivateTenant {
    /// Version that the caller has read. Another stored version returns 409.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

async fn change_status(
    app: &App,
    permitted: &Permitted<ManageTenants>,
    id: CompanyId,
    to: TenantStatus,
    MoveTenant { reason, version }: MoveTenant,
) -> Result<web::Json<Tenant>, Error> {
    let context = app.actor_context(&permitted.actor);
    let changed = app
        .db
        .tx(async |tx| ops::tenant::change_tenant_status(tx, &context, id, version, to, reason).await)
        .await?;
    Ok(web::Json(changed))
}

/// Suspend a tenant.
///
/// The roles of the tenant's employees grant no permissions until the tenant is active again.
#[utoipa::path(
    tag = "Tenants", params(("tenant_id" = CompanyId, Path)),
    request_body(content = Option<MoveTenant>, description = "At most 64 KiB."),
    responses((status = 200, description = "The tenant after the change", body = Tenant))
)]
#[post("/api/identity/admin/tenants/{tenant_id}/suspend")]
pub async fn suspend_tenant(
    app: Data<App>,
    permitted: Permitted<ManageTenants>,
    id: Path<CompanyId>,
    body: OptionalJson<MoveTenant, MAX_BODY_BYTES>,
) -> Result<impl Responder, Error> {
    change_status(&app, &permitted, *id, TenantStatus::Suspended, body.0).await
}

/// Activate a suspended tenant.
///
/// The roles of the tenant's employees grant their permissions again.
#[utoipa::path(
    tag = "Tenants", params(("tenant_id" = CompanyId, Path)),
    request_body(content = Option<ActivateTenant>, description = "At most 64 KiB."),
    responses((status = 200, description = "The tenant after the change", body = Tenant))
)]
#[post("/api/identity/admin/tenants/{tenant_id}/activate")]
pub async fn activate_tenant(
    app: Data<App>,
    permitted: Permitted<ManageTenants>,
    id: Path<CompanyId>,
    body: OptionalJson<ActivateTenant, MAX_BODY_BYTES>,
) -> Result<impl Responder, Error> {
    let command = MoveTenant { reason: None, version: body.0.version };
    change_status(&app, &permitted, *id, TenantStatus::Active, command).await
}

/// Archive a tenant.
///
/// The status Archived is final. Another tenant can then use the tax number.
#[utoipa::path(
    tag = "Tenants", params(("tenant_id" = CompanyId, Path)),
    request_body(content = Option<MoveTenant>, description = "At most 64 KiB."),
    responses((status = 200, description = "The tenant after the change", body = Tenant))
)]
#[post("/api/identity/admin/tenants/{tenant_id}/archive")]
pub async fn archive_tenant(
    app: Data<App>,
    permitted: Permitted<ManageTenants>,
    id: Path<CompanyId>,
    body: OptionalJson<MoveTenant, MAX_BODY_BYTES>,
) -> Result<impl Responder, Error> {
    change_status(&app, &permitted, *id, TenantStatus::Archived, body.0).await
}
