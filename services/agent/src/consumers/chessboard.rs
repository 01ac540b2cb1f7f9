//! Developers, as chessboard tells of them.

use ::db::Tx;
use auth::CompanyId;
use messaging::{Failure, Handler, Message};
use serde::Deserialize;
use values::Whole;

use crate::db;
use crate::db::developer::ToldName;

pub struct Developers;

/// The fields that are read here.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DeveloperTold {
    id: CompanyId,
    name: ToldName,
    version: Whole<0, { i64::MAX }>,
}

impl Handler for Developers {
    const GROUP: &'static str = "agent.chessboard";
    const TOPICS: &'static [&'static str] = &["platform.chessboard.developer-upserted.v1"];

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        let DeveloperTold { id, name, version } = message.decode()?;
        Ok(db::developer::upsert(tx, id, &name, version.get()).await?)
    }
}
