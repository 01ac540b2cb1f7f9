//! A post: its life and its text.

use auth::{CompanyId, UserId};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::Text;

use super::{Block, FileId, PostId};

pub type Title = Text<1, 256>;
pub type Summary = Text<0, 1000>;
pub type Tag = Text<1, 64>;

/// Tags of a post.
pub const MAX_TAGS: usize = 20;

/// Where a post is in its life. Archived is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum PostStatus {
    Draft,
    Published,
    Unpublished,
    Archived,
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

/// Why a move was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    #[error("the post is archived")]
    Archived,
    #[error("a post does not go from {from:?} to {to:?}")]
    InvalidTransition { from: PostStatus, to: PostStatus },
    #[error("a post needs a block before it is published")]
    PublishIncomplete,
}

impl Post {
    /// Puts the post before the public; says whether for the first time.
    ///
    /// # Errors
    /// `Archived`; `InvalidTransition` unless it is a draft or was unpublished; `PublishIncomplete`
    /// without a block.
    pub fn publish(&mut self, now: OffsetDateTime) -> Result<FirstTime, PostError> {
        self.move_to(PostStatus::Published, &[PostStatus::Draft, PostStatus::Unpublished])?;
        if self.blocks.is_empty() {
            return Err(PostError::PublishIncomplete);
        }
        self.status = PostStatus::Published;
        let first_time = self.published_at.is_none();
        self.published_at.get_or_insert(now);
        Ok(FirstTime(first_time))
    }

    /// Takes the post back from the public.
    ///
    /// # Errors
    /// `Archived`; `InvalidTransition` unless it is published.
    pub fn unpublish(&mut self) -> Result<(), PostError> {
        self.move_to(PostStatus::Unpublished, &[PostStatus::Published])?;
        self.status = PostStatus::Unpublished;
        Ok(())
    }

    /// Puts the post away for good.
    ///
    /// # Errors
    /// `Archived`; `InvalidTransition` unless it is a draft or was unpublished.
    pub fn archive(&mut self) -> Result<(), PostError> {
        self.move_to(PostStatus::Archived, &[PostStatus::Draft, PostStatus::Unpublished])?;
        self.status = PostStatus::Archived;
        Ok(())
    }

    /// # Errors
    /// `Archived`: everything else may be edited.
    pub fn check_editable(&self) -> Result<(), PostError> {
        if self.status == PostStatus::Archived { Err(PostError::Archived) } else { Ok(()) }
    }

    fn move_to(&self, to: PostStatus, from: &[PostStatus]) -> Result<(), PostError> {
        self.check_editable()?;
        if from.contains(&self.status) {
            Ok(())
        } else {
            Err(PostError::InvalidTransition { from: self.status, to })
        }
    }
}
