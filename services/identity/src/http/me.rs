//! The caller's own data.

use ::web::Messages;
use actix_web::web::Data;
use actix_web::{HttpRequest, Responder, get, web};
use auth::{Actor, UserId};
use serde::Serialize;
use utoipa::ToSchema;
use values::Private;

use super::role::RoleView;
use crate::app::App;
use crate::db;
use crate::domain::{EmployeeStatus, PersonName, TenantReference, TokenClaims, WorkEmail};
use crate::error::Error;

/// The caller, with the data of the employment or of the machine account. Without either these
/// members are null.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Me {
    user_id: UserId,
    name: Option<PersonName>,
    email: Option<WorkEmail>,
    status: Option<EmployeeStatus>,
    /// The company that the caller works for. Null without one.
    company: Option<TenantReference>,
    /// The roles of the caller.
    roles: Vec<RoleView>,
    /// Permissions of the current claims, which a new token would have.
    permissions: Vec<String>,
}

/// Read my own data.
///
/// Returns the stored data, regardless of the token.
#[utoipa::path(tag = "Oneself", responses((status = 200, description = "The caller", body = Me)))]
#[get("/api/identity/me")]
pub async fn get_me(
    app: Data<App>,
    actor: Actor,
    messages: Data<Messages>,
    request: HttpRequest,
) -> Result<impl Responder, Error> {
    let user_id = actor.user_id;
    let mut conn = app.db.conn().await?;
    let (_, record) = db::employment::find_record(&conn, user_id).await?;
    let employee = db::employee::look_up(&conn, user_id).await?;
    let account = match employee {
        Some(_) => None,
        None => db::machine_account::look_up(&conn, user_id).await?,
    };
    let company_id = employee.as_ref().map(|employee| employee.company_id);
    let company = match company_id.or_else(|| account.as_ref().map(|account| account.company_id)) {
        Some(company) => db::tenant::look_up_reference(&conn, company).await?,
        None => None,
    };
    let roles = if let Some(account) = &account {
        db::role::list_by_ids(&mut conn, &account.role_ids).await?
    } else {
        let assignments = db::role::list_assignments(&mut conn, user_id).await?;
        assignments.into_iter().map(|assignment| assignment.role).collect()
    };
    let roles = roles.into_iter().map(|role| RoleView::of(role, &messages, &request));
    let permissions = TokenClaims::of(user_id, record.employment.as_ref(), &app.baseline).permissions;
    let status = employee.as_ref().map(|employee| employee.status);
    let (name, email) = employee.map(|employee| (employee.name, employee.email)).unzip();
    let name = name.or_else(|| account.map(|account| Private::new(account.name)));
    Ok(web::Json(Me { user_id, name, email, status, company, roles: roles.collect(), permissions }))
}
