//! The visible projects in memory, and the searches over them.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::mem::size_of;

use ::web::{MAX_TOTAL_COUNT, Paging};
use itertools::Itertools;
use values::{Currency, Money};

use crate::catalog_index::block::{CLASSES, ones};
use crate::catalog_index::city::{Cities, City, Spelling};
use crate::catalog_index::matcher::Matcher;
use crate::catalog_index::project::{Project, ROOM_CATEGORIES, Summary};
use crate::db::catalog_facets::{CityFacet, ClassFacet, Facets, RoomsFacet};
use crate::db::catalog_index::ProjectRow;
use crate::db::catalog_project::{CatalogProjectSort, ProjectFilter};
use crate::domain::ProjectId;

const MAX_CITIES: usize = 100;

/// All visible projects.
#[derive(Default)]
pub struct Projects {
    cities: Cities,
    positions: HashMap<ProjectId, Position>,
    bytes: usize,
}

/// The number of a city, and the index of a project in it.
#[derive(Clone, Copy)]
struct Position {
    city: u32,
    index: u32,
}

/// A found project with the numbers by which a list is sorted first.
type Found<'p> = ((i64, i64), &'p Project);

impl Projects {
    /// Adds or replaces a project.
    pub fn put(&mut self, row: ProjectRow) {
        self.remove(row.id);
        let spelling = Spelling { folded: row.folded_city.clone(), city: row.city.clone() };
        let (summary, project) = Project::new(row);
        self.bytes += bytes(&spelling, &project);
        let id = project.id;
        let (number, city) = self.cities.get_or_insert(spelling);
        self.bytes -= city.blocks_bytes();
        let index = city.push(summary, project);
        self.bytes += city.blocks_bytes();
        self.positions.insert(id, Position { city: number, index: u32::try_from(index).unwrap_or(u32::MAX) });
    }

    pub fn remove(&mut self, id: ProjectId) {
        let Some(position) = self.positions.remove(&id) else { return };
        let city = self.cities.get_mut(position.city);
        self.bytes -= city.blocks_bytes();
        let removed = city.swap_remove(position.index as usize);
        self.bytes += city.blocks_bytes();
        self.bytes -= bytes(&city.spelling, &removed);
        if let Some(moved) = city.project(position.index as usize) {
            self.positions.insert(moved.id, position);
        }
        if city.is_empty() {
            self.cities.release(position.city);
        }
    }

    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Returns the size in bytes, without the overhead of the allocator. Each project counts the
    /// spelling of its city, although projects share it.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.bytes
    }

    /// Returns the ids of a page and the number of all matching projects.
    pub fn page(&self, filter: &ProjectFilter, paging: &Paging<CatalogProjectSort>) -> (Vec<ProjectId>, i64) {
        let matcher = Matcher::new(filter);
        let sign = if paging.descending { -1 } else { 1 };
        let key = |summary: &Summary, project: &Project| match paging.sort {
            CatalogProjectSort::PublishedAt => (summary.published_at * sign, 0),
            // Projects without a price are last in both directions.
            CatalogProjectSort::PriceFrom if summary.has_prices() => (summary.prices.0 * sign, 0),
            CatalogProjectSort::PriceFrom => (i64::MAX, 0),
            CatalogProjectSort::Name => {
                let (first, second) = project.name_order;
                if paging.descending { (!first, !second) } else { (first, second) }
            }
        };
        let cities = self.cities.iter().filter(|city| matcher.includes_city(city));
        let mut total_count = 0;
        let found = cities.flat_map(City::blocks).flat_map(|(block, summaries, projects)| {
            let compared = matcher.compare(block, summaries, projects);
            let found = compared.of_class & compared.with_home;
            total_count += count(found);
            ones(found).map(move |slot| (key(&summaries[slot], &projects[slot]), &projects[slot]))
        });
        let order = |(left_key, left): &Found<'_>, (right_key, right): &Found<'_>| {
            let by_name = || match paging.sort {
                CatalogProjectSort::Name if paging.descending => right.folded_name.cmp(&left.folded_name),
                CatalogProjectSort::Name => left.folded_name.cmp(&right.folded_name),
                CatalogProjectSort::PublishedAt | CatalogProjectSort::PriceFrom => Ordering::Equal,
            };
            left_key.cmp(right_key).then_with(by_name).then_with(|| left.id.cmp(&right.id))
        };
        let first = usize::try_from(paging.offset()).unwrap_or(usize::MAX);
        let end = first.saturating_add(paging.page_size as usize).min(self.len());
        let page = found.k_smallest_relaxed_by(end, order).skip(first);
        let ids = page.map(|(_, project)| project.id).collect();
        (ids, total_count.min(MAX_TOTAL_COUNT))
    }

    /// Counts the facets.
    pub fn facets(&self, filter: &ProjectFilter, currency: Currency) -> Facets {
        let matcher = Matcher::new(filter);
        let mut total_count = 0;
        let (mut price_min, mut price_max) = Summary::NO_PRICES;
        let mut by_city = vec![0_i64; self.cities.iter().len()];
        let mut by_class = [0_i64; CLASSES.len()];
        let mut by_rooms = [0_i64; ROOM_CATEGORIES];
        for (city, of_city) in self.cities.iter().zip(&mut by_city) {
            let is_included = matcher.includes_city(city);
            for (block, summaries, projects) in city.blocks() {
                let compared = matcher.compare(block, summaries, projects);
                let found = compared.of_class & compared.with_home;
                *of_city += count(found);
                if !is_included {
                    continue;
                }
                total_count += count(found);
                for (of_class, class) in by_class.iter_mut().zip(block.classes) {
                    *of_class += count(class & compared.with_home);
                }
                for (of_rooms, with_rooms) in by_rooms.iter_mut().zip(compared.rooms) {
                    *of_rooms += count(with_rooms & compared.of_class);
                }
                if block.prices.0 < price_min || block.prices.1 > price_max {
                    for (lowest, highest) in ones(found).map(|slot| summaries[slot].prices) {
                        (price_min, price_max) = (price_min.min(lowest), price_max.max(highest));
                    }
                }
            }
        }
        let has_prices = price_min <= price_max;
        let money = |amount_minor| has_prices.then_some(Money { amount_minor, currency });
        let classes = CLASSES.into_iter().zip(by_class).filter(|(_, count)| *count > 0);
        // Homes without a number of rooms are left out.
        let rooms = (0..=20).zip(by_rooms).filter(|(_, count)| *count > 0);
        Facets {
            total_count: total_count.min(MAX_TOTAL_COUNT),
            price_min: money(price_min),
            price_max: money(price_max),
            cities: self.city_facets(&by_city),
            classes: classes.map(|(class, projects_count)| ClassFacet { class, projects_count }).collect(),
            rooms: rooms.map(|(rooms, projects_count)| RoomsFacet { rooms, projects_count }).collect(),
        }
    }

    /// Returns the cities with the most projects, each in its most frequent spelling.
    fn city_facets(&self, by_city: &[i64]) -> Vec<CityFacet> {
        let mut cities: HashMap<&str, (i64, (i64, Reverse<&str>))> = HashMap::new();
        let counted = self.cities.iter().zip(by_city).filter(|(_, count)| **count > 0);
        for (City { spelling, .. }, &count) in counted {
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

/// Returns the size of a project, without its blocks.
fn bytes(spelling: &Spelling, project: &Project) -> usize {
    // The positions have about two entries for each project.
    spelling.bytes()
        + size_of::<Summary>()
        + size_of::<Project>()
        + project.boxed_bytes()
        + size_of::<(ProjectId, Position)>() * 2
}

fn count(set: u64) -> i64 {
    set.count_ones().into()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;
    use time::{Date, OffsetDateTime};
    use uuid::Uuid;
    use values::Currency;
    use web::Paging;

    use super::{CLASSES, ProjectFilter, Projects};
    use crate::catalog_index::block::BLOCK_SIZE;
    use crate::db::catalog_index::ProjectRow;
    use crate::db::catalog_project::CatalogProjectSort;
    use crate::domain::{PriceBound, RoomCategory};

    const CITIES: [&str; 5] = ["Perm", "PERM", "perm", "Kazan", "Ufa"];

    #[derive(Clone, Debug)]
    struct Sample {
        city: usize,
        class: usize,
        developer: u128,
        published_at: i64,
        /// The rooms, price and day of readiness of each home.
        homes: Vec<(i16, i64, i32)>,
    }

    fn samples() -> impl Strategy<Value = Sample> {
        let homes = prop::collection::vec((-1..4_i16, 1..9_i64, 0..4_i32), 0..4);
        // Most projects have the same city, so that it has several blocks.
        let city = prop_oneof![8 => Just(0), 2 => 0..CITIES.len()];
        (city, 0..CLASSES.len(), 0..3_u128, 0..9_i64, homes).prop_map(
            |(city, class, developer, published_at, homes)| Sample {
                city,
                class,
                developer,
                published_at,
                homes,
            },
        )
    }

    fn filters() -> impl Strategy<Value = ProjectFilter> {
        let optional = prop::option::of::<BoxedStrategy<i64>>;
        let classes = prop::option::of(prop::collection::vec(0..CLASSES.len(), 1..3));
        let rooms = prop::option::of(prop::collection::vec(0..4_i64, 1..3));
        let others = (prop::bool::weighted(0.3), optional((0..3_i64).boxed()), prop::bool::weighted(0.3));
        let homes =
            (optional((0..9_i64).boxed()), optional((1..10_i64).boxed()), optional((0..5_i64).boxed()));
        (classes, rooms, others, homes).prop_map(|(classes, rooms, others, (from, to, ready))| {
            ProjectFilter {
                city: others.0.then(|| "perm".to_owned()),
                developer_id: others.1.map(|id| Uuid::from_u128(id.unsigned_abs().into()).into()),
                classes: classes.map(|classes| classes.into_iter().map(|class| CLASSES[class]).collect()),
                rooms: rooms.map(|rooms| {
                    rooms.into_iter().map(|rooms| RoomCategory::parse(rooms).unwrap()).collect()
                }),
                price_from: from.map(|price| PriceBound::parse(price).unwrap()),
                price_to: to.map(|price| PriceBound::parse(price).unwrap()),
                ready_before: ready.map(|day| Date::from_julian_day(day.try_into().unwrap()).unwrap()),
                within: None,
                query: others.2.then(|| "xx".to_owned()),
            }
        })
    }

    fn row(id: u128, sample: &Sample) -> ProjectRow {
        let Sample { city, class, developer, published_at, homes } = sample;
        ProjectRow {
            id: Uuid::from_u128(id).into(),
            developer_id: Uuid::from_u128(*developer).into(),
            class: CLASSES[*class],
            city: CITIES[*city].to_owned(),
            folded_city: CITIES[*city].to_lowercase(),
            folded_name: "x".repeat(*city),
            latitude: None,
            longitude: None,
            published_at: OffsetDateTime::from_unix_timestamp(*published_at).unwrap(),
            first_ready_on: homes.iter().map(|home| home.2).min().unwrap_or_default(),
            home_rooms: homes.iter().map(|home| home.0).collect(),
            home_prices: homes.iter().map(|home| home.1).collect(),
            home_ready_on: homes.iter().map(|home| home.2).collect(),
        }
    }

    fn index<'s>(samples: impl IntoIterator<Item = (u128, &'s Sample)>) -> Projects {
        let mut projects = Projects::default();
        for (id, sample) in samples {
            projects.put(row(id, sample));
        }
        projects
    }

    /// Returns the facets as counts by name. Spellings of a city have the same name.
    fn counts(projects: &Projects, filter: &ProjectFilter) -> BTreeMap<String, i64> {
        let facets = projects.facets(filter, Currency::RUB);
        let mut counts = BTreeMap::from([("all".to_owned(), facets.total_count)]);
        counts
            .extend(facets.cities.into_iter().map(|facet| (facet.city.to_lowercase(), facet.projects_count)));
        counts.extend(
            facets.classes.into_iter().map(|facet| (format!("{:?}", facet.class), facet.projects_count)),
        );
        counts.extend(facets.rooms.into_iter().map(|facet| (facet.rooms.to_string(), facet.projects_count)));
        counts
    }

    proptest! {
        /// RULE-CHS-080: an index after any changes equals an index of the remaining projects, also
        /// in its size.
        #[test]
        fn changed_index_equals_a_new_one(
            changes in prop::collection::vec((0..100_u128, prop::option::weighted(0.7, samples())), 0..400),
            filter in filters(),
        ) {
            let mut changed = Projects::default();
            let mut remaining = BTreeMap::new();
            for (id, change) in changes {
                if let Some(sample) = change {
                    changed.put(row(id, &sample));
                    remaining.insert(id, sample);
                } else {
                    changed.remove(Uuid::from_u128(id).into());
                    remaining.remove(&id);
                }
            }
            let new = index(remaining.iter().map(|(id, sample)| (*id, sample)));
            prop_assert_eq!((changed.len(), changed.bytes()), (new.len(), new.bytes()));
            prop_assert!(changed.cities.iter().len() <= CITIES.len());
            let facets = |projects: &Projects| format!("{:?}", projects.facets(&filter, Currency::RUB));
            prop_assert_eq!(facets(&changed), facets(&new));
        }

        /// RULE-CHS-080: the facets and the list of several blocks are those of their projects alone.
        #[test]
        fn search_of_many_projects_equals_searches_of_each(
            samples in prop::collection::vec(samples(), 0..BLOCK_SIZE * 3),
            filter in filters(),
            (page, page_size) in (1..5_u32, 1..40_u32),
        ) {
            let paging = Paging { page, page_size, sort: CatalogProjectSort::PublishedAt, descending: false };
            let first_page = Paging { page: 1, ..paging };
            let (mut sum, mut found, mut prices) = (BTreeMap::from([("all".to_owned(), 0)]), vec![], BTreeSet::new());
            for (id, sample) in (0..).zip(&samples) {
                let alone = index([(id, sample)]);
                for (name, count) in counts(&alone, &filter) {
                    *sum.entry(name).or_default() += count;
                }
                let facets = alone.facets(&filter, Currency::RUB);
                prices.extend(facets.price_min.into_iter().chain(facets.price_max).map(|price| price.amount_minor));
                found.extend(alone.page(&filter, &first_page).0.into_iter().map(|id| (sample.published_at, id)));
            }
            found.sort_unstable();
            let all = index((0..).zip(&samples));
            prop_assert_eq!(counts(&all, &filter), sum);
            let facets = all.facets(&filter, Currency::RUB);
            let (lowest, highest) = (prices.first().copied(), prices.last().copied());
            prop_assert_eq!(facets.price_min.map(|price| price.amount_minor), lowest);
            prop_assert_eq!(facets.price_max.map(|price| price.amount_minor), highest);
            let total_count = i64::try_from(found.len()).unwrap();
            let first = (page - 1) * page_size;
            let found = found.into_iter().skip(first as usize).take(page_size as usize).map(|(_, id)| id);
            prop_assert_eq!(all.page(&filter, &paging), (found.collect(), total_count));
        }
    }
}
