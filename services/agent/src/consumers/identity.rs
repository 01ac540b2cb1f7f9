//! Consumer of identity's companies.

use ::db::Tx;
use auth::CompanyId;
use messaging::{Failure, Handler, Message};
use serde::Deserialize;
use values::Whole;

use crate::db;

pub struct Companies;

/// The payload of `company-upserted`, as far as this service reads it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CompanyUpserted {
    company_id: CompanyId,
    #[serde(rename = "Type")]
    company_type: String,
    status: String,
    version: Whole<0, { i64::MAX }>,
}

impl Handler for Companies {
    const GROUP: &'static str = "agent.identity";
    const TOPICS: &'static [&'static str] = &["platform.identity.company-upserted.v1"];
    const STATE_TOPICS: &'static [&'static str] = Self::TOPICS;

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        let CompanyUpserted { company_id, company_type, status, version } = message.decode()?;
        if company_type == "Agency" {
            db::agency::upsert(tx, company_id, status == "Active", version.get()).await?;
        }
        Ok(())
    }
}
