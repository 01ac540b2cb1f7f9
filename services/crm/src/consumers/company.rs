//! Companies, as identity tells of them.

use ::db::Tx;
use auth::CompanyId;
use messaging::{Failure, Handler, Message};
use serde::Deserialize;
use values::Whole;

use crate::db;
use crate::domain::{Company, CompanyStatus};

pub struct Companies;

/// The field that tells whether the company is one of ours.
#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "Type")]
    kind: String,
}

/// The fields that are read here.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CompanyTold {
    company_id: CompanyId,
    status: CompanyStatus,
    version: Whole<0, { i64::MAX }>,
}

impl Handler for Companies {
    const GROUP: &'static str = "crm.identity";
    const TOPICS: &'static [&'static str] = &["platform.identity.company-upserted.v1"];

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        if message.decode::<Kind>()?.kind != "Developer" {
            return Ok(());
        }
        let CompanyTold { company_id: id, status, version } = message.decode()?;
        db::company::upsert(tx, &Company { id, status, version: version.get() }).await?;
        Ok(())
    }
}
