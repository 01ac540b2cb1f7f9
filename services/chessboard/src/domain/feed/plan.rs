//! The changes that the offers of a building make.

use std::collections::{HashMap, HashSet};

use values::Currency;

use super::offer::FeedOffer;
use crate::domain::{
    Ancestors, Area, Building, Edit, ExternalId, ExternalObject, Finishing, Floor, Hold, KnownObjects,
    MAX_GRID_OBJECTS, ObjectChange, ObjectFacts, ObjectNumber, ObjectRefusal, ObjectStatus, Position,
    PropertyObject, PropertyObjectId, Section, Upserted, upsert_object,
};

/// An offer of a building.
#[derive(Clone, Debug)]
pub struct OfferOfBuilding {
    /// The position in the file.
    pub position: usize,
    pub line: u64,
    pub external_id: ExternalId,
    pub offer: FeedOffer,
}

/// The reason why an offer does not fit its building.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanProblem {
    /// The position of the offer in the file.
    pub position: usize,
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
    /// Objects that stay unchanged, because they are held, Booked or Sold, or because the preview
    /// lists them as kept.
    pub kept: Vec<PropertyObject>,
    /// Live objects that no offer names, not even a rejected one. They stay unchanged.
    pub missing: Vec<PropertyObject>,
    pub problems: Vec<PlanProblem>,
}

/// The input of a plan: a building and its objects before the import.
pub struct PlanContext<'c> {
    pub building: &'c Building,
    pub ancestors: &'c Ancestors,
    /// All live objects of the building, those removed ones whose numbers the offers have, and the
    /// objects of other buildings with external ids of the offers.
    pub objects: Vec<PropertyObject>,
    pub holds: &'c HashMap<PropertyObjectId, Hold>,
    /// Objects that the preview lists as kept. They stay unchanged even if their deals have ended.
    pub kept: &'c HashSet<PropertyObjectId>,
    /// External ids of rejected offers, whose objects are not missing.
    pub rejected: &'c HashSet<ExternalId>,
    pub currency: Currency,
    pub edit: Edit,
}

/// Plans the changes of a building. The external ids of `offers` are unique.
///
/// An import changes no status, because deals and managers decide it. An offer only states that the
/// object is for sale.
pub fn plan_building(context: PlanContext<'_>, offers: Vec<OfferOfBuilding>) -> BuildingPlan {
    let id = context.building.id;
    let live = context.objects.iter().filter(|object| object.building_id == id && object.is_live());
    let live: Vec<_> = live.cloned().collect();
    let mut planner = Planner {
        known: KnownObjects::new(id, context.objects),
        places: Places::new(&live),
        live_count: live.len(),
        numbers: HashSet::new(),
        named: HashSet::new(),
        kept: context.kept,
        plan: BuildingPlan::default(),
        building: context.building,
        ancestors: context.ancestors,
        holds: context.holds,
        currency: context.currency,
        edit: context.edit,
    };
    for OfferOfBuilding { external_id, offer, .. } in &offers {
        planner.reserve_place(external_id, offer);
    }
    for OfferOfBuilding { position, line, external_id, offer } in offers {
        if let Err((element, code)) = planner.add(external_id.clone(), &offer) {
            planner.plan.problems.push(PlanProblem { position, line, external_id, element, code });
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
    /// Number of live objects of the building after the plan.
    live_count: usize,
    /// The numbers of the offers so far.
    numbers: HashSet<ObjectNumber>,
    /// The objects that the offers name.
    named: HashSet<PropertyObjectId>,
    kept: &'c HashSet<PropertyObjectId>,
    plan: BuildingPlan,
    building: &'c Building,
    ancestors: &'c Ancestors,
    holds: &'c HashMap<PropertyObjectId, Hold>,
    currency: Currency,
    edit: Edit,
}

/// The element and the code of a problem.
type Problem = (&'static str, &'static str);

impl Planner<'_> {
    /// Adds the change of an offer to the plan.
    fn add(&mut self, external_id: ExternalId, offer: &FeedOffer) -> Result<(), Problem> {
        let number = match (&offer.number, self.known.find_by_external_id(&external_id)) {
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
        let must_stay = |object: &PropertyObject| is_kept(object) || self.kept.contains(&object.id);
        if let Some(kept) = found.as_ref().filter(|found| must_stay(found)) {
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
        let (upserted, change) = upserted.map_err(problem_of)?;
        if change.as_ref().is_some_and(ObjectChange::is_addition) {
            if self.live_count >= MAX_GRID_OBJECTS {
                return Err(("offer", "too_many_objects"));
            }
            self.live_count += 1;
        }
        match upserted {
            Upserted::Created(_) => self.plan.created += 1,
            Upserted::Updated(_) => self.plan.updated += 1,
            Upserted::Unchanged(_) => self.plan.unchanged += 1,
        }
        self.plan.changes.extend(change);
        Ok(())
    }

    /// Takes the position that an offer gives, so that no offer without a position gets it.
    fn reserve_place(&mut self, external_id: &ExternalId, offer: &FeedOffer) {
        let Some(position) = offer.position_on_floor else { return };
        let found = match &offer.number {
            Some(number) => self.known.find(external_id, number).ok().flatten(),
            None => self.known.find_by_external_id(external_id),
        };
        if let Some(section) = self.section(found, offer) {
            self.places.take(section, offer.floor, position);
        }
    }

    /// Returns the section of an offer, of its object, or of a building with one section.
    fn section(&self, found: Option<&PropertyObject>, offer: &FeedOffer) -> Option<Section> {
        let is_single_section = self.building.facts.sections_count.get() == 1;
        let section = offer.section.or(found.map(|found| found.facts.section));
        section.or_else(|| is_single_section.then(Section::literal::<1>))
    }

    /// Returns the fields of an object after the import.
    ///
    /// The section, the position, the parts of the area and the finishing keep their values if the
    /// offer has none. The number of rooms does not, because a studio and an open plan have none.
    /// The layout always stays.
    fn facts(
        &mut self,
        found: Option<&PropertyObject>,
        number: ObjectNumber,
        offer: &FeedOffer,
    ) -> Result<ObjectFacts, Problem> {
        let before = found.map(|found| &found.facts);
        let section = self.section(found, offer).ok_or(("section", "required"))?;
        let position = offer.position_on_floor.or(before.map(|before| before.position_on_floor));
        let position = match position {
            Some(position) => position,
            None => self.places.take_free(section, offer.floor).ok_or(("position-on-floor", "required"))?,
        };
        // The old living or kitchen area may exceed the new total area.
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

/// Returns true for an object that an import must not change.
fn is_kept(object: &PropertyObject) -> bool {
    let is_sold = matches!(object.status, ObjectStatus::Booked | ObjectStatus::Sold);
    object.is_live() && (object.is_held() || is_sold)
}

fn problem_of(refusal: ObjectRefusal) -> Problem {
    match refusal {
        ObjectRefusal::Invalid(errors) => {
            let first = errors.into_iter().next();
            first.map_or(("offer", "out_of_range"), |(member, invalid)| (element_of(member), invalid.code))
        }
        // `add` excludes the other refusals: it keeps held objects, checks the external id, and
        // expects no version.
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

/// The occupied positions of a building, by section and floor.
struct Places(HashMap<(Section, Floor), HashSet<Position>>);

impl Places {
    fn new(objects: &[PropertyObject]) -> Self {
        let mut places: HashMap<_, HashSet<_>> = HashMap::new();
        for PropertyObject { facts, .. } in objects {
            places.entry((facts.section, facts.floor)).or_default().insert(facts.position_on_floor);
        }
        Self(places)
    }

    fn take(&mut self, section: Section, floor: Floor, position: Position) {
        self.0.entry((section, floor)).or_default().insert(position);
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
