//! The projects of a city in memory.

use std::collections::HashMap;

use crate::catalog_index::block::{BLOCK_SIZE, Block};
use crate::catalog_index::project::{Project, Summary};

/// A city as projects write it. The folded form is the value of the filter.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Spelling {
    pub(super) folded: String,
    pub(super) city: String,
}

impl Spelling {
    pub(super) fn bytes(&self) -> usize {
        self.folded.len() + self.city.len()
    }
}

/// The projects with the same spelling of their city.
pub(super) struct City {
    pub(super) spelling: Spelling,
    /// A summary for each project.
    summaries: Vec<Summary>,
    projects: Vec<Project>,
    /// A block for each [`BLOCK_SIZE`] projects.
    blocks: Vec<Block>,
}

impl City {
    fn new(spelling: Spelling) -> Self {
        Self { spelling, summaries: Vec::new(), projects: Vec::new(), blocks: Vec::new() }
    }

    /// Adds a project, and returns its index.
    pub(super) fn push(&mut self, summary: Summary, project: Project) -> usize {
        let index = self.projects.len();
        if index.is_multiple_of(BLOCK_SIZE) {
            self.blocks.push(Block::new());
        }
        self.blocks[index / BLOCK_SIZE].put(index % BLOCK_SIZE, &summary);
        self.summaries.push(summary);
        self.projects.push(project);
        index
    }

    /// Removes a project. The last project takes its index.
    pub(super) fn swap_remove(&mut self, index: usize) -> Project {
        self.summaries.swap_remove(index);
        let removed = self.projects.swap_remove(index);
        let last = self.projects.len();
        if let Some(moved) = self.summaries.get(index) {
            self.blocks[index / BLOCK_SIZE].put(index % BLOCK_SIZE, moved);
        }
        self.blocks[last / BLOCK_SIZE].clear(last % BLOCK_SIZE);
        self.blocks.truncate(last.div_ceil(BLOCK_SIZE));
        removed
    }

    pub(super) fn project(&self, index: usize) -> Option<&Project> {
        self.projects.get(index)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.projects.is_empty()
    }

    pub(super) fn blocks_bytes(&self) -> usize {
        size_of_val(&*self.blocks)
    }

    /// Returns the blocks, each with its summaries and projects by slot.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (&Block, &[Summary], &[Project])> {
        let projects = self.projects.chunks(BLOCK_SIZE);
        let blocks = self.blocks.iter().zip(self.summaries.chunks(BLOCK_SIZE)).zip(projects);
        blocks.map(|((block, summaries), projects)| (block, summaries, projects))
    }
}

/// All cities by number. The number of a city without projects is used again.
#[derive(Default)]
pub(super) struct Cities {
    numbers: HashMap<Spelling, u32>,
    by_number: Vec<City>,
    unused: Vec<u32>,
}

impl Cities {
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &City> {
        self.by_number.iter()
    }

    /// Returns the number of a city, and the city.
    pub(super) fn get_or_insert(&mut self, spelling: Spelling) -> (u32, &mut City) {
        let number = *self.numbers.entry(spelling).or_insert_with_key(|spelling| {
            let city = City::new(spelling.clone());
            if let Some(number) = self.unused.pop() {
                self.by_number[number as usize] = city;
                return number;
            }
            self.by_number.push(city);
            u32::try_from(self.by_number.len() - 1).unwrap_or(u32::MAX)
        });
        (number, &mut self.by_number[number as usize])
    }

    pub(super) fn get_mut(&mut self, number: u32) -> &mut City {
        &mut self.by_number[number as usize]
    }

    /// Makes the number of a city without projects available to another city.
    pub(super) fn release(&mut self, number: u32) {
        self.numbers.remove(&self.by_number[number as usize].spelling);
        self.unused.push(number);
    }
}
