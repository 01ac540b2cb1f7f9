//! Roles and their assignments.

use ::db::PipelinedConn;
use ::web::{Messages, Problem, Query};
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse, Responder, delete, get, post, web};
use auth::{Actor, Permitted, UserId};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::{IntoParams, ToSchema};

use super::permitted_now::{PermittedNow, check_permitted_now};
use crate::app::App;
use crate::db;
use crate::domain::{ManageEmployees, ReadRoles, ReadableRoles, Role, RoleAssignment, RoleId, TenantType};
use crate::error::{Error, ROLE_ESCALATION_FORBIDDEN, USER_NOT_FOUND};
use crate::ops;

/// A role.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct RoleView {
    id: RoleId,
    /// Fixed name, for programs.
    code: String,
    /// Display name, in the caller's language.
    name: String,
    /// Permissions as tokens write them.
    permissions: Vec<String>,
    /// Types of tenants whose employees may have the role.
    assignable_to: Vec<TenantType>,
}

impl RoleView {
    pub fn of(role: Role, messages: &Messages, request: &HttpRequest) -> Self {
        let name = messages.render(request, &format!("role-{}", role.code));
        Self {
            id: role.id,
            name: name.unwrap_or_else(|| role.code.clone()),
            code: role.code,
            permissions: role.permissions,
            assignable_to: role.assignable_to,
        }
    }
}

/// A list of roles.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Roles {
    items: Vec<RoleView>,
}

/// A role of an employee.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct RoleAssignmentView {
    #[serde(flatten)]
    role: RoleView,
    /// Time of the assignment, in UTC.
    #[serde(with = "time::serde::rfc3339")]
    assigned_at: OffsetDateTime,
    /// Id of the user who assigned the role.
    assigned_by_user_id: UserId,
}

/// The roles of an employee.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct RoleAssignments {
    items: Vec<RoleAssignmentView>,
}

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct ListRoles {
    /// Type of tenants that can use the roles. Only administrators of the platform can set it; for
    /// other callers it has no effect.
    #[param(inline)]
    tenant_type: Option<TenantType>,
}

/// List roles.
///
/// Returns all roles to administrators of the platform. Administrators of a company get the roles
/// for the type of their company.
#[utoipa::path(
    tag = "Employees", params(ListRoles),
    responses((status = 200, description = "The roles, sorted by id", body = Roles))
)]
#[get("/api/identity/roles")]
pub async fn list_roles(
    app: Data<App>,
    permitted: PermittedNow<ReadRoles>,
    Query(query): Query<ListRoles>,
    messages: Data<Messages>,
    request: HttpRequest,
) -> Result<impl Responder, Error> {
    let mut conn = app.db.conn().await?;
    let roles = match permitted.0 {
        ReadableRoles::All => db::role::list(&mut conn, query.tenant_type).await?,
        ReadableRoles::OfCompany(own) => match db::tenant::look_up_reference(&conn, own).await? {
            Some(own) => db::role::list(&mut conn, Some(own.kind)).await?,
            None => Vec::new(),
        },
    };
    let items = roles.into_iter().map(|role| RoleView::of(role, &messages, &request));
    Ok(web::Json(Roles { items: items.collect() }))
}

/// List the roles of an employee.
///
/// Returns the roles of an employee of the caller's company. Every user may read their own.
#[utoipa::path(
    tag = "Employees", params(("user_id" = UserId, Path)),
    responses((status = 200, description = "The roles, sorted by id", body = RoleAssignments))
)]
#[get("/api/identity/employees-roles/{user_id}/roles")]
pub async fn list_employee_roles(
    app: Data<App>,
    actor: Actor,
    id: Path<String>,
    lookups: Data<PipelinedConn>,
    messages: Data<Messages>,
    request: HttpRequest,
) -> Result<impl Responder, Error> {
    let wanted = id.parse::<UserId>().ok();
    if wanted != Some(actor.user_id) {
        let company = check_permitted_now::<ManageEmployees>(&app, &lookups, &actor).await?;
        // A missing permission precedes an id that does not parse.
        let wanted = wanted.ok_or_else(Problem::not_found)?;
        let found = lookups.run(async |conn| db::employee::look_up(conn, wanted).await).await?;
        found.filter(|employee| employee.company_id == company).ok_or(USER_NOT_FOUND)?;
    }
    let user = wanted.unwrap_or(actor.user_id);
    let assignments = db::role::list_assignments(&mut *app.db.conn().await?, user).await?;
    let items = assignments.into_iter().map(|RoleAssignment { role, assigned_at, assigned_by_user_id }| {
        let role = RoleView::of(role, &messages, &request);
        RoleAssignmentView { role, assigned_at, assigned_by_user_id }
    });
    Ok(web::Json(RoleAssignments { items: items.collect() }))
}

/// Add a role to an employee of my company.
///
/// Adding a role that the employee already has changes nothing. The caller must hold every
/// permission of the role.
#[utoipa::path(
    tag = "Employees", params(("user_id" = UserId, Path), ("role_id" = RoleId, Path)),
    responses((status = 204, description = "The employee has the role"))
)]
#[post("/api/identity/employees-roles/{user_id}/roles/{role_id}/add")]
pub async fn add_role_to_employee(
    app: Data<App>,
    permitted: Permitted<ManageEmployees>,
    ids: Path<(UserId, RoleId)>,
) -> Result<HttpResponse, Error> {
    let ((user, role), context, company) =
        (ids.into_inner(), app.actor_context(&permitted.actor), permitted.granted);
    let added =
        app.db.tx(async |tx| ops::role::add_role_to_employee(tx, &context, company, user, role).await).await;
    if added.as_ref().is_err_and(|error: &Error| error.is(ROLE_ESCALATION_FORBIDDEN)) {
        app.db
            .tx(async |tx| ops::role::record_refused_grant(tx, &context, company, user, role).await)
            .await?;
    }
    added?;
    Ok(HttpResponse::NoContent().finish())
}

/// Remove a role from an employee of my company.
///
/// Returns 409 for the administrator role of the company's last administrator.
#[utoipa::path(
    tag = "Employees", params(("user_id" = UserId, Path), ("role_id" = RoleId, Path)),
    responses((status = 204, description = "Removed"))
)]
#[delete("/api/identity/employees-roles/{user_id}/roles/{role_id}")]
pub async fn remove_role_from_employee(
    app: Data<App>,
    permitted: Permitted<ManageEmployees>,
    ids: Path<(UserId, RoleId)>,
) -> Result<HttpResponse, Error> {
    let ((user, role), context, company) =
        (ids.into_inner(), app.actor_context(&permitted.actor), permitted.granted);
    app.db
        .tx(async |tx| ops::role::remove_role_from_employee(tx, &context, company, user, role).await)
        .await?;
    Ok(HttpResponse::NoContent().finish())
}
