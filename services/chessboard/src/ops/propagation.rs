//! Telling of the objects below what has changed.

use ::db::Tx;

use super::property_object::write;
use crate::db;
use crate::db::above::Purpose;
use crate::domain::Change;
use crate::error::Error;

/// Tells of the next objects, of so many at most. `false`: there is nothing left to tell.
pub async fn tell_next(tx: &mut Tx, batch: u32) -> Result<bool, Error> {
    let Some(asked) = db::propagation::next(tx).await? else { return Ok(false) };
    let places = db::property_object::below(tx, &asked, batch.into()).await?;
    let above = db::above::lock(tx, &places, Purpose::Telling).await?;
    let ids: Vec<_> = places.iter().map(|place| place.id).collect();
    let objects = db::property_object::lock(tx, &ids).await?;
    let changes: Vec<_> = objects
        .into_iter()
        .filter_map(|object| {
            let above = above.get(&object.building_id)?;
            Change::above(object, above)
        })
        .collect();
    if !changes.is_empty() {
        write(tx, &changes).await?;
    }
    let is_full = places.len() == usize::try_from(batch).unwrap_or(usize::MAX);
    let told_to = ids.last().filter(|_| is_full).copied();
    db::propagation::advance(tx, &asked, told_to.map(Into::into)).await?;
    Ok(true)
}
