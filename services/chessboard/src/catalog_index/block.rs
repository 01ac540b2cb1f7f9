//! Blocks of 64 projects. For each class and room category, a block has one bit for each project.

use std::iter;

use crate::catalog_index::project::{PriceRange, ROOM_CATEGORIES, Summary};
use crate::domain::ProjectClass;

pub(super) const CLASSES: [ProjectClass; 4] =
    [ProjectClass::Economy, ProjectClass::Comfort, ProjectClass::Business, ProjectClass::Elite];

/// Number of projects in a block.
pub(super) const BLOCK_SIZE: usize = 64;

/// The classes, rooms and prices of up to 64 projects. Bit n of each set is the project in slot n.
pub(super) struct Block {
    /// The projects of each class.
    pub(super) classes: [u64; CLASSES.len()],
    /// The projects with a home of each room category.
    pub(super) rooms: [u64; ROOM_CATEGORIES],
    /// The prices of the homes of each room category and project, by category, then by slot. A
    /// search by prices reads them one after the other.
    category_prices: Vec<PriceRange>,
    /// A range with the prices of all projects.
    pub(super) prices: PriceRange,
}

impl Block {
    pub(super) const fn new() -> Self {
        Self {
            classes: [0; CLASSES.len()],
            rooms: [0; ROOM_CATEGORIES],
            category_prices: Vec::new(),
            prices: PriceRange::EMPTY,
        }
    }

    /// Returns all projects of the block. Each has a class.
    pub(super) fn projects(&self) -> u64 {
        union(self.classes)
    }

    /// Adds or replaces the project in a slot. `category_prices` has a range for each of its room
    /// categories.
    pub(super) fn put(&mut self, slot: usize, summary: &Summary, category_prices: &[PriceRange]) {
        self.clear(slot);
        self.classes[summary.class as usize] |= 1 << slot;
        for (category, prices) in ones(summary.room_bits.into()).zip(category_prices) {
            self.category_prices.insert(self.position(category, slot), *prices);
            self.rooms[category] |= 1 << slot;
        }
        self.prices = self.prices.or(summary.prices);
    }

    /// Removes the project in a slot, and returns the prices of its room categories. The range of
    /// all prices remains.
    pub(super) fn clear(&mut self, slot: usize) -> Vec<PriceRange> {
        for set in &mut self.classes {
            *set &= !(1 << slot);
        }
        let mut removed = Vec::new();
        for category in 0..ROOM_CATEGORIES {
            if self.rooms[category] >> slot & 1 == 1 {
                removed.push(self.category_prices.remove(self.position(category, slot)));
                self.rooms[category] &= !(1 << slot);
            }
        }
        shrink(&mut self.category_prices);
        removed
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
