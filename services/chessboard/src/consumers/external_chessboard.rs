//! The consumer of developers' profiles of the external chessboard system.

use ::db::Tx;
use auth::CompanyId;
use ids::Reference;
use messaging::{Failure, Handler, Message};
use serde::Deserialize;
use values::Whole;

use crate::domain::{DeveloperName, ExternalDeveloperId, ExternalProfile, FileId, FoundedYear, LegalName};
use crate::ops;

pub struct ExternalDevelopers;

/// The fields that the service reads.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DeveloperEvent {
    external_chessboard_developer_id: Reference<ExternalDeveloperId>,
    company_id: Reference<CompanyId>,
    version: Whole<0, { i64::MAX }>,
    name: DeveloperName,
    legal_name: Option<LegalName>,
    logo_file_id: Option<Reference<FileId>>,
    founded_year: Option<FoundedYear>,
}

impl Handler for ExternalDevelopers {
    const GROUP: &'static str = "chessboard.external-chessboard";
    const TOPICS: &'static [&'static str] = &["external.chessboard.developer-upserted.v1"];
    const STATE_TOPICS: &'static [&'static str] = Self::TOPICS;
    // Messages of different external ids lock the same company, so two batches could deadlock.
    const MAX_BATCH: usize = 1;

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        let event: DeveloperEvent = message.decode()?;
        let profile = ExternalProfile {
            external_id: event.external_chessboard_developer_id.0,
            company_id: event.company_id.0,
            version: event.version.get(),
            name: event.name,
            legal_name: event.legal_name,
            logo_file_id: event.logo_file_id.map(|id| id.0),
            founded_year: event.founded_year,
        };
        ops::external_profile::apply_event(tx, profile).await?;
        Ok(())
    }
}
