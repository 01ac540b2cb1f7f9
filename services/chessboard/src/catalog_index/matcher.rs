//! The comparison of projects with the filters of a search.

use crate::catalog_index::block::{Block, CLASSES, ones, union};
use crate::catalog_index::group::Group;
use crate::catalog_index::project::{HomeFilter, Project, ROOM_CATEGORIES, Summary};
use crate::db::catalog_project::ProjectFilter;
use crate::domain::PriceBound;

/// A filter in the form that compares fastest.
pub(super) struct Matcher<'f> {
    filter: &'f ProjectFilter,
    /// True for each class that the filter allows.
    classes: [bool; CLASSES.len()],
    /// The bits of the room categories of the filter.
    room_bits: u32,
    homes: HomeFilter,
}

/// The projects of a block that match. They meet the filters that have no facet.
pub(super) struct Matches {
    /// The projects of the classes that the filter allows.
    pub(super) by_class: u64,
    /// The projects that meet the filters by rooms, price and readiness. All, without such filters.
    pub(super) by_homes: u64,
    /// The projects with a home that matches by price and readiness, by room category.
    pub(super) rooms: [u64; ROOM_CATEGORIES],
}

impl<'f> Matcher<'f> {
    pub(super) fn new(filter: &'f ProjectFilter) -> Self {
        let is_allowed = |class| filter.classes.as_ref().is_none_or(|classes| classes.contains(&class));
        Self {
            filter,
            classes: CLASSES.map(is_allowed),
            room_bits: filter.rooms.iter().flatten().fold(0, |bits, rooms| bits | 1 << rooms.get()),
            homes: HomeFilter {
                price_from: filter.price_from.map_or(i64::MIN, PriceBound::get),
                price_to: filter.price_to.map_or(i64::MAX, |to| to.get().saturating_sub(1)),
                ready_before: filter.ready_before.map(time::Date::to_julian_day),
            },
        }
    }

    pub(super) fn includes_city(&self, group: &Group) -> bool {
        self.filter.city.as_ref().is_none_or(|folded| group.spelling.folded == *folded)
    }

    /// Compares the projects of a block.
    pub(super) fn compare(&self, block: &Block, summaries: &[Summary], projects: &[Project]) -> Matches {
        let filter = self.filter;
        let candidates = self.candidates(block, projects);
        let rooms = self.rooms(candidates, block);
        let by_homes = match self.homes.ready_before {
            _ if filter.rooms.is_some() => union(ones(self.room_bits.into()).map(|category| rooms[category])),
            _ if filter.has_price_filter() => union(rooms),
            Some(before) => subset(candidates, |slot| summaries[slot].first_ready_on < before),
            None => candidates,
        };
        let of_class = self.classes.iter().zip(block.classes).filter(|(is_allowed, _)| **is_allowed);
        Matches { by_class: union(of_class.map(|(_, of_class)| of_class)) & candidates, by_homes, rooms }
    }

    /// Returns the projects that meet the filters without a facet.
    fn candidates(&self, block: &Block, projects: &[Project]) -> u64 {
        let ProjectFilter { developer_id, within, query, .. } = self.filter;
        if developer_id.is_none() && within.is_none() && query.is_none() {
            return block.projects();
        }
        subset(block.projects(), |slot| {
            let project = &projects[slot];
            developer_id.is_none_or(|id| id == project.developer_id)
                && within.is_none_or(|within| {
                    project.place.is_some_and(|(latitude, longitude)| {
                        (within.south..=within.north).contains(&latitude)
                            && (within.west..=within.east).contains(&longitude)
                    })
                })
                && query.as_ref().is_none_or(|query| project.folded_name.contains(query.as_str()))
        })
    }

    /// Returns the candidates with a home that matches by price and readiness, by room category.
    fn rooms(&self, candidates: u64, block: &Block) -> [u64; ROOM_CATEGORIES] {
        let mut rooms = block.rooms;
        if self.filter.has_price_filter() || self.filter.ready_before.is_some() {
            let mut unknown = 0;
            for (rooms, (with_category, prices)) in rooms.iter_mut().zip(block.prices_by_category()) {
                *rooms = 0;
                // The processor cannot predict which prices match, so this loop has no branch.
                for (slot, prices) in ones(with_category).zip(prices) {
                    let (matches, is_unknown) = self.homes.compare(prices);
                    *rooms |= u64::from(matches) << slot;
                    unknown |= u64::from(is_unknown) << slot;
                }
            }
            for slot in ones(unknown & candidates) {
                for category in ones(block.matching_rooms(slot, &self.homes).into()) {
                    rooms[category] |= 1 << slot;
                }
            }
        }
        rooms.map(|projects| projects & candidates)
    }
}

/// Returns the projects for which the condition holds.
fn subset(projects: u64, condition: impl Fn(usize) -> bool) -> u64 {
    ones(projects).fold(0, |subset, slot| subset | u64::from(condition(slot)) << slot)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::{Date, OffsetDateTime};
    use uuid::Uuid;

    use super::Matcher;
    use crate::catalog_index::block::{Block, MAX_COMPARED_HOMES};
    use crate::catalog_index::project::{Project, ROOM_CATEGORIES};
    use crate::db::catalog_index::ProjectRow;
    use crate::db::catalog_project::ProjectFilter;
    use crate::domain::{PriceBound, ProjectClass};

    proptest! {
        /// RULE-CHS-080: the search finds the same room categories as a comparison of all homes.
        #[test]
        fn rooms_of_a_project_are_those_of_its_matching_homes(
            homes in prop::collection::vec((-1..4_i16, 0..12_i64, 0..4_i32), 0..MAX_COMPARED_HOMES * 2),
            price_from in prop::option::of(0..13_i64),
            price_to in prop::option::of(0..14_i64),
            ready_before in prop::option::of(0..5_i32),
        ) {
            let (summary, homes_of_project, project) = Project::new(ProjectRow {
                id: Uuid::nil().into(),
                developer_id: Uuid::nil().into(),
                class: ProjectClass::Comfort,
                city: String::new(),
                folded_city: String::new(),
                folded_name: String::new(),
                latitude: None,
                longitude: None,
                published_at: OffsetDateTime::UNIX_EPOCH,
                first_ready_on: 0,
                home_rooms: homes.iter().map(|home| home.0).collect(),
                home_prices: homes.iter().map(|home| home.1).collect(),
                home_ready_on: homes.iter().map(|home| home.2).collect(),
            });
            let mut block = Block::new();
            block.put(0, &summary, homes_of_project);
            let bound = |price: i64| PriceBound::parse(price).unwrap();
            let filter = ProjectFilter {
                price_from: price_from.map(bound),
                price_to: price_to.map(bound),
                ready_before: ready_before.map(|day| Date::from_julian_day(day).unwrap()),
                ..ProjectFilter::default()
            };
            let mut expected = [0; ROOM_CATEGORIES];
            for (rooms, price, ready_on) in homes {
                let is_match = price_from.is_none_or(|from| price >= from)
                    && price_to.is_none_or(|to| price < to)
                    && ready_before.is_none_or(|before| ready_on < before);
                let category = usize::try_from(rooms).unwrap_or(ROOM_CATEGORIES - 1);
                expected[category] |= u64::from(is_match);
            }
            prop_assert_eq!(Matcher::new(&filter).compare(&block, &[summary], &[project]).rooms, expected);
        }
    }
}
