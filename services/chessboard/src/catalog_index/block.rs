//! Sets of projects as bits, which a search combines 64 at a time.

use std::iter;

use crate::catalog_index::project::{ROOM_CATEGORIES, Summary};
use crate::domain::ProjectClass;

pub(super) const CLASSES: [ProjectClass; 4] =
    [ProjectClass::Economy, ProjectClass::Comfort, ProjectClass::Business, ProjectClass::Elite];

/// Number of projects in a block.
pub(super) const BLOCK_SIZE: usize = 64;

/// The classes and rooms of up to 64 projects. Bit n of each set is the project in slot n.
pub(super) struct Block {
    /// The projects of each class.
    pub(super) classes: [u64; CLASSES.len()],
    /// The projects with a home of each room category.
    pub(super) rooms: [u64; ROOM_CATEGORIES],
    /// A range with all prices of the projects. Removed projects may leave it too wide.
    pub(super) prices: (i64, i64),
}

impl Block {
    pub(super) const fn new() -> Self {
        Self { classes: [0; CLASSES.len()], rooms: [0; ROOM_CATEGORIES], prices: Summary::NO_PRICES }
    }

    /// Returns all projects of the block. Each has a class.
    pub(super) fn projects(&self) -> u64 {
        union(self.classes)
    }

    /// Adds or replaces the project in a slot.
    pub(super) fn put(&mut self, slot: usize, summary: &Summary) {
        self.clear(slot);
        self.classes[summary.class as usize] |= 1 << slot;
        for category in ones(summary.room_bits.into()) {
            self.rooms[category] |= 1 << slot;
        }
        let (lowest, highest) = summary.prices;
        self.prices = (self.prices.0.min(lowest), self.prices.1.max(highest));
    }

    pub(super) fn clear(&mut self, slot: usize) {
        for set in self.classes.iter_mut().chain(&mut self.rooms) {
            *set &= !(1 << slot);
        }
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
