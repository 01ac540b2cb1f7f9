//! The consumer of companies from identity.

use ::db::Tx;
use auth::CompanyId;
use messaging::{Failure, Handler, Message};
use serde::Deserialize;
use values::Whole;

use crate::db;
use crate::domain::{Company, CompanyStatus};

pub struct Companies;

/// The type of a company, read first: companies of other types may have an unknown status.
#[derive(Deserialize)]
struct CompanyType {
    #[serde(rename = "Type")]
    company_type: String,
}

/// The fields of a company event that this service uses.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CompanyEvent {
    company_id: CompanyId,
    status: CompanyStatus,
    version: Whole<0, { i64::MAX }>,
}

impl Handler for Companies {
    const GROUP: &'static str = "crm.identity";
    const TOPICS: &'static [&'static str] = &["platform.identity.company-upserted.v1"];

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        if message.decode::<CompanyType>()?.company_type != "Developer" {
            return Ok(());
        }
        let CompanyEvent { company_id: id, status, version } = message.decode()?;
        db::company::upsert(tx, &Company { id, status, version: version.get() }).await?;
        Ok(())
    }
}
