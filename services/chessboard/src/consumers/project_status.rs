//! This service's own projects, which their developers count.

use ::db::Tx;
use auth::CompanyId;
use messaging::{Failure, Handler, Message};
use serde::Deserialize;

use crate::db;

pub struct ProjectStatuses;

/// The field that is read here.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ProjectStatusChanged {
    tenant_id: CompanyId,
}

impl Handler for ProjectStatuses {
    const GROUP: &'static str = "chessboard.chessboard";
    const TOPICS: &'static [&'static str] = &["platform.chessboard.project-status-changed.v1"];

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        let told: ProjectStatusChanged = message.decode()?;
        Ok(db::developer::recount_projects(tx, told.tenant_id).await?)
    }
}
