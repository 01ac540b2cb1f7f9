//! What becomes of objects, by themselves or by what is above them, and what others are told of it.

use auth::CompanyId;
use diesel::pg::Pg;
use diesel::prelude::*;

use super::{BuildingId, BuildingName, ProjectId, ProjectName, PropertyObject};
use crate::db::schema::property_object;

/// What was told last of what is above an object, and whether it was there.
#[derive(Clone, Debug, PartialEq, Eq, Queryable, Selectable)]
#[diesel(table_name = property_object, check_for_backend(Pg))]
pub struct Told {
    #[diesel(column_name = told_project_name)]
    pub project_name: ProjectName,
    #[diesel(column_name = told_building_name)]
    pub building_name: BuildingName,
    #[diesel(column_name = told_is_live)]
    pub is_live: bool,
    #[diesel(column_name = told_is_public)]
    pub is_public: bool,
}

/// What is above an object, locked for reading.
#[derive(Clone, Debug)]
pub struct Above {
    pub tenant_id: CompanyId,
    pub project_id: ProjectId,
    pub project_name: ProjectName,
    pub building_id: BuildingId,
    pub building_name: BuildingName,
    /// None of it is deleted.
    pub is_live: bool,
    /// The developer and the project are Published.
    pub is_published: bool,
}

impl Above {
    /// What is told of it with an object that is there itself or is not.
    pub fn told(&self, is_there: bool) -> Told {
        let is_live = self.is_live && is_there;
        Told {
            project_name: self.project_name.clone(),
            building_name: self.building_name.clone(),
            is_live,
            is_public: is_live && self.is_published,
        }
    }
}

/// What became of an object.
#[derive(Clone, Debug)]
pub struct Change {
    before: Option<PropertyObject>,
    pub after: PropertyObject,
}

impl Change {
    /// An object that is new.
    pub fn made(new: PropertyObject) -> Self {
        Self { before: None, after: new }
    }

    /// An object that something has changed, with the version that this gives, and as it is told of from now on.
    pub fn of(before: PropertyObject, mut after: PropertyObject, above: &Above) -> Self {
        after.version = before.version + 1;
        after.told = above.told(after.is_live());
        Self { before: Some(before), after }
    }

    /// What changed above an object since it was told last; `None`: nothing did, or it is gone and that was told.
    pub fn above(object: PropertyObject, above: &Above) -> Option<Self> {
        let was_live = object.told.is_live;
        let change = Self::of(object.clone(), object, above);
        (change.is_told() && (was_live || change.after.told.is_live)).then_some(change)
    }

    /// Whether anything has changed that events tell of.
    pub fn is_told(&self) -> bool {
        self.before.as_ref().is_none_or(|before| before.telling() != self.after.telling())
    }

    /// INV-OBJ-3
    pub fn has_new_price(&self) -> bool {
        self.before.as_ref().is_none_or(|before| before.facts.price != self.after.facts.price)
    }
}

#[cfg(test)]
mod tests {
    use values::{Text, Whole};

    use super::{Above, Change};
    use crate::domain::property_object::tests::{NOW, above, facts};
    use crate::domain::{DealId, ObjectStatus, PropertyObject};

    /// Events: what tells is any change of the payload; every other raises the version alone.
    #[test]
    fn a_change_tells_if_the_payload_has_it() {
        let above = above();
        let object = PropertyObject::new(&above, facts("1", 1), None, NOW);
        let changed = |change: fn(&mut PropertyObject)| {
            let mut after = object.clone();
            change(&mut after);
            Change::of(object.clone(), after, &above)
        };
        assert!(changed(|object| object.facts.price.amount_minor = Whole::parse(2).unwrap()).is_told());
        assert!(changed(|object| object.status = ObjectStatus::Sold).is_told());
        assert!(changed(|object| object.remove(NOW)).is_told());
        for silent in [
            changed(|object| object.facts.section = Whole::parse(2).unwrap()),
            changed(|object| object.facts.position_on_floor = Whole::parse(2).unwrap()),
            changed(|object| object.facts.area_living = Some(object.facts.area_total)),
            changed(|object| object.hold_deal_id = Some(DealId::generate())),
        ] {
            assert!(!silent.is_told());
            assert_eq!(silent.after.version, 2);
        }
    }

    /// Events: a change above an object is told once, and one that was taken back not at all.
    #[test]
    fn what_changed_above_is_told_once() {
        let old = above();
        let object = PropertyObject::new(&old, facts("1", 1), None, NOW);
        assert!(Change::above(object.clone(), &old).is_none());
        let gone = Above { is_live: false, ..old.clone() };
        let told = Change::above(object.clone(), &gone).unwrap().after;
        assert_eq!(
            (told.version, told.told_status(), told.told.is_public),
            (2, ObjectStatus::Unavailable, false)
        );
        let renamed = Above { project_name: Text::parse("Ели").unwrap(), ..gone };
        assert!(Change::above(told, &renamed).is_none(), "what is gone has nothing above it");
        let hidden = Above { is_published: false, ..old };
        let told = Change::above(object, &hidden).unwrap().after;
        assert_eq!(
            (told.version, told.told_status(), told.told.is_public),
            (2, ObjectStatus::Available, false)
        );
        assert_eq!(told.updated_at, NOW, "the object itself did not change");
    }
}
