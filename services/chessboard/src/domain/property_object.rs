//! A property object: a flat or another unit that is for sale.

use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::{Currency, Decimal, Invalid, Text, Whole};

use super::{
    Ancestors, BuildingId, DealId, Edit, ExternalId, FileId, Floor, GridEntry, GridItem, Hold, ObjectStatus,
    Position, ProjectId, PropertyObjectId, PublishedState, Section,
};
use crate::schema::property_object;

pub type ObjectNumber = Text<1, 32>;
pub type Rooms = Whole<1, 20>;
/// An area in square metres.
pub type Area = Decimal<2, 1, 100_000_000>;

values::text_enum! {
    /// The kind of a property object.
    pub enum ObjectKind {
        Flat,
        Apartment,
        Parking,
        Storage,
        Commercial,
    }
}

values::text_enum! {
    /// The finishing of a property object.
    pub enum Finishing {
        None,
        PreFinish,
        Finished,
        Furnished,
    }
}

/// A price in minor units of its currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Queryable, Selectable, Serialize, Deserialize, ToSchema)]
#[diesel(table_name = property_object, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct Price {
    #[diesel(column_name = price)]
    pub amount_minor: Whole<1, 1_000_000_000_000_000>,
    #[schema(value_type = String, pattern = "^[A-Z]{3}$", examples("RUB"))]
    pub currency: Currency,
}

/// The fields of an object that managers write, without the status.
#[derive(Clone, Debug, PartialEq, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = property_object, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct ObjectFacts {
    pub number: ObjectNumber,
    pub kind: ObjectKind,
    pub section: Section,
    pub floor: Floor,
    pub position_on_floor: Position,
    pub rooms: Option<Rooms>,
    /// True for a home without a separate kitchen.
    pub is_studio: bool,
    pub area_total: Area,
    /// Living area in square metres.
    pub area_living: Option<Area>,
    /// Area of the kitchen in square metres.
    pub area_kitchen: Option<Area>,
    pub finishing: Finishing,
    #[diesel(embed)]
    pub price: Price,
    pub layout_file_id: Option<FileId>,
}

impl ObjectFacts {
    /// Returns an error for each field that contradicts another one or the catalog's currency.
    pub fn contradictions(&self, currency: Currency) -> Vec<(&'static str, Invalid)> {
        let is_home = matches!(self.kind, ObjectKind::Flat | ObjectKind::Apartment);
        let is_part = |part: Option<Area>| part.is_none_or(|part| part <= self.area_total);
        [
            (is_home || !self.is_studio, "IsStudio", "not_a_home"),
            (is_part(self.area_living), "AreaLiving", "out_of_bounds"),
            (is_part(self.area_kitchen), "AreaKitchen", "out_of_bounds"),
            (self.price.currency == currency, "Price/Currency", "unknown_value"),
        ]
        .into_iter()
        .filter(|(is_consistent, ..)| !is_consistent)
        .map(|(_, member, code)| (member, Invalid::new(code)))
        .collect()
    }
}

/// The aggregate. It is also the database row and the response to the owning company.
#[derive(Clone, Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = property_object, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct PropertyObject {
    pub id: PropertyObjectId,
    pub building_id: BuildingId,
    #[serde(skip)]
    pub project_id: ProjectId,
    pub tenant_id: CompanyId,
    /// Id in another system of the company.
    pub external_id: Option<ExternalId>,
    #[serde(flatten)]
    #[diesel(embed)]
    pub facts: ObjectFacts,
    pub status: ObjectStatus,
    /// The status that a user set last. A released object returns to it.
    #[serde(skip)]
    pub own_status: ObjectStatus,
    /// The deal that holds the object.
    pub hold_deal_id: Option<DealId>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
    /// The user who changed the object last. Null after a change by a deal.
    pub updated_by_user_id: Option<UserId>,
    /// The current version, for `Version` in a change.
    pub version: i64,
    #[serde(skip)]
    pub removed_at: Option<OffsetDateTime>,
    #[serde(skip)]
    #[diesel(embed)]
    pub published: PublishedState,
}

impl PropertyObject {
    /// Creates an object, by default Available.
    pub fn new(ancestors: &Ancestors, entry: GridEntry, edit: Edit) -> Self {
        let status = entry.status.unwrap_or(ObjectStatus::Available);
        Self {
            id: PropertyObjectId::generate(),
            building_id: ancestors.building_id,
            project_id: ancestors.project_id,
            tenant_id: ancestors.tenant_id,
            external_id: entry.external_id.apply(None),
            facts: entry.facts,
            status,
            own_status: status,
            hold_deal_id: None,
            created_at: edit.at,
            updated_at: edit.at,
            updated_by_user_id: edit.by,
            version: 1,
            removed_at: None,
            published: ancestors.published_state(true),
        }
    }

    pub fn is_live(&self) -> bool {
        self.removed_at.is_none()
    }

    /// Returns true if a deal holds the object, so that only deals change its status (INV-OBJ-2).
    pub fn is_held(&self) -> bool {
        self.hold_deal_id.is_some()
    }

    /// Returns true if a user may send this status. Booked is allowed for a Booked object only.
    pub fn is_status_allowed(object: Option<&Self>, status: Option<ObjectStatus>) -> bool {
        let is_booked =
            object.is_some_and(|object| object.is_live() && object.status == ObjectStatus::Booked);
        is_booked || status != Some(ObjectStatus::Booked)
    }

    /// Replaces the fields that managers write. Returns false if nothing changed.
    pub fn update(&mut self, entry: GridEntry, edit: Edit) -> bool {
        let GridEntry { facts, status, external_id } = entry;
        let status = status.unwrap_or(self.status);
        let external_id = external_id.apply(self.external_id.clone());
        if self.facts == facts && self.status == status && self.external_id == external_id {
            return false;
        }
        (self.facts, self.status, self.external_id) = (facts, status, external_id);
        if !self.is_held() {
            self.own_status = status;
        }
        self.touch(edit);
        true
    }

    /// Removes the object from the grid, which frees its external id.
    pub fn remove(&mut self, edit: Edit) {
        self.removed_at = Some(edit.at);
        self.external_id = None;
        self.touch(edit);
    }

    /// Restores a removed object, held by `hold` if there is one.
    pub fn restore(&mut self, entry: GridEntry, hold: Option<Hold>, edit: Edit) {
        self.facts = entry.facts;
        self.external_id = entry.external_id.apply(None);
        self.own_status = entry.status.unwrap_or(ObjectStatus::Available);
        self.status = self.own_status;
        self.removed_at = None;
        self.touch(edit);
        self.apply_hold(hold, edit);
    }

    /// Sets or clears the hold, and the status with it. Returns false if nothing changed.
    pub fn apply_hold(&mut self, hold: Option<Hold>, edit: Edit) -> bool {
        let (status, deal) =
            hold.map_or((self.own_status, None), |Hold { deal_id, status }| (status, Some(deal_id)));
        if (self.status, self.hold_deal_id) == (status, deal) {
            return false;
        }
        (self.status, self.hold_deal_id) = (status, deal);
        self.touch(edit);
        true
    }

    fn touch(&mut self, edit: Edit) {
        (self.updated_at, self.updated_by_user_id) = (edit.at, edit.by);
    }

    /// Returns the status in the grid, or `None` for a removed object.
    pub fn grid_status(&self) -> Option<ObjectStatus> {
        self.is_live().then_some(self.status)
    }

    /// Returns the status in events, where a removed object is Unavailable.
    pub fn published_status(&self) -> ObjectStatus {
        if self.published.is_live { self.status } else { ObjectStatus::Unavailable }
    }

    /// Returns the event's payload without the version, for comparisons.
    pub fn published_payload(&self) -> impl PartialEq + '_ {
        let facts = &self.facts;
        (
            (&facts.number, facts.kind, facts.rooms, facts.is_studio, facts.floor, facts.area_total),
            (facts.finishing, facts.price, facts.layout_file_id, self.published_status(), &self.published),
        )
    }
}

impl GridItem for PropertyObject {
    fn section(&self) -> i64 {
        self.facts.section.get()
    }

    fn floor(&self) -> i64 {
        self.facts.floor.get()
    }
}

#[cfg(test)]
pub mod tests {
    use auth::CompanyId;
    use proptest::prelude::*;
    use time::OffsetDateTime;
    use values::{Currency, Text, Whole};

    use super::{Area, Finishing, ObjectFacts, ObjectKind, ObjectStatus, Price, PropertyObject};
    use crate::domain::{Ancestors, BuildingId, DealId, Edit, ExternalIdEdit, GridEntry, Hold, ProjectId};

    pub const NOW: Edit = Edit { at: OffsetDateTime::UNIX_EPOCH, by: None };

    pub fn ancestors() -> Ancestors {
        Ancestors {
            tenant_id: CompanyId::generate(),
            project_id: ProjectId::generate(),
            project_name: Text::parse("Сосны").unwrap(),
            building_id: BuildingId::generate(),
            building_name: Text::parse("1").unwrap(),
            is_live: true,
            is_published: true,
        }
    }

    pub fn facts(number: &str, price: i64) -> ObjectFacts {
        ObjectFacts {
            number: Text::parse(number).unwrap(),
            kind: ObjectKind::Flat,
            section: Whole::parse(1).unwrap(),
            floor: Whole::parse(1).unwrap(),
            position_on_floor: Whole::parse(1).unwrap(),
            rooms: None,
            is_studio: false,
            area_total: Area::from_units(4_500).unwrap(),
            area_living: None,
            area_kitchen: None,
            finishing: Finishing::None,
            price: Price { amount_minor: Whole::parse(price).unwrap(), currency: Currency::RUB },
            layout_file_id: None,
        }
    }

    pub fn entry(number: &str, price: i64, status: Option<ObjectStatus>) -> GridEntry {
        GridEntry { facts: facts(number, price), status, external_id: ExternalIdEdit::Keep }
    }

    /// The statuses that a user may set.
    pub fn user_statuses() -> impl Strategy<Value = ObjectStatus> {
        use ObjectStatus::{Available, Reserved, Sold, Unavailable};
        prop_oneof![Just(Available), Just(Reserved), Just(Sold), Just(Unavailable)]
    }

    /// A step in the history of an object.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        SetStatus(ObjectStatus),
        Hold { deal: u8, is_sale: bool },
        Release,
    }

    proptest! {
        /// INV-OBJ-2: a released object returns to the status that a user set last, regardless of
        /// the holds in between.
        #[test]
        fn released_object_returns_to_user_status(steps in prop::collection::vec(prop_oneof![
            user_statuses().prop_map(Step::SetStatus),
            (0_u8..3, any::<bool>()).prop_map(|(deal, is_sale)| Step::Hold { deal, is_sale }),
            Just(Step::Release),
        ], 0..12)) {
            let deals = [DealId::generate(), DealId::generate(), DealId::generate()];
            let mut object = PropertyObject::new(&ancestors(), entry("1", 1, None), NOW);
            let mut user_status = ObjectStatus::Available;
            for step in steps {
                match step {
                    Step::SetStatus(status) if !object.is_held() => {
                        object.update(entry("1", 1, Some(status)), NOW);
                        user_status = status;
                    }
                    Step::SetStatus(_) => {}
                    Step::Hold { deal, is_sale } => {
                        let status = if is_sale { ObjectStatus::Sold } else { ObjectStatus::Booked };
                        object.apply_hold(Some(Hold { deal_id: deals[usize::from(deal)], status }), NOW);
                        prop_assert_eq!(object.status, status);
                    }
                    Step::Release => {
                        object.apply_hold(None, NOW);
                        prop_assert_eq!(object.status, user_status);
                    }
                }
                prop_assert_eq!(object.own_status, user_status);
            }
        }
    }

    /// RULE-CHS-026: contradicting fields of an object are reported by name.
    #[test]
    fn contradicting_object_fields_are_reported() {
        let errors = |change: fn(&mut ObjectFacts)| {
            let mut facts = facts("1", 1);
            change(&mut facts);
            let errors = facts.contradictions(Currency::RUB).into_iter();
            errors.map(|(member, invalid)| format!("{member} {}", invalid.code)).collect::<Vec<_>>()
        };
        assert!(errors(|_| {}).is_empty());
        assert!(errors(|facts| (facts.kind, facts.is_studio) = (ObjectKind::Apartment, true)).is_empty());
        assert!(errors(|facts| facts.area_living = Some(facts.area_total)).is_empty());
        assert_eq!(
            errors(|facts| (facts.kind, facts.is_studio) = (ObjectKind::Parking, true)),
            ["IsStudio not_a_home"]
        );
        assert_eq!(
            errors(|facts| facts.area_kitchen = Area::from_units(4_501).ok()),
            ["AreaKitchen out_of_bounds"]
        );
        assert_eq!(
            errors(|facts| facts.price.currency = "USD".parse().unwrap()),
            ["Price/Currency unknown_value"]
        );
    }

    /// RULE-CHS-026: Booked is accepted for a Booked object only.
    #[test]
    fn booked_is_allowed_for_booked_object_only() {
        let mut object = PropertyObject::new(&ancestors(), entry("1", 1, None), NOW);
        let is_allowed =
            |object: Option<&PropertyObject>, status| PropertyObject::is_status_allowed(object, Some(status));
        assert!(!is_allowed(None, ObjectStatus::Booked) && !is_allowed(Some(&object), ObjectStatus::Booked));
        assert!(is_allowed(None, ObjectStatus::Sold) && PropertyObject::is_status_allowed(None, None));
        object.apply_hold(Some(Hold { deal_id: DealId::generate(), status: ObjectStatus::Booked }), NOW);
        assert!(is_allowed(Some(&object), ObjectStatus::Booked));
        object.apply_hold(None, NOW);
        object.remove(NOW);
        assert!(!is_allowed(Some(&object), ObjectStatus::Booked));
    }
}
