//! Keeping the replica of property objects.

use ::db::Tx;

use crate::db;
use crate::domain::{PropertyObjectId, ShownObject};
use crate::error::Error;

/// Takes over what an object shows; an older version than the one here is ignored.
pub async fn keep_property_object(
    tx: &mut Tx,
    id: PropertyObjectId,
    version: i64,
    shown: ShownObject,
) -> Result<(), Error> {
    Ok(db::property_object::upsert(tx, id, version, shown).await?)
}
