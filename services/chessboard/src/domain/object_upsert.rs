//! Upserts of property objects by their external ids.

use std::collections::HashMap;

use values::{Code, Invalid};

use super::{
    Ancestors, Building, BuildingId, Edit, ExternalId, ExternalIdEdit, GridEntry, Hold, ObjectChange,
    ObjectFacts, ObjectNumber, ObjectStatus, PropertyObject, PropertyObjectId, Upserted,
};
use crate::error::{CONFLICT, EXTERNAL_ID_TAKEN, PROPERTY_OBJECT_HELD, PROPERTY_OBJECT_NUMBER_TAKEN};

/// An object as an external system sends it.
#[derive(Clone, Debug)]
pub struct ExternalObject {
    pub external_id: ExternalId,
    pub facts: ObjectFacts,
    /// `None` keeps the current status.
    pub status: Option<ObjectStatus>,
    /// The version that the object must have, 0 for a new object. `None` accepts every version.
    pub expected: Option<i64>,
}

/// The reason why an object is not upserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectRefusal {
    /// Members that contradict the stored building or object.
    Invalid(Vec<(&'static str, Invalid)>),
    Refused(Code),
}

impl From<Code> for ObjectRefusal {
    fn from(code: Code) -> Self {
        Self::Refused(code)
    }
}

/// The stored objects that an upsert into a building may concern.
#[derive(Debug)]
pub struct KnownObjects {
    building: BuildingId,
    objects: Vec<PropertyObject>,
    by_external_id: HashMap<ExternalId, usize>,
    by_number: HashMap<ObjectNumber, usize>,
}

impl KnownObjects {
    /// Indexes objects of the building, and objects of other buildings with an external id.
    pub fn new(building: BuildingId, objects: Vec<PropertyObject>) -> Self {
        let (mut by_external_id, mut by_number) = (HashMap::new(), HashMap::new());
        for (at, object) in objects.iter().enumerate() {
            if let Some(id) = &object.external_id {
                by_external_id.insert(id.clone(), at);
            }
            if object.building_id == building {
                by_number.insert(object.facts.number.clone(), at);
            }
        }
        Self { building, objects, by_external_id, by_number }
    }

    /// Returns the object with the external id, or else the object of the building that has the
    /// number and no external id. The latter can be a removed object.
    ///
    /// # Errors
    /// [`EXTERNAL_ID_TAKEN`] if an object of another building has the external id.
    pub fn find(&self, id: &ExternalId, number: &ObjectNumber) -> Result<Option<&PropertyObject>, Code> {
        match self.by_external_id.get(id).map(|at| &self.objects[*at]) {
            Some(named) if named.building_id == self.building => Ok(Some(named)),
            Some(_) => Err(EXTERNAL_ID_TAKEN),
            None => Ok(self.find_by_number(number).filter(|object| object.external_id.is_none())),
        }
    }

    /// Returns the object of the building with the external id.
    pub fn find_by_external_id(&self, id: &ExternalId) -> Option<&PropertyObject> {
        let named = self.by_external_id.get(id).map(|at| &self.objects[*at]);
        named.filter(|named| named.building_id == self.building)
    }

    /// Returns the ids of the removed objects.
    pub fn removed(&self) -> Vec<PropertyObjectId> {
        self.objects.iter().filter(|object| !object.is_live()).map(|object| object.id).collect()
    }

    fn find_by_number(&self, number: &ObjectNumber) -> Option<&PropertyObject> {
        self.by_number.get(number).map(|at| &self.objects[*at])
    }
}

/// Creates, changes or restores the object of an external id. The rules are those of an update of a
/// single object, not those of a grid.
///
/// A restored object is held if `holds` contains it. The change is `None` if nothing changed.
///
/// # Errors
/// - [`EXTERNAL_ID_TAKEN`] if an object of another building has the external id.
/// - [`ObjectRefusal::Invalid`] if the object would be outside the building, or if the status is
///   Booked and the object is not Booked.
/// - [`CONFLICT`] if something changes and the object does not have the expected version.
/// - [`PROPERTY_OBJECT_HELD`] if a deal holds the object and the status changes.
/// - [`PROPERTY_OBJECT_NUMBER_TAKEN`] if another object of the building has the number.
pub fn upsert_object(
    known: &KnownObjects,
    object: ExternalObject,
    holds: &HashMap<PropertyObjectId, Hold>,
    building: &Building,
    ancestors: &Ancestors,
    edit: Edit,
) -> Result<(Upserted<PropertyObject>, Option<ObjectChange>), ObjectRefusal> {
    let ExternalObject { external_id, facts, status, expected } = object;
    let found = known.find(&external_id, &facts.number)?;
    let is_number_taken = known
        .find_by_number(&facts.number)
        .is_some_and(|owner| found.is_none_or(|found| found.id != owner.id));
    let mut errors = building.facts.placement_errors(facts.section, facts.floor);
    if !PropertyObject::is_status_allowed(found, status) {
        errors.push(("Status", Invalid::new("given_by_deals")));
    }
    if !errors.is_empty() {
        return Err(ObjectRefusal::Invalid(errors));
    }
    let check_version = |version| match expected {
        Some(expected) if expected != version => Err(CONFLICT),
        _ => Ok(()),
    };
    let entry = GridEntry { facts, status, external_id: ExternalIdEdit::Set(Some(external_id)) };
    let Some(before) = found else {
        check_version(0)?;
        if is_number_taken {
            return Err(PROPERTY_OBJECT_NUMBER_TAKEN.into());
        }
        let change = ObjectChange::created(PropertyObject::new(ancestors, entry, edit));
        return Ok((Upserted::Created(change.after.clone()), Some(change)));
    };
    let mut after = before.clone();
    if !before.is_live() {
        after.restore(entry, holds.get(&before.id).copied(), edit);
    } else if !after.update(entry, edit) {
        return Ok((Upserted::Unchanged(after), None));
    }
    check_version(before.version)?;
    if before.is_held() && after.status != before.status {
        return Err(PROPERTY_OBJECT_HELD.into());
    }
    if is_number_taken {
        return Err(PROPERTY_OBJECT_NUMBER_TAKEN.into());
    }
    let change = ObjectChange::updated(before.clone(), after, ancestors);
    let after = change.after.clone();
    let upserted = if before.is_live() { Upserted::Updated(after) } else { Upserted::Created(after) };
    Ok((upserted, Some(change)))
}
