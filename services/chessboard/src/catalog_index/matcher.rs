//! The comparison of projects with the filters of a search.

use crate::catalog_index::block::{Block, CLASSES, ones, union};
use crate::catalog_index::city::City;
use crate::catalog_index::project::{HomeFilter, MatchingHomes, Project, ROOM_CATEGORIES, Summary};
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
    pub(super) of_class: u64,
    /// The projects that meet the filters by rooms, price and readiness.
    pub(super) with_home: u64,
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

    pub(super) fn includes_city(&self, city: &City) -> bool {
        self.filter.city.as_ref().is_none_or(|folded| city.spelling.folded == *folded)
    }

    /// Compares the projects of a block.
    pub(super) fn compare(&self, block: &Block, summaries: &[Summary], projects: &[Project]) -> Matches {
        let filter = self.filter;
        let candidates = self.candidates(block, projects);
        let rooms = self.rooms(candidates, block, summaries, projects);
        let with_home = match self.homes.ready_before {
            _ if filter.rooms.is_some() => union(ones(self.room_bits.into()).map(|category| rooms[category])),
            _ if filter.has_price_filter() => union(rooms),
            Some(before) => subset(candidates, |slot| summaries[slot].first_ready_on < before),
            None => candidates,
        };
        let of_class = self.classes.iter().zip(block.classes).filter(|(is_allowed, _)| **is_allowed);
        Matches { of_class: union(of_class.map(|(_, of_class)| of_class)) & candidates, with_home, rooms }
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
    fn rooms(
        &self,
        candidates: u64,
        block: &Block,
        summaries: &[Summary],
        projects: &[Project],
    ) -> [u64; ROOM_CATEGORIES] {
        if !self.filter.has_price_filter() && self.filter.ready_before.is_none() {
            return block.rooms.map(|projects| projects & candidates);
        }
        let (mut all_match, mut unknown) = (0, 0);
        for slot in ones(candidates) {
            match summaries[slot].matching_homes(&self.homes) {
                MatchingHomes::None => {}
                MatchingHomes::Unknown => unknown |= 1 << slot,
                MatchingHomes::All => all_match |= 1 << slot,
            }
        }
        let mut rooms = block.rooms.map(|projects| projects & all_match);
        for slot in ones(unknown) {
            for category in ones(projects[slot].matching_rooms(&self.homes).into()) {
                rooms[category] |= 1 << slot;
            }
        }
        rooms
    }
}

/// Returns the projects for which the condition holds.
fn subset(projects: u64, condition: impl Fn(usize) -> bool) -> u64 {
    ones(projects).fold(0, |subset, slot| subset | u64::from(condition(slot)) << slot)
}
