//! Changes of machine accounts by administrators of their company and of the platform.

use ::db::Tx;
use auth::{CompanyId, Scope, UserId};
use runtime::clock;
use time::OffsetDateTime;

use super::access::revoke_access;
use super::actor::{ActorContext, Authorized};
use super::client_update;
use super::escalation::check_no_escalation;
use super::role::record_refusals;
use crate::db;
use crate::domain::{
    AuditActor, AuditEntry, EffectivePermissions, MAX_MACHINE_ACCOUNTS, MachineAccount, MachineAccountName,
    MachineAccountStatus, ManageEmployees, ManageTenants, RevokedSubject, Role, RoleChange, RoleId, Tenant,
    TenantStatus,
};
use crate::error::{
    CONFLICT, Error, MACHINE_ACCOUNT_LIMIT, MACHINE_ACCOUNT_NOT_FOUND, ROLE_NOT_ASSIGNABLE,
    ROLE_NOT_FOR_MACHINES, ROLE_NOT_FOUND, TENANT_NOT_FOUND,
};

/// Name and roles of a machine account. The roles are sorted and distinct.
pub struct AccountDetails {
    pub name: MachineAccountName,
    pub role_ids: Vec<RoleId>,
}

/// Creates an active machine account. A job registers it at the issuer.
///
/// After `ROLE_ESCALATION_FORBIDDEN`, `refused` contains the roles that the actor must not give.
///
/// # Errors
/// - `FORBIDDEN` if the actor does not pass the actor check.
/// - `TENANT_NOT_FOUND` if the company does not exist.
/// - `ROLE_NOT_FOUND` if a role does not exist.
/// - `TENANT_NOT_ACTIVE` if the company is not Active.
/// - The errors of [`check_roles`].
/// - `MACHINE_ACCOUNT_LIMIT` if the company has the maximum number of active accounts.
pub async fn create_machine_account(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    company: CompanyId,
    AccountDetails { name, role_ids }: AccountDetails,
    refused: &mut Vec<Role>,
) -> Result<MachineAccount, Error> {
    let Authorized { permissions, tenant, now } =
        context.authorize::<ManageEmployees>(tx, Some(company)).await?;
    let tenant = tenant.ok_or(TENANT_NOT_FOUND)?;
    let roles = find_roles(tx, &role_ids).await?;
    tenant.check_active()?;
    check_roles(&permissions, &tenant, &roles, refused)?;
    // The lock of the tenant serializes the creations of its accounts.
    if db::machine_account::list_active_ids(tx.conn(), company).await?.len() >= MAX_MACHINE_ACCOUNTS {
        return Err(MACHINE_ACCOUNT_LIMIT.into());
    }
    let account = MachineAccount::new(company, name, role_ids, now);
    db::machine_account::insert(tx, &account).await?;
    let by = context.audit_actor();
    db::audit::append(tx, AuditEntry::machine_account_created(&by, &account)).await?;
    record_assigned_roles(tx, &by, now, &account, &roles).await?;
    schedule_issuer_update(tx, account.id, now).await?;
    Ok(account)
}

/// Replaces name and roles. Identical values change nothing.
///
/// After `ROLE_ESCALATION_FORBIDDEN`, `refused` contains the roles that the actor must not give.
///
/// # Errors
/// - `FORBIDDEN` if the actor does not pass the actor check.
/// - `MACHINE_ACCOUNT_NOT_FOUND` if the company has no such account.
/// - `ROLE_NOT_FOUND` if a role does not exist.
/// - `TENANT_NOT_ACTIVE` if the company is not Active.
/// - `MACHINE_ACCOUNT_REVOKED` if the account is Revoked.
/// - The errors of [`check_roles`], for a new role.
/// - `CONFLICT` if the version is outdated, or if another change won the race.
pub async fn update_machine_account(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    company: CompanyId,
    id: UserId,
    version: Option<i64>,
    AccountDetails { name, role_ids }: AccountDetails,
    refused: &mut Vec<Role>,
) -> Result<MachineAccount, Error> {
    let expected_version = version.or(db::machine_account::find_version(tx.conn(), id).await?);
    let Authorized { permissions, tenant, now } =
        context.authorize::<ManageEmployees>(tx, Some(company)).await?;
    let mut account = find(tx, company, id).await?;
    let RoleChange { added, removed } = account.compare_roles(&role_ids);
    let added = find_roles(tx, &added).await?;
    let tenant = require_active(tenant)?;
    account.check_active()?;
    check_roles(&permissions, &tenant, &added, refused)?;
    let is_renamed = account.name != name;
    if !is_renamed && added.is_empty() && removed.is_empty() {
        return Ok(account);
    }
    if expected_version.is_some_and(|expected| expected != account.version) {
        return Err(CONFLICT.into());
    }
    (account.name, account.role_ids, account.updated_at) = (name, role_ids, now);
    db::machine_account::save(tx, &mut account).await?;
    let by = context.audit_actor();
    if is_renamed {
        db::audit::append(tx, AuditEntry::machine_account_renamed(&by, &account)).await?;
    }
    record_assigned_roles(tx, &by, now, &account, &added).await?;
    for role in find_roles(tx, &removed).await? {
        db::audit::append(tx, AuditEntry::machine_role_removed(&by, now, &account, &role)).await?;
    }
    if !removed.is_empty() {
        revoke_tokens_until_update(tx, id).await?;
    }
    if !added.is_empty() || !removed.is_empty() {
        schedule_issuer_update(tx, id, now).await?;
    }
    Ok(account)
}

/// Records a request for a new secret.
///
/// The HTTP handler requests the secret from the issuer after the commit, since a rollback could
/// not restore the old secret.
///
/// # Errors
/// - `FORBIDDEN` if the actor does not pass the actor check.
/// - `MACHINE_ACCOUNT_NOT_FOUND` if the company has no such account.
/// - `TENANT_NOT_ACTIVE` if the company is not Active.
/// - `MACHINE_ACCOUNT_REVOKED` if the account is Revoked.
/// - `ROLE_ESCALATION_FORBIDDEN` if the actor lacks a permission of the account's roles, since the
///   secret gives these permissions to the actor.
pub async fn request_secret(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    company: CompanyId,
    id: UserId,
) -> Result<(), Error> {
    let Authorized { permissions, tenant, now } =
        context.authorize::<ManageEmployees>(tx, Some(company)).await?;
    let account = find(tx, company, id).await?;
    require_active(tenant)?;
    account.check_active()?;
    for role in find_roles(tx, &account.role_ids).await? {
        check_no_escalation(&permissions, &role, None, Scope::Organization)?;
    }
    db::machine_account::record_secret_request(tx, id, now).await?;
    let entry = AuditEntry::machine_account_secret_requested(&context.audit_actor(), now, &account);
    Ok(db::audit::append(tx, entry).await?)
}

/// Revokes an account of an active company.
///
/// # Errors
/// - `FORBIDDEN` if the actor does not pass the actor check.
/// - `MACHINE_ACCOUNT_NOT_FOUND` if the company has no such account.
/// - `TENANT_NOT_ACTIVE` if the company is not Active.
/// - `MACHINE_ACCOUNT_REVOKED` if the account is Revoked already.
pub async fn revoke_machine_account(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    company: CompanyId,
    id: UserId,
) -> Result<MachineAccount, Error> {
    let Authorized { tenant, now, .. } = context.authorize::<ManageEmployees>(tx, Some(company)).await?;
    let account = find(tx, company, id).await?;
    require_active(tenant)?;
    revoke(tx, context, account, now).await
}

/// Revokes an account of a tenant of any status.
///
/// # Errors
/// - `FORBIDDEN` if the actor does not pass the actor check.
/// - `MACHINE_ACCOUNT_NOT_FOUND` if the company has no such account.
/// - `MACHINE_ACCOUNT_REVOKED` if the account is Revoked already.
pub async fn revoke_machine_account_of_tenant(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    company: CompanyId,
    id: UserId,
) -> Result<MachineAccount, Error> {
    let Authorized { now, .. } = context.authorize::<ManageTenants>(tx, Some(company)).await?;
    let account = find(tx, company, id).await?;
    revoke(tx, context, account, now).await
}

async fn revoke(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    mut account: MachineAccount,
    now: OffsetDateTime,
) -> Result<MachineAccount, Error> {
    account.check_active()?;
    (account.status, account.updated_at) = (MachineAccountStatus::Revoked, now);
    db::machine_account::save(tx, &mut account).await?;
    db::audit::append(tx, AuditEntry::machine_account_revoked(&context.audit_actor(), &account)).await?;
    revoke_tokens_until_update(tx, account.id).await?;
    schedule_issuer_update(tx, account.id, now).await?;
    Ok(account)
}

/// Revokes all tokens that the issuer has issued to an account.
pub async fn revoke_issued_tokens(tx: &mut Tx, id: UserId) -> Result<(), Error> {
    revoke_access(tx, RevokedSubject::User(id)).await?;
    Ok(())
}

/// Schedules updates of a company's accounts at the issuer after a change of the company's status.
///
/// The revocation of the company also revokes older tokens of the accounts.
pub async fn schedule_issuer_updates_of_company(
    tx: &mut Tx,
    company: CompanyId,
    to: TenantStatus,
    now: OffsetDateTime,
) -> Result<(), Error> {
    if to != TenantStatus::Active {
        db::machine_account::set_company_outdated_at_issuer(tx, company).await?;
    }
    let accounts = db::machine_account::list_active_ids(tx.conn(), company).await?;
    Ok(client_update::schedule(tx, &accounts, now).await?)
}

/// Schedules updates at the issuer of up to 500 accounts with larger ids than `last`. Returns their
/// ids, sorted, or no ids after the last account.
pub async fn schedule_issuer_updates_after(
    tx: &mut Tx,
    last: Option<UserId>,
) -> Result<Vec<UserId>, ::db::Error> {
    let accounts = db::machine_account::mark_outdated_after(tx, last).await?;
    client_update::schedule(tx, &accounts, clock::now()).await?;
    Ok(accounts)
}

/// Revokes the tokens of an account again if the issuer may have granted lost rights since the last
/// revocation.
///
/// `is_confirmed` is true if the issuer has the present state and no request in flight can replace
/// it. Then the function also clears the mark of the account.
pub async fn revoke_if_outdated_at_issuer(tx: &mut Tx, id: UserId, is_confirmed: bool) -> Result<(), Error> {
    if !db::machine_account::is_outdated_at_issuer(tx, id).await? {
        return Ok(());
    }
    if is_confirmed {
        db::machine_account::set_outdated_at_issuer(tx, id, false).await?;
    }
    revoke_access(tx, RevokedSubject::User(id)).await?;
    Ok(())
}

/// Records the refused roles of a request. `account` is `None` for a creation, whose subject is the
/// company.
///
/// The caller opens a new transaction, since the refusal has rolled back the first one.
pub async fn record_refused_roles(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    company: CompanyId,
    account: Option<UserId>,
    roles: &[Role],
) -> Result<(), Error> {
    let subject = account.map_or_else(|| company.into(), Into::into);
    record_refusals(tx, context, company, subject, roles).await
}

/// Revokes the tokens that the issuer has issued, and marks the account, so that the jobs revoke
/// those that the issuer issues until its update.
async fn revoke_tokens_until_update(tx: &mut Tx, id: UserId) -> Result<(), Error> {
    db::machine_account::set_outdated_at_issuer(tx, id, true).await?;
    revoke_access(tx, RevokedSubject::User(id)).await?;
    Ok(())
}

/// Schedules the jobs that send the present state of the account to the issuer.
async fn schedule_issuer_update(tx: &mut Tx, id: UserId, now: OffsetDateTime) -> Result<(), Error> {
    Ok(client_update::schedule(tx, &[id], now).await?)
}

/// Checks that the actor may give these roles to a machine account. Adds the roles with a missing
/// permission to `refused`.
///
/// # Errors
/// - `ROLE_ESCALATION_FORBIDDEN` if the actor lacks a permission of a role.
/// - `ROLE_NOT_ASSIGNABLE` if companies of this type cannot use a role.
/// - [`ROLE_NOT_FOR_MACHINES`] if only people can have a role.
fn check_roles(
    permissions: &EffectivePermissions,
    tenant: &Tenant,
    roles: &[Role],
    refused: &mut Vec<Role>,
) -> Result<(), Error> {
    let escalates = |role: &&Role| !permissions.missing_to_assign(role, None, Scope::Organization).is_empty();
    refused.extend(roles.iter().filter(escalates).cloned());
    for role in roles {
        check_no_escalation(permissions, role, None, Scope::Organization)?;
        if !role.is_assignable_to(tenant.kind) {
            return Err(ROLE_NOT_ASSIGNABLE.into());
        }
        if !role.is_for_machines() {
            return Err(ROLE_NOT_FOR_MACHINES.into());
        }
    }
    Ok(())
}

async fn record_assigned_roles(
    tx: &mut Tx,
    by: &AuditActor,
    now: OffsetDateTime,
    account: &MachineAccount,
    roles: &[Role],
) -> Result<(), Error> {
    for role in roles {
        db::audit::append(tx, AuditEntry::machine_role_assigned(by, now, account, role)).await?;
    }
    Ok(())
}

async fn find(tx: &mut Tx, company: CompanyId, id: UserId) -> Result<MachineAccount, Error> {
    db::machine_account::find(tx.conn(), company, id).await?.ok_or_else(|| MACHINE_ACCOUNT_NOT_FOUND.into())
}

/// Returns the roles with these distinct ids, sorted by id.
///
/// # Errors
/// [`ROLE_NOT_FOUND`] if a role does not exist.
async fn find_roles(tx: &mut Tx, ids: &[RoleId]) -> Result<Vec<Role>, Error> {
    let roles = db::role::list_by_ids(tx.conn(), ids).await?;
    if roles.len() == ids.len() { Ok(roles) } else { Err(ROLE_NOT_FOUND.into()) }
}

fn require_active(tenant: Option<Tenant>) -> Result<Tenant, Error> {
    let tenant = tenant.ok_or(MACHINE_ACCOUNT_NOT_FOUND)?;
    tenant.check_active()?;
    Ok(tenant)
}
