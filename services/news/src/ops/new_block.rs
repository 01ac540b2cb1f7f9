//! The blocks of a request, before their embeds are resolved.

use std::collections::{HashMap, HashSet};

use ::web::Problem;
use values::{FieldError, Invalid};

use crate::domain::{Block, BlockId, Embed, Post, SelectionId, SnapshotId};

/// A request to replace the content of a post.
pub struct BlocksEdit {
    /// The version that the caller read.
    pub version: Option<i64>,
    pub blocks: Vec<NewBlock>,
    /// False if the sources of the blocks are those of a revision, which the caller may not know.
    pub has_named_sources: bool,
}

/// A block of a request.
pub struct NewBlock {
    /// Position in the request, for the pointers of refusals.
    pub index: usize,
    /// True if the block has no `BlockId` in the request, so that the service has made one.
    pub has_new_id: bool,
    pub content: NewContent,
}

pub enum NewContent {
    /// A text or a gallery, which needs no call.
    Ready(Block),
    /// An embed without the data of its snapshot.
    Embed { block_id: BlockId, sort_order: u32, target: EmbedTarget, refresh: bool },
}

/// The source or the snapshot that an embed names.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum EmbedTarget {
    Source(SelectionId),
    Snapshot(SnapshotId),
    /// Both ids of a block that is sent back as it was read.
    AsRead(SelectionId, SnapshotId),
}

/// Returns the pointer to a block of a request.
pub fn block_pointer(index: usize) -> String {
    format!("/Blocks/{index}")
}

impl NewBlock {
    pub fn sort_order(&self) -> u32 {
        match &self.content {
            NewContent::Ready(block) => block.sort_order(),
            NewContent::Embed { sort_order, .. } => *sort_order,
        }
    }

    /// Returns the source or the snapshot of an embed.
    pub fn target(&self) -> Option<EmbedTarget> {
        match self.content {
            NewContent::Ready(_) => None,
            NewContent::Embed { target, .. } => Some(target),
        }
    }
}

impl BlocksEdit {
    /// Accepts a block with two ids if the post has it, since a client may send back a block as it
    /// read it. The target of such a block becomes its snapshot.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` if the post has no such block. Any other block must name one target.
    pub fn accept_read_blocks(&mut self, post: Option<&Post>) -> Result<(), Problem> {
        let embeds: Vec<&Embed> = post.into_iter().flat_map(embeds).collect();
        let mut errors = Vec::new();
        for NewBlock { index, content, .. } in &mut self.blocks {
            let NewContent::Embed { block_id, target, .. } = content else { continue };
            let EmbedTarget::AsRead(source, snapshot) = *target else { continue };
            let is_stored = embeds.iter().any(|embed| {
                (embed.block_id, embed.source_selection_id, embed.snapshot_id)
                    == (*block_id, source, snapshot)
            });
            if is_stored {
                *target = EmbedTarget::Snapshot(snapshot);
            } else {
                let invalid = Invalid::new("exactly_one");
                errors.push(FieldError { field: block_pointer(*index), invalid });
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(Problem::validation_failed(errors)) }
    }

    /// Returns the selections that the caller names. Call it before [`Self::refresh_sources`].
    pub fn named_sources(&self) -> HashSet<SelectionId> {
        let sources = self.blocks.iter().filter_map(|block| match block.target() {
            Some(EmbedTarget::Source(source)) => Some(source),
            Some(EmbedTarget::Snapshot(_) | EmbedTarget::AsRead(..)) | None => None,
        });
        sources.filter(|_| self.has_named_sources).collect()
    }

    /// Makes all blocks of a refreshed selection name the selection in place of a snapshot. One
    /// block with `refresh` refreshes its selection.
    ///
    /// Returns, for each refreshed selection, the snapshot that the new one replaces.
    pub fn refresh_sources(&mut self, post: &Post) -> HashMap<SelectionId, SnapshotId> {
        let sources: HashMap<SnapshotId, SelectionId> =
            embeds(post).map(|embed| (embed.snapshot_id, embed.source_selection_id)).collect();
        let source_of = |target: EmbedTarget| match target {
            EmbedTarget::Source(source) => Some(source),
            EmbedTarget::Snapshot(id) | EmbedTarget::AsRead(_, id) => sources.get(&id).copied(),
        };
        let refreshed = self.blocks.iter().filter_map(|block| match block.content {
            NewContent::Embed { target, refresh: true, .. } => source_of(target),
            NewContent::Embed { .. } | NewContent::Ready(_) => None,
        });
        let refreshed: HashSet<SelectionId> = refreshed.collect();
        for block in &mut self.blocks {
            let NewContent::Embed { target, .. } = &mut block.content else { continue };
            if let Some(source) = source_of(*target).filter(|source| refreshed.contains(source)) {
                *target = EmbedTarget::Source(source);
            }
        }
        let replaced = embeds(post).filter(|embed| refreshed.contains(&embed.source_selection_id));
        replaced.map(|embed| (embed.source_selection_id, embed.snapshot_id)).collect()
    }
}

/// Returns the embeds of the stored content.
pub fn embeds(post: &Post) -> impl Iterator<Item = &Embed> {
    post.blocks.iter().filter_map(Block::embed)
}
