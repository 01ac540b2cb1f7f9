//! Companies, as identity tells of them on two topics.

use ::db::Tx;
use auth::CompanyId;
use messaging::{Failure, Handler, Message};
use serde::Deserialize;
use values::Whole;

use crate::domain::{Company, CompanyStatus, CompanyType, DeveloperName, LegalName};
use crate::ops;

pub struct Companies;

/// The fields that are read here, of either event.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CompanyTold {
    company_id: CompanyId,
    #[serde(rename = "Type")]
    kind: CompanyType,
    status: CompanyStatus,
    name: DeveloperName,
    legal_name: Option<LegalName>,
    version: Whole<1, { i64::MAX }>,
}

impl Handler for Companies {
    const GROUP: &'static str = "chessboard.identity";
    const TOPICS: &'static [&'static str] =
        &["platform.identity.company-upserted.v1", "platform.identity.company-suspended.v1"];

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        let CompanyTold { company_id: id, kind, status, name, legal_name, version } = message.decode()?;
        let version = version.get();
        ops::company::hear(tx, Company { id, kind, status, name, legal_name, version }).await?;
        Ok(())
    }
}
