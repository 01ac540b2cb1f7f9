//! What administrators of the platform do with tenants.

use ::db::Tx;
use auth::CompanyId;
use messaging::outbox;

use super::actor::{Acting, Admitted, Needs};
use crate::db;
use crate::domain::{AuditEntry, LegalName, Reason, TaxNumber, Tenant, TenantName, TenantStatus, TenantType};
use crate::error::{CONFLICT, Error, TENANT_NOT_FOUND};
use crate::events::{CompanySuspended, CompanyUpserted};

/// What a tenant is described by.
pub struct Description {
    pub name: TenantName,
    pub legal_name: Option<LegalName>,
    pub tax_number: Option<TaxNumber>,
}

/// # Errors
/// [`FORBIDDEN`](crate::error::FORBIDDEN), [`TAX_NUMBER_TAKEN`](crate::error::TAX_NUMBER_TAKEN)
pub async fn create_tenant(
    tx: &mut Tx,
    acting: &Acting<'_>,
    kind: TenantType,
    described: Description,
) -> Result<Tenant, Error> {
    let Admitted { now, .. } = acting.admit(tx, Needs::Tenants, None).await?;
    let Description { name, legal_name, tax_number } = described;
    let tenant = Tenant::new(name, legal_name, kind, tax_number, now);
    db::tenant::insert(tx, &tenant).await?;
    db::audit::append(tx, AuditEntry::tenant_created(&acting.by(), &tenant)).await?;
    outbox::append(tx, &CompanyUpserted::of(&tenant)).await?;
    Ok(tenant)
}

/// # Errors
/// [`FORBIDDEN`](crate::error::FORBIDDEN), [`TENANT_NOT_FOUND`], [`TENANT_ARCHIVED`](crate::error::TENANT_ARCHIVED),
/// [`CONFLICT`], [`TAX_NUMBER_TAKEN`](crate::error::TAX_NUMBER_TAKEN)
pub async fn update_tenant(
    tx: &mut Tx,
    acting: &Acting<'_>,
    id: CompanyId,
    version: Option<i64>,
    described: Description,
) -> Result<Tenant, Error> {
    let seen = version.or(db::tenant::version(tx.conn(), id).await?);
    let Admitted { tenant, now, .. } = acting.admit(tx, Needs::Tenants, Some(id)).await?;
    let mut tenant = tenant.ok_or(TENANT_NOT_FOUND)?;
    tenant.check_not_archived()?;
    let Description { name, legal_name, tax_number } = described;
    let changed = tenant.describe(name, legal_name, tax_number, now);
    if changed.is_empty() {
        return Ok(tenant);
    }
    save(tx, &mut tenant, seen).await?;
    db::audit::append(tx, AuditEntry::tenant_updated(&acting.by(), &tenant, changed)).await?;
    Ok(tenant)
}

/// # Errors
/// [`FORBIDDEN`](crate::error::FORBIDDEN), [`TENANT_NOT_FOUND`], [`OWN_TENANT`](crate::error::OWN_TENANT),
/// [`TENANT_ARCHIVED`](crate::error::TENANT_ARCHIVED),
/// [`TENANT_INVALID_TRANSITION`](crate::error::TENANT_INVALID_TRANSITION), [`CONFLICT`]
pub async fn move_tenant(
    tx: &mut Tx,
    acting: &Acting<'_>,
    id: CompanyId,
    version: Option<i64>,
    to: TenantStatus,
    reason: Option<Reason>,
) -> Result<Tenant, Error> {
    let seen = version.or(db::tenant::version(tx.conn(), id).await?);
    let Admitted { tenant, now, .. } = acting.admit(tx, Needs::Tenants, Some(id)).await?;
    let mut tenant = tenant.ok_or(TENANT_NOT_FOUND)?;
    let from = tenant.status;
    tenant.move_to(to, reason.clone(), acting.actor.company_id, now)?;
    save(tx, &mut tenant, seen).await?;
    db::audit::append(tx, AuditEntry::tenant_moved(&acting.by(), &tenant, from, reason)).await?;
    if to == TenantStatus::Suspended {
        outbox::append(tx, &CompanySuspended::of(&tenant, now)).await?;
    }
    Ok(tenant)
}

/// Compare and swap, on the version that the caller has seen or, where they name none, on that of the moment when they
/// came. Each version is told by one `company-upserted` (INV-IDN-003).
async fn save(tx: &mut Tx, tenant: &mut Tenant, seen: Option<i64>) -> Result<(), Error> {
    if seen.is_some_and(|seen| seen != tenant.version) {
        return Err(CONFLICT.into());
    }
    db::tenant::save(tx, tenant).await?;
    outbox::append(tx, &CompanyUpserted::of(tenant)).await?;
    Ok(())
}
