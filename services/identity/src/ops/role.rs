//! Assignment and removal of roles.

use std::slice;

use ::db::Tx;
use auth::{CompanyId, Scope, UserId};
use messaging::outbox;
use uuid::Uuid;

use super::access::revoke_access;
use super::actor::{ActorContext, Authorized};
use super::employee::{check_admin_remains, find_employee, require_active};
use super::escalation::check_no_escalation;
use crate::db;
use crate::domain::{AuditEntry, ManageEmployees, ManageTenants, RevokedSubject, Role, RoleId, Tenant};
use crate::error::{
    Error, ROLE_ASSIGNMENT_NOT_FOUND, ROLE_NOT_ASSIGNABLE, ROLE_NOT_FOUND, TENANT_NOT_FOUND, USER_NOT_FOUND,
};
use crate::events::{EmployeeRoleAssigned, EmployeeRoleRemoved};

/// Assigns a role to an employee. Changes nothing if the employee already has the role.
///
/// # Errors
/// - `FORBIDDEN` if the actor does not pass the actor check.
/// - `USER_NOT_FOUND` if the company has no such employee.
/// - `ROLE_NOT_FOUND` if the role does not exist.
/// - `TENANT_NOT_ACTIVE` if the company is not Active.
/// - `ROLE_ESCALATION_FORBIDDEN` if the actor must not assign the role.
/// - `ROLE_NOT_ASSIGNABLE` if companies of this type cannot use the role.
pub async fn add_role_to_employee(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    company: CompanyId,
    user: UserId,
    role: RoleId,
) -> Result<(), Error> {
    let Authorized { permissions, tenant, now } =
        context.authorize::<ManageEmployees>(tx, Some(company)).await?;
    let employee = find_employee(tx, company, user).await?;
    let role = find(tx, role).await?;
    let tenant = require_active(tenant)?;
    if db::role::is_assigned(tx.conn(), user, role.id).await? {
        return Ok(());
    }
    check_no_escalation(&permissions, &role, Some(user), Scope::Organization)?;
    if !role.is_assignable_to(tenant.kind) {
        return Err(ROLE_NOT_ASSIGNABLE.into());
    }
    let by = context.audit_actor();
    db::role::assign(tx, &employee, role.id, by.user_id, now).await?;
    db::audit::append(tx, AuditEntry::role_assigned(&by, now, &employee, &role)).await?;
    outbox::append(tx, &EmployeeRoleAssigned::of(&employee, &role, by.user_id, now)).await?;
    Ok(())
}

/// Removes a role from an employee of an active company.
///
/// # Errors
/// - `FORBIDDEN` if the actor does not pass the actor check.
/// - `USER_NOT_FOUND` if the company has no such employee.
/// - `ROLE_NOT_FOUND` if the role does not exist.
/// - `ROLE_ASSIGNMENT_NOT_FOUND` if the employee does not have the role.
/// - `TENANT_NOT_ACTIVE` if the company is not Active.
/// - `LAST_ADMIN` if an active company would lose its last administrator.
pub async fn remove_role_from_employee(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    company: CompanyId,
    user: UserId,
    role: RoleId,
) -> Result<(), Error> {
    let authorized = context.authorize::<ManageEmployees>(tx, Some(company)).await?;
    remove(tx, context, authorized, user, role, require_active).await
}

/// Removes a role from an employee of a tenant of any status.
///
/// # Errors
/// - `FORBIDDEN` if the actor does not pass the actor check.
/// - `USER_NOT_FOUND` if the company has no such employee.
/// - `ROLE_NOT_FOUND` if the role does not exist.
/// - `ROLE_ASSIGNMENT_NOT_FOUND` if the employee does not have the role.
/// - `LAST_ADMIN` if an active company would lose its last administrator.
pub async fn remove_role_of_tenant(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    company: CompanyId,
    user: UserId,
    role: RoleId,
) -> Result<(), Error> {
    let authorized = context.authorize::<ManageTenants>(tx, Some(company)).await?;
    remove(tx, context, authorized, user, role, |tenant| tenant.ok_or_else(|| USER_NOT_FOUND.into())).await
}

/// Removes a role. `check_status` rejects a missing tenant, and tenants by their status.
async fn remove(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    Authorized { tenant, now, .. }: Authorized,
    user: UserId,
    role: RoleId,
    check_status: fn(Option<Tenant>) -> Result<Tenant, Error>,
) -> Result<(), Error> {
    let company = tenant.as_ref().ok_or(USER_NOT_FOUND)?.id;
    let employee = find_employee(tx, company, user).await?;
    let role = find(tx, role).await?;
    if !db::role::is_assigned(tx.conn(), user, role.id).await? {
        return Err(ROLE_ASSIGNMENT_NOT_FOUND.into());
    }
    let tenant = check_status(tenant)?;
    if role.is_admin_role() {
        check_admin_remains(tx, &tenant, user).await?;
    }
    let by = context.audit_actor();
    db::role::remove(tx, user, role.id).await?;
    db::audit::append(tx, AuditEntry::role_removed(&by, now, &employee, &role)).await?;
    outbox::append(tx, &EmployeeRoleRemoved::of(&employee, &role, by.user_id, now)).await?;
    revoke_access(tx, RevokedSubject::User(user)).await?;
    Ok(())
}

/// Records a refused grant.
///
/// The caller opens a new transaction, since the refusal has rolled back the first one.
pub async fn record_refused_grant(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    company: CompanyId,
    user: UserId,
    role: RoleId,
) -> Result<(), Error> {
    let role = find(tx, role).await?;
    record_refusals(tx, context, company, user.into(), slice::from_ref(&role)).await
}

/// Records a refused creation of an administrator. The tenant is the subject of the entry.
pub async fn record_refused_administrator(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    company: CompanyId,
) -> Result<(), Error> {
    let tenant = db::tenant::look_up_reference(tx.conn(), company).await?.ok_or(TENANT_NOT_FOUND)?;
    let role = db::role::find_admin_role(tx.conn(), tenant.kind).await?;
    record_refusals(tx, context, company, company.into(), slice::from_ref(&role)).await
}

/// Maximum number of refused grants of an actor that are recorded in an hour. The database refuses
/// to delete entries, so an actor could otherwise fill it.
const MAX_REFUSALS_PER_HOUR: i64 = 1_000;

/// Records refused grants of `roles` to `subject`, unless the actor has been refused
/// [`MAX_REFUSALS_PER_HOUR`] times in the last hour.
pub(super) async fn record_refusals(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    company: CompanyId,
    subject: Uuid,
    roles: &[Role],
) -> Result<(), Error> {
    // The check precedes the lock, so further refusals delay no other change of the company.
    if db::audit::has_recent_refusals(tx.conn(), context.actor.user_id, MAX_REFUSALS_PER_HOUR).await? {
        return Ok(());
    }
    // The times of a company's entries increase, because each writer holds this lock.
    db::tenant::lock(tx, company).await?;
    let (now, _) = db::employment::find_record(tx.conn(), context.actor.user_id).await?;
    for role in roles {
        let entry = AuditEntry::grant_refused(&context.audit_actor(), now, company, subject.into(), role);
        db::audit::append(tx, entry).await?;
    }
    Ok(())
}

async fn find(tx: &mut Tx, role: RoleId) -> Result<Role, Error> {
    db::role::find(tx.conn(), role).await?.ok_or_else(|| ROLE_NOT_FOUND.into())
}
