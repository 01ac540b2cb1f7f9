//! Use case of the copy of property objects.

use ::db::Tx;

use crate::db;
use crate::domain::{ObjectCard, PropertyObjectId};
use crate::error::Error;

/// Stores the data of an object and its visibility, unless the copy has the same or a newer
/// version.
pub async fn upsert_property_object(
    tx: &mut Tx,
    id: PropertyObjectId,
    version: i64,
    is_public: bool,
    card: ObjectCard,
) -> Result<(), Error> {
    Ok(db::property_object::upsert(tx, id, version, is_public, card).await?)
}
