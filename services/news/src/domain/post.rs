//! A post: its life and its text.

use auth::{CompanyId, UserId};
use time::OffsetDateTime;
use values::{Code, List, Text};

use super::{Block, FileId, PostId};
use crate::error::{POST_ARCHIVED, POST_INVALID_TRANSITION, POST_PUBLISH_INCOMPLETE};

pub type Title = Text<1, 256>;
pub type Summary = Text<0, 1000>;
pub type Tag = Text<1, 64>;

pub type Tags = List<Tag, 0, 20>;

values::text_enum! {
    /// Where a post is in its life. Archived is final.
    pub enum PostStatus {
        Draft,
        Published,
        Unpublished,
        Archived,
    }
}

/// The aggregate.
#[derive(Clone, Debug)]
pub struct Post {
    pub id: PostId,
    pub author_user_id: UserId,
    /// Also the tenant. Posts of investors and employees have none.
    pub author_company_id: Option<CompanyId>,
    pub title: Title,
    pub summary: Option<Summary>,
    pub cover_file_id: Option<FileId>,
    pub tags: Vec<Tag>,
    pub status: PostStatus,
    pub blocks: Vec<Block>,
    /// The first time, kept ever after.
    pub published_at: Option<OffsetDateTime>,
    pub created_at: OffsetDateTime,
    pub updated_at: OffsetDateTime,
    pub updated_by_user_id: UserId,
    pub deleted_at: Option<OffsetDateTime>,
    pub version: i64,
}

/// Whether a publication is the post's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstTime(pub bool);

impl Post {
    /// Puts the post before the public; says whether for the first time.
    ///
    /// # Errors
    /// [`POST_ARCHIVED`]; [`POST_INVALID_TRANSITION`] unless it is a draft or was unpublished;
    /// [`POST_PUBLISH_INCOMPLETE`] without a block.
    pub fn publish(&mut self, now: OffsetDateTime) -> Result<FirstTime, Code> {
        self.leave(&[PostStatus::Draft, PostStatus::Unpublished])?;
        if self.blocks.is_empty() {
            return Err(POST_PUBLISH_INCOMPLETE);
        }
        self.status = PostStatus::Published;
        let first_time = self.published_at.is_none();
        self.published_at.get_or_insert(now);
        Ok(FirstTime(first_time))
    }

    /// Takes the post back from the public.
    ///
    /// # Errors
    /// [`POST_ARCHIVED`]; [`POST_INVALID_TRANSITION`] unless it is published.
    pub fn unpublish(&mut self) -> Result<(), Code> {
        self.leave(&[PostStatus::Published])?;
        self.status = PostStatus::Unpublished;
        Ok(())
    }

    /// Puts the post away for good.
    ///
    /// # Errors
    /// [`POST_ARCHIVED`]; [`POST_INVALID_TRANSITION`] unless it is a draft or was unpublished.
    pub fn archive(&mut self) -> Result<(), Code> {
        self.leave(&[PostStatus::Draft, PostStatus::Unpublished])?;
        self.status = PostStatus::Archived;
        Ok(())
    }

    /// # Errors
    /// [`POST_ARCHIVED`]: everything else may be edited.
    pub fn check_editable(&self) -> Result<(), Code> {
        if self.status == PostStatus::Archived { Err(POST_ARCHIVED) } else { Ok(()) }
    }

    fn leave(&self, from: &[PostStatus]) -> Result<(), Code> {
        self.check_editable()?;
        if from.contains(&self.status) { Ok(()) } else { Err(POST_INVALID_TRANSITION) }
    }
}
