//! The event of a developer's profile.

use ::db::Tx;
use auth::CompanyId;
use messaging::outbox::{self, RowlessOutbox};
use messaging::{Aggregate, Event, PublishedState, Republish, Restore, VersionNames};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::db;
use crate::domain::{Developer, DeveloperName, DeveloperStatus, FileId, FoundedYear, Highlights, LegalName};

const DEVELOPER: Aggregate = Aggregate { name: "Developer", table: "developer", key: "id" };

/// A developer's profile. Published when it is created or restored, and when its name, status, logo
/// or highlights change. Other changes are part of the next event.
#[derive(Debug, Serialize, Deserialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.chessboard.developer-upserted.v1", version = 1, aggregate = DEVELOPER, key = id)]
pub struct DeveloperUpserted {
    id: CompanyId,
    status: DeveloperStatus,
    name: DeveloperName,
    legal_name: Option<LegalName>,
    logo_file_id: Option<FileId>,
    founded_year: Option<FoundedYear>,
    highlights: Highlights,
    #[schema(minimum = 1)]
    version: i64,
}

impl DeveloperUpserted {
    pub fn new(developer: &Developer) -> Self {
        Self {
            id: developer.id,
            status: developer.status,
            name: developer.name.clone(),
            legal_name: developer.legal_name.clone(),
            logo_file_id: developer.logo_file_id,
            founded_year: developer.founded_year,
            highlights: developer.highlights.0.clone(),
            version: developer.version,
        }
    }
}

/// Publishes the current profile of each developer again.
pub enum Developers {}

impl Republish for Developers {
    const AGGREGATE: Aggregate = DEVELOPER;

    async fn republish(tx: &mut Tx, keys: &[Uuid]) -> Result<(), ::db::Error> {
        let developers = db::developer::list_by_ids(tx, keys).await?;
        let events: Vec<_> = developers.iter().map(DeveloperUpserted::new).collect();
        outbox::append_all(tx, &events).await
    }
}

/// A profile that the restore lost is published as Hidden, like a deleted one. The version of the
/// company's next profile continues above this version.
impl Restore for Developers {
    const VERSION: Option<VersionNames> = Some(VersionNames { column: "version", member: "Version" });
    const TOPICS: &'static [&'static str] = &[DeveloperUpserted::TOPIC];

    async fn end(outbox: &mut RowlessOutbox<'_>, lost: &[PublishedState]) -> Result<Vec<Uuid>, ::db::Error> {
        let hide = |state: &PublishedState| {
            let newest: DeveloperUpserted = state.newest(DeveloperUpserted::TOPIC)?;
            let version = state.next_version();
            Some(DeveloperUpserted { status: DeveloperStatus::Hidden, version, ..newest })
        };
        let hidden: Vec<_> = lost.iter().filter_map(hide).collect();
        let versions: Vec<_> = hidden.iter().map(|event| (event.id, event.version)).collect();
        db::developer::insert_lost(outbox.tx(), &versions).await?;
        outbox.append_all(&hidden).await?;
        Ok(hidden.iter().map(Event::key).collect())
    }
}
