//! Limits of what one author stores.

use std::num::NonZeroU32;

use values::Code;

use crate::error::{CONTENT_LIMIT_EXCEEDED, DRAFTS_LIMIT_EXCEEDED};

/// The default of `NEWS_MAX_DRAFTS_PER_AUTHOR`, more than a person keeps.
pub const DEFAULT_MAX_DRAFTS: u32 = 1_000;
/// The default of `NEWS_MAX_CONTENT_MIB_PER_AUTHOR`, which is about sixty of the largest posts.
pub const DEFAULT_MAX_CONTENT_MIB: u32 = 1_024;

/// The limits of each author. `None` means no limit.
#[derive(Clone, Copy, Debug)]
pub struct Quotas {
    pub drafts: Option<NonZeroU32>,
    /// Size of the blocks of all posts, in MiB.
    pub content_mib: Option<NonZeroU32>,
}

impl Quotas {
    /// Checks that an author with this number of drafts may create another one.
    ///
    /// # Errors
    /// [`DRAFTS_LIMIT_EXCEEDED`]
    pub fn check_drafts(self, drafts: i64) -> Result<(), Code> {
        match self.drafts {
            Some(max) if drafts >= max.get().into() => {
                Err(DRAFTS_LIMIT_EXCEEDED.with_arg("max", max.get().into()))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the blocks of a post may grow from `stored` to `new` bytes while the blocks of
    /// all posts of the author have `of_author` bytes. Blocks may always shrink.
    ///
    /// # Errors
    /// [`CONTENT_LIMIT_EXCEEDED`]
    pub fn check_content(self, of_author: usize, stored: usize, new: usize) -> Result<(), Code> {
        let Some(max) = self.content_mib else { return Ok(()) };
        let after = of_author.saturating_sub(stored).saturating_add(new) as u64;
        if new > stored && after > u64::from(max.get()) * 1024 * 1024 {
            return Err(CONTENT_LIMIT_EXCEEDED.with_arg("max", max.get().into()));
        }
        Ok(())
    }
}
