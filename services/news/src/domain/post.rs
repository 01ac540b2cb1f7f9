//! The aggregate of posts.

use std::collections::HashSet;

use auth::{CompanyId, UserId};
use time::OffsetDateTime;
use values::{Code, List, Text, fold};

use super::{AuthorId, Block, FileId, PostId, Schedule, ScheduleFailure};
use crate::error::{POST_ARCHIVED, POST_INVALID_TRANSITION, POST_PUBLISH_INCOMPLETE};

pub type Title = Text<1, 256>;
pub type Summary = Text<0, 1000>;
pub type Tag = Text<1, 64>;

pub type Tags = List<Tag, 0, 20>;

/// Returns the tags without duplicates. Tags that search does not distinguish are duplicates.
pub fn distinct_tags(tags: Tags) -> Vec<Tag> {
    let mut seen = HashSet::new();
    tags.into_inner().into_iter().filter(|tag| seen.insert(tag_key(tag))).collect()
}

/// Returns the form of a tag that is the same for all tags that search does not distinguish.
pub fn tag_key(tag: &Tag) -> String {
    fold(tag.as_str())
}

values::text_enum! {
    /// Status of a post. Archived is final.
    pub enum PostStatus {
        Draft,
        Published,
        Unpublished,
        Archived,
    }
}

values::text_enum! {
    /// The kind of an entry in a post's log, named as the domain event.
    pub enum PostLogKind {
        PostContentChangedEvent,
    }
}

/// A post with its metadata, its status and its blocks.
#[derive(Clone, Debug)]
pub struct Post {
    pub id: PostId,
    pub author_id: AuthorId,
    pub author_user_id: UserId,
    /// The company of the post, which is also its tenant. A personal post has none.
    pub author_company_id: Option<CompanyId>,
    pub title: Title,
    pub summary: Option<Summary>,
    pub cover_file_id: Option<FileId>,
    pub tags: Vec<Tag>,
    pub status: PostStatus,
    pub blocks: Vec<Block>,
    /// Time of the first publication. Later publications keep it.
    pub published_at: Option<OffsetDateTime>,
    pub created_at: OffsetDateTime,
    pub updated_at: OffsetDateTime,
    pub updated_by_user_id: UserId,
    pub deleted_at: Option<OffsetDateTime>,
    /// True if a moderator has deleted the post.
    pub deleted_by_moderator: bool,
    pub schedule: Schedule,
    /// The last scheduled move that failed, until the next schedule or publication.
    pub schedule_failure: Option<ScheduleFailure>,
    pub version: i64,
}

/// True for the first publication of a post, false for a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstPublication(pub bool);

impl Post {
    /// Publishes the post.
    ///
    /// # Errors
    /// - [`POST_ARCHIVED`] if the post is archived.
    /// - [`POST_INVALID_TRANSITION`] if it is already published.
    /// - [`POST_PUBLISH_INCOMPLETE`] if it has no block.
    pub fn publish(&mut self, now: OffsetDateTime) -> Result<FirstPublication, Code> {
        self.check_transition(&[PostStatus::Draft, PostStatus::Unpublished])?;
        if self.blocks.is_empty() {
            return Err(POST_PUBLISH_INCOMPLETE);
        }
        self.status = PostStatus::Published;
        let is_first = self.published_at.is_none();
        self.published_at.get_or_insert(now);
        self.schedule.publish_at = None;
        self.schedule_failure = None;
        Ok(FirstPublication(is_first))
    }

    /// Unpublishes the post.
    ///
    /// # Errors
    /// - [`POST_ARCHIVED`] if the post is archived.
    /// - [`POST_INVALID_TRANSITION`] if it is not published.
    pub fn unpublish(&mut self) -> Result<(), Code> {
        self.check_transition(&[PostStatus::Published])?;
        self.status = PostStatus::Unpublished;
        self.schedule = Schedule::default();
        Ok(())
    }

    /// Archives the post, which is final.
    ///
    /// # Errors
    /// - [`POST_ARCHIVED`] if the post is already archived.
    /// - [`POST_INVALID_TRANSITION`] if it is published.
    pub fn archive(&mut self) -> Result<(), Code> {
        self.check_transition(&[PostStatus::Draft, PostStatus::Unpublished])?;
        self.status = PostStatus::Archived;
        self.schedule = Schedule::default();
        Ok(())
    }

    /// Deletes the post softly.
    pub fn delete(&mut self, now: OffsetDateTime, by_moderator: bool) {
        self.deleted_at = Some(now);
        self.deleted_by_moderator = by_moderator;
        self.schedule = Schedule::default();
    }

    /// Undeletes the post. A published one becomes Unpublished.
    pub fn undelete(&mut self) {
        self.deleted_at = None;
        self.deleted_by_moderator = false;
        if self.status == PostStatus::Published {
            self.status = PostStatus::Unpublished;
        }
    }

    /// Records a change. Its time never goes back, although clocks of replicas differ.
    pub fn touch(&mut self, by: UserId, now: OffsetDateTime) {
        self.updated_at = now.max(self.updated_at);
        self.updated_by_user_id = by;
    }

    /// Checks that the post can be edited.
    ///
    /// # Errors
    /// [`POST_ARCHIVED`] if the post is archived.
    pub fn check_editable(&self) -> Result<(), Code> {
        if self.status == PostStatus::Archived { Err(POST_ARCHIVED) } else { Ok(()) }
    }

    fn check_transition(&self, from: &[PostStatus]) -> Result<(), Code> {
        self.check_editable()?;
        if from.contains(&self.status) { Ok(()) } else { Err(POST_INVALID_TRANSITION) }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use auth::UserId;
    use time::OffsetDateTime;
    use values::{List, Text};

    use super::{FirstPublication, Post, PostStatus, Schedule, Tag, distinct_tags};
    use crate::domain::{AuthorId, Block, BlockId, PostId, TextBlock, TextFormat};
    use crate::error::{POST_ARCHIVED, POST_INVALID_TRANSITION, POST_PUBLISH_INCOMPLETE};

    pub(in crate::domain) const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    pub(in crate::domain) fn hours(hours: i64) -> OffsetDateTime {
        NOW + time::Duration::hours(hours)
    }

    /// Returns a personal post with this status, one block and two scheduled times.
    pub(in crate::domain) fn post(status: PostStatus) -> Post {
        let author = UserId::generate();
        let text = Text::parse("Keys are handed over").unwrap();
        let block = TextBlock::new(BlockId::generate(), 0, TextFormat::Plain, &text).unwrap();
        Post {
            id: PostId::generate(),
            author_id: AuthorId::generate(),
            author_user_id: author,
            author_company_id: None,
            title: Text::parse("News").unwrap(),
            summary: None,
            cover_file_id: None,
            tags: vec![],
            status,
            blocks: vec![Block::Text(block)],
            published_at: None,
            created_at: NOW,
            updated_at: hours(1),
            updated_by_user_id: author,
            deleted_at: None,
            deleted_by_moderator: false,
            schedule: Schedule { publish_at: Some(hours(5)), unpublish_at: Some(hours(6)), set_by: None },
            schedule_failure: None,
            version: 1,
        }
    }

    /// Each status permits its own transitions. Any other transition is refused.
    #[test]
    fn status_decides_allowed_transitions() {
        use PostStatus::{Archived, Draft, Published, Unpublished};
        for (status, published, unpublished, archived) in [
            (Draft, Ok(Published), Err(POST_INVALID_TRANSITION), Ok(Archived)),
            (Published, Err(POST_INVALID_TRANSITION), Ok(Unpublished), Err(POST_INVALID_TRANSITION)),
            (Unpublished, Ok(Published), Err(POST_INVALID_TRANSITION), Ok(Archived)),
            (Archived, Err(POST_ARCHIVED), Err(POST_ARCHIVED), Err(POST_ARCHIVED)),
        ] {
            let mut moved = post(status);
            assert_eq!(moved.publish(NOW).map(|_| moved.status), published, "{status}");
            let mut moved = post(status);
            assert_eq!(moved.unpublish().map(|()| moved.status), unpublished, "{status}");
            let mut moved = post(status);
            assert_eq!(moved.archive().map(|()| moved.status), archived, "{status}");
            let editable = post(status).check_editable();
            assert_eq!(editable.is_ok(), status != Archived, "{status}");
        }
    }

    /// A post needs a block for its publication, and keeps the time of its first publication.
    #[test]
    fn publication_needs_a_block_and_keeps_its_first_time() {
        let mut published = post(PostStatus::Draft);
        assert_eq!(published.publish(hours(2)), Ok(FirstPublication(true)));
        assert_eq!((published.published_at, published.schedule.publish_at), (Some(hours(2)), None));
        published.unpublish().unwrap();
        assert_eq!(published.schedule, Schedule::default());
        assert_eq!(published.publish(hours(3)), Ok(FirstPublication(false)));
        assert_eq!(published.published_at, Some(hours(2)));
        let mut empty = Post { blocks: vec![], ..post(PostStatus::Draft) };
        assert_eq!(empty.publish(NOW), Err(POST_PUBLISH_INCOMPLETE));
    }

    /// An archived or deleted post has no schedule.
    #[test]
    fn archived_or_deleted_post_has_no_schedule() {
        let (mut archived, mut deleted) = (post(PostStatus::Draft), post(PostStatus::Draft));
        archived.archive().unwrap();
        deleted.delete(hours(2), true);
        assert_eq!((archived.schedule, deleted.schedule), (Schedule::default(), Schedule::default()));
        assert_eq!(deleted.deleted_at, Some(hours(2)));
    }

    /// The time of a change does not go back, although clocks differ.
    #[test]
    fn time_of_a_change_does_not_go_back() {
        let (mut changed, user) = (post(PostStatus::Draft), UserId::generate());
        changed.touch(user, NOW);
        assert_eq!((changed.updated_at, changed.updated_by_user_id), (hours(1), user));
        changed.touch(user, hours(2));
        assert_eq!(changed.updated_at, hours(2));
    }

    /// The first of the tags that search does not distinguish stays.
    #[test]
    fn first_of_equal_tags_stays() {
        let tags = ["Ёлка", "Park", "ЕЛКА", "park "].map(|tag| Tag::parse(tag).unwrap());
        let distinct = distinct_tags(List::parse(tags.to_vec()).unwrap());
        assert_eq!(distinct, tags[..2]);
    }
}
