//! Use cases of property objects, for managers and deals.

use std::collections::BTreeSet;

use ::db::Tx;
use auth::CompanyId;
use messaging::outbox;
use time::OffsetDateTime;
use values::Invalid;

use super::building::{lock_for_object_changes, reject_invalid};
use super::project::check_version;
use crate::db;
use crate::db::ancestors::LockPurpose;
use crate::domain::{BuildingId, Edit, GridEntry, ObjectChange, ProjectId, PropertyObject, PropertyObjectId};
use crate::error::{Error, PROPERTY_OBJECT_HELD, PROPERTY_OBJECT_NOT_FOUND};
use crate::events::PropertyObjectUpserted;

/// The path of an object in a request.
#[derive(Clone, Copy, Debug)]
pub struct ObjectPath {
    pub tenant: CompanyId,
    pub project: ProjectId,
    pub building: BuildingId,
    pub object: PropertyObjectId,
}

/// Replaces the fields of an object. Identical fields change nothing.
///
/// # Errors
/// - [`PROJECT_NOT_FOUND`](crate::error::PROJECT_NOT_FOUND),
///   [`BUILDING_NOT_FOUND`](crate::error::BUILDING_NOT_FOUND) or [`PROPERTY_OBJECT_NOT_FOUND`] if
///   a resource of the path is missing or deleted.
/// - `VALIDATION_FAILED` if the object would be outside the building, or if the entry has status
///   Booked and the object is not Booked.
/// - [`CONFLICT`](crate::error::CONFLICT) if `version` is outdated.
/// - [`PROPERTY_OBJECT_HELD`] if a deal holds the object and the status changes.
/// - [`PROPERTY_OBJECT_NUMBER_TAKEN`](crate::error::PROPERTY_OBJECT_NUMBER_TAKEN) if another object
///   of the building has the number.
/// - [`EXTERNAL_ID_TAKEN`](crate::error::EXTERNAL_ID_TAKEN) if another object of the developer has
///   the external id.
pub async fn update_property_object(
    tx: &mut Tx,
    path: ObjectPath,
    version: Option<i64>,
    entry: GridEntry,
    edit: Edit,
) -> Result<PropertyObject, Error> {
    let ObjectPath { tenant, project, building, object: id } = path;
    let found = db::property_object::find(tx.conn(), building, id).await?;
    let expected = version.or(found.map(|found| found.version));
    let (mut building, ancestors) = lock_for_object_changes(tx, tenant, project, building).await?;
    let object = db::property_object::find(tx.conn(), building.id, id).await?;
    let before = object.ok_or(PROPERTY_OBJECT_NOT_FOUND)?;
    let mut errors = building.facts.placement_errors(entry.facts.section, entry.facts.floor);
    if !PropertyObject::is_status_allowed(Some(&before), entry.status) {
        errors.push(("Status", Invalid::new("given_by_deals")));
    }
    reject_invalid("", errors)?;
    let mut after = before.clone();
    if !after.update(entry, edit) {
        return Ok(before);
    }
    check_version(expected, before.version)?;
    if before.is_held() && after.status != before.status {
        return Err(PROPERTY_OBJECT_HELD.into());
    }
    let change = ObjectChange::updated(before, after, &ancestors);
    let after = change.after.clone();
    save(tx, vec![change]).await?;
    building.updated_at = edit.at;
    db::building::save(tx, &mut building).await?;
    Ok(after)
}

/// Updates the holds of objects from their claims.
///
/// Removed objects and objects with a deleted ancestor do not change.
pub async fn apply_claims(tx: &mut Tx, ids: &[PropertyObjectId], now: OffsetDateTime) -> Result<(), Error> {
    let locations = db::property_object::find_locations(tx, ids).await?;
    let ancestors = db::ancestors::lock(tx, &locations, LockPurpose::Change).await?;
    let objects = db::property_object::lock(tx, ids).await?;
    let holds = db::claim::find_holds(tx, ids).await?;
    let changes = objects.into_iter().filter_map(|before| {
        let ancestors = ancestors.get(&before.building_id)?;
        if !ancestors.is_live || !before.is_live() {
            return None;
        }
        let mut after = before.clone();
        let is_changed = after.apply_hold(holds.get(&before.id).copied(), Edit::by_deal(now));
        is_changed.then(|| ObjectChange::updated(before, after, ancestors))
    });
    save(tx, changes.collect()).await
}

/// Writes and publishes changed objects, with their history and their buildings' figures.
///
/// The transaction has locked the buildings of the objects for writing. The number of statements
/// does not depend on the number of objects.
pub async fn save(tx: &mut Tx, changes: Vec<ObjectChange>) -> Result<(), Error> {
    if changes.is_empty() {
        return Ok(());
    }
    free_external_ids(tx, &changes).await?;
    write(tx, &changes).await?;
    db::object_history::record(tx, &changes).await?;
    let buildings: BTreeSet<_> = changes.iter().map(|change| change.after.building_id).collect();
    db::building::renew_figures(tx, buildings.into_iter().collect()).await?;
    Ok(())
}

/// Removes the new external ids of changed objects from their former owners. A former owner is an
/// object of a deleted building, or an object in `changes` that loses or replaces its external id.
async fn free_external_ids(tx: &mut Tx, changes: &[ObjectChange]) -> Result<(), Error> {
    let external_ids: Vec<_> = changes.iter().filter_map(ObjectChange::new_external_id).collect();
    let Some(first) = changes.first().filter(|_| !external_ids.is_empty()) else { return Ok(()) };
    // These are all objects whose external id changes. Two of them may exchange their ids, so an
    // object can be the former owner of one id and the new owner of another one.
    let changed_owners = changes.iter().filter(|change| change.changes_external_id());
    let changed_owners: Vec<_> = changed_owners.map(|change| change.after.id).collect();
    Ok(db::property_object::free_external_ids(tx, first.after.tenant_id, &external_ids, &changed_owners)
        .await?)
}

/// Writes changed objects and publishes those with a new payload.
pub async fn write(tx: &mut Tx, changes: &[ObjectChange]) -> Result<(), Error> {
    db::property_object::write(tx, changes.iter().map(|change| &change.after)).await?;
    let published = changes.iter().filter(|change| change.changes_payload());
    let events: Vec<_> = published.map(|change| PropertyObjectUpserted::new(&change.after)).collect();
    outbox::append_all(tx, &events).await?;
    Ok(())
}
