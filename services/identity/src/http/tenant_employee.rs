//! The employees of any tenant, for administrators of the platform.

use ::web::{Both, Json, Page, Paging, Query};
use actix_web::web::{Data, Path};
use actix_web::{HttpResponse, Responder, delete, get, post, web};
use auth::{CompanyId, Permitted, UserId};
use serde::Deserialize;
use utoipa::ToSchema;

use super::LARGEST_BODY;
use super::employee::ListEmployees;
use crate::app::App;
use crate::db;
use crate::db::employee::EmployeeSort;
use crate::domain::{Employee, ManageTenants, PersonName, ReadTenants, RoleId, WorkEmail};
use crate::error::{Error, ROLE_ESCALATION_FORBIDDEN};
use crate::ops;
use crate::ops::employee::Person;

/// List the employees of a tenant.
///
/// Suspended ones included. Of a tenant that is not there the list is empty.
#[utoipa::path(
    tag = "Tenants", params(("tenant_id" = CompanyId, Path), ListEmployees, Paging<EmployeeSort>),
    responses((status = 200, description = "One page", body = Page<Employee>))
)]
#[get("/api/identity/admin/tenants/{tenant_id}/employees")]
pub async fn list_tenant_employees(
    app: Data<App>,
    _: Permitted<ReadTenants>,
    id: Path<CompanyId>,
    Both(Query(asked), paging): Both<Query<ListEmployees>, Paging<EmployeeSort>>,
) -> Result<impl Responder, Error> {
    let conn = app.db.conn().await?;
    Ok(web::Json(db::employee::list(&conn, *id, &asked.into(), &paging).await?))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CreateAdministrator {
    /// Of an account that the issuer has already; else one is made.
    user_id: Option<UserId>,
    name: PersonName,
    /// A contact; nobody signs in by it.
    email: WorkEmail,
}

/// Give a tenant an administrator.
///
/// The first one, or a further one in need: an active employee with the role of those who administer companies of the
/// tenant's type.
#[utoipa::path(
    tag = "Tenants", params(("tenant_id" = CompanyId, Path)),
    request_body(content = CreateAdministrator, description = "At most 64 KiB."),
    responses((status = 201, description = "Employed", body = Employee))
)]
#[post("/api/identity/admin/tenants/{tenant_id}/administrators")]
pub async fn create_administrator(
    app: Data<App>,
    permitted: Permitted<ManageTenants>,
    id: Path<CompanyId>,
    body: Json<CreateAdministrator, LARGEST_BODY>,
) -> Result<HttpResponse, Error> {
    let Json(CreateAdministrator { user_id, name, email }) = body;
    let acting = app.acting(&permitted.actor);
    let person = Person { name, email };
    let created = app
        .db
        .tx(async |tx| ops::employee::create_administrator(tx, &acting, *id, user_id, person).await)
        .await;
    if created.as_ref().is_err_and(|error: &Error| error.is(ROLE_ESCALATION_FORBIDDEN)) {
        app.db.tx(async |tx| ops::role::record_refused_administrator(tx, &acting, *id).await).await?;
    }
    Ok(HttpResponse::Created().json(created?))
}

/// Let an employee of a tenant go.
///
/// In a tenant of any status: who was left in an archived company can be employed elsewhere.
#[utoipa::path(
    tag = "Tenants", params(("tenant_id" = CompanyId, Path), ("user_id" = UserId, Path)),
    responses((status = 204, description = "Gone"))
)]
#[delete("/api/identity/admin/tenants/{tenant_id}/employees/{user_id}")]
pub async fn remove_tenant_employee(
    app: Data<App>,
    permitted: Permitted<ManageTenants>,
    ids: Path<(CompanyId, UserId)>,
) -> Result<HttpResponse, Error> {
    let ((tenant, user), acting) = (ids.into_inner(), app.acting(&permitted.actor));
    app.db.tx(async |tx| ops::employee::remove_employee_of_tenant(tx, &acting, tenant, user).await).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Take a role from an employee of a tenant.
///
/// In a tenant of any status.
#[utoipa::path(
    tag = "Tenants",
    params(("tenant_id" = CompanyId, Path), ("user_id" = UserId, Path), ("role_id" = RoleId, Path)),
    responses((status = 204, description = "Taken"))
)]
#[delete("/api/identity/admin/tenants/{tenant_id}/employees/{user_id}/roles/{role_id}")]
pub async fn remove_tenant_employee_role(
    app: Data<App>,
    permitted: Permitted<ManageTenants>,
    ids: Path<(CompanyId, UserId, RoleId)>,
) -> Result<HttpResponse, Error> {
    let ((tenant, user, role), acting) = (ids.into_inner(), app.acting(&permitted.actor));
    app.db.tx(async |tx| ops::role::remove_role_of_tenant(tx, &acting, tenant, user, role).await).await?;
    Ok(HttpResponse::NoContent().finish())
}
