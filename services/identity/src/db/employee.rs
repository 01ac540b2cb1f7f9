//! Employees as they are stored and found.

use ::db::{Conn, Prepared, Tx};
use ::web::{Page, Paging, SortKey};
use auth::{CompanyId, UserId};
use diesel::dsl::exists;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use service::list;
use strum::{EnumString, VariantNames};

use super::schema::{employee, employee_role, employee_with_roles};
use crate::domain::{Employee, EmployeeStatus, Fold, RoleId};
use crate::error::{CONFLICT, EMAIL_TAKEN, Error, USER_ALREADY_EMPLOYED};

/// What a list of employees may be sorted by.
#[derive(Clone, Copy, Debug, EnumString, VariantNames)]
pub enum EmployeeSort {
    Name,
    CreatedAt,
}

impl SortKey for EmployeeSort {
    const DEFAULT: &'static str = "Name";
}

/// Which employees are asked for.
pub struct EmployeeFilter {
    pub query: Option<Fold>,
    pub statuses: Option<Vec<EmployeeStatus>>,
    pub role_id: Option<RoleId>,
}

/// # Errors
/// [`USER_ALREADY_EMPLOYED`], [`EMAIL_TAKEN`]
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
    match Prepared(insert).execute(tx.conn()).await.map_err(email_taken)? {
        0 => Err(USER_ALREADY_EMPLOYED.into()),
        _ => Ok(()),
    }
}

/// An employee of this company; others' are as if they were not there.
pub async fn find(
    conn: &mut Conn,
    company: CompanyId,
    user: UserId,
) -> Result<Option<Employee>, ::db::Error> {
    Ok(look_up(conn, user).await?.filter(|employee| employee.company_id == company))
}

/// Whosever employee it is.
pub async fn look_up(mut conn: &Conn, user: UserId) -> QueryResult<Option<Employee>> {
    let one = employee_with_roles::table.filter(employee_with_roles::id.eq(user));
    one.select(Employee::as_select()).first(&mut conn).await.optional()
}

/// The version alone, as it is before whoever changes it now has committed.
pub async fn version(conn: &mut Conn, user: UserId) -> Result<Option<i64>, ::db::Error> {
    Ok(employee::table.find(user).select(employee::version).first(conn).await.optional()?)
}

/// Writes what can be changed, if the row still has the version that was read; the aggregate gets the new one.
///
/// # Errors
/// [`CONFLICT`], [`EMAIL_TAKEN`]
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
    if Prepared(save).execute(tx.conn()).await.map_err(email_taken)? == 0 {
        return Err(CONFLICT.into());
    }
    changed.version += 1;
    Ok(())
}

/// Erases a person who has no role any more.
pub async fn delete(tx: &mut Tx, user: UserId) -> Result<(), ::db::Error> {
    diesel::delete(employee::table.find(user)).execute(tx.conn()).await?;
    Ok(())
}

/// One page of a company's employees.
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
    let counted = found(company, filter).select(employee_with_roles::id);
    let sorted =
        found(company, filter).select(employee_with_roles::id).order((order(), employee_with_roles::id));
    let Page { items, page, page_size, total_count } =
        list::page::<_, UserId, _, _>(conn, paging, sorted, counted).await?;
    // Roles are looked for of those that are shown, and not of all on the pages before.
    let shown = employee_with_roles::table.filter(employee_with_roles::id.eq_any(items));
    let shown = shown.select(Employee::as_select()).order((order(), employee_with_roles::id));
    Ok(Page { items: shown.load(&mut conn).await?, page, page_size, total_count })
}

fn found(company: CompanyId, filter: &EmployeeFilter) -> employee_with_roles::BoxedQuery<'static, Pg> {
    let own = employee_with_roles::company_id.eq(company);
    let mut found = employee_with_roles::table.filter(own).filter(list::custom_plan()).into_boxed();
    if let Some(query) = &filter.query {
        found = found.filter(employee_with_roles::search_text.like(query.anywhere()));
    }
    if let Some(statuses) = &filter.statuses {
        found = found.filter(employee_with_roles::status.eq_any(statuses.clone()));
    }
    if let Some(role) = filter.role_id {
        let has = employee_role::table
            .filter(employee_role::company_id.eq(company))
            .filter(employee_role::role_id.eq(role))
            .filter(employee_role::user_id.eq(employee_with_roles::id));
        found = found.filter(exists(has));
    }
    found
}

/// INV-IDN-005
fn email_taken(error: diesel::result::Error) -> Error {
    let error = ::db::Error::from(error);
    match error.violated_constraint() {
        Some("employee_email") => EMAIL_TAKEN.into(),
        _ => error.into(),
    }
}
