//! What managers and deals do with property objects.

use std::collections::BTreeSet;

use ::db::Tx;
use auth::CompanyId;
use messaging::outbox;
use time::OffsetDateTime;
use values::Invalid;

use super::building::{blame, lock_with_objects};
use super::project::refuse_unseen;
use crate::db;
use crate::db::above::Purpose;
use crate::domain::{BuildingId, Change, Entry, ProjectId, PropertyObject, PropertyObjectId};
use crate::error::{Error, PROPERTY_OBJECT_HELD, PROPERTY_OBJECT_NOT_FOUND};
use crate::events::PropertyObjectUpserted;

/// Where an object of a developer stands.
#[derive(Clone, Copy, Debug)]
pub struct ObjectPath {
    pub tenant: CompanyId,
    pub project: ProjectId,
    pub building: BuildingId,
    pub object: PropertyObjectId,
}

/// # Errors
/// [`PROJECT_NOT_FOUND`](crate::error::PROJECT_NOT_FOUND), [`BUILDING_NOT_FOUND`](crate::error::BUILDING_NOT_FOUND),
/// [`PROPERTY_OBJECT_NOT_FOUND`], `VALIDATION_FAILED` of what the building must know,
/// [`CONFLICT`](crate::error::CONFLICT), [`PROPERTY_OBJECT_HELD`],
/// [`PROPERTY_OBJECT_NUMBER_TAKEN`](crate::error::PROPERTY_OBJECT_NUMBER_TAKEN)
pub async fn update_property_object(
    tx: &mut Tx,
    path: ObjectPath,
    version: Option<i64>,
    entry: Entry,
    now: OffsetDateTime,
) -> Result<PropertyObject, Error> {
    let ObjectPath { tenant, project, building, object: id } = path;
    let found = db::property_object::find(tx.conn(), building, id).await?;
    let seen = version.or(found.map(|found| found.version));
    let (mut building, above) = lock_with_objects(tx, tenant, project, building).await?;
    let object = db::property_object::find(tx.conn(), building.id, id).await?;
    let before = object.ok_or(PROPERTY_OBJECT_NOT_FOUND)?;
    let Entry { facts, status } = entry;
    let mut wrong = building.facts.misplaces(facts.section, facts.floor);
    if !PropertyObject::may_be_sent(Some(&before), status) {
        wrong.push(("Status", Invalid::new("given_by_deals")));
    }
    blame("", wrong)?;
    let mut after = before.clone();
    if !after.describe(facts, status, now) {
        return Ok(before);
    }
    refuse_unseen(seen, before.version)?;
    if before.is_held() && after.status != before.status {
        return Err(PROPERTY_OBJECT_HELD.into());
    }
    let change = Change::of(before, after, &above);
    let after = change.after.clone();
    save(tx, vec![change], now).await?;
    building.updated_at = now;
    db::building::save(tx, &mut building).await?;
    Ok(after)
}

/// Has these objects held as deals claim them. What was removed, and what is below something that was, stays as it is.
pub async fn follow_claims(tx: &mut Tx, ids: &[PropertyObjectId], now: OffsetDateTime) -> Result<(), Error> {
    let places = db::property_object::places(tx, ids).await?;
    let above = db::above::lock(tx, &places, Purpose::Changing).await?;
    let objects = db::property_object::lock(tx, ids).await?;
    let holds = db::claim::holds(tx, ids).await?;
    let changes = objects.into_iter().filter_map(|before| {
        let above = above.get(&before.building_id).filter(|above| above.is_live && before.is_live())?;
        let mut after = before.clone();
        after.follow(holds.get(&before.id).copied(), now).then(|| Change::of(before, after, above))
    });
    save(tx, changes.collect(), now).await
}

/// Writes what became of objects that are this transaction's to change, with their prices and what their buildings show of
/// them, and tells of it: so many statements, however many objects.
pub async fn save(tx: &mut Tx, changes: Vec<Change>, now: OffsetDateTime) -> Result<(), Error> {
    if changes.is_empty() {
        return Ok(());
    }
    write(tx, &changes).await?;
    let priced = changes.iter().filter(|change| change.has_new_price()).map(|change| &change.after);
    db::property_object::record_prices(tx, priced, now).await?;
    let buildings: BTreeSet<_> = changes.iter().map(|change| change.after.building_id).collect();
    db::building::renew_figures(tx, buildings.into_iter().collect()).await?;
    Ok(())
}

/// Writes what became of objects, and tells of it.
pub async fn write(tx: &mut Tx, changes: &[Change]) -> Result<(), Error> {
    db::property_object::write(tx, changes.iter().map(|change| &change.after)).await?;
    let told = changes.iter().filter(|change| change.is_told());
    let told: Vec<_> = told.map(|change| PropertyObjectUpserted::of(&change.after)).collect();
    outbox::append_all(tx, &told).await?;
    Ok(())
}
