//! The visible projects in memory, and the searches over them.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::mem::size_of;

use ::web::{MAX_TOTAL_COUNT, Paging};
use values::{Currency, Money};

use crate::catalog_index::project::{HomeFilter, Project, ROOM_CATEGORIES};
use crate::db::catalog_facets::{CityFacet, ClassFacet, Facets, RoomsFacet};
use crate::db::catalog_index::ProjectRow;
use crate::db::catalog_project::{CatalogProjectSort, ProjectFilter};
use crate::domain::{PriceBound, ProjectClass, ProjectId};

const MAX_CITIES: usize = 100;
const CLASSES: [ProjectClass; 4] =
    [ProjectClass::Economy, ProjectClass::Comfort, ProjectClass::Business, ProjectClass::Elite];

/// A city as projects write it. The folded form is the value of the filter.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Spelling {
    folded: String,
    city: String,
}

/// The spellings of cities by number. The number of a spelling without a project is used again.
#[derive(Default)]
struct Spellings {
    numbers: HashMap<Spelling, u32>,
    /// Each spelling with its number of projects.
    by_number: Vec<(Spelling, usize)>,
    unused: Vec<u32>,
}

impl Spellings {
    fn add(&mut self, spelling: Spelling) -> u32 {
        let number = self.numbers.get(&spelling).copied().unwrap_or_else(|| {
            let unused = self.unused.pop();
            let number = unused.unwrap_or(u32::try_from(self.by_number.len()).unwrap_or(u32::MAX));
            match self.by_number.get_mut(number as usize) {
                Some(entry) => entry.0 = spelling.clone(),
                None => self.by_number.push((spelling.clone(), 0)),
            }
            self.numbers.insert(spelling, number);
            number
        });
        if let Some((_, projects)) = self.by_number.get_mut(number as usize) {
            *projects += 1;
        }
        number
    }

    fn remove(&mut self, number: u32) {
        let Some((spelling, projects)) = self.by_number.get_mut(number as usize) else { return };
        *projects -= 1;
        if *projects == 0 {
            self.numbers.remove(spelling);
            self.unused.push(number);
        }
    }
}

/// All visible projects.
#[derive(Default)]
pub struct Projects {
    projects: Vec<Project>,
    positions: HashMap<ProjectId, u32>,
    spellings: Spellings,
    bytes: usize,
}

/// A found project with the numbers by which a list is sorted first.
type Found<'p> = ((i64, i64), &'p Project);

/// A filter in the form that compares fastest.
struct Matcher<'f> {
    filter: &'f ProjectFilter,
    /// By number of the spelling.
    cities: Option<Vec<bool>>,
    room_bits: u32,
    homes: HomeFilter,
}

/// The result of comparing a project with the filters that have a facet.
#[derive(Clone, Copy)]
struct Match {
    in_city: bool,
    of_class: bool,
    /// True if the project meets the filters by rooms, price and readiness.
    has_home: bool,
    /// The room categories of the homes that match by price and readiness.
    room_bits: u32,
}

impl Matcher<'_> {
    /// Returns `None` if the project does not meet the filters that have no facet.
    fn compare(&self, project: &Project) -> Option<Match> {
        let filter = self.filter;
        let is_candidate = filter.developer_id.is_none_or(|id| id == project.developer_id)
            && filter.within.is_none_or(|within| {
                project.place.is_some_and(|(latitude, longitude)| {
                    (within.south..=within.north).contains(&latitude)
                        && (within.west..=within.east).contains(&longitude)
                })
            })
            && filter.query.as_ref().is_none_or(|query| project.folded_name.contains(query.as_str()));
        if !is_candidate {
            return None;
        }
        let room_bits = project.matching_rooms(&self.homes);
        let has_home = match self.homes.ready_before {
            _ if filter.rooms.is_some() => room_bits & self.room_bits != 0,
            _ if filter.has_price_filter() => room_bits != 0,
            Some(before) => project.first_ready_on < before,
            None => true,
        };
        Some(Match {
            in_city: self.cities.as_ref().is_none_or(|cities| cities[project.city as usize]),
            of_class: filter.classes.as_ref().is_none_or(|classes| classes.contains(&project.class)),
            has_home,
            room_bits,
        })
    }
}

impl Projects {
    /// Adds or replaces a project.
    pub fn put(&mut self, row: ProjectRow) {
        self.remove(row.id);
        let spelling = Spelling { folded: row.folded_city.clone(), city: row.city.clone() };
        self.bytes += spelling_bytes(&spelling);
        let city = self.spellings.add(spelling);
        let project = Project::new(row, city);
        self.bytes += project.bytes();
        let position = u32::try_from(self.projects.len()).unwrap_or(u32::MAX);
        self.positions.insert(project.id, position);
        self.projects.push(project);
    }

    pub fn remove(&mut self, id: ProjectId) {
        let Some(position) = self.positions.remove(&id) else { return };
        let project = self.projects.swap_remove(position as usize);
        if let Some(moved) = self.projects.get(position as usize) {
            self.positions.insert(moved.id, position);
        }
        self.bytes -= project.bytes();
        if let Some((spelling, _)) = self.spellings.by_number.get(project.city as usize) {
            self.bytes -= spelling_bytes(spelling);
        }
        self.spellings.remove(project.city);
    }

    pub fn len(&self) -> usize {
        self.projects.len()
    }

    /// Returns the size in bytes, without the overhead of the allocator. Each project counts the
    /// spelling of its city, although projects share it.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.bytes
    }

    fn matcher<'f>(&self, filter: &'f ProjectFilter) -> Matcher<'f> {
        let cities = filter.city.as_ref().map(|city| {
            self.spellings.by_number.iter().map(|(spelling, _)| spelling.folded == *city).collect()
        });
        let rooms = filter.rooms.iter().flatten();
        Matcher {
            filter,
            cities,
            room_bits: rooms.fold(0, |bits, rooms| bits | 1 << rooms.get()),
            homes: HomeFilter {
                price_from: filter.price_from.map_or(i64::MIN, PriceBound::get),
                price_to: filter.price_to.map_or(i64::MAX, |to| to.get().saturating_sub(1)),
                ready_before: filter.ready_before.map(time::Date::to_julian_day),
            },
        }
    }

    /// Returns the ids of a page and the number of all matching projects.
    pub fn page(&self, filter: &ProjectFilter, paging: &Paging<CatalogProjectSort>) -> (Vec<ProjectId>, i64) {
        let matcher = self.matcher(filter);
        let is_found = |project: &&Project| {
            matcher.compare(project).is_some_and(|found| found.in_city && found.of_class && found.has_home)
        };
        let sign = if paging.descending { -1 } else { 1 };
        let key = |project: &Project| match paging.sort {
            CatalogProjectSort::PublishedAt => (project.published_at * sign, 0),
            // Projects without a price are last in both directions.
            CatalogProjectSort::PriceFrom => {
                (project.prices.map_or(i64::MAX, |(lowest, _)| lowest * sign), 0)
            }
            CatalogProjectSort::Name => {
                let (first, second) = project.name_order;
                if paging.descending { (!first, !second) } else { (first, second) }
            }
        };
        let mut found: Vec<_> =
            self.projects.iter().filter(is_found).map(|project| (key(project), project)).collect();
        let total_count = i64::try_from(found.len()).unwrap_or(i64::MAX).min(MAX_TOTAL_COUNT);
        let order = |(left_key, left): &Found<'_>, (right_key, right): &Found<'_>| {
            let by_name = || match paging.sort {
                CatalogProjectSort::Name if paging.descending => right.folded_name.cmp(&left.folded_name),
                CatalogProjectSort::Name => left.folded_name.cmp(&right.folded_name),
                CatalogProjectSort::PublishedAt | CatalogProjectSort::PriceFrom => Ordering::Equal,
            };
            left_key.cmp(right_key).then_with(by_name).then_with(|| left.id.cmp(&right.id))
        };
        let first = usize::try_from(paging.offset()).unwrap_or(usize::MAX);
        let end = first.saturating_add(paging.page_size as usize);
        if (1..found.len()).contains(&end) {
            found.select_nth_unstable_by(end, order);
            found.truncate(end);
        }
        found.sort_unstable_by(order);
        (found.into_iter().skip(first).map(|(_, project)| project.id).collect(), total_count)
    }

    /// Counts the facets.
    pub fn facets(&self, filter: &ProjectFilter, currency: Currency) -> Facets {
        let matcher = self.matcher(filter);
        let (mut total_count, mut price_min, mut price_max) = (0, None::<i64>, None::<i64>);
        let mut by_spelling = vec![0_i64; self.spellings.by_number.len()];
        let mut by_class = [0_i64; CLASSES.len()];
        let mut by_rooms = [0_i64; ROOM_CATEGORIES];
        for project in &self.projects {
            let Some(found) = matcher.compare(project) else { continue };
            if found.of_class && found.has_home {
                by_spelling[project.city as usize] += 1;
            }
            if found.in_city && found.has_home {
                by_class[project.class as usize] += 1;
            }
            if found.in_city && found.of_class {
                for (rooms, count) in by_rooms.iter_mut().enumerate() {
                    *count += i64::from(found.room_bits >> rooms & 1);
                }
                if found.has_home {
                    total_count += 1;
                    if let Some((lowest, highest)) = project.prices {
                        price_min = Some(price_min.map_or(lowest, |price| price.min(lowest)));
                        price_max = price_max.max(Some(highest));
                    }
                }
            }
        }
        let money = |amount_minor| Money { amount_minor, currency };
        let classes = CLASSES.into_iter().zip(by_class).filter(|(_, count)| *count > 0);
        // Homes without a number of rooms are left out.
        let rooms = (0..=20).zip(by_rooms).filter(|(_, count)| *count > 0);
        Facets {
            total_count: total_count.min(MAX_TOTAL_COUNT),
            price_min: price_min.map(money),
            price_max: price_max.map(money),
            cities: self.cities(&by_spelling),
            classes: classes.map(|(class, projects_count)| ClassFacet { class, projects_count }).collect(),
            rooms: rooms.map(|(rooms, projects_count)| RoomsFacet { rooms, projects_count }).collect(),
        }
    }

    /// Returns the cities with the most projects, each in its most frequent spelling.
    fn cities(&self, by_spelling: &[i64]) -> Vec<CityFacet> {
        let mut cities: HashMap<&str, (i64, (i64, Reverse<&str>))> = HashMap::new();
        let counted = self.spellings.by_number.iter().zip(by_spelling).filter(|(_, count)| **count > 0);
        for ((spelling, _), &count) in counted {
            let (sum, most) = cities.entry(&spelling.folded).or_insert((0, (0, Reverse(""))));
            *sum += count;
            // The first spelling by code point wins a tie.
            *most = (*most).max((count, Reverse(&spelling.city)));
        }
        let mut cities: Vec<_> = cities.into_iter().collect();
        cities.sort_unstable_by_key(|(folded, (sum, _))| (Reverse(*sum), *folded));
        cities.truncate(MAX_CITIES);
        let facet = |(_, (projects_count, (_, Reverse(city)))): (&str, (i64, (i64, Reverse<&str>)))| {
            CityFacet { city: city.to_owned(), projects_count }
        };
        cities.into_iter().map(facet).collect()
    }
}

fn spelling_bytes(spelling: &Spelling) -> usize {
    spelling.folded.len() + spelling.city.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::OffsetDateTime;
    use uuid::Uuid;
    use values::Currency;

    use super::{ProjectFilter, Projects};
    use crate::db::catalog_index::ProjectRow;
    use crate::domain::ProjectClass;

    const CITIES: [&str; 5] = ["Perm", "PERM", "perm", "Kazan", "Ufa"];

    fn row(id: u128, city: usize, prices: &[i64]) -> ProjectRow {
        ProjectRow {
            id: Uuid::from_u128(id).into(),
            developer_id: Uuid::nil().into(),
            class: ProjectClass::Comfort,
            city: CITIES[city].to_owned(),
            folded_city: CITIES[city].to_lowercase(),
            folded_name: "x".repeat(city),
            latitude: None,
            longitude: None,
            published_at: OffsetDateTime::UNIX_EPOCH,
            first_ready_on: 0,
            home_rooms: prices.iter().map(|_| 1).collect(),
            home_prices: prices.to_owned(),
            home_ready_on: prices.iter().map(|_| 0).collect(),
        }
    }

    proptest! {
        /// RULE-CHS-080: an index after any changes equals an index of the remaining projects, also
        /// in its size.
        #[test]
        fn changed_index_equals_a_new_one(
            changes in prop::collection::vec(
                (0..6_u128, prop::option::of((0..5_usize, prop::collection::vec(1..9_i64, 0..3)))), 0..40),
        ) {
            let mut changed = Projects::default();
            let mut remaining = std::collections::BTreeMap::new();
            for (id, change) in changes {
                if let Some((city, prices)) = change {
                    changed.put(row(id, city, &prices));
                    remaining.insert(id, (city, prices));
                } else {
                    changed.remove(Uuid::from_u128(id).into());
                    remaining.remove(&id);
                }
            }
            let mut new = Projects::default();
            for (id, (city, prices)) in &remaining {
                new.put(row(*id, *city, prices));
            }
            prop_assert_eq!((changed.len(), changed.bytes()), (new.len(), new.bytes()));
            prop_assert!(changed.spellings.by_number.len() <= CITIES.len());
            let filter = ProjectFilter { city: Some("perm".to_owned()), ..ProjectFilter::default() };
            for filter in [ProjectFilter::default(), filter] {
                let facets = |projects: &Projects| format!("{:?}", projects.facets(&filter, Currency::RUB));
                prop_assert_eq!(facets(&changed), facets(&new));
            }
        }
    }
}
