//! The employees of one's own company.

use ::db::PipelinedConn;
use ::web::{Both, CommaSeparated, Json, OptionalJson, Page, Paging, Query};
use actix_web::web::{Data, Path};
use actix_web::{HttpResponse, Responder, delete, get, post, put, web};
use auth::{Permitted, UserId};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::LARGEST_BODY;
use crate::app::App;
use crate::db;
use crate::db::employee::{EmployeeFilter, EmployeeSort};
use crate::domain::{
    Employee, EmployeeStatus, Fold, ManageEmployees, PersonName, RoleId, SearchText, WorkEmail,
};
use crate::error::{Error, USER_NOT_FOUND};
use crate::ops;
use crate::ops::employee::Person;

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct ListEmployees {
    /// Found anywhere in a name or an e-mail address; letter case does not count.
    #[param(inline)]
    query: Option<SearchText>,
    /// Separated by commas.
    #[param(value_type = Option<Vec<EmployeeStatus>>, inline, min_items = 1, style = Form, explode = false)]
    statuses: Option<CommaSeparated<EmployeeStatus>>,
    /// Those who have this role.
    role_id: Option<RoleId>,
}

impl From<ListEmployees> for EmployeeFilter {
    fn from(asked: ListEmployees) -> Self {
        Self {
            query: Fold::of(asked.query.as_ref()),
            statuses: asked.statuses.map(|statuses| statuses.0),
            role_id: asked.role_id,
        }
    }
}

/// List the employees of my company.
///
/// Suspended ones included.
#[utoipa::path(
    tag = "Employees", params(ListEmployees, Paging<EmployeeSort>),
    responses((status = 200, description = "One page", body = Page<Employee>))
)]
#[get("/api/identity/employees")]
pub async fn list_employees(
    app: Data<App>,
    permitted: Permitted<ManageEmployees>,
    Both(Query(asked), paging): Both<Query<ListEmployees>, Paging<EmployeeSort>>,
) -> Result<impl Responder, Error> {
    let conn = app.db.conn().await?;
    Ok(web::Json(db::employee::list(&conn, permitted.granted, &asked.into(), &paging).await?))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CreateEmployee {
    name: PersonName,
    /// A contact; nobody signs in by it.
    email: WorkEmail,
}

/// Employ somebody.
///
/// Active, without a role. The id is made here, and is what the person's tokens are to name as `sub`.
#[utoipa::path(
    tag = "Employees", request_body(content = CreateEmployee, description = "At most 64 KiB."),
    responses((status = 201, description = "Employed", body = Employee))
)]
#[post("/api/identity/employees")]
pub async fn create_employee(
    app: Data<App>,
    permitted: Permitted<ManageEmployees>,
    body: Json<CreateEmployee, LARGEST_BODY>,
) -> Result<HttpResponse, Error> {
    let Json(CreateEmployee { name, email }) = body;
    let (acting, company) = (app.acting(&permitted.actor), permitted.granted);
    let person = Person { name, email };
    let employee =
        app.db.tx(async |tx| ops::employee::create_employee(tx, &acting, company, person).await).await?;
    Ok(HttpResponse::Created().json(employee))
}

/// Read an employee of my company.
///
/// Another company's is as nobody.
#[utoipa::path(
    tag = "Employees", params(("user_id" = UserId, Path)),
    responses((status = 200, description = "The employee", body = Employee))
)]
#[get("/api/identity/employees/{user_id}")]
pub async fn get_employee(
    permitted: Permitted<ManageEmployees>,
    id: Path<UserId>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    let found = lookups.run(async |conn| db::employee::look_up(conn, *id).await).await?;
    let own = found.filter(|employee| employee.company_id == permitted.granted);
    Ok(web::Json(own.ok_or(USER_NOT_FOUND)?))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct UpdateEmployee {
    name: PersonName,
    email: WorkEmail,
    /// The version that the caller has seen; another one is a conflict.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

/// Replace what an employee is described by.
///
/// What is the same already changes nothing, not even the version.
#[utoipa::path(
    tag = "Employees", params(("user_id" = UserId, Path)),
    request_body(content = UpdateEmployee, description = "At most 64 KiB."),
    responses((status = 200, description = "As it is now", body = Employee))
)]
#[put("/api/identity/employees/{user_id}")]
pub async fn update_employee(
    app: Data<App>,
    permitted: Permitted<ManageEmployees>,
    id: Path<UserId>,
    body: Json<UpdateEmployee, LARGEST_BODY>,
) -> Result<impl Responder, Error> {
    let Json(UpdateEmployee { name, email, version }) = body;
    let (acting, company) = (app.acting(&permitted.actor), permitted.granted);
    let person = Person { name, email };
    let employee = app
        .db
        .tx(async |tx| ops::employee::update_employee(tx, &acting, company, *id, version, person).await)
        .await?;
    Ok(web::Json(employee))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct MoveEmployee {
    /// The version that the caller has seen; another one is a conflict.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

async fn move_to(
    app: &App,
    permitted: &Permitted<ManageEmployees>,
    id: UserId,
    to: EmployeeStatus,
    MoveEmployee { version }: MoveEmployee,
) -> Result<web::Json<Employee>, Error> {
    let (acting, company) = (app.acting(&permitted.actor), permitted.granted);
    let moved = app
        .db
        .tx(async |tx| ops::employee::move_employee(tx, &acting, company, id, version, to).await)
        .await?;
    Ok(web::Json(moved))
}

/// Suspend an employee.
///
/// The roles stay, and give nothing meanwhile.
#[utoipa::path(
    tag = "Employees", params(("user_id" = UserId, Path)),
    request_body(content = Option<MoveEmployee>, description = "At most 64 KiB."),
    responses((status = 200, description = "As it is now", body = Employee))
)]
#[post("/api/identity/employees/{user_id}/suspend")]
pub async fn suspend_employee(
    app: Data<App>,
    permitted: Permitted<ManageEmployees>,
    id: Path<UserId>,
    body: OptionalJson<MoveEmployee, LARGEST_BODY>,
) -> Result<impl Responder, Error> {
    move_to(&app, &permitted, *id, EmployeeStatus::Suspended, body.0).await
}

/// Activate a suspended employee.
///
/// The roles give again what they give.
#[utoipa::path(
    tag = "Employees", params(("user_id" = UserId, Path)),
    request_body(content = Option<MoveEmployee>, description = "At most 64 KiB."),
    responses((status = 200, description = "As it is now", body = Employee))
)]
#[post("/api/identity/employees/{user_id}/activate")]
pub async fn activate_employee(
    app: Data<App>,
    permitted: Permitted<ManageEmployees>,
    id: Path<UserId>,
    body: OptionalJson<MoveEmployee, LARGEST_BODY>,
) -> Result<impl Responder, Error> {
    move_to(&app, &permitted, *id, EmployeeStatus::Active, body.0).await
}

/// Let an employee go.
///
/// Name, e-mail address and roles are erased. The person may be employed elsewhere.
#[utoipa::path(
    tag = "Employees", params(("user_id" = UserId, Path)),
    responses((status = 204, description = "Gone"))
)]
#[delete("/api/identity/employees/{user_id}")]
pub async fn remove_employee(
    app: Data<App>,
    permitted: Permitted<ManageEmployees>,
    id: Path<UserId>,
) -> Result<HttpResponse, Error> {
    let (acting, company) = (app.acting(&permitted.actor), permitted.granted);
    app.db.tx(async |tx| ops::employee::remove_employee(tx, &acting, company, *id).await).await?;
    Ok(HttpResponse::NoContent().finish())
}
