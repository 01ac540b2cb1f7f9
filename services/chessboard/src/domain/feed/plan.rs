//! The changes that the offers of a building make.

use std::collections::{HashMap, HashSet};

use values::Currency;

use super::offer::FeedOffer;
use crate::domain::{
    Ancestors, Area, Building, Edit, ExternalId, ExternalObject, Finishing, Floor, Hold, KnownObjects,
    ObjectChange, ObjectFacts, ObjectNumber, ObjectRefusal, ObjectStatus, Position, PropertyObject,
    PropertyObjectId, Section, Upserted, upsert_object,
};

/// An offer of a building.
#[derive(Clone, Debug)]
pub struct OfferOfBuilding {
    pub line: u64,
    pub external_id: ExternalId,
    pub offer: FeedOffer,
}

/// The reason why an offer does not fit its building.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanProblem {
    pub line: u64,
    pub external_id: ExternalId,
    pub element: &'static str,
    pub code: &'static str,
}

/// The result of comparing the offers of a building with its objects.
#[derive(Debug, Default)]
pub struct BuildingPlan {
    /// Number of new and restored objects.
    pub created: usize,
    pub updated: usize,
    pub unchanged: usize,
    pub changes: Vec<ObjectChange>,
    /// Objects that stay as they are, because they are held, Booked or Sold.
    pub kept: Vec<PropertyObject>,
    /// Live objects that no offer names. They stay as they are.
    pub missing: Vec<PropertyObject>,
    pub problems: Vec<PlanProblem>,
}

/// The objects of a building before an import, and what the import needs to know about them.
pub struct PlanContext<'c> {
    pub building: &'c Building,
    pub ancestors: &'c Ancestors,
    /// All live objects of the building, those removed ones whose numbers the offers have, and the
    /// objects of other buildings with their external ids.
    pub objects: Vec<PropertyObject>,
    pub holds: &'c HashMap<PropertyObjectId, Hold>,
    /// External ids of rejected offers, whose objects are not missing.
    pub rejected: &'c HashSet<ExternalId>,
    pub currency: Currency,
    pub edit: Edit,
}

/// Plans the changes of a building. The external ids of `offers` are unique.
///
/// An import changes no status: an offer says that an object is for sale, and deals and managers
/// know more.
pub fn plan_building(context: PlanContext<'_>, offers: Vec<OfferOfBuilding>) -> BuildingPlan {
    let id = context.building.id;
    let live = context.objects.iter().filter(|object| object.building_id == id && object.is_live());
    let live: Vec<_> = live.cloned().collect();
    let mut planner = Planner {
        known: KnownObjects::new(id, context.objects),
        places: Places::new(&live),
        numbers: HashSet::new(),
        named: HashSet::new(),
        plan: BuildingPlan::default(),
        building: context.building,
        ancestors: context.ancestors,
        holds: context.holds,
        currency: context.currency,
        edit: context.edit,
    };
    for OfferOfBuilding { line, external_id, offer } in offers {
        if let Err((element, code)) = planner.add(external_id.clone(), offer) {
            planner.plan.problems.push(PlanProblem { line, external_id, element, code });
        }
    }
    let Planner { named, mut plan, .. } = planner;
    let is_rejected =
        |object: &PropertyObject| object.external_id.as_ref().is_some_and(|id| context.rejected.contains(id));
    plan.missing =
        live.into_iter().filter(|object| !named.contains(&object.id) && !is_rejected(object)).collect();
    // All writers lock rows in the order of ids, so two of them cannot deadlock.
    plan.changes.sort_unstable_by_key(|change| change.after.id);
    plan
}

struct Planner<'c> {
    known: KnownObjects,
    places: Places,
    /// The numbers of the offers so far.
    numbers: HashSet<ObjectNumber>,
    /// The objects that the offers name.
    named: HashSet<PropertyObjectId>,
    plan: BuildingPlan,
    building: &'c Building,
    ancestors: &'c Ancestors,
    holds: &'c HashMap<PropertyObjectId, Hold>,
    currency: Currency,
    edit: Edit,
}

type Refusal = (&'static str, &'static str);

impl Planner<'_> {
    fn add(&mut self, external_id: ExternalId, offer: FeedOffer) -> Result<(), Refusal> {
        let number = match (&offer.number, self.known.find_named(&external_id)) {
            (Some(number), _) => number.clone(),
            (None, Some(named)) => named.facts.number.clone(),
            (None, None) => return Err(("location/apartment", "required")),
        };
        let found =
            self.known.find(&external_id, &number).map_err(|_| ("internal-id", "external_id_taken"))?;
        let found = found.cloned();
        if let Some(found) = &found {
            self.named.insert(found.id);
        }
        if !self.numbers.insert(number.clone()) {
            return Err(("location/apartment", "duplicate"));
        }
        if let Some(kept) = found.as_ref().filter(|found| is_kept(found)) {
            self.plan.kept.push(kept.clone());
            return Ok(());
        }
        let facts = self.facts(found.as_ref(), number, offer)?;
        if let Some((member, invalid)) = facts.contradictions(self.currency).into_iter().next() {
            return Err((element_of(member), invalid.code));
        }
        let object = ExternalObject { external_id, facts, status: None, expected: None };
        let upserted =
            upsert_object(&self.known, object, self.holds, self.building, self.ancestors, self.edit);
        let (upserted, change) = upserted.map_err(refusal)?;
        match upserted {
            Upserted::Created(_) => self.plan.created += 1,
            Upserted::Updated(_) => self.plan.updated += 1,
            Upserted::Unchanged(_) => self.plan.unchanged += 1,
        }
        self.plan.changes.extend(change);
        Ok(())
    }

    /// Returns the fields of an object after the import. What a feed does not have stays.
    fn facts(
        &mut self,
        found: Option<&PropertyObject>,
        number: ObjectNumber,
        offer: FeedOffer,
    ) -> Result<ObjectFacts, Refusal> {
        let before = found.map(|found| &found.facts);
        let is_single_section = self.building.facts.sections_count.get() == 1;
        let section = offer.section.or(before.map(|before| before.section));
        let section = section.or_else(|| is_single_section.then(Section::literal::<1>));
        let section = section.ok_or(("section", "required"))?;
        let position = offer.position_on_floor.or(before.map(|before| before.position_on_floor));
        let position = match position {
            Some(position) => position,
            None => self.places.take_free(section, offer.floor).ok_or(("position-on-floor", "required"))?,
        };
        // A part that stays may be too large for a smaller object.
        let is_part = |part: &Area| *part <= offer.area_total;
        Ok(ObjectFacts {
            number,
            kind: offer.kind,
            section,
            floor: offer.floor,
            position_on_floor: position,
            rooms: offer.rooms,
            is_studio: offer.is_studio,
            area_total: offer.area_total,
            area_living: offer.area_living.or(before.and_then(|before| before.area_living)).filter(is_part),
            area_kitchen: offer
                .area_kitchen
                .or(before.and_then(|before| before.area_kitchen))
                .filter(is_part),
            finishing: offer.finishing.or(before.map(|before| before.finishing)).unwrap_or(Finishing::None),
            price: offer.price,
            layout_file_id: before.and_then(|before| before.layout_file_id),
        })
    }
}

/// Returns true for an object that an import leaves as it is.
fn is_kept(object: &PropertyObject) -> bool {
    let is_sold = matches!(object.status, ObjectStatus::Booked | ObjectStatus::Sold);
    object.is_live() && (object.is_held() || is_sold)
}

fn refusal(refusal: ObjectRefusal) -> Refusal {
    match refusal {
        ObjectRefusal::Invalid(errors) => {
            let first = errors.into_iter().next();
            first.map_or(("offer", "out_of_range"), |(member, invalid)| (element_of(member), invalid.code))
        }
        ObjectRefusal::Refused(_) => ("location/apartment", "number_taken"),
    }
}

/// Returns the element of a member of an object.
fn element_of(member: &str) -> &'static str {
    match member {
        "Section" => "section",
        "Floor" => "floor",
        "IsStudio" => "studio",
        "AreaLiving" => "living-space/value",
        "AreaKitchen" => "kitchen-space/value",
        "Price/Currency" => "price/currency",
        _ => "offer",
    }
}

/// The positions on the floors of a building that objects have.
struct Places(HashMap<(Section, Floor), HashSet<Position>>);

impl Places {
    fn new(objects: &[PropertyObject]) -> Self {
        let mut places: HashMap<_, HashSet<_>> = HashMap::new();
        for PropertyObject { facts, .. } in objects {
            places.entry((facts.section, facts.floor)).or_default().insert(facts.position_on_floor);
        }
        Self(places)
    }

    /// Takes the lowest free position on a floor.
    fn take_free(&mut self, section: Section, floor: Floor) -> Option<Position> {
        let taken = self.0.entry((section, floor)).or_default();
        let mut positions = (1..).map_while(|number| Position::parse(number).ok());
        let free = positions.find(|position| !taken.contains(position))?;
        taken.insert(free);
        Some(free)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap, HashSet};

    use proptest::prelude::*;
    use values::{Currency, Text, Whole};

    use super::{BuildingPlan, OfferOfBuilding, PlanContext, plan_building};
    use crate::domain::feed::FeedOffer;
    use crate::domain::property_object::tests::{NOW, ancestors, entry};
    use crate::domain::{
        Ancestors, Area, Building, BuildingFacts, BuildingState, DealId, Edited, ExternalId, ExternalIdEdit,
        Hold, ObjectKind, ObjectStatus, Price, PropertyObject, PropertyObjectId,
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
        rejected: HashSet<ExternalId>,
    }

    impl House {
        fn new(sections: i64) -> Self {
            let ancestors = ancestors();
            let building = building(&ancestors, sections);
            Self { ancestors, building, objects: BTreeMap::new(), rejected: HashSet::new() }
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

    /// RULE-CHS-073: an object that is held, Booked or Sold stays as it is, and so does one that no
    /// offer names.
    #[test]
    fn sold_and_missing_objects_stay() {
        let mut house = House::new(1);
        house.add("1", ObjectStatus::Sold);
        let held = house.add("2", ObjectStatus::Available);
        let hold = Hold { deal_id: DealId::generate(), status: ObjectStatus::Booked };
        house.objects.get_mut(&held).unwrap().apply_hold(Some(hold), NOW);
        house.add("3", ObjectStatus::Available);
        let reserved = house.add("4", ObjectStatus::Reserved);
        let offers = vec![offer("a", Some("1"), 9), offer("b", Some("2"), 9), offer("d", Some("4"), 9)];
        let plan = house.plan(offers);
        assert_eq!((plan.kept.len(), plan.missing.len(), plan.updated, plan.created), (2, 1, 1, 0));
        assert_eq!(
            (plan.changes[0].after.id, plan.changes[0].after.status),
            (reserved, ObjectStatus::Reserved)
        );
        assert!(plan.problems.is_empty());
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

    proptest! {
        /// RULE-CHS-073: after the application of a plan, the same offers change nothing.
        #[test]
        fn applied_plan_leaves_nothing_to_change(
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
}
