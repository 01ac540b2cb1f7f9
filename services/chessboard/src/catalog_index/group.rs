//! The projects with the same spelling of their city, in memory.

use std::collections::HashMap;
use std::mem;

use crate::catalog_index::block::{BLOCK_SIZE, Block, shrink};
use crate::catalog_index::project::{Homes, PriceRange, Project, Summary};

/// A city as projects write it. The folded form is the value of the filter.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Spelling {
    pub(super) folded: String,
    pub(super) city: String,
}

/// The projects with the same spelling of their city.
pub(super) struct Group {
    pub(super) spelling: Spelling,
    /// A summary for each project.
    summaries: Vec<Summary>,
    projects: Vec<Project>,
    /// A block for each [`BLOCK_SIZE`] projects.
    blocks: Vec<Block>,
}

impl Group {
    fn new(spelling: Spelling) -> Self {
        // Many groups have one project, and the first growth of a vector makes room for four.
        Self {
            spelling,
            summaries: Vec::with_capacity(1),
            projects: Vec::with_capacity(1),
            blocks: Vec::with_capacity(1),
        }
    }

    /// Adds a project, and returns its index.
    pub(super) fn push(&mut self, summary: Summary, homes: Homes, project: Project) -> usize {
        let index = self.projects.len();
        if index.is_multiple_of(BLOCK_SIZE) {
            self.blocks.push(Block::new());
        }
        self.blocks[index / BLOCK_SIZE].put(index % BLOCK_SIZE, &summary, homes);
        self.summaries.push(summary);
        self.projects.push(project);
        index
    }

    /// Removes a project. The last project takes its index.
    pub(super) fn swap_remove(&mut self, index: usize) -> (Homes, Project) {
        self.summaries.swap_remove(index);
        let project = self.projects.swap_remove(index);
        let last = self.projects.len();
        let mut homes = self.blocks[last / BLOCK_SIZE].clear(last % BLOCK_SIZE);
        if let Some(moved) = self.summaries.get(index) {
            let block = &mut self.blocks[index / BLOCK_SIZE];
            let removed = block.clear(index % BLOCK_SIZE);
            block.put(index % BLOCK_SIZE, moved, mem::replace(&mut homes, removed));
        }
        self.blocks.truncate(last.div_ceil(BLOCK_SIZE));
        for block in [index / BLOCK_SIZE, last / BLOCK_SIZE] {
            self.renew_prices(block);
        }
        shrink(&mut self.summaries);
        shrink(&mut self.projects);
        shrink(&mut self.blocks);
        (homes, project)
    }

    fn renew_prices(&mut self, block: usize) {
        let summaries = self.summaries.chunks(BLOCK_SIZE).nth(block);
        if let (Some(block), Some(summaries)) = (self.blocks.get_mut(block), summaries) {
            block.prices =
                summaries.iter().map(|summary| summary.prices).fold(PriceRange::EMPTY, PriceRange::or);
        }
    }

    pub(super) fn project(&self, index: usize) -> Option<&Project> {
        self.projects.get(index)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.projects.is_empty()
    }

    /// Returns the size of the group without its projects. A group without projects has no size,
    /// since another group takes its place.
    pub(super) fn bytes(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        // The map of numbers has a copy of the spelling, and room for about two entries.
        let texts = 2 * (self.spelling.folded.len() + self.spelling.city.len());
        size_of::<Self>() + 2 * size_of::<(Spelling, u32)>() + texts + size_of_val(&*self.blocks)
    }

    /// Returns the blocks, each with its summaries and projects by slot.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (&Block, &[Summary], &[Project])> {
        let projects = self.projects.chunks(BLOCK_SIZE);
        let blocks = self.blocks.iter().zip(self.summaries.chunks(BLOCK_SIZE)).zip(projects);
        blocks.map(|((block, summaries), projects)| (block, summaries, projects))
    }
}

/// All groups by number. The number of a group without projects is used again.
#[derive(Default)]
pub(super) struct Groups {
    numbers: HashMap<Spelling, u32>,
    by_number: Vec<Group>,
    unused: Vec<u32>,
}

impl Groups {
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &Group> {
        self.by_number.iter()
    }

    /// Returns the number of a group, and the group.
    pub(super) fn get_or_insert(&mut self, spelling: Spelling) -> (u32, &mut Group) {
        let number = *self.numbers.entry(spelling).or_insert_with_key(|spelling| {
            let group = Group::new(spelling.clone());
            if let Some(number) = self.unused.pop() {
                self.by_number[number as usize] = group;
                return number;
            }
            self.by_number.push(group);
            u32::try_from(self.by_number.len() - 1).unwrap_or(u32::MAX)
        });
        (number, &mut self.by_number[number as usize])
    }

    pub(super) fn get_mut(&mut self, number: u32) -> &mut Group {
        &mut self.by_number[number as usize]
    }

    /// Makes the number of a group without projects available to another group.
    pub(super) fn release(&mut self, number: u32) {
        let spelling = mem::take(&mut self.by_number[number as usize].spelling);
        self.numbers.remove(&spelling);
        self.unused.push(number);
    }
}
