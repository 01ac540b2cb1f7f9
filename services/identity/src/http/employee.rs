//! Employees of the caller's company.

use ::db::PipelinedConn;
use ::web::{Both, CommaSeparated, Json, OptionalJson, Page, Paging, Query};
use actix_web::middleware::from_fn;
use actix_web::web::{Data, Path};
use actix_web::{HttpResponse, Responder, delete, get, post, put, web};
use auth::{Permitted, UserId};
use serde::Deserialize;
use service::{Idempotency, Reply};
use utoipa::{IntoParams, ToSchema};

use super::body_limit::MAX_BODY_BYTES;
use super::permitted_now::PermittedNow;
use crate::app::App;
use crate::db;
use crate::db::employee::{EmployeeFilter, EmployeeSort};
use crate::domain::{
    Employee, EmployeeStatus, FoldedQuery, ManageEmployees, PersonName, RoleId, SearchText, WorkEmail,
};
use crate::error::{Error, USER_NOT_FOUND};
use crate::ops;
use crate::ops::employee::PersonDetails;

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct ListEmployees {
    /// Matches anywhere in a name or an e-mail address, in any letter case.
    #[param(inline)]
    query: Option<SearchText>,
    /// Statuses, separated by commas.
    #[param(value_type = Option<Vec<EmployeeStatus>>, inline, min_items = 1, style = Form, explode = false)]
    statuses: Option<CommaSeparated<EmployeeStatus>>,
    /// Role of the listed employees.
    role_id: Option<RoleId>,
}

impl From<ListEmployees> for EmployeeFilter {
    fn from(query: ListEmployees) -> Self {
        Self {
            query: FoldedQuery::new(query.query.as_ref()),
            statuses: query.statuses.map(|statuses| statuses.0),
            role_id: query.role_id,
        }
    }
}

/// List the employees of my company.
///
/// The list includes suspended employees.
#[utoipa::path(
    tag = "Employees", params(ListEmployees, Paging<EmployeeSort>),
    responses((status = 200, description = "One page", body = Page<Employee>))
)]
#[get("/api/identity/employees", wrap = "from_fn(auth::expensive)")]
pub async fn list_employees(
    app: Data<App>,
    permitted: PermittedNow<ManageEmployees>,
    Both(Query(query), paging): Both<Query<ListEmployees>, Paging<EmployeeSort>>,
) -> Result<impl Responder, Error> {
    let conn = app.db.conn().await?;
    Ok(web::Json(db::employee::list(&conn, permitted.0, &query.into(), &paging).await?))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CreateEmployee {
    /// Id of a former employee of the company, to employ the same user again. If absent, the
    /// service creates an id.
    user_id: Option<UserId>,
    name: PersonName,
    /// Contact address, not a login.
    email: WorkEmail,
}

/// Create an employee.
///
/// The new employee is active and has no role. The id is `sub` in the user's tokens. With `UserId`
/// the company employs a former employee again under the old id.
#[utoipa::path(
    tag = "Employees", request_body(content = CreateEmployee, description = "At most 64 KiB."),
    responses((status = 201, description = "Created", body = Employee,
            headers(("Location" = String, description = "The employee"))))
)]
#[post("/api/identity/employees")]
pub async fn create_employee(
    app: Data<App>,
    permitted: Permitted<ManageEmployees>,
    idempotency: Idempotency,
    body: Json<CreateEmployee, MAX_BODY_BYTES>,
) -> Result<HttpResponse, Error> {
    let Json(CreateEmployee { user_id, name, email }) = body;
    let (context, company) = (app.actor_context(&permitted.actor), permitted.granted);
    let person = PersonDetails { name, email };
    let create = async |tx: &mut _| {
        let created = ops::employee::create_employee(tx, &context, company, user_id, person).await?;
        let id = created.id;
        Ok(Reply::created(created).at(format!("/api/identity/employees/{id}")).of_erasable(id))
    };
    idempotency.run(&app.db, create).await
}

/// Read an employee of my company.
///
/// Returns 404 for an employee of another company.
#[utoipa::path(
    tag = "Employees", params(("user_id" = UserId, Path)),
    responses((status = 200, description = "The employee", body = Employee))
)]
#[get("/api/identity/employees/{user_id}")]
pub async fn get_employee(
    permitted: PermittedNow<ManageEmployees>,
    id: Path<UserId>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    let found = lookups.run(async |conn| db::employee::look_up(conn, *id).await).await?;
    let own = found.filter(|employee| employee.company_id == permitted.0);
    Ok(web::Json(own.ok_or(USER_NOT_FOUND)?))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct UpdateEmployee {
    name: PersonName,
    email: WorkEmail,
    /// Version that the caller has read. Another stored version returns 409, unless the content is
    /// already the same.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

/// Update an employee.
///
/// Replaces all members. An identical body changes nothing and keeps the version.
#[utoipa::path(
    tag = "Employees", params(("user_id" = UserId, Path)),
    request_body(content = UpdateEmployee, description = "At most 64 KiB."),
    responses((status = 200, description = "The employee after the change", body = Employee))
)]
#[put("/api/identity/employees/{user_id}")]
pub async fn update_employee(
    app: Data<App>,
    permitted: Permitted<ManageEmployees>,
    id: Path<UserId>,
    body: Json<UpdateEmployee, MAX_BODY_BYTES>,
) -> Result<impl Responder, Error> {
    let Json(UpdateEmployee { name, email, version }) = body;
    let (context, company) = (app.actor_context(&permitted.actor), permitted.granted);
    let person = PersonDetails { name, email };
    let employee = app
        .db
        .tx(async |tx| ops::employee::update_employee(tx, &context, company, *id, version, person).await)
        .await?;
    Ok(web::Json(employee))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct MoveEmployee {
    /// Version that the caller has read. Another stored version returns 409.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

async fn change_status(
    app: &App,
    permitted: &Permitted<ManageEmployees>,
    id: UserId,
    to: EmployeeStatus,
    MoveEmployee { version }: MoveEmployee,
) -> Result<web::Json<Employee>, Error> {
    let (context, company) = (app.actor_context(&permitted.actor), permitted.granted);
    let changed = app
        .db
        .tx(async |tx| ops::employee::change_employee_status(tx, &context, company, id, version, to).await)
        .await?;
    Ok(web::Json(changed))
}

/// Suspend an employee.
///
/// The employee keeps the roles, but they grant no permissions.
#[utoipa::path(
    tag = "Employees", params(("user_id" = UserId, Path)),
    request_body(content = Option<MoveEmployee>, description = "At most 64 KiB."),
    responses((status = 200, description = "The employee after the change", body = Employee))
)]
#[post("/api/identity/employees/{user_id}/suspend")]
pub async fn suspend_employee(
    app: Data<App>,
    permitted: Permitted<ManageEmployees>,
    id: Path<UserId>,
    body: OptionalJson<MoveEmployee, MAX_BODY_BYTES>,
) -> Result<impl Responder, Error> {
    change_status(&app, &permitted, *id, EmployeeStatus::Suspended, body.0).await
}

/// Activate a suspended employee.
///
/// The roles grant their permissions again.
#[utoipa::path(
    tag = "Employees", params(("user_id" = UserId, Path)),
    request_body(content = Option<MoveEmployee>, description = "At most 64 KiB."),
    responses((status = 200, description = "The employee after the change", body = Employee))
)]
#[post("/api/identity/employees/{user_id}/activate")]
pub async fn activate_employee(
    app: Data<App>,
    permitted: Permitted<ManageEmployees>,
    id: Path<UserId>,
    body: OptionalJson<MoveEmployee, MAX_BODY_BYTES>,
) -> Result<impl Responder, Error> {
    change_status(&app, &permitted, *id, EmployeeStatus::Active, body.0).await
}

/// Remove an employee.
///
/// Erases name, e-mail address and roles. Another company can then employ the user.
#[utoipa::path(
    tag = "Employees", params(("user_id" = UserId, Path)),
    responses((status = 204, description = "Removed"))
)]
#[delete("/api/identity/employees/{user_id}")]
pub async fn remove_employee(
    app: Data<App>,
    permitted: Permitted<ManageEmployees>,
    id: Path<UserId>,
) -> Result<HttpResponse, Error> {
    let (context, company) = (app.actor_context(&permitted.actor), permitted.granted);
    app.db.tx(async |tx| ops::employee::remove_employee(tx, &context, company, *id).await).await?;
    Ok(HttpResponse::NoContent().finish())
}
