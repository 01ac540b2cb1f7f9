//! The replacement of a building's grid.

use std::collections::HashMap;

use super::{
    Ancestors, Edit, ExternalIdEdit, Hold, ObjectChange, ObjectFacts, ObjectNumber, ObjectStatus,
    PropertyObject, PropertyObjectId,
};

/// Maximum number of objects in a grid.
pub const MAX_GRID_OBJECTS: usize = 5000;

/// Maximum number of reported errors when a grid contradicts stored data.
pub const MAX_REPORTED_ERRORS: usize = 16;

/// An object as a grid lists it.
#[derive(Clone, Debug)]
pub struct GridEntry {
    pub facts: ObjectFacts,
    /// `None` keeps the current status.
    pub status: Option<ObjectStatus>,
    pub external_id: ExternalIdEdit,
}

/// The result of replacing a grid.
#[derive(Debug, Default)]
pub struct GridReplacement {
    /// Number of new and restored objects.
    pub created: usize,
    pub updated: usize,
    pub unchanged: usize,
    pub removed: usize,
    /// Numbers of the held objects, which stay as they are.
    pub kept: Vec<ObjectNumber>,
    pub changes: Vec<ObjectChange>,
}

/// Replaces the objects of a building by the entries of a grid, each with a unique number.
///
/// `existing` contains the live objects, and the removed objects whose numbers the grid lists. A
/// restored object is held if `holds` contains it.
pub fn replace_grid(
    existing: Vec<PropertyObject>,
    entries: Vec<GridEntry>,
    holds: &HashMap<PropertyObjectId, Hold>,
    ancestors: &Ancestors,
    edit: Edit,
) -> GridReplacement {
    let mut replaced = GridReplacement::default();
    let by_number = existing.into_iter().map(|object| (object.facts.number.clone(), object));
    let mut existing: HashMap<ObjectNumber, PropertyObject> = by_number.collect();
    for entry in entries {
        match existing.remove(&entry.facts.number) {
            None => {
                replaced.created += 1;
                let new = PropertyObject::new(ancestors, entry, edit);
                replaced.changes.push(ObjectChange::created(new));
            }
            Some(object) if object.is_held() => replaced.kept.push(object.facts.number),
            Some(object) => {
                let mut after = object.clone();
                if !object.is_live() {
                    after.restore(entry, holds.get(&object.id).copied(), edit);
                    replaced.created += 1;
                } else if after.update(entry, edit) {
                    replaced.updated += 1;
                } else {
                    replaced.unchanged += 1;
                    continue;
                }
                replaced.changes.push(ObjectChange::updated(object, after, ancestors));
            }
        }
    }
    for object in existing.into_values().filter(PropertyObject::is_live) {
        if object.is_held() {
            replaced.kept.push(object.facts.number);
        } else {
            let mut after = object.clone();
            after.remove(edit);
            replaced.removed += 1;
            replaced.changes.push(ObjectChange::updated(object, after, ancestors));
        }
    }
    replaced.kept.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
    // All writers lock rows in the order of ids, so two of them cannot deadlock.
    replaced.changes.sort_unstable_by_key(|change| change.after.id);
    replaced
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use proptest::prelude::*;

    use super::{GridEntry, replace_grid};
    use crate::domain::property_object::tests::{NOW, ancestors, entry, user_statuses};
    use crate::domain::{Ancestors, DealId, Hold, ObjectStatus, PropertyObject};

    /// Grids with a random price and status for each number.
    fn grids() -> impl Strategy<Value = Vec<GridEntry>> {
        let price_and_status = (1_i64..4, proptest::option::of(user_statuses()));
        let entries = prop::collection::btree_map(0_u8..6, price_and_status, 0..6);
        entries.prop_map(|entries| {
            let to_entry = |(number, (price, status)): (u8, _)| entry(&number.to_string(), price, status);
            entries.into_iter().map(to_entry).collect()
        })
    }

    /// All objects, removed ones included, by number.
    type Known = BTreeMap<String, PropertyObject>;

    /// Applies a grid. Returns true if it changed anything.
    fn apply(known: &mut Known, grid: &[GridEntry], ancestors: &Ancestors) -> bool {
        let existing: Vec<_> = known.values().cloned().collect();
        let replaced = replace_grid(existing, grid.to_vec(), &HashMap::new(), ancestors, NOW);
        let changed = !replaced.changes.is_empty();
        let live = |known: &Known| known.values().filter(|object| object.is_live()).count();
        let before = live(known);
        for change in replaced.changes {
            known.insert(change.after.facts.number.as_str().to_owned(), change.after);
        }
        assert_eq!(live(known), before + replaced.created - replaced.removed);
        let listed_and_held = grid
            .iter()
            .filter(|entry| known.get(entry.facts.number.as_str()).is_some_and(PropertyObject::is_held));
        assert_eq!(
            replaced.created + replaced.updated + replaced.unchanged + listed_and_held.count(),
            grid.len()
        );
        changed
    }

    proptest! {
        /// RULE-CHS-026, INV-OBJ-1: a building contains the objects of its last grid, and the held
        /// objects unchanged. A restored object keeps its id, and its version grows.
        #[test]
        fn building_contains_last_grid_and_held_objects(
            grids in prop::collection::vec((grids(), proptest::option::of(0_u8..6)), 1..6),
        ) {
            let (ancestors, mut known) = (ancestors(), Known::new());
            for (grid, booked) in grids {
                if let Some(object) = booked.and_then(|number| known.get_mut(&number.to_string())).filter(|object| object.is_live()) {
                    object.apply_hold(Some(Hold { deal_id: DealId::generate(), status: ObjectStatus::Booked }), NOW);
                }
                let before = known.clone();
                apply(&mut known, &grid, &ancestors);
                for (number, old) in &before {
                    let new = &known[number];
                    prop_assert_eq!(new.id, old.id);
                    prop_assert!(new.version >= old.version);
                    if old.is_held() {
                        prop_assert_eq!(
                            (&new.facts, new.status, new.version, new.is_live()),
                            (&old.facts, old.status, old.version, true)
                        );
                    }
                }
                for object in known.values().filter(|object| !object.is_held()) {
                    let listed = grid.iter().find(|entry| entry.facts.number == object.facts.number);
                    prop_assert_eq!(object.is_live(), listed.is_some());
                    if let Some(entry) = listed {
                        prop_assert_eq!(&object.facts, &entry.facts);
                        prop_assert!(entry.status.is_none_or(|status| status == object.status));
                    }
                }
                prop_assert!(!apply(&mut known, &grid, &ancestors), "an identical grid changed something");
            }
        }
    }

    /// RULE-CHS-026: a restored object has the sent status or is Available, and is held if a claim
    /// holds it.
    #[test]
    fn returned_object_is_available_or_held() {
        let ancestors = ancestors();
        let mut object = PropertyObject::new(&ancestors, entry("1", 1, Some(ObjectStatus::Reserved)), NOW);
        object.remove(NOW);
        let hold = Hold { deal_id: DealId::generate(), status: ObjectStatus::Sold };
        let restore = |status, holds: &HashMap<_, _>| {
            let grid = vec![entry("1", 1, status)];
            let replaced = replace_grid(vec![object.clone()], grid, holds, &ancestors, NOW);
            let after = replaced.changes[0].after.clone();
            (after.status, after.hold_deal_id, after.own_status)
        };
        let (free, claimed) = (HashMap::new(), HashMap::from([(object.id, hold)]));
        assert_eq!(restore(None, &free), (ObjectStatus::Available, None, ObjectStatus::Available));
        assert_eq!(restore(Some(ObjectStatus::Sold), &free), (ObjectStatus::Sold, None, ObjectStatus::Sold));
        assert_eq!(
            restore(Some(ObjectStatus::Reserved), &claimed),
            (ObjectStatus::Sold, Some(hold.deal_id), ObjectStatus::Reserved)
        );
    }
}
