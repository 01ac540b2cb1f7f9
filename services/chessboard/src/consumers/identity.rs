//! The consumer of both topics of identity's companies.

use ::db::Tx;
use auth::CompanyId;
use messaging::{Failure, Handler, Message};
use serde::Deserialize;
use values::Whole;

use crate::domain::{Company, CompanyStatus, CompanyType, DeveloperName, LegalName};
use crate::ops;
use crate::ops::company_lock::COMPANY_GROUP;

pub struct Companies;

/// The fields that the service reads from both events.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CompanyEvent {
    company_id: CompanyId,
    #[serde(rename = "Type")]
    kind: CompanyType,
    status: CompanyStatus,
    name: DeveloperName,
    legal_name: Option<LegalName>,
    version: Whole<1, { i64::MAX }>,
}

impl Handler for Companies {
    const GROUP: &'static str = COMPANY_GROUP;
    const TOPICS: &'static [&'static str] =
        &["platform.identity.company-upserted.v1", "platform.identity.company-suspended.v1"];
    const STATE_TOPICS: &'static [&'static str] = Self::TOPICS;
    // Partitions of both topics lock the same companies. A batch would lock them in any order, and
    // two batches could deadlock.
    const MAX_BATCH: usize = 1;

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        let CompanyEvent { company_id: id, kind, status, name, legal_name, version } = message.decode()?;
        let version = version.get();
        ops::company::apply_event(tx, Company { id, kind, status, name, legal_name, version }).await?;
        Ok(())
    }
}
