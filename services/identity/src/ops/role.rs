//! Giving roles and taking them.

use ::db::Tx;
use auth::{CompanyId, Scope, UserId};
use messaging::outbox;
use uuid::Uuid;
use web::Problem;

use super::actor::{Acting, Admitted, Needs};
use super::employee::{active, find_own, keep_an_admin};
use crate::db;
use crate::domain::{AuditEntry, Employee, Held, Role, RoleId, Tenant};
use crate::error::{
    Error, ROLE_ASSIGNMENT_NOT_FOUND, ROLE_ESCALATION_FORBIDDEN, ROLE_NOT_ASSIGNABLE, ROLE_NOT_FOUND,
    TENANT_NOT_FOUND, USER_NOT_FOUND,
};
use crate::events::{EmployeeRoleAssigned, EmployeeRoleRemoved};

/// # Errors
/// [`FORBIDDEN`](crate::error::FORBIDDEN), [`USER_NOT_FOUND`], [`ROLE_NOT_FOUND`],
/// [`TENANT_NOT_ACTIVE`](crate::error::TENANT_NOT_ACTIVE), [`ROLE_ESCALATION_FORBIDDEN`], [`ROLE_NOT_ASSIGNABLE`]
pub async fn add_role_to_employee(
    tx: &mut Tx,
    acting: &Acting<'_>,
    company: CompanyId,
    user: UserId,
    role: RoleId,
) -> Result<(), Error> {
    let Admitted { held, tenant, now } = acting.admit(tx, Needs::Employees, Some(company)).await?;
    let employee = find_own(tx, company, user).await?;
    let role = find(tx, role).await?;
    let tenant = active(tenant)?;
    if db::role::is_assigned(tx.conn(), user, role.id).await? {
        return Ok(());
    }
    refuse_escalation(&held, &role, Scope::Organization)?;
    if !role.is_assignable_to(tenant.kind) {
        return Err(ROLE_NOT_ASSIGNABLE.into());
    }
    let by = acting.by();
    db::role::assign(tx, &employee, role.id, by.user_id, now).await?;
    db::audit::append(tx, AuditEntry::role_assigned(&by, now, &employee, &role)).await?;
    outbox::append(tx, &EmployeeRoleAssigned::of(&employee, &role, by.user_id, now)).await?;
    Ok(())
}

/// # Errors
/// [`FORBIDDEN`](crate::error::FORBIDDEN), [`USER_NOT_FOUND`], [`ROLE_NOT_FOUND`], [`ROLE_ASSIGNMENT_NOT_FOUND`],
/// [`TENANT_NOT_ACTIVE`](crate::error::TENANT_NOT_ACTIVE), [`LAST_ADMIN`](crate::error::LAST_ADMIN)
pub async fn remove_role_from_employee(
    tx: &mut Tx,
    acting: &Acting<'_>,
    company: CompanyId,
    user: UserId,
    role: RoleId,
) -> Result<(), Error> {
    let admitted = acting.admit(tx, Needs::Employees, Some(company)).await?;
    take(tx, acting, admitted, user, role, active).await
}

/// In a tenant of any status.
///
/// # Errors
/// [`FORBIDDEN`](crate::error::FORBIDDEN), [`USER_NOT_FOUND`], [`ROLE_NOT_FOUND`], [`ROLE_ASSIGNMENT_NOT_FOUND`],
/// [`LAST_ADMIN`](crate::error::LAST_ADMIN)
pub async fn remove_role_of_tenant(
    tx: &mut Tx,
    acting: &Acting<'_>,
    company: CompanyId,
    user: UserId,
    role: RoleId,
) -> Result<(), Error> {
    let admitted = acting.admit(tx, Needs::Tenants, Some(company)).await?;
    take(tx, acting, admitted, user, role, |tenant| tenant.ok_or_else(|| USER_NOT_FOUND.into())).await
}

async fn take(
    tx: &mut Tx,
    acting: &Acting<'_>,
    Admitted { tenant, now, .. }: Admitted<'_>,
    user: UserId,
    role: RoleId,
    check: fn(Option<Tenant>) -> Result<Tenant, Error>,
) -> Result<(), Error> {
    let company = tenant.as_ref().ok_or(USER_NOT_FOUND)?.id;
    let employee: Employee = find_own(tx, company, user).await?;
    let role = find(tx, role).await?;
    if !db::role::is_assigned(tx.conn(), user, role.id).await? {
        return Err(ROLE_ASSIGNMENT_NOT_FOUND.into());
    }
    let tenant = check(tenant)?;
    if role.is_admins() {
        keep_an_admin(tx, &tenant, user).await?;
    }
    let by = acting.by();
    db::role::take(tx, user, role.id).await?;
    db::audit::append(tx, AuditEntry::role_removed(&by, now, &employee, &role)).await?;
    outbox::append(tx, &EmployeeRoleRemoved::of(&employee, &role, by.user_id, now)).await?;
    Ok(())
}

/// INV-IDN-006: nobody grants what they do not hold, at least in `scope`.
///
/// # Errors
/// [`ROLE_ESCALATION_FORBIDDEN`]
pub fn refuse_escalation(held: &Held<'_>, role: &Role, scope: Scope) -> Result<(), Error> {
    let missing = held.missing_of(role, scope);
    if missing.is_empty() {
        return Ok(());
    }
    Err(Problem::from(ROLE_ESCALATION_FORBIDDEN).with_text(missing.join(", ")).into())
}

/// Writes down that a grant was refused, after the refusal, which has undone all else.
pub async fn record_refused_grant(
    tx: &mut Tx,
    acting: &Acting<'_>,
    company: CompanyId,
    user: UserId,
    role: RoleId,
) -> Result<(), Error> {
    let role = find(tx, role).await?;
    record_refusal(tx, acting, company, user.into(), &role).await
}

/// The same of an administrator, whom the tenant was to have.
pub async fn record_refused_administrator(
    tx: &mut Tx,
    acting: &Acting<'_>,
    company: CompanyId,
) -> Result<(), Error> {
    let tenant = db::tenant::look_up_reference(tx.conn(), company).await?.ok_or(TENANT_NOT_FOUND)?;
    let role = db::role::of_admins(tx.conn(), tenant.kind).await?;
    record_refusal(tx, acting, company, company.into(), &role).await
}

async fn record_refusal(
    tx: &mut Tx,
    acting: &Acting<'_>,
    company: CompanyId,
    subject: Uuid,
    role: &Role,
) -> Result<(), Error> {
    let (now, _) = db::standing::find(tx.conn(), acting.actor.user_id).await?;
    let entry = AuditEntry::grant_refused(&acting.by(), now, company, subject.into(), role);
    Ok(db::audit::append(tx, entry).await?)
}

async fn find(tx: &mut Tx, role: RoleId) -> Result<Role, Error> {
    db::role::find(tx.conn(), role).await?.ok_or_else(|| ROLE_NOT_FOUND.into())
}
