//! Consumer of chessboard's developers.

use ::db::Tx;
use auth::CompanyId;
use messaging::{Failure, Handler, Message};
use serde::Deserialize;
use values::Whole;

use crate::db;
use crate::db::developer::DeveloperName;

pub struct Developers;

/// The payload of `developer-upserted`, as far as this service reads it.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DeveloperUpserted {
    id: CompanyId,
    name: DeveloperName,
    version: Whole<0, { i64::MAX }>,
}

impl Handler for Developers {
    const GROUP: &'static str = "agent.chessboard";
    const TOPICS: &'static [&'static str] = &["platform.chessboard.developer-upserted.v1"];
    const STATE_TOPICS: &'static [&'static str] = Self::TOPICS;

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        let DeveloperUpserted { id, name, version } = message.decode()?;
        Ok(db::developer::upsert(tx, id, &name, version.get()).await?)
    }
}
