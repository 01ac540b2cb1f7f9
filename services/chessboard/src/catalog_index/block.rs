//! Blocks of 64 projects. For each class and room category, a block has one bit for each project.

use std::iter;

use crate::catalog_index::project::{Home, HomeFilter, Homes, PriceRange, ROOM_CATEGORIES, Summary};
use crate::domain::ProjectClass;

pub(super) const CLASSES: [ProjectClass; 4] =
    [ProjectClass::Economy, ProjectClass::Comfort, ProjectClass::Business, ProjectClass::Elite];

/// Number of projects in a block.
pub(super) const BLOCK_SIZE: usize = 64;

/// The maximum number of homes of a project that a search compares one after the other. Among more
/// homes it finds those of a room category by a binary search.
pub(super) const MAX_COMPARED_HOMES: usize = 64;

/// The classes, rooms and prices of up to 64 projects. Bit n of each set is the project in slot n.
pub(super) struct Block {
    /// The projects of each class.
    pub(super) classes: [u64; CLASSES.len()],
    /// The projects with a home of each room category.
    pub(super) rooms: [u64; ROOM_CATEGORIES],
    /// The prices of the homes of each room category and project, by category, then by slot. A
    /// search by prices reads them one after the other.
    category_prices: Vec<PriceRange>,
    /// The homes of all projects, by slot, then by category, then by price. A search that reads
    /// them finds those of a block next to each other in memory.
    homes: Vec<Home>,
    /// The index of the first home of each slot, and the number of homes.
    home_starts: [u32; BLOCK_SIZE + 1],
    /// A range with the prices of all projects.
    pub(super) prices: PriceRange,
}

impl Block {
    pub(super) const fn new() -> Self {
        Self {
            classes: [0; CLASSES.len()],
            rooms: [0; ROOM_CATEGORIES],
            category_prices: Vec::new(),
            homes: Vec::new(),
            home_starts: [0; BLOCK_SIZE + 1],
            prices: PriceRange::EMPTY,
        }
    }

    /// Returns all projects of the block. Each has a class.
    pub(super) fn projects(&self) -> u64 {
        union(self.classes)
    }

    /// Adds a project in an empty slot.
    pub(super) fn put(&mut self, slot: usize, summary: &Summary, homes: Homes) {
        self.classes[summary.class as usize] |= 1 << slot;
        for (category, prices) in ones(summary.room_bits.into()).zip(homes.category_prices) {
            self.category_prices.insert(self.position(category, slot), prices);
            self.rooms[category] |= 1 << slot;
        }
        self.prices = self.prices.or(summary.prices);
        let count = u32::try_from(homes.by_category.len()).unwrap_or(u32::MAX);
        let start = self.home_starts[slot] as usize;
        self.homes.splice(start..start, homes.by_category);
        for later in &mut self.home_starts[slot + 1..] {
            *later += count;
        }
    }

    /// Removes the project in a slot, and returns its homes. The range of all prices remains.
    pub(super) fn clear(&mut self, slot: usize) -> Homes {
        for set in &mut self.classes {
            *set &= !(1 << slot);
        }
        let mut category_prices = Vec::new();
        for category in 0..ROOM_CATEGORIES {
            if self.rooms[category] >> slot & 1 == 1 {
                category_prices.push(self.category_prices.remove(self.position(category, slot)));
                self.rooms[category] &= !(1 << slot);
            }
        }
        let (start, end) = (self.home_starts[slot], self.home_starts[slot + 1]);
        let by_category = self.homes.drain(start as usize..end as usize).collect();
        for later in &mut self.home_starts[slot + 1..] {
            *later -= end - start;
        }
        shrink(&mut self.category_prices);
        shrink(&mut self.homes);
        Homes { category_prices, by_category }
    }

    /// Returns the bits of the room categories with a home of the project in a slot that matches.
    pub(super) fn matching_rooms(&self, slot: usize, filter: &HomeFilter) -> u32 {
        let homes = &self.homes[self.home_starts[slot] as usize..self.home_starts[slot + 1] as usize];
        let is_match = |home: &Home| {
            filter.price_from <= home.price
                && home.price <= filter.price_to
                && filter.ready_before.is_none_or(|before| home.ready_on < before)
        };
        if homes.len() <= MAX_COMPARED_HOMES {
            return homes.iter().fold(0, |bits, home| bits | (home.room_bit * u32::from(is_match(home))));
        }
        let categories = (0..ROOM_CATEGORIES).filter(|category| self.rooms[*category] >> slot & 1 == 1);
        categories.map(|category| 1 << category).fold(0, |bits, room_bit| {
            let lowest = (room_bit, filter.price_from);
            let first = homes.partition_point(|home| (home.room_bit, home.price) < lowest);
            let in_range = |home: &&Home| home.room_bit == room_bit && home.price <= filter.price_to;
            bits | (room_bit * u32::from(homes[first..].iter().take_while(in_range).any(is_match)))
        })
    }

    /// Returns the index of the prices of a room category and slot.
    fn position(&self, category: usize, slot: usize) -> usize {
        let earlier_categories = self.rooms[..category].iter().map(|set| set.count_ones()).sum::<u32>();
        let earlier_slots = self.rooms[category] & ((1 << slot) - 1);
        (earlier_categories + earlier_slots.count_ones()) as usize
    }

    /// Returns the projects with a home of each room category, and the prices of these homes.
    pub(super) fn prices_by_category(&self) -> impl Iterator<Item = (u64, &[PriceRange])> {
        let mut rest = &*self.category_prices;
        self.rooms.iter().map(move |projects| {
            let of_category;
            (of_category, rest) = rest.split_at(projects.count_ones() as usize);
            (*projects, of_category)
        })
    }
}

pub(super) fn union(sets: impl IntoIterator<Item = u64>) -> u64 {
    sets.into_iter().fold(0, |union, set| union | set)
}

/// Returns the positions of the bits that are set.
pub(super) fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    iter::from_fn(move || {
        let position = (bits != 0).then(|| bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        position
    })
}

/// Returns the memory of removed items to the allocator if it is most of the memory.
pub(super) fn shrink<T>(items: &mut Vec<T>) {
    if items.len() < items.capacity() / 4 {
        items.shrink_to(items.len() * 2);
    }
}
