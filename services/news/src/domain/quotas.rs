//! Limits of what one author stores.

use std::num::NonZeroU32;

use values::Code;

use crate::error::{CONTENT_LIMIT_EXCEEDED, DRAFTS_LIMIT_EXCEEDED};

/// The default of `NEWS_MAX_DRAFTS_PER_AUTHOR`, far above the number that one person needs.
pub const DEFAULT_MAX_DRAFTS: u32 = 1_000;
/// The default of `NEWS_MAX_CONTENT_MIB_PER_AUTHOR`, which is about thirty of the largest posts: a
/// text of 16 MB is stored as sent and as plain text.
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

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::Quotas;

    const MIB: usize = 1024 * 1024;

    fn quotas(drafts: u32, content_mib: u32) -> Quotas {
        Quotas { drafts: NonZeroU32::new(drafts), content_mib: NonZeroU32::new(content_mib) }
    }

    /// An author has at most the maximum of drafts. A quota of 0 is no limit.
    #[test]
    fn author_with_maximum_drafts_is_rejected() {
        assert!(quotas(3, 0).check_drafts(2).is_ok());
        for drafts in [3, 4] {
            let refused = quotas(3, 0).check_drafts(drafts).unwrap_err();
            assert_eq!(refused.arg, Some(("max", 3)));
        }
        assert!(quotas(0, 0).check_drafts(1_000_000).is_ok());
    }

    /// The blocks of an author grow up to the maximum, and always shrink.
    #[test]
    fn content_grows_up_to_the_maximum() {
        for (of_author, stored, new, is_accepted) in [
            (0, 0, 2 * MIB, true),
            (0, 0, 2 * MIB + 1, false),
            (2 * MIB, MIB, MIB, true),
            (2 * MIB, MIB, MIB + 1, false),
            (2 * MIB - 1, MIB, MIB + 1, true),
            (3 * MIB, MIB, MIB, true),
            (4 * MIB, MIB, MIB - 1, true),
            (4 * MIB, MIB, MIB + 1, false),
        ] {
            let checked = quotas(0, 2).check_content(of_author, stored, new);
            assert_eq!(checked.is_ok(), is_accepted, "{of_author} {stored} {new}");
        }
        assert!(quotas(0, 0).check_content(usize::MAX, 0, 1).is_ok());
    }
}
