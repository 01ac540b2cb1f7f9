//! Employees of any tenant, for administrators of the platform.

use ::db::PipelinedConn;
use ::web::{Both, Json, Page, Paging, Query};
use actix_web::middleware::from_fn;
use actix_web::web::{Data, Path};
use actix_web::{HttpResponse, Responder, delete, get, post, web};
use auth::{CompanyId, Permitted, UserId};
use serde::Deserialize;
use service::{Idempotency, Reply};
use utoipa::ToSchema;

use super::body_limit::MAX_BODY_BYTES;
use super::employee::ListEmployees;
use super::permitted_now::PermittedNow;
use crate::app::App;
use crate::db;
use crate::db::employee::EmployeeSort;
use crate::domain::{Employee, ManageTenants, PersonName, ReadTenants, RoleId, WorkEmail};
use crate::error::{Error, ROLE_ESCALATION_FORBIDDEN, USER_NOT_FOUND};
use crate::ops;
use crate::ops::employee::PersonDetails;

/// List the employees of a tenant.
///
/// The list includes suspended employees. The list of an unknown tenant is empty.
#[utoipa::path(
    tag = "Tenants", params(("tenant_id" = CompanyId, Path), ListEmployees, Paging<EmployeeSort>),
    responses((status = 200, description = "One page", body = Page<Employee>))
)]
#[get("/api/identity/admin/tenants/{tenant_id}/employees", wrap = "from_fn(auth::expensive)")]
pub async fn list_tenant_employees(
    app: Data<App>,
    _: PermittedNow<ReadTenants>,
    id: Path<CompanyId>,
    Both(Query(query), paging): Both<Query<ListEmployees>, Paging<EmployeeSort>>,
) -> Result<impl Responder, Error> {
    let conn = app.db.conn().await?;
    Ok(web::Json(db::employee::list(&conn, *id, &query.into(), &paging).await?))
}

/// Read an employee of a tenant.
///
/// Returns 404 for an employee of another tenant.
#[utoipa::path(
    tag = "Tenants", params(("tenant_id" = CompanyId, Path), ("user_id" = UserId, Path)),
    responses((status = 200, description = "The employee", body = Employee))
)]
#[get("/api/identity/admin/tenants/{tenant_id}/employees/{user_id}")]
pub async fn get_tenant_employee(
    _: PermittedNow<ReadTenants>,
    ids: Path<(CompanyId, UserId)>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    let (tenant, user) = ids.into_inner();
    let found = lookups.run(async |conn| db::employee::look_up(conn, user).await).await?;
    let employee = found.filter(|employee| employee.company_id == tenant);
    Ok(web::Json(employee.ok_or(USER_NOT_FOUND)?))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CreateAdministrator {
    /// Id of a user whom the issuer already knows. If absent, the service creates an id.
    user_id: Option<UserId>,
    name: PersonName,
    /// Contact address, not a login.
    email: WorkEmail,
}

/// Add an administrator to a tenant.
///
/// Creates an active employee with the administrator role of the tenant's type. The tenant may
/// already have administrators.
#[utoipa::path(
    tag = "Tenants", params(("tenant_id" = CompanyId, Path)),
    request_body(content = CreateAdministrator, description = "At most 64 KiB."),
    responses((status = 201, description = "Created", body = Employee,
            headers(("Location" = String, description = "The employee"))))
)]
#[post("/api/identity/admin/tenants/{tenant_id}/administrators")]
pub async fn create_administrator(
    app: Data<App>,
    permitted: Permitted<ManageTenants>,
    id: Path<CompanyId>,
    idempotency: Idempotency,
    body: Json<CreateAdministrator, MAX_BODY_BYTES>,
) -> Result<HttpResponse, Error> {
    let Json(CreateAdministrator { user_id, name, email }) = body;
    let context = app.actor_context(&permitted.actor);
    let person = PersonDetails { name, email };
    let create = async |tx: &mut _| {
        let created = ops::employee::create_administrator(tx, &context, *id, user_id, person).await?;
        let user = created.id;
        let location = format!("/api/identity/admin/tenants/{id}/employees/{user}");
        Ok(Reply::created(created).at(location).of_erasable(user))
    };
    let response = idempotency.run(&app.db, create).await;
    if response.as_ref().is_err_and(|error| error.is(ROLE_ESCALATION_FORBIDDEN)) {
        app.db.tx(async |tx| ops::role::record_refused_administrator(tx, &context, *id).await).await?;
    }
    response
}

/// Remove an employee of a tenant.
///
/// Applies to a tenant of any status. An employee of an archived company can then be employed
/// elsewhere.
#[utoipa::path(
    tag = "Tenants", params(("tenant_id" = CompanyId, Path), ("user_id" = UserId, Path)),
    responses((status = 204, description = "Removed"))
)]
#[delete("/api/identity/admin/tenants/{tenant_id}/employees/{user_id}")]
pub async fn remove_tenant_employee(
    app: Data<App>,
    permitted: Permitted<ManageTenants>,
    ids: Path<(CompanyId, UserId)>,
) -> Result<HttpResponse, Error> {
    let ((tenant, user), context) = (ids.into_inner(), app.actor_context(&permitted.actor));
    app.db.tx(async |tx| ops::employee::remove_employee_of_tenant(tx, &context, tenant, user).await).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Remove a role from an employee of a tenant.
///
/// Applies to a tenant of any status.
#[utoipa::path(
    tag = "Tenants",
    params(("tenant_id" = CompanyId, Path), ("user_id" = UserId, Path), ("role_id" = RoleId, Path)),
    responses((status = 204, description = "Removed"))
)]
#[delete("/api/identity/admin/tenants/{tenant_id}/employees/{user_id}/roles/{role_id}")]
pub async fn remove_tenant_employee_role(
    app: Data<App>,
    permitted: Permitted<ManageTenants>,
    ids: Path<(CompanyId, UserId, RoleId)>,
) -> Result<HttpResponse, Error> {
    let ((tenant, user, role), context) = (ids.into_inner(), app.actor_context(&permitted.actor));
    app.db.tx(async |tx| ops::role::remove_role_of_tenant(tx, &context, tenant, user, role).await).await?;
    Ok(HttpResponse::NoContent().finish())
}
