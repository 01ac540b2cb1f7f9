//! The visible projects in memory, and the searches over them.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::mem;

use ::web::{MAX_TOTAL_COUNT, Paging};
use itertools::Itertools;
use values::{Currency, Money};

use crate::catalog_index::block::{CLASSES, ones};
use crate::catalog_index::group::{Group, Groups, Spelling};
use crate::catalog_index::matcher::Matcher;
use crate::catalog_index::project::{Homes, PriceRange, Project, ROOM_CATEGORIES, Summary};
use crate::db::catalog_facets::{CityFacet, ClassFacet, Facets, RoomsFacet};
use crate::db::catalog_index::ProjectRow;
use crate::db::catalog_project::{CatalogProjectSort, ProjectFilter};
use crate::domain::ProjectId;

const MAX_CITIES: usize = 100;

/// A project that is not part of the index yet.
pub struct NewProject {
    spelling: Spelling,
    summary: Summary,
    homes: Homes,
    project: Project,
}

impl From<ProjectRow> for NewProject {
    fn from(mut row: ProjectRow) -> Self {
        let spelling = Spelling { folded: mem::take(&mut row.folded_city), city: mem::take(&mut row.city) };
        let (summary, homes, project) = Project::new(row);
        Self { spelling, summary, homes, project }
    }
}

/// All visible projects.
#[derive(Default)]
pub struct Projects {
    groups: Groups,
    positions: HashMap<ProjectId, Position>,
    bytes: usize,
}

/// The number of a group, and the index of a project in it.
#[derive(Clone, Copy)]
struct Position {
    group: u32,
    index: u32,
}

/// A found project with the numbers by which a list is sorted first.
type Found<'p> = ((i64, i64), &'p Project);

impl Projects {
    /// Adds or replaces a project.
    pub fn put(&mut self, new: NewProject) {
        let NewProject { spelling, summary, homes, project } = new;
        let id = project.id;
        self.remove(id);
        self.bytes += bytes(&homes, &project);
        let (number, group) = self.groups.get_or_insert(spelling);
        self.bytes -= group.bytes();
        let index = group.push(summary, homes, project);
        self.bytes += group.bytes();
        self.positions
            .insert(id, Position { group: number, index: u32::try_from(index).unwrap_or(u32::MAX) });
    }

    pub fn remove(&mut self, id: ProjectId) {
        let Some(position) = self.positions.remove(&id) else { return };
        let group = self.groups.get_mut(position.group);
        self.bytes -= group.bytes();
        let (homes, project) = group.swap_remove(position.index as usize);
        self.bytes += group.bytes();
        self.bytes -= bytes(&homes, &project);
        if let Some(moved) = group.project(position.index as usize) {
            self.positions.insert(moved.id, position);
        }
        if group.is_empty() {
            self.groups.release(position.group);
        }
    }

    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Returns the size in bytes, without spare capacity and the overhead of the allocator.
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
            CatalogProjectSort::PriceFrom if summary.prices.is_empty() => (i64::MAX, 0),
            CatalogProjectSort::PriceFrom => (summary.prices.lowest * sign, 0),
            CatalogProjectSort::Name => {
                let (first, second) = project.name_order;
                if paging.descending { (!first, !second) } else { (first, second) }
            }
        };
        let groups = self.groups.iter().filter(|group| matcher.includes_city(group));
        let mut total_count = 0;
        let found = groups.flat_map(Group::blocks).flat_map(|(block, summaries, projects)| {
            let compared = matcher.compare(block, summaries, projects);
            let found = compared.by_class & compared.by_homes;
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
        let mut prices = PriceRange::EMPTY;
        let mut by_group = vec![0_i64; self.groups.iter().len()];
        let mut by_class = [0_i64; CLASSES.len()];
        let mut by_rooms = [0_i64; ROOM_CATEGORIES];
        for (group, of_group) in self.groups.iter().zip(&mut by_group) {
            let is_included = matcher.includes_city(group);
            for (block, summaries, projects) in group.blocks() {
                let compared = matcher.compare(block, summaries, projects);
                let found = compared.by_class & compared.by_homes;
                *of_group += count(found);
                if !is_included {
                    continue;
                }
                total_count += count(found);
                for (of_class, class) in by_class.iter_mut().zip(block.classes) {
                    *of_class += count(class & compared.by_homes);
                }
                for (of_rooms, with_rooms) in by_rooms.iter_mut().zip(compared.rooms) {
                    *of_rooms += count(with_rooms & compared.by_class);
                }
                if block.prices.lowest < prices.lowest || block.prices.highest > prices.highest {
                    prices = ones(found).map(|slot| summaries[slot].prices).fold(prices, PriceRange::or);
                }
            }
        }
        let money = |amount_minor| (!prices.is_empty()).then_some(Money { amount_minor, currency });
        let classes = CLASSES.into_iter().zip(by_class).filter(|(_, count)| *count > 0);
        // Homes without a number of rooms are left out.
        let rooms = (0..=20).zip(by_rooms).filter(|(_, count)| *count > 0);
        Facets {
            total_count: total_count.min(MAX_TOTAL_COUNT),
            price_min: money(prices.lowest),
            price_max: money(prices.highest),
            cities: self.city_facets(&by_group),
            classes: classes.map(|(class, projects_count)| ClassFacet { class, projects_count }).collect(),
            rooms: rooms.map(|(rooms, projects_count)| RoomsFacet { rooms, projects_count }).collect(),
        }
    }

    /// Returns the cities with the most projects, each in its most frequent spelling.
    fn city_facets(&self, by_group: &[i64]) -> Vec<CityFacet> {
        let mut cities: HashMap<&str, (i64, (i64, Reverse<&str>))> = HashMap::new();
        let counted = self.groups.iter().zip(by_group).filter(|(_, count)| **count > 0);
        for (Group { spelling, .. }, &count) in counted {
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

/// Returns the size of a project and its homes, without its bits in a block.
fn bytes(homes: &Homes, project: &Project) -> usize {
    // The map of positions has room for about two entries for each project.
    let positions = 2 * size_of::<(ProjectId, Position)>();
    size_of::<Summary>() + size_of::<Project>() + project.folded_name.len() + homes.bytes() + positions
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
            projects.put(row(id, sample).into());
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
            changes in prop::collection::vec((0..200_u128, prop::option::weighted(0.8, samples())), 0..600),
            filter in filters(),
        ) {
            let mut changed = Projects::default();
            let mut remaining = BTreeMap::new();
            for (id, change) in changes {
                if let Some(sample) = change {
                    changed.put(row(id, &sample).into());
                    remaining.insert(id, sample);
                } else {
                    changed.remove(Uuid::from_u128(id).into());
                    remaining.remove(&id);
                }
            }
            let new = index(remaining.iter().map(|(id, sample)| (*id, sample)));
            prop_assert_eq!((changed.len(), changed.bytes()), (new.len(), new.bytes()));
            prop_assert!(changed.groups.iter().len() <= CITIES.len());
            let facets = |projects: &Projects| format!("{:?}", projects.facets(&filter, Currency::RUB));
            prop_assert_eq!(facets(&changed), facets(&new));
        }

        /// RULE-CHS-080: the facets and the list of several blocks are those of their projects
        /// alone.
        #[test]
        fn search_of_many_projects_equals_searches_of_each(
            samples in prop::collection::vec(samples(), 0..BLOCK_SIZE * 3),
            filter in filters(),
            sort in prop::sample::select(vec![
                CatalogProjectSort::PublishedAt, CatalogProjectSort::Name, CatalogProjectSort::PriceFrom,
            ]),
            (page, page_size, descending) in (1..5_u32, 1..40_u32, any::<bool>()),
        ) {
            let paging = Paging { page, page_size, sort, descending };
            let first_page = Paging { page: 1, ..paging };
            let (mut sum, mut found, mut prices) = (BTreeMap::from([("all".to_owned(), 0)]), vec![], BTreeSet::new());
            for (id, sample) in (0..).zip(&samples) {
                let alone = index([(id, sample)]);
                for (name, count) in counts(&alone, &filter) {
                    *sum.entry(name).or_default() += count;
                }
                let facets = alone.facets(&filter, Currency::RUB);
                prices.extend(facets.price_min.into_iter().chain(facets.price_max).map(|price| price.amount_minor));
                found.extend(alone.page(&filter, &first_page).0.into_iter().map(|id| (sample, id)));
            }
            let sign = if descending { -1 } else { 1 };
            found.sort_unstable_by_key(|(sample, id)| {
                let key = match sort {
                    CatalogProjectSort::PublishedAt => sample.published_at * sign,
                    // A name is as long as the number of its city.
                    CatalogProjectSort::Name => i64::try_from(sample.city).unwrap() * sign,
                    CatalogProjectSort::PriceFrom => {
                        sample.homes.iter().map(|home| home.1 * sign).min_by_key(|price| price * sign).unwrap_or(i64::MAX)
                    }
                };
                (key, *id)
            });
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
