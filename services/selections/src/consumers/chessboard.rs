//! Chessboard's property objects, for the replica that snapshots freeze.

use ::db::Tx;
use messaging::{Failure, Handler, Message};
use serde::Deserialize;

use crate::domain::{PropertyObjectId, ShownObject};
use crate::ops;

pub struct Chessboard;

/// The fields that are read here.
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
            return Err(Failure::Rejected("a text has a NUL".to_owned()));
        }
        ops::property_object::keep_property_object(tx, object.id, object.version, object.shown).await?;
        Ok(())
    }
}
