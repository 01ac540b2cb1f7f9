//! What partners do with the employees of their company, and administrators of the platform with those of any.

use ::db::Tx;
use auth::{CompanyId, Scope, UserId};
use messaging::outbox;
use time::OffsetDateTime;

use super::actor::{Acting, Admitted, Needs};
use super::role::refuse_escalation;
use crate::db;
use crate::domain::{
    AuditEntry, By, Employee, EmployeeStatus, PersonName, Role, Tenant, TenantStatus, WorkEmail,
};
use crate::error::{CONFLICT, Error, LAST_ADMIN, TENANT_NOT_FOUND, USER_NOT_FOUND};
use crate::events::{EmployeeRoleAssigned, EmployeeRoleRemoved, EmployeeStatusChanged};

/// What a person is described by.
pub struct Person {
    pub name: PersonName,
    pub email: WorkEmail,
}

/// # Errors
/// [`FORBIDDEN`](crate::error::FORBIDDEN), [`TENANT_NOT_FOUND`], [`TENANT_NOT_ACTIVE`](crate::error::TENANT_NOT_ACTIVE),
/// [`EMAIL_TAKEN`](crate::error::EMAIL_TAKEN)
pub async fn create_employee(
    tx: &mut Tx,
    acting: &Acting<'_>,
    company: CompanyId,
    person: Person,
) -> Result<Employee, Error> {
    let Admitted { tenant, now, .. } = acting.admit(tx, Needs::Employees, Some(company)).await?;
    tenant.ok_or(TENANT_NOT_FOUND)?.check_active()?;
    employ(tx, &acting.by(), UserId::generate(), company, person, now).await
}

/// A further administrator of any active tenant, the first one among them.
///
/// # Errors
/// [`FORBIDDEN`](crate::error::FORBIDDEN), [`TENANT_NOT_FOUND`], [`TENANT_NOT_ACTIVE`](crate::error::TENANT_NOT_ACTIVE),
/// [`ROLE_ESCALATION_FORBIDDEN`](crate::error::ROLE_ESCALATION_FORBIDDEN),
/// [`USER_ALREADY_EMPLOYED`](crate::error::USER_ALREADY_EMPLOYED), [`EMAIL_TAKEN`](crate::error::EMAIL_TAKEN)
pub async fn create_administrator(
    tx: &mut Tx,
    acting: &Acting<'_>,
    company: CompanyId,
    user: Option<UserId>,
    person: Person,
) -> Result<Employee, Error> {
    let Admitted { held, tenant, now } = acting.admit(tx, Needs::Tenants, Some(company)).await?;
    let tenant = tenant.ok_or(TENANT_NOT_FOUND)?;
    tenant.check_active()?;
    let role = db::role::of_admins(tx.conn(), tenant.kind).await?;
    refuse_escalation(&held, &role, Scope::Platform)?;
    employ_administrator(tx, &acting.by(), &tenant, user, person, role, now).await
}

/// Employs somebody with the role of those who administer companies of this type.
pub async fn employ_administrator(
    tx: &mut Tx,
    by: &By,
    tenant: &Tenant,
    user: Option<UserId>,
    person: Person,
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
    by: &By,
    user: UserId,
    company: CompanyId,
    person: Person,
    now: OffsetDateTime,
) -> Result<Employee, Error> {
    let employee = Employee::new(user, company, person.name, person.email, now);
    db::employee::insert(tx, &employee).await?;
    db::tenant::count_employees(tx, company, 1).await?;
    tell_of_status(tx, by, now, &employee, None, Some(employee.status)).await?;
    Ok(employee)
}

/// # Errors
/// [`FORBIDDEN`](crate::error::FORBIDDEN), [`USER_NOT_FOUND`], [`TENANT_NOT_ACTIVE`](crate::error::TENANT_NOT_ACTIVE),
/// [`CONFLICT`], [`EMAIL_TAKEN`](crate::error::EMAIL_TAKEN)
pub async fn update_employee(
    tx: &mut Tx,
    acting: &Acting<'_>,
    company: CompanyId,
    user: UserId,
    version: Option<i64>,
    person: Person,
) -> Result<Employee, Error> {
    let seen = version.or(db::employee::version(tx.conn(), user).await?);
    let Admitted { tenant, now, .. } = acting.admit(tx, Needs::Employees, Some(company)).await?;
    let mut employee = find_own(tx, company, user).await?;
    active(tenant)?;
    let changed = employee.describe(person.name, person.email, now);
    if changed.is_empty() {
        return Ok(employee);
    }
    compare(&employee, seen)?;
    db::employee::save(tx, &mut employee).await?;
    db::audit::append(tx, AuditEntry::employee_updated(&acting.by(), &employee, changed)).await?;
    Ok(employee)
}

/// # Errors
/// [`FORBIDDEN`](crate::error::FORBIDDEN), [`USER_NOT_FOUND`], [`TENANT_NOT_ACTIVE`](crate::error::TENANT_NOT_ACTIVE),
/// [`EMPLOYEE_INVALID_TRANSITION`](crate::error::EMPLOYEE_INVALID_TRANSITION), [`CONFLICT`], [`LAST_ADMIN`]
pub async fn move_employee(
    tx: &mut Tx,
    acting: &Acting<'_>,
    company: CompanyId,
    user: UserId,
    version: Option<i64>,
    to: EmployeeStatus,
) -> Result<Employee, Error> {
    let seen = version.or(db::employee::version(tx.conn(), user).await?);
    let Admitted { tenant, now, .. } = acting.admit(tx, Needs::Employees, Some(company)).await?;
    let mut employee = find_own(tx, company, user).await?;
    let tenant = active(tenant)?;
    let from = employee.status;
    employee.move_to(to, now)?;
    compare(&employee, seen)?;
    if to == EmployeeStatus::Suspended {
        keep_an_admin(tx, &tenant, user).await?;
    }
    db::employee::save(tx, &mut employee).await?;
    tell_of_status(tx, &acting.by(), now, &employee, Some(from), Some(to)).await?;
    Ok(employee)
}

/// # Errors
/// [`FORBIDDEN`](crate::error::FORBIDDEN), [`USER_NOT_FOUND`], [`TENANT_NOT_ACTIVE`](crate::error::TENANT_NOT_ACTIVE),
/// [`LAST_ADMIN`]
pub async fn remove_employee(
    tx: &mut Tx,
    acting: &Acting<'_>,
    company: CompanyId,
    user: UserId,
) -> Result<(), Error> {
    let Admitted { tenant, now, .. } = acting.admit(tx, Needs::Employees, Some(company)).await?;
    let employee = find_own(tx, company, user).await?;
    let tenant = active(tenant)?;
    erase(tx, acting, &tenant, &employee, now).await
}

/// In a tenant of any status.
///
/// # Errors
/// [`FORBIDDEN`](crate::error::FORBIDDEN), [`USER_NOT_FOUND`], [`LAST_ADMIN`]
pub async fn remove_employee_of_tenant(
    tx: &mut Tx,
    acting: &Acting<'_>,
    company: CompanyId,
    user: UserId,
) -> Result<(), Error> {
    let Admitted { tenant, now, .. } = acting.admit(tx, Needs::Tenants, Some(company)).await?;
    let employee = find_own(tx, company, user).await?;
    erase(tx, acting, &tenant.ok_or(USER_NOT_FOUND)?, &employee, now).await
}

/// Nothing is left of the person but what was told of them: the roles, then the rest.
async fn erase(
    tx: &mut Tx,
    acting: &Acting<'_>,
    tenant: &Tenant,
    employee: &Employee,
    now: OffsetDateTime,
) -> Result<(), Error> {
    keep_an_admin(tx, tenant, employee.id).await?;
    let by = acting.by();
    for assignment in db::role::assigned(tx.conn(), employee.id).await? {
        db::role::take(tx, employee.id, assignment.role.id).await?;
        db::audit::append(tx, AuditEntry::role_removed(&by, now, employee, &assignment.role)).await?;
        outbox::append(tx, &EmployeeRoleRemoved::of(employee, &assignment.role, by.user_id, now)).await?;
    }
    tell_of_status(tx, &by, now, employee, Some(employee.status), None).await?;
    db::employee::delete(tx, employee.id).await?;
    db::tenant::count_employees(tx, tenant.id, -1).await?;
    Ok(())
}

/// INV-IDN-008: of an active tenant, the last administrator stays one.
///
/// # Errors
/// [`LAST_ADMIN`]
pub async fn keep_an_admin(tx: &mut Tx, tenant: &Tenant, user: UserId) -> Result<(), Error> {
    let is_kept = tenant.status == TenantStatus::Active;
    if is_kept && db::role::is_last_admin(tx.conn(), tenant.id, user).await? {
        return Err(LAST_ADMIN.into());
    }
    Ok(())
}

/// An employee of this company: another's is as nobody.
///
/// # Errors
/// [`USER_NOT_FOUND`]
pub async fn find_own(tx: &mut Tx, company: CompanyId, user: UserId) -> Result<Employee, Error> {
    db::employee::find(tx.conn(), company, user).await?.ok_or_else(|| USER_NOT_FOUND.into())
}

/// The tenant of an employee who was found, if it is active.
///
/// # Errors
/// [`TENANT_NOT_ACTIVE`](crate::error::TENANT_NOT_ACTIVE)
pub fn active(tenant: Option<Tenant>) -> Result<Tenant, Error> {
    let tenant = tenant.ok_or(USER_NOT_FOUND)?;
    tenant.check_active()?;
    Ok(tenant)
}

/// On the version that the caller has seen or, where they name none, on that of the moment when they came.
fn compare(employee: &Employee, seen: Option<i64>) -> Result<(), Error> {
    if seen.is_some_and(|seen| seen != employee.version) { Err(CONFLICT.into()) } else { Ok(()) }
}

async fn tell_of_status(
    tx: &mut Tx,
    by: &By,
    now: OffsetDateTime,
    employee: &Employee,
    from: Option<EmployeeStatus>,
    to: Option<EmployeeStatus>,
) -> Result<(), Error> {
    db::audit::append(tx, AuditEntry::employee_moved(by, now, employee, from, to)).await?;
    outbox::append(tx, &EmployeeStatusChanged::of(employee, from, to, by.user_id, now)).await?;
    Ok(())
}
