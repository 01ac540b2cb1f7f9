//! Changes of tenants by administrators of the platform.

use ::db::Tx;
use auth::CompanyId;
use messaging::outbox;

use super::access::revoke_access;
use super::actor::{ActorContext, Authorized};
use super::machine_account::schedule_issuer_updates_of_company;
use crate::db;
use crate::domain::{
    AuditEntry, LegalName, ManageTenants, Reason, RevokedSubject, TaxNumber, Tenant, TenantName,
    TenantStatus, TenantType,
};
use crate::error::{CONFLICT, Error, TENANT_NOT_FOUND};
use crate::events::{CompanySuspended, CompanyUpserted};

/// Fields of a tenant that an update replaces.
pub struct TenantDetails {
    pub name: TenantName,
    pub legal_name: Option<LegalName>,
    pub tax_number: Option<TaxNumber>,
}

/// Creates an active tenant.
///
/// # Errors
/// - `FORBIDDEN` if the actor does not pass the actor check.
/// - `TAX_NUMBER_TAKEN` if another tenant that is not Archived has the tax number.
pub async fn create_tenant(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    kind: TenantType,
    details: TenantDetails,
) -> Result<Tenant, Error> {
    let Authorized { now, .. } = context.authorize::<ManageTenants>(tx, None).await?;
    let TenantDetails { name, legal_name, tax_number } = details;
    let tenant = Tenant::new(name, legal_name, kind, tax_number, now);
    db::tenant::insert(tx, &tenant).await?;
    db::audit::append(tx, AuditEntry::tenant_created(&context.audit_actor(), &tenant)).await?;
    outbox::append(tx, &CompanyUpserted::of(&tenant)).await?;
    Ok(tenant)
}

/// Replaces the details of a tenant. Identical details change nothing.
///
/// # Errors
/// - `FORBIDDEN` if the actor does not pass the actor check.
/// - `TENANT_NOT_FOUND` if the company does not exist.
/// - `TENANT_ARCHIVED` if the tenant is Archived.
/// - `CONFLICT` if the version is outdated, or if another change won the race.
/// - `TAX_NUMBER_TAKEN` if another tenant that is not Archived has the tax number.
pub async fn update_tenant(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    id: CompanyId,
    version: Option<i64>,
    details: TenantDetails,
) -> Result<Tenant, Error> {
    let expected_version = version.or(db::tenant::find_version(tx.conn(), id).await?);
    let Authorized { tenant, now, .. } = context.authorize::<ManageTenants>(tx, Some(id)).await?;
    let mut tenant = tenant.ok_or(TENANT_NOT_FOUND)?;
    tenant.check_not_archived()?;
    let TenantDetails { name, legal_name, tax_number } = details;
    let changed = tenant.update(name, legal_name, tax_number, now);
    if changed.is_empty() {
        return Ok(tenant);
    }
    save(tx, &mut tenant, expected_version).await?;
    db::audit::append(tx, AuditEntry::tenant_updated(&context.audit_actor(), &tenant, changed)).await?;
    Ok(tenant)
}

/// Suspends, activates or archives a tenant.
///
/// # Errors
/// - `FORBIDDEN` if the actor does not pass the actor check.
/// - `TENANT_NOT_FOUND` if the company does not exist.
/// - `OWN_TENANT`, `TENANT_ARCHIVED` and `TENANT_INVALID_TRANSITION` as in
///   [`Tenant::change_status`].
/// - `CONFLICT` if the version is outdated, or if another change won the race.
pub async fn change_tenant_status(
    tx: &mut Tx,
    context: &ActorContext<'_>,
    id: CompanyId,
    version: Option<i64>,
    to: TenantStatus,
    reason: Option<Reason>,
) -> Result<Tenant, Error> {
    let expected_version = version.or(db::tenant::find_version(tx.conn(), id).await?);
    let Authorized { tenant, now, .. } = context.authorize::<ManageTenants>(tx, Some(id)).await?;
    let mut tenant = tenant.ok_or(TENANT_NOT_FOUND)?;
    let from = tenant.status;
    tenant.change_status(to, reason.clone(), context.actor.company_id, now)?;
    save(tx, &mut tenant, expected_version).await?;
    db::audit::append(tx, AuditEntry::tenant_status_changed(&context.audit_actor(), &tenant, from, reason))
        .await?;
    if to == TenantStatus::Suspended {
        outbox::append(tx, &CompanySuspended::of(&tenant, now)).await?;
    }
    schedule_issuer_updates_of_company(tx, id, to, now).await?;
    if to != TenantStatus::Active {
        revoke_access(tx, RevokedSubject::Company(id)).await?;
    }
    Ok(tenant)
}

/// Writes the tenant and publishes one `company-upserted` for the new version (INV-IDN-003).
///
/// `expected` is the version in the request, or the version when the request arrived.
///
/// # Errors
/// - [`CONFLICT`] if the tenant has another version.
/// - `TAX_NUMBER_TAKEN` if another tenant that is not Archived has the tax number.
async fn save(tx: &mut Tx, tenant: &mut Tenant, expected: Option<i64>) -> Result<(), Error> {
    if expected.is_some_and(|expected| expected != tenant.version) {
        return Err(CONFLICT.into());
    }
    db::tenant::save(tx, tenant).await?;
    outbox::append(tx, &CompanyUpserted::of(tenant)).await?;
    Ok(())
}
