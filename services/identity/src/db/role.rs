//! Roles, and who has which.

use ::db::{Conn, Prepared, Tx};
use auth::{CompanyId, UserId};
use diesel::dsl::exists;
use diesel::prelude::*;
use diesel::sql_types::{Array, Bool, Text, Uuid as SqlUuid};
use diesel_async::{RunQueryDsl, SimpleAsyncConnection};
use time::OffsetDateTime;

use super::schema::{employee_role, role};
use crate::domain::{EMPLOYEE_ROLES, Employee, Role, RoleAssignment, RoleId, TenantType};

/// All roles, or those for companies of a type, by id.
pub async fn all(conn: &mut Conn, of: Option<TenantType>) -> Result<Vec<Role>, ::db::Error> {
    let roles = role::table.select(Role::as_select()).order(role::id).load(conn).await?;
    Ok(roles.into_iter().filter(|role| of.is_none_or(|of| role.is_assignable_to(of))).collect())
}

pub async fn find(conn: &mut Conn, id: RoleId) -> Result<Option<Role>, ::db::Error> {
    Ok(role::table.find(id).select(Role::as_select()).first(conn).await.optional()?)
}

/// The role of those who administer companies of this type.
pub async fn of_admins(conn: &mut Conn, of: TenantType) -> Result<Role, ::db::Error> {
    let code = role::code.eq(Role::code_of_admins(of));
    Ok(role::table.filter(code).select(Role::as_select()).first(conn).await?)
}

/// Those of a person, by id.
pub async fn assigned(conn: &mut Conn, user: UserId) -> Result<Vec<RoleAssignment>, ::db::Error> {
    let assigned = employee_role::table
        .inner_join(role::table)
        .filter(employee_role::user_id.eq(user))
        .order(employee_role::role_id)
        .select(RoleAssignment::as_select())
        .load(conn)
        .await?;
    Ok(assigned)
}

/// Whether a person has a role.
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

/// `false`: they did not have it.
pub async fn take(tx: &mut Tx, user: UserId, role: RoleId) -> Result<bool, ::db::Error> {
    let taken = diesel::delete(employee_role::table.find((user, role))).execute(tx.conn()).await?;
    Ok(taken == 1)
}

/// Administrators: active employees with a role by which they administer their company.
const ADMINS: &str = "\
    from employee_role join role on role.id = employee_role.role_id join employee on employee.id = employee_role.user_id \
    where employee.status = 'Active' and role.permissions && $1";

/// What makes a role an administrator's, in either scope.
fn of_an_admin() -> [String; 2] {
    [EMPLOYEE_ROLES.to_owned(), format!("{EMPLOYEE_ROLES}@platform")]
}

#[derive(QueryableByName)]
struct Answer {
    #[diesel(sql_type = Bool)]
    yes: bool,
}

/// Whether `user` administers the company, and nobody else does (INV-IDN-008).
pub async fn is_last_admin(conn: &mut Conn, company: CompanyId, user: UserId) -> Result<bool, ::db::Error> {
    let select = format!(
        "select coalesce(bool_and(employee.id = $3), false) as yes {ADMINS} and employee_role.company_id = $2"
    );
    let asked = diesel::sql_query(select)
        .bind::<Array<Text>, _>(of_an_admin().to_vec())
        .bind::<SqlUuid, _>(company)
        .bind::<SqlUuid, _>(user);
    Ok(Prepared(asked).get_result::<Answer>(conn).await?.yes)
}

/// Whether a company of the operator has an administrator. Who asks within a transaction is alone in asking, until it ends.
pub async fn platform_has_admin(tx: &mut Tx) -> Result<bool, ::db::Error> {
    // Nobody else writes roles, and whoever reads them is not kept waiting.
    tx.conn().batch_execute("lock table role in share row exclusive mode").await?;
    let select = format!(
        "select exists (select {ADMINS} and employee.company_id in (select id from tenant where type = 'Platform')) as yes"
    );
    let asked = diesel::sql_query(select).bind::<Array<Text>, _>(of_an_admin().to_vec());
    Ok(asked.get_result::<Answer>(tx.conn()).await?.yes)
}
