//! Creation of the operator's first company, while no company of the operator has an administrator.

use ::db::Tx;
use auth::UserId;
use messaging::outbox;

use super::employee::{PersonDetails, employ_administrator};
use crate::db;
use crate::domain::{AuditActor, AuditEntry, Tenant, TenantName, TenantType};
use crate::error::Error;
use crate::events::CompanyUpserted;

/// Creates the first company of the operator with its administrator.
///
/// Returns `None` if a company of the operator already has an administrator.
pub async fn bootstrap(
    tx: &mut Tx,
    user: UserId,
    company: TenantName,
    person: PersonDetails,
) -> Result<Option<Tenant>, Error> {
    if db::role::has_platform_admin(tx).await? {
        return Ok(None);
    }
    // Every change in identity uses the time of the database.
    let (now, _) = db::employment::find_record(tx.conn(), user).await?;
    let by = AuditActor { user_id: user, company_id: None, trace_id: None };
    let tenant = Tenant::new(company, None, TenantType::Platform, None, now);
    db::tenant::insert(tx, &tenant).await?;
    db::audit::append(tx, AuditEntry::tenant_created(&by, &tenant)).await?;
    outbox::append(tx, &CompanyUpserted::of(&tenant)).await?;
    let role = db::role::find_admin_role(tx.conn(), tenant.kind).await?;
    employ_administrator(tx, &by, &tenant, Some(user), person, role, now).await?;
    Ok(Some(tenant))
}
