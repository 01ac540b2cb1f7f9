//! Queries of roles and role assignments.

use ::db::{Conn, Prepared, Tx};
use auth::{CompanyId, UserId};
use diesel::dsl::exists;
use diesel::prelude::*;
use diesel::sql_types::{Array, Bool, Text, Uuid as SqlUuid};
use diesel_async::{RunQueryDsl, SimpleAsyncConnection};
use time::OffsetDateTime;

use crate::domain::{Employee, MANAGE_EMPLOYEE_ROLES, Role, RoleAssignment, RoleId, TenantType};
use crate::schema::{employee_role, role};

/// Returns all roles, or the roles for companies of a type, sorted by id.
pub async fn list(conn: &mut Conn, kind: Option<TenantType>) -> Result<Vec<Role>, ::db::Error> {
    let roles = role::table.select(Role::as_select()).order(role::id).load(conn).await?;
    Ok(roles.into_iter().filter(|role| kind.is_none_or(|kind| role.is_assignable_to(kind))).collect())
}

pub async fn find(conn: &mut Conn, id: RoleId) -> Result<Option<Role>, ::db::Error> {
    Ok(role::table.find(id).select(Role::as_select()).first(conn).await.optional()?)
}

/// Returns the roles with these ids, sorted by id.
pub async fn list_by_ids(conn: &mut Conn, ids: &[RoleId]) -> Result<Vec<Role>, ::db::Error> {
    let roles = role::table.filter(role::id.eq_any(ids)).order(role::id);
    Ok(roles.select(Role::as_select()).load(conn).await?)
}

/// Returns the administrator role of companies of this type.
pub async fn find_admin_role(conn: &mut Conn, kind: TenantType) -> Result<Role, ::db::Error> {
    let code = role::code.eq(Role::admin_code(kind));
    Ok(role::table.filter(code).select(Role::as_select()).first(conn).await?)
}

/// Returns the roles of an employee, sorted by role id.
pub async fn list_assignments(conn: &mut Conn, user: UserId) -> Result<Vec<RoleAssignment>, ::db::Error> {
    let assigned = employee_role::table
        .inner_join(role::table)
        .filter(employee_role::user_id.eq(user))
        .order(employee_role::role_id)
        .select(RoleAssignment::as_select())
        .load(conn)
        .await?;
    Ok(assigned)
}

pub async fn is_assigned(conn: &mut Conn, user: UserId, role: RoleId) -> Result<bool, ::db::Error> {
    Ok(diesel::select(exists(employee_role::table.find((user, role)))).get_result(conn).await?)
}

pub async fn assign(
    tx: &mut Tx,
    to: &Employee,
    role: RoleId,
    by: UserId,
    now: OffsetDateTime,
) -> Result<(), ::db::Error> {
    let insert = diesel::insert_into(employee_role::table).values((
        employee_role::user_id.eq(to.id),
        employee_role::role_id.eq(role),
        employee_role::company_id.eq(to.company_id),
        employee_role::assigned_at.eq(now),
        employee_role::assigned_by_user_id.eq(by),
    ));
    insert.execute(tx.conn()).await?;
    Ok(())
}

/// Removes a role from an employee. Returns false if the employee does not have it.
pub async fn remove(tx: &mut Tx, user: UserId, role: RoleId) -> Result<bool, ::db::Error> {
    let removed = diesel::delete(employee_role::table.find((user, role))).execute(tx.conn()).await?;
    Ok(removed == 1)
}

/// SQL clauses that select administrators: active employees with an administrator role. `$1` is
/// [`admin_permissions`].
const FROM_ADMINISTRATORS: &str = "\
    from employee_role join role on role.id = employee_role.role_id join employee on employee.id = employee_role.user_id \
    where employee.status = 'Active' and role.permissions && $1";

/// Returns the permission that makes a role an administrator role, in both scopes.
fn admin_permissions() -> [String; 2] {
    [MANAGE_EMPLOYEE_ROLES.to_owned(), format!("{MANAGE_EMPLOYEE_ROLES}@platform")]
}

#[derive(QueryableByName)]
struct BoolRow {
    #[diesel(sql_type = Bool)]
    value: bool,
}

/// Returns true if `user` is the only administrator of the company (INV-IDN-008).
pub async fn is_last_admin(conn: &mut Conn, company: CompanyId, user: UserId) -> Result<bool, ::db::Error> {
    let select = format!(
        "select coalesce(bool_and(employee.id = $3), false) as value {FROM_ADMINISTRATORS} and employee_role.company_id = $2"
    );
    let query = diesel::sql_query(select)
        .bind::<Array<Text>, _>(admin_permissions().to_vec())
        .bind::<SqlUuid, _>(company)
        .bind::<SqlUuid, _>(user);
    Ok(Prepared(query).get_result::<BoolRow>(conn).await?.value)
}

/// Returns true if a company of the operator has an administrator.
///
/// Holds a table lock until the transaction ends, so that concurrent callers wait.
pub async fn has_platform_admin(tx: &mut Tx) -> Result<bool, ::db::Error> {
    // No other code writes this table, and the lock mode does not block readers.
    tx.conn().batch_execute("lock table role in share row exclusive mode").await?;
    let select = format!(
        "select exists (select {FROM_ADMINISTRATORS} and employee.company_id in (select id from tenant where type = 'Platform')) as value"
    );
    let query = diesel::sql_query(select).bind::<Array<Text>, _>(admin_permissions().to_vec());
    Ok(query.get_result::<BoolRow>(tx.conn()).await?.value)
}
