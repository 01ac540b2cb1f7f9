//! Tests of the plan of a building.

use std::collections::{BTreeMap, HashMap, HashSet};

use proptest::prelude::*;
use values::{Currency, Text, Whole};

use super::offer::FeedOffer;
use super::plan::{BuildingPlan, OfferOfBuilding, PlanContext, plan_building};
use crate::domain::property_object::tests::{NOW, ancestors, entry};
use crate::domain::{
    Ancestors, Area, Building, BuildingFacts, BuildingState, DealId, Edited, ExternalId, ExternalIdEdit,
    Hold, MAX_GRID_OBJECTS, ObjectKind, ObjectStatus, Price, PropertyObject, PropertyObjectId,
};

fn building(ancestors: &Ancestors, sections: i64) -> Building {
    let facts = BuildingFacts {
        name: Text::parse("1").unwrap(),
        sections_count: Whole::parse(sections).unwrap(),
        floors_total: Whole::literal::<10>(),
        state: BuildingState::Planned,
        ready_year: None,
        ready_quarter: None,
    };
    let fields = Edited { facts, external_id: ExternalIdEdit::Keep };
    let new = Building::new(ancestors.tenant_id, ancestors.project_id, fields, NOW.at);
    Building { id: ancestors.building_id, ..new }
}

fn offer(id: &str, number: Option<&str>, price: i64) -> OfferOfBuilding {
    OfferOfBuilding {
        position: 0,
        line: 1,
        external_id: ExternalId::parse(id).unwrap(),
        offer: FeedOffer {
            number: number.map(|number| Text::parse(number).unwrap()),
            kind: ObjectKind::Flat,
            section: None,
            floor: Whole::literal::<1>(),
            position_on_floor: None,
            rooms: None,
            is_studio: false,
            area_total: Area::literal::<4_500>(),
            area_living: None,
            area_kitchen: None,
            finishing: None,
            price: Price { amount_minor: Whole::parse(price).unwrap(), currency: Currency::RUB },
        },
    }
}

struct House {
    ancestors: Ancestors,
    building: Building,
    objects: BTreeMap<PropertyObjectId, PropertyObject>,
    kept: HashSet<PropertyObjectId>,
    rejected: HashSet<ExternalId>,
}

impl House {
    fn new(sections: i64) -> Self {
        let ancestors = ancestors();
        let building = building(&ancestors, sections);
        Self { ancestors, building, objects: BTreeMap::new(), kept: HashSet::new(), rejected: HashSet::new() }
    }

    fn add(&mut self, number: &str, status: ObjectStatus) -> PropertyObjectId {
        let object = PropertyObject::new(&self.ancestors, entry(number, 1, Some(status)), NOW);
        let id = object.id;
        self.objects.insert(id, object);
        id
    }

    fn plan(&self, offers: Vec<OfferOfBuilding>) -> BuildingPlan {
        let context = PlanContext {
            building: &self.building,
            ancestors: &self.ancestors,
            objects: self.objects.values().cloned().collect(),
            holds: &HashMap::new(),
            kept: &self.kept,
            rejected: &self.rejected,
            currency: Currency::RUB,
            edit: NOW,
        };
        plan_building(context, offers)
    }

    fn apply(&mut self, plan: &BuildingPlan) {
        for change in &plan.changes {
            self.objects.insert(change.after.id, change.after.clone());
        }
    }
}

fn problems(plan: &BuildingPlan) -> Vec<(&str, &str)> {
    plan.problems.iter().map(|problem| (problem.element, problem.code)).collect()
}

/// RULE-CHS-073: an object that is held, Booked or Sold stays unchanged, and so does one that no
/// offer names.
#[test]
fn sold_and_missing_objects_stay_unchanged() {
    let mut house = House::new(1);
    house.add("1", ObjectStatus::Sold);
    let booked = house.add("2", ObjectStatus::Available);
    let hold = Hold { deal_id: DealId::generate(), status: ObjectStatus::Booked };
    house.objects.get_mut(&booked).unwrap().apply_hold(Some(hold), NOW);
    house.add("3", ObjectStatus::Available);
    let reserved = house.add("4", ObjectStatus::Reserved);
    let offers = vec![offer("a", Some("1"), 9), offer("b", Some("2"), 9), offer("d", Some("4"), 9)];
    let plan = house.plan(offers);
    assert_eq!((plan.kept.len(), plan.missing.len(), plan.updated, plan.created), (2, 1, 1, 0));
    assert_eq!((plan.changes[0].after.id, plan.changes[0].after.status), (reserved, ObjectStatus::Reserved));
    assert!(plan.problems.is_empty());
}

/// RULE-CHS-073: an object that the preview lists as kept stays unchanged after its deal has ended.
#[test]
fn object_that_preview_kept_stays_unchanged() {
    let mut house = House::new(1);
    let free = house.add("1", ObjectStatus::Available);
    house.kept.insert(free);
    let plan = house.plan(vec![offer("a", Some("1"), 9)]);
    assert_eq!((plan.kept.len(), plan.changes.len(), plan.missing.len()), (1, 0, 0));
}

/// RULE-CHS-073: the object of a rejected offer is not missing.
#[test]
fn object_of_rejected_offer_is_not_missing() {
    let mut house = House::new(1);
    let plan = house.plan(vec![offer("a", Some("1"), 9), offer("b", Some("2"), 9)]);
    house.apply(&plan);
    house.rejected.insert(ExternalId::parse("a").unwrap());
    assert!(house.plan(vec![offer("b", Some("2"), 9)]).missing.is_empty());
    house.rejected.clear();
    assert_eq!(house.plan(vec![offer("b", Some("2"), 9)]).missing.len(), 1);
}

/// RULE-CHS-071: an offer that does not fit its building is rejected with its element.
#[test]
fn offer_that_does_not_fit_is_rejected() {
    let mut house = House::new(1);
    let plan = house.plan(vec![offer("a", Some("1"), 9)]);
    house.apply(&plan);
    let mut high = offer("high", Some("8"), 9);
    high.offer.floor = Whole::literal::<11>();
    let mut foreign = offer("foreign", Some("9"), 9);
    foreign.offer.price.currency = "USD".parse().unwrap();
    let plan = house.plan(vec![
        offer("new", None, 9),
        offer("b", Some("2"), 9),
        offer("c", Some("2"), 9),
        offer("d", Some("1"), 9),
        high,
        foreign,
    ]);
    assert_eq!(
        problems(&plan),
        [
            ("location/apartment", "required"),
            ("location/apartment", "duplicate"),
            ("location/apartment", "number_taken"),
            ("floor", "out_of_range"),
            ("price/currency", "unknown_value"),
        ]
    );
    assert_eq!(problems(&House::new(2).plan(vec![offer("a", Some("1"), 9)])), [("section", "required")]);
}

/// RULE-CHS-073: new objects without a position get the lowest free ones, and an offer without
/// a number keeps the number of its object.
#[test]
fn new_objects_get_free_positions() {
    let mut house = House::new(1);
    house.add("1", ObjectStatus::Available);
    let plan = house.plan(vec![offer("b", Some("2"), 9), offer("c", Some("3"), 9)]);
    let mut positions: Vec<_> =
        plan.changes.iter().map(|change| change.after.facts.position_on_floor.get()).collect();
    positions.sort_unstable();
    assert_eq!(positions, [2, 3]);
    house.apply(&plan);
    let plan = house.plan(vec![offer("b", None, 10), offer("c", Some("3"), 9)]);
    assert_eq!((plan.updated, plan.unchanged), (1, 1));
    assert_eq!(plan.changes[0].after.facts.number.as_str(), "2");
}

/// RULE-CHS-073: no offer adds a 5,001st live object, neither a new nor a restored one.
#[test]
fn offer_of_5001st_object_is_rejected() {
    let mut house = House::new(1);
    let removed = house.add("removed", ObjectStatus::Available);
    house.objects.get_mut(&removed).unwrap().remove(NOW);
    for number in 1..MAX_GRID_OBJECTS {
        house.add(&number.to_string(), ObjectStatus::Available);
    }
    let offers = vec![
        offer("a", Some("1"), 9),
        offer("b", Some("new"), 9),
        offer("c", Some("another"), 9),
        offer("d", Some("removed"), 9),
    ];
    let plan = house.plan(offers);
    assert_eq!((plan.created, plan.updated), (1, 1));
    assert_eq!(problems(&plan), [("offer", "too_many_objects"), ("offer", "too_many_objects")]);
}

/// RULE-CHS-073: a new object without a position does not get one that another offer names.
#[test]
fn new_object_gets_no_position_of_another_offer() {
    let mut placed = offer("c", Some("3"), 9);
    placed.offer.position_on_floor = Some(Whole::literal::<1>());
    let plan = House::new(1).plan(vec![offer("b", Some("2"), 9), placed]);
    let position = |number: &str| {
        let mut objects = plan.changes.iter().map(|change| &change.after.facts);
        objects.find(|facts| facts.number.as_str() == number).map(|facts| facts.position_on_floor.get())
    };
    assert_eq!((position("2"), position("3")), (Some(2), Some(1)));
}

proptest! {
    /// RULE-CHS-073: after a plan is applied, the same offers change nothing.
    #[test]
    fn reapplied_offers_change_nothing(
        stored in prop::collection::btree_set(0_u8..8, 0..6),
        offers in prop::collection::btree_map(0_u8..8, (0_u8..8, 1_i64..4), 0..8),
    ) {
        let mut house = House::new(1);
        for number in stored {
            house.add(&number.to_string(), ObjectStatus::Available);
        }
        let offers: Vec<_> = offers
            .into_iter()
            .map(|(id, (number, price))| offer(&format!("id-{id}"), Some(&number.to_string()), price))
            .collect();
        let first = house.plan(offers.clone());
        house.apply(&first);
        let second = house.plan(offers.clone());
        prop_assert!(second.changes.is_empty());
        prop_assert_eq!(
            first.created + first.updated + first.unchanged + first.problems.len() + first.kept.len(),
            offers.len()
        );
    }
}
