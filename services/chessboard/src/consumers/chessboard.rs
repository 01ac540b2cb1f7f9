//! The consumer of the service's own project events, which recounts the projects of developers.

use ::db::Tx;
use auth::CompanyId;
use messaging::{Failure, Handler, Message};
use serde::Deserialize;

use crate::db;

pub struct ProjectStatuses;

/// The field that the service reads.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ProjectStatusChanged {
    tenant_id: CompanyId,
}

impl Handler for ProjectStatuses {
    const GROUP: &'static str = "chessboard.chessboard";
    const TOPICS: &'static [&'static str] = &["platform.chessboard.project-status-changed.v1"];
    // Messages of different projects lock the same developer, so two batches could deadlock.
    const MAX_BATCH: usize = 1;

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        let event: ProjectStatusChanged = message.decode()?;
        Ok(db::developer::recount_projects(tx, event.tenant_id).await?)
    }
}
