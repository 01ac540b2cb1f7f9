//! Events of a company, without data of its employees.

use ::db::Tx;
use auth::CompanyId;
use messaging::outbox::{self, RowlessOutbox};
use messaging::{Aggregate, Event, PublishedState, Republish, Restore, VersionNames};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::db;
use crate::domain::{LegalName, Reason, Tenant, TenantName, TenantStatus, TenantType};

const COMPANY: Aggregate = Aggregate { name: "Company", table: "tenant", key: "id" };

/// The state of a company, published at its creation and at each change of its version.
#[derive(Debug, Serialize, Deserialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.identity.company-upserted.v1", version = 1, aggregate = COMPANY, key = company_id)]
pub struct CompanyUpserted {
    company_id: CompanyId,
    #[serde(rename = "Type")]
    kind: TenantType,
    status: TenantStatus,
    name: TenantName,
    legal_name: Option<LegalName>,
    #[schema(minimum = 1)]
    version: i64,
}

impl CompanyUpserted {
    pub fn of(tenant: &Tenant) -> Self {
        Self {
            company_id: tenant.id,
            kind: tenant.kind,
            status: tenant.status,
            name: tenant.name.clone(),
            legal_name: tenant.legal_name.clone(),
            version: tenant.version,
        }
    }
}

/// The suspension of an active company. Activation and archiving publish `company-upserted` only.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.identity.company-suspended.v1", version = 1, aggregate = COMPANY, key = company_id)]
pub struct CompanySuspended {
    company_id: CompanyId,
    #[serde(rename = "Type")]
    kind: TenantType,
    status: TenantStatus,
    name: TenantName,
    legal_name: Option<LegalName>,
    #[schema(minimum = 1)]
    version: i64,
    /// Time of the suspension, in UTC.
    #[serde(with = "time::serde::rfc3339")]
    suspended_at: OffsetDateTime,
    reason: Option<Reason>,
}

impl CompanySuspended {
    pub fn of(tenant: &Tenant, suspended_at: OffsetDateTime) -> Self {
        let CompanyUpserted { company_id, kind, status, name, legal_name, version } =
            CompanyUpserted::of(tenant);
        let reason = tenant.suspension_reason.clone();
        Self { company_id, kind, status, name, legal_name, version, suspended_at, reason }
    }
}

/// Republishes the current state of each company.
pub enum Companies {}

impl Republish for Companies {
    const AGGREGATE: Aggregate = COMPANY;

    async fn republish(tx: &mut Tx, keys: &[Uuid]) -> Result<(), ::db::Error> {
        let companies = db::tenant::list_by_ids(tx.conn(), keys).await?;
        let events: Vec<_> = companies.iter().map(CompanyUpserted::of).collect();
        outbox::append_all(tx, &events).await
    }
}

/// A company that the restored database lacks is published as Archived.
impl Restore for Companies {
    const VERSION: Option<VersionNames> = Some(VersionNames { column: "version", member: "Version" });
    const TOPICS: &'static [&'static str] = &[CompanyUpserted::TOPIC, CompanySuspended::TOPIC];

    async fn end(outbox: &mut RowlessOutbox<'_>, lost: &[PublishedState]) -> Result<Vec<Uuid>, ::db::Error> {
        let archive = |state: &PublishedState| {
            let newest: CompanyUpserted = state.newest(CompanyUpserted::TOPIC)?;
            Some(CompanyUpserted { status: TenantStatus::Archived, version: state.next_version(), ..newest })
        };
        let archived: Vec<_> = lost.iter().filter_map(archive).collect();
        outbox.append_all(&archived).await?;
        Ok(archived.iter().map(Event::key).collect())
    }
}
