//! Property objects of chessboard, for the replica that snapshots copy.

use ::db::Tx;
use messaging::{Failure, Handler, Message};
use serde::Deserialize;

use crate::domain::{PropertyObjectId, ShownObject};
use crate::ops;

/// Applies `property-object-upserted` to the replica.
pub struct Chessboard;

/// The members of the event that snapshots need.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PropertyObjectUpserted {
    id: PropertyObjectId,
    version: i64,
    #[serde(flatten)]
    shown: ShownObject,
}

impl Handler for Chessboard {
    const GROUP: &'static str = "selections.chessboard";
    const TOPICS: &'static [&'static str] = &["platform.chessboard.property-object-upserted.v1"];

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        let object: PropertyObjectUpserted = message.decode()?;
        if object.shown.has_nul() {
            return Err(Failure::Rejected("a text contains a NUL character".to_owned()));
        }
        ops::property_object::upsert_property_object(tx, object.id, object.version, object.shown).await?;
        Ok(())
    }
}
