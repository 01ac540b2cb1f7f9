//! Profiles of developers, as the outside system tells of them.

use ::db::Tx;
use auth::CompanyId;
use ids::Reference;
use messaging::{Failure, Handler, Message};
use serde::Deserialize;
use values::Whole;

use crate::domain::{DeveloperName, FileId, FoundedYear, LegalName, OutsideId, OutsideProfile};
use crate::ops;

pub struct OutsideDevelopers;

/// The fields that are read here.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DeveloperTold {
    external_chessboard_developer_id: Reference<OutsideId>,
    company_id: Reference<CompanyId>,
    version: Whole<0, { i64::MAX }>,
    name: DeveloperName,
    legal_name: Option<LegalName>,
    logo_file_id: Option<Reference<FileId>>,
    founded_year: Option<FoundedYear>,
}

impl Handler for OutsideDevelopers {
    const GROUP: &'static str = "chessboard.external-chessboard";
    const TOPICS: &'static [&'static str] = &["external.chessboard.developer-upserted.v1"];

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        let told: DeveloperTold = message.decode()?;
        let told = OutsideProfile {
            outside_id: told.external_chessboard_developer_id.0,
            company_id: told.company_id.0,
            version: told.version.get(),
            name: told.name,
            legal_name: told.legal_name,
            logo_file_id: told.logo_file_id.map(|id| id.0),
            founded_year: told.founded_year,
        };
        ops::outside_profile::hear(tx, told).await?;
        Ok(())
    }
}
