//! The difference of two contents of a post, block by block.

use std::collections::{HashMap, HashSet};

use super::{Block, BlockId};

values::text_enum! {
    /// The kind of a difference between two contents. `SortOrder` alone is no difference.
    pub enum BlockChange {
        Added,
        Removed,
        /// The block has another content.
        Changed,
        /// The block has the same content in another place.
        Moved,
    }
}

/// A block that differs, as it was before and as it is after.
#[derive(Debug)]
pub struct BlockDifference {
    pub id: BlockId,
    pub change: BlockChange,
    pub before: Option<Block>,
    pub after: Option<Block>,
}

/// Returns the blocks that differ, in the order of `after`. The removed ones follow in the order of
/// `before`.
pub fn differences(before: Vec<Block>, after: Vec<Block>) -> Vec<BlockDifference> {
    let places: HashMap<BlockId, usize> = after.iter().zip(0..).map(|(block, at)| (block.id(), at)).collect();
    let kept: Vec<usize> = before.iter().filter_map(|block| places.get(&block.id()).copied()).collect();
    let in_place: HashSet<usize> = longest_increasing(&kept).into_iter().collect();
    let mut old: HashMap<BlockId, (usize, Block)> =
        before.into_iter().enumerate().map(|(place, block)| (block.id(), (place, block))).collect();
    let mut found = Vec::new();
    for (place, block) in after.into_iter().enumerate() {
        let id = block.id();
        let before = old.remove(&id).map(|(_, block)| block);
        let change = match &before {
            None => BlockChange::Added,
            Some(before) if !before.has_content_of(&block) => BlockChange::Changed,
            Some(_) if !in_place.contains(&place) => BlockChange::Moved,
            Some(_) => continue,
        };
        found.push(BlockDifference { id, change, before, after: Some(block) });
    }
    let mut removed: Vec<(usize, Block)> = old.into_values().collect();
    removed.sort_unstable_by_key(|(place, _)| *place);
    found.extend(removed.into_iter().map(|(_, block)| BlockDifference {
        id: block.id(),
        change: BlockChange::Removed,
        before: Some(block),
        after: None,
    }));
    found
}

/// Returns a longest increasing subsequence. A post has up to 200 blocks, so the comparison of each
/// pair is cheap.
fn longest_increasing(numbers: &[usize]) -> Vec<usize> {
    let mut longest: Vec<Vec<usize>> = Vec::new();
    for &number in numbers {
        let ending = longest.iter().filter(|sequence| sequence.last().is_some_and(|last| *last < number));
        let mut sequence = ending.max_by_key(|sequence| sequence.len()).cloned().unwrap_or_default();
        sequence.push(number);
        longest.push(sequence);
    }
    longest.into_iter().max_by_key(Vec::len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{BlockChange, differences, longest_increasing};
    use crate::domain::{Block, BlockId, Gallery, GalleryLayout};

    fn block(id: u128, sort_order: u32, layout: GalleryLayout) -> Block {
        let block_id = BlockId::from(Uuid::from_u128(id));
        Block::ImageGallery(Gallery { block_id, sort_order, layout, images: Vec::new() })
    }

    fn blocks(ids: &[u128]) -> Vec<Block> {
        ids.iter().zip(0..).map(|(id, at)| block(*id, at, GalleryLayout::Grid)).collect()
    }

    /// RULE-NWS-077: added, removed and moved blocks are named, and a shift is no difference.
    #[test]
    fn shifted_blocks_are_no_difference() {
        let changes = |before: &[u128], after: &[u128]| -> Vec<_> {
            let found = differences(blocks(before), blocks(after));
            found.iter().map(|found| (Uuid::from(found.id).as_u128(), found.change)).collect()
        };
        assert_eq!(changes(&[1, 2, 3], &[1, 2, 3]), []);
        assert_eq!(changes(&[1, 2, 3], &[4, 1, 2, 3]), [(4, BlockChange::Added)]);
        assert_eq!(changes(&[1, 2, 3], &[2, 3]), [(1, BlockChange::Removed)]);
        assert_eq!(changes(&[1, 2, 3], &[2, 3, 1]), [(1, BlockChange::Moved)]);
        assert_eq!(changes(&[], &[]), []);
    }

    /// RULE-NWS-077: a changed block has both contents.
    #[test]
    fn changed_block_has_both_contents() {
        let after = block(1, 7, GalleryLayout::Masonry);
        let found = differences(blocks(&[1]), vec![after.clone()]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].change, found[0].after.as_ref()), (BlockChange::Changed, Some(&after)));
        assert_eq!(found[0].before.as_ref(), Some(&blocks(&[1])[0]));
    }

    #[test]
    fn longest_increasing_subsequence_is_found() {
        assert_eq!(longest_increasing(&[3, 0, 1, 4, 2]).len(), 3);
        assert_eq!(longest_increasing(&[]), [0; 0]);
    }
}
