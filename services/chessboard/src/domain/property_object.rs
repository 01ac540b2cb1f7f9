//! A property object: a flat, or whatever else is sold one by one.

use auth::CompanyId;
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::{Currency, Decimal, Invalid, Text, Whole};

use super::{Above, BuildingId, DealId, FileId, Hold, Placed, ProjectId, PropertyObjectId, Told};
use crate::db::schema::property_object;

pub type ObjectNumber = Text<1, 32>;
pub type Section = Whole<1, 100>;
pub type Floor = Whole<-10, 200>;
pub type Position = Whole<1, 1000>;
pub type Rooms = Whole<1, 20>;
/// In square metres.
pub type Area = Decimal<2, 1, 100_000_000>;

values::text_enum! {
    /// What an object is.
    pub enum ObjectKind {
        Flat,
        Apartment,
        Parking,
        Storage,
        Commercial,
    }
}

values::text_enum! {
    /// How an object is finished.
    pub enum Finishing {
        None,
        PreFinish,
        Finished,
        Furnished,
    }
}

values::text_enum! {
    /// Booked is given by deals alone.
    pub enum ObjectStatus {
        Available,
        Reserved,
        Booked,
        Sold,
        Unavailable,
    }
}

/// A price, in the minor units of its currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Queryable, Selectable, Serialize, Deserialize, ToSchema)]
#[diesel(table_name = property_object, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct Price {
    #[diesel(column_name = price)]
    pub amount_minor: Whole<1, 1_000_000_000_000_000>,
    #[schema(value_type = String, pattern = "^[A-Z]{3}$", examples("RUB"))]
    pub currency: Currency,
}

/// What an object is described by, beside its status.
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
    pub is_studio: bool,
    pub area_total: Area,
    pub area_living: Option<Area>,
    pub area_kitchen: Option<Area>,
    pub finishing: Finishing,
    #[diesel(embed)]
    pub price: Price,
    pub layout_file_id: Option<FileId>,
}

impl ObjectFacts {
    /// What of them does not go together, whatever building they are for.
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
        .filter(|(holds, ..)| !holds)
        .map(|(_, member, code)| (member, Invalid::new(code)))
        .collect()
    }
}

/// The aggregate, which is also its row and, for the company that owns it, its answer.
#[derive(Clone, Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = property_object, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct PropertyObject {
    pub id: PropertyObjectId,
    pub building_id: BuildingId,
    #[serde(skip)]
    pub project_id: ProjectId,
    pub tenant_id: CompanyId,
    #[serde(flatten)]
    #[diesel(embed)]
    pub facts: ObjectFacts,
    pub status: ObjectStatus,
    /// What a person gave last: what it returns to when no deal holds it any more.
    #[serde(skip)]
    pub own_status: ObjectStatus,
    /// The deal by which it is Booked or Sold.
    pub hold_deal_id: Option<DealId>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
    /// For `Version` of the next change.
    pub version: i64,
    #[serde(skip)]
    pub removed_at: Option<OffsetDateTime>,
    #[serde(skip)]
    #[diesel(embed)]
    pub told: Told,
}

impl PropertyObject {
    pub fn new(above: &Above, facts: ObjectFacts, status: Option<ObjectStatus>, now: OffsetDateTime) -> Self {
        let status = status.unwrap_or(ObjectStatus::Available);
        Self {
            id: PropertyObjectId::generate(),
            building_id: above.building_id,
            project_id: above.project_id,
            tenant_id: above.tenant_id,
            facts,
            status,
            own_status: status,
            hold_deal_id: None,
            created_at: now,
            updated_at: now,
            version: 1,
            removed_at: None,
            told: above.told(true),
        }
    }

    pub fn is_live(&self) -> bool {
        self.removed_at.is_none()
    }

    /// INV-OBJ-2
    pub fn is_held(&self) -> bool {
        self.hold_deal_id.is_some()
    }

    /// Whether a person may send this status for it: Booked where it is Booked, and any other.
    pub fn may_be_sent(object: Option<&Self>, status: Option<ObjectStatus>) -> bool {
        let is_booked =
            object.is_some_and(|object| object.is_live() && object.status == ObjectStatus::Booked);
        is_booked || status != Some(ObjectStatus::Booked)
    }

    /// Replaces what it is described by; without a status it stays in its own. `false`: that changed nothing.
    pub fn describe(
        &mut self,
        facts: ObjectFacts,
        status: Option<ObjectStatus>,
        now: OffsetDateTime,
    ) -> bool {
        let status = status.unwrap_or(self.status);
        if self.facts == facts && self.status == status {
            return false;
        }
        self.facts = facts;
        self.status = status;
        if !self.is_held() {
            self.own_status = status;
        }
        self.updated_at = now;
        true
    }

    pub fn remove(&mut self, now: OffsetDateTime) {
        self.removed_at = Some(now);
        self.updated_at = now;
    }

    /// Brings it back from removal, held where a claim holds it.
    pub fn restore(
        &mut self,
        facts: ObjectFacts,
        status: Option<ObjectStatus>,
        hold: Option<Hold>,
        now: OffsetDateTime,
    ) {
        self.facts = facts;
        self.own_status = status.unwrap_or(ObjectStatus::Available);
        self.status = self.own_status;
        self.removed_at = None;
        self.updated_at = now;
        self.follow(hold, now);
    }

    /// Is held by this, or by nothing any more. `false`: it was so already.
    pub fn follow(&mut self, hold: Option<Hold>, now: OffsetDateTime) -> bool {
        let (status, deal) =
            hold.map_or((self.own_status, None), |Hold { deal_id, status }| (status, Some(deal_id)));
        if (self.status, self.hold_deal_id) == (status, deal) {
            return false;
        }
        (self.status, self.hold_deal_id) = (status, deal);
        self.updated_at = now;
        true
    }

    /// As events have it: what is gone is Unavailable.
    pub fn told_status(&self) -> ObjectStatus {
        if self.told.is_live { self.status } else { ObjectStatus::Unavailable }
    }

    /// All that events tell of it but its version.
    pub fn telling(&self) -> impl PartialEq + '_ {
        let facts = &self.facts;
        (
            (&facts.number, facts.kind, facts.rooms, facts.is_studio, facts.floor, facts.area_total),
            (facts.finishing, facts.price, facts.layout_file_id, self.told_status(), &self.told),
        )
    }
}

impl Placed for PropertyObject {
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
    use time::{Duration, OffsetDateTime};
    use values::{Currency, Text, Whole};

    use super::{Area, Finishing, ObjectFacts, ObjectKind, ObjectStatus, Price, PropertyObject};
    use crate::domain::{Above, BuildingId, DealId, Hold, ProjectId};

    pub const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    pub fn above() -> Above {
        Above {
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
            area_total: Area::of_units(4_500).unwrap(),
            area_living: None,
            area_kitchen: None,
            finishing: Finishing::None,
            price: Price { amount_minor: Whole::parse(price).unwrap(), currency: Currency::RUB },
            layout_file_id: None,
        }
    }

    pub fn statuses() -> impl Strategy<Value = ObjectStatus> {
        use ObjectStatus::{Available, Reserved, Sold, Unavailable};
        prop_oneof![Just(Available), Just(Reserved), Just(Sold), Just(Unavailable)]
    }

    /// What may happen to an object.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Given(ObjectStatus),
        Held(u8, bool),
        Released,
    }

    proptest! {
        /// Section 4: what a deal held returns to the status that a person gave last, whoever held it meanwhile.
        #[test]
        fn what_is_released_is_as_a_person_left_it(steps in prop::collection::vec(prop_oneof![
            statuses().prop_map(Step::Given),
            (0_u8..3, any::<bool>()).prop_map(|(deal, sells)| Step::Held(deal, sells)),
            Just(Step::Released),
        ], 0..12)) {
            let deals = [DealId::generate(), DealId::generate(), DealId::generate()];
            let mut object = PropertyObject::new(&above(), facts("1", 1), None, NOW);
            let mut given = ObjectStatus::Available;
            for step in steps {
                match step {
                    Step::Given(status) if !object.is_held() => {
                        object.describe(facts("1", 1), Some(status), NOW);
                        given = status;
                    }
                    Step::Given(_) => {}
                    Step::Held(deal, sells) => {
                        let status = if sells { ObjectStatus::Sold } else { ObjectStatus::Booked };
                        object.follow(Some(Hold { deal_id: deals[usize::from(deal)], status }), NOW);
                        prop_assert_eq!(object.status, status);
                    }
                    Step::Released => {
                        object.follow(None, NOW);
                        prop_assert_eq!(object.status, given);
                    }
                }
                prop_assert_eq!(object.own_status, given);
            }
        }
    }

    #[test]
    fn what_does_not_go_together_is_named() {
        let told = |change: fn(&mut ObjectFacts)| {
            let mut facts = facts("1", 1);
            change(&mut facts);
            let told = facts.contradictions(Currency::RUB).into_iter();
            told.map(|(member, invalid)| format!("{member} {}", invalid.code)).collect::<Vec<_>>()
        };
        assert!(told(|_| {}).is_empty());
        assert!(told(|facts| (facts.kind, facts.is_studio) = (ObjectKind::Apartment, true)).is_empty());
        assert!(told(|facts| facts.area_living = Some(facts.area_total)).is_empty());
        assert_eq!(
            told(|facts| (facts.kind, facts.is_studio) = (ObjectKind::Parking, true)),
            ["IsStudio not_a_home"]
        );
        assert_eq!(
            told(|facts| facts.area_kitchen = Area::of_units(4_501).ok()),
            ["AreaKitchen out_of_bounds"]
        );
        assert_eq!(
            told(|facts| facts.price.currency = "USD".parse().unwrap()),
            ["Price/Currency unknown_value"]
        );
    }

    #[test]
    fn booked_is_sent_for_what_is_booked_alone() {
        let mut object = PropertyObject::new(&above(), facts("1", 1), None, NOW);
        let sent =
            |object: Option<&PropertyObject>, status| PropertyObject::may_be_sent(object, Some(status));
        assert!(!sent(None, ObjectStatus::Booked) && !sent(Some(&object), ObjectStatus::Booked));
        assert!(sent(None, ObjectStatus::Sold) && PropertyObject::may_be_sent(None, None));
        object.follow(Some(Hold { deal_id: DealId::generate(), status: ObjectStatus::Booked }), NOW);
        assert!(sent(Some(&object), ObjectStatus::Booked));
        object.follow(None, NOW);
        object.remove(NOW + Duration::HOUR);
        assert!(!sent(Some(&object), ObjectStatus::Booked));
    }
}
