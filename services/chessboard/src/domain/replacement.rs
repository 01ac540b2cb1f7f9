//! A building's grid, replaced whole.

use std::collections::HashMap;

use time::OffsetDateTime;

use super::{Above, Change, Hold, ObjectFacts, ObjectNumber, ObjectStatus, PropertyObject, PropertyObjectId};

/// An object as a grid lists it.
#[derive(Clone, Debug)]
pub struct Entry {
    pub facts: ObjectFacts,
    pub status: Option<ObjectStatus>,
}

/// What a grid makes of the objects of its building.
#[derive(Debug, Default)]
pub struct Replacement {
    /// Those that were not there before, whether they are new or come back.
    pub created: usize,
    pub updated: usize,
    pub unchanged: usize,
    pub removed: usize,
    /// The numbers of those that deals hold: they are left as they are.
    pub kept: Vec<ObjectNumber>,
    pub changes: Vec<Change>,
}

/// Replaces the objects of a building by those of a grid, in which each number is there once. `standing` are those that
/// are live and those that were removed and are listed, which come back as `holds` has them.
pub fn replace(
    standing: Vec<PropertyObject>,
    entries: Vec<Entry>,
    holds: &HashMap<PropertyObjectId, Hold>,
    above: &Above,
    now: OffsetDateTime,
) -> Replacement {
    let mut replaced = Replacement::default();
    let by_number = standing.into_iter().map(|object| (object.facts.number.clone(), object));
    let mut standing: HashMap<ObjectNumber, PropertyObject> = by_number.collect();
    for Entry { facts, status } in entries {
        match standing.remove(&facts.number) {
            None => {
                replaced.created += 1;
                replaced.changes.push(Change::made(PropertyObject::new(above, facts, status, now)));
            }
            Some(object) if object.is_held() => replaced.kept.push(object.facts.number),
            Some(object) => {
                let mut after = object.clone();
                if !object.is_live() {
                    after.restore(facts, status, holds.get(&object.id).copied(), now);
                    replaced.created += 1;
                } else if after.describe(facts, status, now) {
                    replaced.updated += 1;
                } else {
                    replaced.unchanged += 1;
                    continue;
                }
                replaced.changes.push(Change::of(object, after, above));
            }
        }
    }
    for object in standing.into_values().filter(PropertyObject::is_live) {
        if object.is_held() {
            replaced.kept.push(object.facts.number);
        } else {
            let mut after = object.clone();
            after.remove(now);
            replaced.removed += 1;
            replaced.changes.push(Change::of(object, after, above));
        }
    }
    replaced.kept.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
    // In one order by all who write them, so that none of two waits for the other.
    replaced.changes.sort_unstable_by_key(|change| change.after.id);
    replaced
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use proptest::prelude::*;

    use super::{Entry, replace};
    use crate::domain::property_object::tests::{NOW, above, facts, statuses};
    use crate::domain::{Above, DealId, Hold, ObjectStatus, PropertyObject};

    /// By number: its price and status.
    fn grids() -> impl Strategy<Value = Vec<Entry>> {
        let entry = (1_i64..4, proptest::option::of(statuses()));
        let entries = prop::collection::btree_map(0_u8..6, entry, 0..6);
        entries.prop_map(|entries| {
            let entry = |(number, (price, status)): (u8, _)| Entry {
                facts: facts(&number.to_string(), price),
                status,
            };
            entries.into_iter().map(entry).collect()
        })
    }

    /// All that was ever there, by number.
    type Known = BTreeMap<String, PropertyObject>;

    /// Applies a grid, and answers whether it changed anything.
    fn apply(known: &mut Known, grid: &[Entry], above: &Above) -> bool {
        let standing: Vec<_> = known.values().cloned().collect();
        let replaced = replace(standing, grid.to_vec(), &HashMap::new(), above, NOW);
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
        /// Grid: what is there afterwards is what the grid lists, and what deals hold, exactly as it was. Ids and
        /// versions outlive removal and return (INV-OBJ-1). The same grid again changes nothing.
        #[test]
        fn a_building_is_what_its_last_grid_lists_and_what_deals_hold(
            grids in prop::collection::vec((grids(), proptest::option::of(0_u8..6)), 1..6),
        ) {
            let (above, mut known) = (above(), Known::new());
            for (grid, booked) in grids {
                if let Some(object) = booked.and_then(|number| known.get_mut(&number.to_string())).filter(|object| object.is_live()) {
                    object.follow(Some(Hold { deal_id: DealId::generate(), status: ObjectStatus::Booked }), NOW);
                }
                let before = known.clone();
                apply(&mut known, &grid, &above);
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
                prop_assert!(!apply(&mut known, &grid, &above), "the same again changed something");
            }
        }
    }

    /// Grid: what comes back comes back Available where nothing else is said, and held if a claim holds it.
    #[test]
    fn what_comes_back_is_available_or_held() {
        let above = above();
        let mut object = PropertyObject::new(&above, facts("1", 1), Some(ObjectStatus::Reserved), NOW);
        object.remove(NOW);
        let hold = Hold { deal_id: DealId::generate(), status: ObjectStatus::Sold };
        let back = |status, holds: &HashMap<_, _>| {
            let grid = vec![Entry { facts: facts("1", 1), status }];
            let replaced = replace(vec![object.clone()], grid, holds, &above, NOW);
            let after = replaced.changes[0].after.clone();
            (after.status, after.hold_deal_id, after.own_status)
        };
        let (free, claimed) = (HashMap::new(), HashMap::from([(object.id, hold)]));
        assert_eq!(back(None, &free), (ObjectStatus::Available, None, ObjectStatus::Available));
        assert_eq!(back(Some(ObjectStatus::Sold), &free), (ObjectStatus::Sold, None, ObjectStatus::Sold));
        assert_eq!(
            back(Some(ObjectStatus::Reserved), &claimed),
            (ObjectStatus::Sold, Some(hold.deal_id), ObjectStatus::Reserved)
        );
    }
}
