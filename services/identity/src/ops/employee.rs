//! Changes of employees by administrators of their company and of the platform.

use ::db::Tx;
use auth::{CompanyId, Scope, UserId};
use messaging::outbox;
use service::erase_responses;
use time::OffsetDateTime;

use super::access::revoke_access;
use super::actor::{ActorContext, Authorized};
use super::escalation::check_no_escalation;
use crate::db;
use crate::domain::{
    AuditActor, AuditEntry, Employee, EmployeeStatus, ManageEmployees, ManageTenants, PersonName,
    RevokedSubject, Role, Tenant, TenantStatus, WorkEmail,
};
use crate::error::{CONFLICT, Error, LAST_ADMIN, TENANT_NOT_FOUND, USER_ALREADY_EMPLOYED, USER_NOT_FOUND};
use crate::events::{EmployeeRoleAssigned, EmployeeRoleRemoved, EmployeeStatusChanged};

/// Name and e-mail address of an employee.
pub struct PersonDetails {
    pub name: PersonName,
    pub email: WorkEmail,
}

/// Employs a new user, or a `former` employee of the company under the old id.
///
/// # Errors
/// - `FORBIDDEN` if the actor does not pass the actor check.
/// - `TENANT_NOT_FOUND` if the company does not exist.
/// - `USER_NOT_FOUND` if `former` is not a former employee of the company.
/// - `TENANT_NOT_ACTIVE` if the company is not Active.
/// - `USER_ALREADY_EMPLOYED` if the user is an employee of any company.
/// - `EMAIL_TAKEN` if another employee of the company has the e-mail address.
pub async fn create_employee(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    company: CompanyId,
    former: Option<UserId>,
    person: PersonDetails,
) -> Result<Employee, Error> {
    let Authorized { tenant, now, .. } = context.authorize::<ManageEmployees>(tx, Some(company)).await?;
    let tenant = tenant.ok_or(TENANT_NOT_FOUND)?;
    if let Some(user) = former
        && !db::former_employee::has_left(tx.conn(), user, company).await?
    {
        return Err(USER_NOT_FOUND.into());
    }
    tenant.check_active()?;
    let user = former.unwrap_or_else(UserId::generate);
    employ(tx, &context.audit_actor(), user, company, person, now).await
}

/// Creates an employee with the administrator role, in any active tenant.
///
/// # Errors
/// - `FORBIDDEN` if the actor does not pass the actor check.
/// - `TENANT_NOT_FOUND` if the company does not exist.
/// - `TENANT_NOT_ACTIVE` if the company is not Active.
/// - `ROLE_ESCALATION_FORBIDDEN` if the actor lacks a permission of the administrator role.
/// - `USER_ALREADY_EMPLOYED` if the user is an employee of any company, or a machine account.
/// - `EMAIL_TAKEN` if another employee of the company has the e-mail address.
pub async fn create_administrator(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    company: CompanyId,
    user: Option<UserId>,
    person: PersonDetails,
) -> Result<Employee, Error> {
    let Authorized { permissions, tenant, now } =
        context.authorize::<ManageTenants>(tx, Some(company)).await?;
    let tenant = tenant.ok_or(TENANT_NOT_FOUND)?;
    tenant.check_active()?;
    let role = db::role::find_admin_role(tx.conn(), tenant.kind).await?;
    check_no_escalation(&permissions, &role, user, Scope::Platform)?;
    employ_administrator(tx, &context.audit_actor(), &tenant, user, person, role, now).await
}

/// Creates an employee with the given administrator role.
pub async fn employ_administrator(
    tx: &mut Tx,
    by: &AuditActor,
    tenant: &Tenant,
    user: Option<UserId>,
    person: PersonDetails,
    role: Role,
    now: OffsetDateTime,
) -> Result<Employee, Error> {
    let user = user.unwrap_or_else(UserId::generate);
    let mut employee = employ(tx, by, user, tenant.id, person, now).await?;
    db::role::assign(tx, &employee, role.id, by.user_id, now).await?;
    db::audit::append(tx, AuditEntry::role_assigned(by, now, &employee, &role)).await?;
    outbox::append(tx, &EmployeeRoleAssigned::of(&employee, &role, by.user_id, now)).await?;
    employee.role_codes.push(role.code);
    Ok(employee)
}

async fn employ(
    tx: &mut Tx,
    by: &AuditActor,
    user: UserId,
    company: CompanyId,
    person: PersonDetails,
    now: OffsetDateTime,
) -> Result<Employee, Error> {
    if db::machine_account::exists_with_id(tx.conn(), user).await? {
        return Err(USER_ALREADY_EMPLOYED.into());
    }
    let employee = Employee::new(user, company, person.name, person.email, now);
    db::employee::insert(tx, &employee).await?;
    db::tenant::add_to_employees_count(tx, company, 1).await?;
    record_status_change(tx, by, now, &employee, None, Some(employee.status)).await?;
    Ok(employee)
}

/// Replaces name and e-mail address. Identical values change nothing.
///
/// # Errors
/// - `FORBIDDEN` if the actor does not pass the actor check.
/// - `USER_NOT_FOUND` if the company has no such employee.
/// - `TENANT_NOT_ACTIVE` if the company is not Active.
/// - `CONFLICT` if the version is outdated, or if another change won the race.
/// - `EMAIL_TAKEN` if another employee of the company has the e-mail address.
pub async fn update_employee(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    company: CompanyId,
    user: UserId,
    version: Option<i64>,
    person: PersonDetails,
) -> Result<Employee, Error> {
    let expected_version = version.or(db::employee::find_version(tx.conn(), user).await?);
    let Authorized { tenant, now, .. } = context.authorize::<ManageEmployees>(tx, Some(company)).await?;
    let mut employee = find_employee(tx, company, user).await?;
    require_active(tenant)?;
    let changed = employee.update(person.name, person.email, now);
    if changed.is_empty() {
        return Ok(employee);
    }
    check_version(&employee, expected_version)?;
    db::employee::save(tx, &mut employee).await?;
    db::audit::append(tx, AuditEntry::employee_updated(&context.audit_actor(), &employee, changed)).await?;
    Ok(employee)
}

/// Suspends or activates an employee.
///
/// # Errors
/// - `FORBIDDEN` if the actor does not pass the actor check.
/// - `USER_NOT_FOUND` if the company has no such employee.
/// - `TENANT_NOT_ACTIVE` if the company is not Active.
/// - `EMPLOYEE_INVALID_TRANSITION` if the employee already has the status.
/// - `CONFLICT` if the version is outdated, or if another change won the race.
/// - `LAST_ADMIN` if an active company would lose its last administrator.
pub async fn change_employee_status(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    company: CompanyId,
    user: UserId,
    version: Option<i64>,
    to: EmployeeStatus,
) -> Result<Employee, Error> {
    let expected_version = version.or(db::employee::find_version(tx.conn(), user).await?);
    let Authorized { tenant, now, .. } = context.authorize::<ManageEmployees>(tx, Some(company)).await?;
    let mut employee = find_employee(tx, company, user).await?;
    let tenant = require_active(tenant)?;
    let from = employee.status;
    employee.change_status(to, now)?;
    check_version(&employee, expected_version)?;
    if to == EmployeeStatus::Suspended {
        check_admin_remains(tx, &tenant, user).await?;
    }
    db::employee::save(tx, &mut employee).await?;
    record_status_change(tx, &context.audit_actor(), now, &employee, Some(from), Some(to)).await?;
    if to == EmployeeStatus::Suspended {
        revoke_access(tx, RevokedSubject::User(user)).await?;
    }
    Ok(employee)
}

/// Removes an employee of an active company.
///
/// # Errors
/// - `FORBIDDEN` if the actor does not pass the actor check.
/// - `USER_NOT_FOUND` if the company has no such employee.
/// - `TENANT_NOT_ACTIVE` if the company is not Active.
/// - `LAST_ADMIN` if an active company would lose its last administrator.
pub async fn remove_employee(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    company: CompanyId,
    user: UserId,
) -> Result<(), Error> {
    let Authorized { tenant, now, .. } = context.authorize::<ManageEmployees>(tx, Some(company)).await?;
    let employee = find_employee(tx, company, user).await?;
    let tenant = require_active(tenant)?;
    erase(tx, context, &tenant, &employee, now).await
}

/// Removes an employee of a tenant of any status.
///
/// # Errors
/// - `FORBIDDEN` if the actor does not pass the actor check.
/// - `USER_NOT_FOUND` if the company has no such employee.
/// - `LAST_ADMIN` if an active company would lose its last administrator.
pub async fn remove_employee_of_tenant(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    company: CompanyId,
    user: UserId,
) -> Result<(), Error> {
    let Authorized { tenant, now, .. } = context.authorize::<ManageTenants>(tx, Some(company)).await?;
    let employee = find_employee(tx, company, user).await?;
    erase(tx, context, &tenant.ok_or(USER_NOT_FOUND)?, &employee, now).await
}

/// Deletes the role assignments, then the employee. Events, audit entries and the id of the former
/// employee remain.
async fn erase(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    tenant: &Tenant,
    employee: &Employee,
    now: OffsetDateTime,
) -> Result<(), Error> {
    check_admin_remains(tx, tenant, employee.id).await?;
    let by = context.audit_actor();
    for assignment in db::role::list_assignments(tx.conn(), employee.id).await? {
        db::role::remove(tx, employee.id, assignment.role.id).await?;
        db::audit::append(tx, AuditEntry::role_removed(&by, now, employee, &assignment.role)).await?;
        outbox::append(tx, &EmployeeRoleRemoved::of(employee, &assignment.role, by.user_id, now)).await?;
    }
    record_status_change(tx, &by, now, employee, Some(employee.status), None).await?;
    db::employee::delete(tx, employee.id).await?;
    erase_responses(tx, employee.id).await?;
    db::tenant::add_to_employees_count(tx, tenant.id, -1).await?;
    let left_at = revoke_access(tx, RevokedSubject::User(employee.id)).await?;
    db::former_employee::record(tx, employee.id, tenant.id, left_at).await?;
    Ok(())
}

/// Checks that an active tenant keeps an administrator without `user` (INV-IDN-008).
///
/// # Errors
/// [`LAST_ADMIN`] if `user` is the only administrator of an active tenant.
pub async fn check_admin_remains(tx: &mut Tx, tenant: &Tenant, user: UserId) -> Result<(), Error> {
    let is_active = tenant.status == TenantStatus::Active;
    if is_active && db::role::is_last_admin(tx.conn(), tenant.id, user).await? {
        return Err(LAST_ADMIN.into());
    }
    Ok(())
}

/// Returns an employee of this company.
///
/// # Errors
/// [`USER_NOT_FOUND`] for a missing user and for an employee of another company.
pub async fn find_employee(tx: &mut Tx, company: CompanyId, user: UserId) -> Result<Employee, Error> {
    db::employee::find(tx.conn(), company, user).await?.ok_or_else(|| USER_NOT_FOUND.into())
}

/// Returns the tenant of an employee if it is active.
///
/// # Errors
/// - [`USER_NOT_FOUND`] if there is no tenant.
/// - `TENANT_NOT_ACTIVE` if the tenant is not Active.
pub fn require_active(tenant: Option<Tenant>) -> Result<Tenant, Error> {
    let tenant = tenant.ok_or(USER_NOT_FOUND)?;
    tenant.check_active()?;
    Ok(tenant)
}

/// Checks that no other request has changed the employee.
///
/// `expected` is the version in the request, or the version when the request arrived.
///
/// # Errors
/// [`CONFLICT`] if the versions differ.
fn check_version(employee: &Employee, expected: Option<i64>) -> Result<(), Error> {
    if expected.is_some_and(|expected| expected != employee.version) { Err(CONFLICT.into()) } else { Ok(()) }
}

async fn record_status_change(
    tx: &mut Tx,
    by: &AuditActor,
    now: OffsetDateTime,
    employee: &Employee,
    from: Option<EmployeeStatus>,
    to: Option<EmployeeStatus>,
) -> Result<(), Error> {
    db::audit::append(tx, AuditEntry::employee_status_changed(by, now, employee, from, to)).await?;
    outbox::append(tx, &EmployeeStatusChanged::of(employee, from, to, by.user_id, now)).await?;
    Ok(())
}
