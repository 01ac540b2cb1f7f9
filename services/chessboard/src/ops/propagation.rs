//! The use case that publishes the objects below a changed developer, project or building.

use ::db::Tx;

use super::property_object::write;
use crate::db;
use crate::db::ancestors::LockPurpose;
use crate::domain::ObjectChange;
use crate::error::Error;

/// Publishes the next batch of up to `batch` objects. Returns false if no propagation is left.
pub async fn propagate_batch(tx: &mut Tx, batch: u32) -> Result<bool, Error> {
    let Some(propagation) = db::propagation::find_next(tx).await? else { return Ok(false) };
    let locations = db::property_object::list_next(tx, &propagation, batch.into()).await?;
    let ancestors = db::ancestors::lock(tx, &locations, LockPurpose::Publish).await?;
    let ids: Vec<_> = locations.iter().map(|location| location.id).collect();
    let objects = db::property_object::lock(tx, &ids).await?;
    let changes: Vec<_> = objects
        .into_iter()
        .filter_map(|object| {
            let ancestors = ancestors.get(&object.building_id)?;
            ObjectChange::propagated(object, ancestors)
        })
        .collect();
    if !changes.is_empty() {
        write(tx, &changes).await?;
    }
    let is_full = locations.len() == usize::try_from(batch).unwrap_or(usize::MAX);
    let published_to = ids.last().filter(|_| is_full).copied();
    db::propagation::advance(tx, &propagation, published_to.map(Into::into)).await?;
    Ok(true)
}
