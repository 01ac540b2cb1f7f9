//! Queries of employees.

use ::db::{Conn, Prepared, Tx};
use ::web::{Page, Paging, SortKey};
use auth::{CompanyId, UserId};
use diesel::dsl::exists;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use service::list;
use strum::{EnumString, VariantNames};

use crate::domain::{Employee, EmployeeStatus, FoldedQuery, RoleId};
use crate::error::{CONFLICT, EMAIL_TAKEN, Error, USER_ALREADY_EMPLOYED};
use crate::schema::{employee, employee_role, employee_with_roles};

/// Sort key of a list of employees.
#[derive(Clone, Copy, Debug, EnumString, VariantNames)]
pub enum EmployeeSort {
    Name,
    CreatedAt,
}

impl SortKey for EmployeeSort {
    const DEFAULT: &'static str = "Name";
}

/// Filter of a list of employees.
pub struct EmployeeFilter {
    pub query: Option<FoldedQuery>,
    pub statuses: Option<Vec<EmployeeStatus>>,
    pub role_id: Option<RoleId>,
}

/// Inserts an employee (INV-IDN-004, INV-IDN-005).
///
/// # Errors
/// - [`USER_ALREADY_EMPLOYED`] if the user is an employee of any company.
/// - [`EMAIL_TAKEN`] if another employee of the company has the e-mail address.
pub async fn insert(tx: &mut Tx, new: &Employee) -> Result<(), Error> {
    let insert = diesel::insert_into(employee::table)
        .values((
            employee::id.eq(new.id),
            employee::company_id.eq(new.company_id),
            employee::name.eq(new.name.expose()),
            employee::email.eq(new.email.expose()),
            employee::status.eq(new.status),
            employee::created_at.eq(new.created_at),
            employee::updated_at.eq(new.updated_at),
            employee::version.eq(new.version),
            employee::lower_name.eq(new.lower_name()),
            employee::lower_email.eq(new.folded_email()),
            employee::search_text.eq(new.search_text()),
        ))
        .on_conflict(employee::id)
        .do_nothing();
    match Prepared(insert).execute(tx.conn()).await.map_err(map_email_taken)? {
        0 => Err(USER_ALREADY_EMPLOYED.into()),
        _ => Ok(()),
    }
}

/// Returns an employee of this company, and `None` for an employee of another company.
pub async fn find(
    conn: &mut Conn,
    company: CompanyId,
    user: UserId,
) -> Result<Option<Employee>, ::db::Error> {
    Ok(look_up(conn, user).await?.filter(|employee| employee.company_id == company))
}

/// Returns an employee of any company.
pub async fn look_up(mut conn: &Conn, user: UserId) -> QueryResult<Option<Employee>> {
    let one = employee_with_roles::table.filter(employee_with_roles::id.eq(user));
    one.select(Employee::as_select()).first(&mut conn).await.optional()
}

/// Returns the committed version, without waiting for a concurrent change.
pub async fn find_version(conn: &mut Conn, user: UserId) -> Result<Option<i64>, ::db::Error> {
    Ok(employee::table.find(user).select(employee::version).first(conn).await.optional()?)
}

/// Writes the changed fields if the row still has the version that was read, then sets the new
/// version on `changed`.
///
/// # Errors
/// - [`CONFLICT`] if the row has another version.
/// - [`EMAIL_TAKEN`] if another employee of the company has the e-mail address.
pub async fn save(tx: &mut Tx, changed: &mut Employee) -> Result<(), Error> {
    let row = employee::table.find(changed.id).filter(employee::version.eq(changed.version));
    let save = diesel::update(row).set((
        employee::name.eq(changed.name.expose()),
        employee::email.eq(changed.email.expose()),
        employee::status.eq(changed.status),
        employee::updated_at.eq(changed.updated_at),
        employee::version.eq(changed.version + 1),
        employee::lower_name.eq(changed.lower_name()),
        employee::lower_email.eq(changed.folded_email()),
        employee::search_text.eq(changed.search_text()),
    ));
    if Prepared(save).execute(tx.conn()).await.map_err(map_email_taken)? == 0 {
        return Err(CONFLICT.into());
    }
    changed.version += 1;
    Ok(())
}

/// Deletes an employee. The caller must have deleted the role assignments.
pub async fn delete(tx: &mut Tx, user: UserId) -> Result<(), ::db::Error> {
    diesel::delete(employee::table.find(user)).execute(tx.conn()).await?;
    Ok(())
}

pub async fn list(
    mut conn: &Conn,
    company: CompanyId,
    filter: &EmployeeFilter,
    paging: &Paging<EmployeeSort>,
) -> Result<Page<Employee>, ::db::Error> {
    let order = || match paging.sort {
        EmployeeSort::Name => list::order_by(paging, employee_with_roles::lower_name),
        EmployeeSort::CreatedAt => list::order_by(paging, employee_with_roles::created_at),
    };
    let counted = select_matching(company, filter).select(employee_with_roles::id);
    let sorted = select_matching(company, filter)
        .select(employee_with_roles::id)
        .order((order(), employee_with_roles::id));
    let Page { items, page, page_size, total_count } =
        list::page::<_, UserId, _, _>(conn, paging, sorted, counted).await?;
    // Only the rows of this page need their roles, so this query reads the view for these ids only.
    let rows = employee_with_roles::table.filter(employee_with_roles::id.eq_any(items));
    let rows = rows.select(Employee::as_select()).order((order(), employee_with_roles::id));
    Ok(Page { items: rows.load(&mut conn).await?, page, page_size, total_count })
}

/// Builds the query of the employees that match a filter.
fn select_matching(
    company: CompanyId,
    filter: &EmployeeFilter,
) -> employee_with_roles::BoxedQuery<'static, Pg> {
    let own = employee_with_roles::company_id.eq(company);
    let mut employees = employee_with_roles::table.filter(own).filter(list::custom_plan()).into_boxed();
    if let Some(query) = &filter.query {
        employees = employees.filter(employee_with_roles::search_text.like(query.substring_pattern()));
    }
    if let Some(statuses) = &filter.statuses {
        employees = employees.filter(employee_with_roles::status.eq_any(statuses.clone()));
    }
    if let Some(role) = filter.role_id {
        let has = employee_role::table
            .filter(employee_role::company_id.eq(company))
            .filter(employee_role::role_id.eq(role))
            .filter(employee_role::user_id.eq(employee_with_roles::id));
        employees = employees.filter(exists(has));
    }
    employees
}

/// Maps a violation of the unique e-mail address to [`EMAIL_TAKEN`] (INV-IDN-005).
fn map_email_taken(error: diesel::result::Error) -> Error {
    let error = ::db::Error::from(error);
    match error.violated_constraint() {
        Some("employee_email") => EMAIL_TAKEN.into(),
        _ => error.into(),
    }
}
