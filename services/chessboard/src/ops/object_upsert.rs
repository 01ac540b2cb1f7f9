//! Upserts of property objects by their external ids.

use std::collections::HashMap;

use ::db::Tx;
use auth::CompanyId;

use super::building::{invalid, lock_for_object_changes};
use super::property_object::save;
use crate::db;
use crate::domain::{
    Ancestors, Building, BuildingId, Edit, ExternalObject, KnownObjects, MAX_GRID_OBJECTS, ObjectChange,
    ObjectRefusal, Parent, PropertyObject, Upserted, upsert_object,
};
use crate::error::{BUILDING_NOT_FOUND, Error, PROJECT_NOT_FOUND, PROPERTY_OBJECTS_LIMIT_EXCEEDED};

/// Creates the object of an external id, or replaces its fields. Identical fields change nothing.
///
/// `object.expected` is the version that the caller has seen, 0 if the caller expects no such
/// object, or `None` for the version at the arrival of the request.
///
/// # Errors
/// - [`BUILDING_NOT_FOUND`] if the developer has no such live building.
/// - The refusals of [`upsert_object`].
/// - [`PROPERTY_OBJECTS_LIMIT_EXCEEDED`] if the building has [`MAX_GRID_OBJECTS`] live objects.
pub async fn upsert_property_object(
    tx: &mut Tx,
    tenant: CompanyId,
    building: Parent<BuildingId>,
    mut object: ExternalObject,
    edit: Edit,
) -> Result<Upserted<PropertyObject>, Error> {
    let found = match building {
        Parent::Id(id) => db::building::find(tx.conn(), tenant, id).await?,
        Parent::ExternalId(id) => db::building::look_up_by_external_id(tx.conn(), tenant, &id).await?,
    };
    let found = found.ok_or(BUILDING_NOT_FOUND)?;
    if object.expected.is_none() {
        let known = find_known(tx, &found, std::slice::from_ref(&object)).await?;
        let seen = known.find(&object.external_id, &object.facts.number).ok().flatten();
        object.expected = Some(seen.map_or(0, |seen| seen.version));
    }
    let locked = lock_for_object_changes(tx, tenant, found.project_id, found.id).await;
    let (mut building, ancestors) = locked.map_err(|error| {
        // The project was deleted after the building was read.
        if error.is(PROJECT_NOT_FOUND) { BUILDING_NOT_FOUND.into() } else { error }
    })?;
    let mut results = upsert_property_objects(tx, &mut building, &ancestors, vec![object], edit).await?;
    // One object has one result.
    results.remove(0).map_err(refusal_to_error)
}

fn refusal_to_error(refusal: ObjectRefusal) -> Error {
    match refusal {
        ObjectRefusal::Refused(code) => code.into(),
        ObjectRefusal::Invalid(errors) => invalid("", errors),
    }
}

/// Upserts objects of a locked building, and returns their results in the order of `objects`.
///
/// A refused object changes nothing and does not prevent the others. A new or restored object
/// beyond [`MAX_GRID_OBJECTS`] is refused with [`PROPERTY_OBJECTS_LIMIT_EXCEEDED`]. The external
/// ids and the numbers of `objects` are unique. The number of statements does not depend on the
/// number of objects.
///
/// # Errors
/// - [`EXTERNAL_ID_TAKEN`](crate::error::EXTERNAL_ID_TAKEN) if a concurrent transaction has given
///   an external id to an object of another building.
/// - [`CONFLICT`](crate::error::CONFLICT) if the building has another version than `building`.
pub async fn upsert_property_objects(
    tx: &mut Tx,
    building: &mut Building,
    ancestors: &Ancestors,
    objects: Vec<ExternalObject>,
    edit: Edit,
) -> Result<Vec<Result<Upserted<PropertyObject>, ObjectRefusal>>, Error> {
    let known = find_known(tx, building, &objects).await?;
    let removed = known.removed();
    let holds = if removed.is_empty() { HashMap::new() } else { db::claim::find_holds(tx, &removed).await? };
    // The lock of the building keeps this count exact.
    let live_count = db::property_object::count(tx.conn(), building.id).await.map_err(::db::Error::from)?;
    let mut free_count = MAX_GRID_OBJECTS.saturating_sub(usize::try_from(live_count).unwrap_or(usize::MAX));
    let mut changes = Vec::new();
    let results = objects.into_iter().map(|object| {
        let (upserted, change) = upsert_object(&known, object, &holds, building, ancestors, edit)?;
        if change.as_ref().is_some_and(ObjectChange::is_addition) {
            free_count = free_count.checked_sub(1).ok_or(PROPERTY_OBJECTS_LIMIT_EXCEEDED)?;
        }
        changes.extend(change);
        Ok(upserted)
    });
    let results = results.collect();
    if !changes.is_empty() {
        // All writers lock rows in the order of ids, so two of them cannot deadlock.
        changes.sort_unstable_by_key(|change| change.after.id);
        save(tx, changes).await?;
        building.updated_at = edit.at;
        db::building::save(tx, building).await?;
    }
    Ok(results)
}

async fn find_known(
    tx: &mut Tx,
    building: &Building,
    objects: &[ExternalObject],
) -> Result<KnownObjects, Error> {
    let external_ids: Vec<_> = objects.iter().map(|object| object.external_id.clone()).collect();
    let numbers: Vec<_> = objects.iter().map(|object| object.facts.number.clone()).collect();
    let (tenant, id) = (building.tenant_id, building.id);
    let found = db::property_object::find_for_upsert(tx.conn(), tenant, id, &external_ids, &numbers).await?;
    Ok(KnownObjects::new(id, found))
}
