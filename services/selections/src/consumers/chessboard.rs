//! Property objects of chessboard, for the copy that open selections and snapshots show.

use ::db::Tx;
use messaging::{Failure, Handler, Message};
use serde::Deserialize;

use crate::domain::{ObjectCard, PropertyObjectId};
use crate::ops;

/// Applies `property-object-upserted` to the copy.
pub struct Chessboard;

/// The members of the event that selections and snapshots need.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PropertyObjectUpserted {
    id: PropertyObjectId,
    version: i64,
    /// True if developer and project are Published and the object is not removed.
    is_public: bool,
    #[serde(flatten)]
    card: ObjectCard,
}

impl Handler for Chessboard {
    const GROUP: &'static str = "selections.chessboard";
    const TOPICS: &'static [&'static str] = &["platform.chessboard.property-object-upserted.v1"];
    const STATE_TOPICS: &'static [&'static str] = Self::TOPICS;

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        let object: PropertyObjectUpserted = message.decode()?;
        if object.card.has_nul() {
            return Err(Failure::Rejected("a text contains a NUL character".to_owned()));
        }
        let PropertyObjectUpserted { id, version, is_public, card } = object;
        ops::property_object::upsert_property_object(tx, id, version, is_public, card).await?;
        Ok(())
    }
}
