//! Changes of property objects and of their ancestors.

use super::{Ancestors, ExternalId, ObjectStatus, PropertyObject};

/// An object before and after a change.
#[derive(Clone, Debug)]
pub struct ObjectChange {
    before: Option<PropertyObject>,
    pub after: PropertyObject,
}

impl ObjectChange {
    /// Creates the change that adds a new object.
    pub fn created(new: PropertyObject) -> Self {
        Self { before: None, after: new }
    }

    /// Creates a change of an existing object, with the next version and the state to publish.
    pub fn updated(before: PropertyObject, mut after: PropertyObject, ancestors: &Ancestors) -> Self {
        after.version = before.version + 1;
        after.published = ancestors.published_state(after.is_live());
        Self { before: Some(before), after }
    }

    /// Creates the change that publishes the current state of an object's ancestors.
    ///
    /// Returns `None` if the published payload is up to date or the removal is published already.
    pub fn propagated(object: PropertyObject, ancestors: &Ancestors) -> Option<Self> {
        let was_live = object.published.is_live;
        let change = Self::updated(object.clone(), object, ancestors);
        (change.changes_payload() && (was_live || change.after.published.is_live)).then_some(change)
    }

    /// Returns the object before the change. `None` for a new object.
    pub fn before(&self) -> Option<&PropertyObject> {
        self.before.as_ref()
    }

    /// Returns true if the object is new or restored.
    pub fn is_addition(&self) -> bool {
        self.before.as_ref().is_none_or(|before| !before.is_live())
    }

    /// Returns true if the payload of the event changes.
    pub fn changes_payload(&self) -> bool {
        self.before.as_ref().is_none_or(|before| before.published_payload() != self.after.published_payload())
    }

    /// Returns the status in the grid before and after the change. `None` means outside the grid.
    pub fn statuses(&self) -> (Option<ObjectStatus>, Option<ObjectStatus>) {
        (self.before.as_ref().and_then(PropertyObject::grid_status), self.after.grid_status())
    }

    /// Returns the external id that the object gets with the change.
    pub fn new_external_id(&self) -> Option<&ExternalId> {
        self.after.external_id.as_ref().filter(|_| self.changes_external_id())
    }

    /// Returns true if the object gets another external id or loses its own.
    pub fn changes_external_id(&self) -> bool {
        let before = self.before.as_ref().and_then(|before| before.external_id.as_ref());
        before != self.after.external_id.as_ref()
    }

    /// Returns true if the price history needs a row (INV-OBJ-3).
    pub fn changes_price(&self) -> bool {
        self.before.as_ref().is_none_or(|before| before.facts.price != self.after.facts.price)
    }
}

#[cfg(test)]
mod tests {
    use values::{Text, Whole};

    use super::{Ancestors, ObjectChange};
    use crate::domain::property_object::tests::{NOW, ancestors, entry};
    use crate::domain::{DealId, Edit, GridItem, ObjectStatus, PropertyObject};

    /// RULE-CHS-029: a change of a payload field is published, and any other change raises the
    /// version only.
    #[test]
    fn object_change_outside_payload_raises_version_only() {
        let ancestors = ancestors();
        let object = PropertyObject::new(&ancestors, entry("1", 1, None), NOW);
        let changed = |change: fn(&mut PropertyObject)| {
            let mut after = object.clone();
            change(&mut after);
            ObjectChange::updated(object.clone(), after, &ancestors)
        };
        assert!(
            changed(|object| object.facts.price.amount_minor = Whole::parse(2).unwrap()).changes_payload()
        );
        assert!(changed(|object| object.status = ObjectStatus::Sold).changes_payload());
        assert!(changed(|object| object.remove(NOW)).changes_payload());
        for unpublished in [
            changed(|object| object.facts.section = Whole::parse(2).unwrap()),
            changed(|object| object.facts.position_on_floor = Whole::parse(2).unwrap()),
            changed(|object| object.facts.area_living = Some(object.facts.area_total)),
            changed(|object| object.hold_deal_id = Some(DealId::generate())),
        ] {
            assert!(!unpublished.changes_payload());
            assert_eq!(unpublished.after.version, 2);
        }
    }

    /// RULE-CHS-029: a change of the ancestors is published once. A change that was undone is not
    /// published.
    #[test]
    fn ancestor_change_is_published_once() {
        let old = ancestors();
        let object = PropertyObject::new(&old, entry("1", 1, None), NOW);
        assert!(ObjectChange::propagated(object.clone(), &old).is_none());
        let deleted = Ancestors { is_live: false, ..old.clone() };
        let after = ObjectChange::propagated(object.clone(), &deleted).unwrap().after;
        assert_eq!(
            (after.version, after.published_status(), after.published.is_public),
            (2, ObjectStatus::Unavailable, false)
        );
        let renamed = Ancestors { project_name: Text::parse("Ели").unwrap(), ..deleted };
        assert!(ObjectChange::propagated(after, &renamed).is_none(), "the removal is published already");
        let hidden = Ancestors { is_published: false, ..old };
        let after = ObjectChange::propagated(object, &hidden).unwrap().after;
        assert_eq!(
            (after.version, after.published_status(), after.published.is_public),
            (2, ObjectStatus::Available, false)
        );
        assert_eq!(after.updated_at, NOW.at, "the object itself did not change");
    }

    /// A change has the statuses in the grid, and another price needs a row of the history.
    #[test]
    fn change_has_its_statuses_and_its_price() {
        let ancestors = ancestors();
        let object = PropertyObject::new(&ancestors, entry("1", 1, None), NOW);
        let created = ObjectChange::created(object.clone());
        assert_eq!(created.statuses(), (None, Some(ObjectStatus::Available)));
        assert!(created.changes_price());
        let (mut removed, mut dearer) = (object.clone(), object.clone());
        let later = Edit { at: NOW.at + time::Duration::HOUR, by: Some(auth::UserId::generate()) };
        removed.remove(later);
        assert_eq!((removed.updated_at, removed.updated_by_user_id), (later.at, later.by));
        let removed = ObjectChange::updated(object.clone(), removed, &ancestors);
        assert_eq!(removed.statuses(), (Some(ObjectStatus::Available), None));
        assert!(!removed.changes_price());
        dearer.facts.price.amount_minor = Whole::parse(2).unwrap();
        dearer.facts.section = Whole::parse(3).unwrap();
        dearer.facts.floor = Whole::parse(7).unwrap();
        assert_eq!((dearer.section(), dearer.floor()), (3, 7));
        assert!(ObjectChange::updated(object, dearer, &ancestors).changes_price());
    }
}
