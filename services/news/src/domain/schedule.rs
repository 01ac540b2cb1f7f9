//! Publishing and unpublishing at a time.

use auth::UserId;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::Code;

use super::{Post, PostStatus};
use crate::error::{POST_INVALID_TRANSITION, POST_SCHEDULE_MISSED};

/// The times of the next moves of a post. A time is cleared with its move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    pub publish_at: Option<OffsetDateTime>,
    pub unpublish_at: Option<OffsetDateTime>,
    /// The user who has set the times, and the issue time of this user's token. `None` if no times
    /// were set. A publication clears its time and keeps this field.
    pub set_by: Option<(UserId, OffsetDateTime)>,
}

values::text_enum! {
    /// A move that a post can make at a time.
    pub enum ScheduledMove {
        Publish,
        Unpublish,
    }
}

/// A scheduled move that failed. The post kept its status, and the schedule was cleared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ScheduleFailure {
    /// The move that failed.
    #[serde(rename = "Move")]
    pub failed_move: ScheduledMove,
    /// The code of the problem that the move by a request would return.
    #[schema(examples("NEWS_POST_PUBLISH_INCOMPLETE"))]
    pub code: String,
    /// Time of the attempt, in UTC.
    #[serde(with = "time::serde::rfc3339")]
    pub failed_at: OffsetDateTime,
}

impl Schedule {
    /// Returns the time of the next move.
    pub fn next_at(&self) -> Option<OffsetDateTime> {
        self.publish_at.or(self.unpublish_at)
    }

    /// Returns the next move if its time has passed.
    pub fn due(&self, now: OffsetDateTime) -> Option<ScheduledMove> {
        self.next_at().filter(|at| *at <= now)?;
        Some(if self.publish_at.is_some() { ScheduledMove::Publish } else { ScheduledMove::Unpublish })
    }
}

impl Post {
    /// Replaces the schedule by that of a user, whose token has this issue time. The caller has
    /// checked that `unpublish_at` is after `publish_at`.
    ///
    /// # Errors
    /// - `POST_ARCHIVED` if the post is archived.
    /// - [`POST_INVALID_TRANSITION`] if the post cannot make a move at its time.
    /// - [`POST_SCHEDULE_MISSED`] if both times are set and the time of unpublishing has passed.
    pub fn set_schedule(
        &mut self,
        publish_at: Option<OffsetDateTime>,
        unpublish_at: Option<OffsetDateTime>,
        (by, token_issued_at): (UserId, OffsetDateTime),
        now: OffsetDateTime,
    ) -> Result<(), Code> {
        self.check_editable()?;
        let is_published = self.status == PostStatus::Published;
        let unpublishes_only = unpublish_at.is_some() && publish_at.is_none();
        if is_published && publish_at.is_some() || !is_published && unpublishes_only {
            return Err(POST_INVALID_TRANSITION);
        }
        if publish_at.is_some() && unpublish_at.is_some_and(|at| at <= now) {
            return Err(POST_SCHEDULE_MISSED);
        }
        let set_by = publish_at.or(unpublish_at).map(|_| (by, token_issued_at));
        self.schedule = Schedule { publish_at, unpublish_at, set_by };
        self.schedule_failure = None;
        Ok(())
    }

    /// Clears the schedule and stores why its due move failed.
    pub fn fail_schedule(&mut self, failed_move: ScheduledMove, code: Code, now: OffsetDateTime) {
        self.schedule = Schedule::default();
        self.schedule_failure =
            Some(ScheduleFailure { failed_move, code: code.id.to_owned(), failed_at: now });
    }
}

#[cfg(test)]
mod tests {
    use auth::UserId;
    use time::OffsetDateTime;

    use super::{Schedule, ScheduledMove};
    use crate::domain::post::tests::{NOW, hours, post};
    use crate::domain::{Post, PostStatus};
    use crate::error::{
        POST_ARCHIVED, POST_INVALID_TRANSITION, POST_PUBLISH_INCOMPLETE, POST_SCHEDULE_MISSED,
    };

    fn schedule(publish_at: Option<OffsetDateTime>, unpublish_at: Option<OffsetDateTime>) -> Schedule {
        Schedule { publish_at, unpublish_at, set_by: None }
    }

    /// The next move is due from its time on. If both times are set, the publication is next.
    #[test]
    fn move_is_due_from_its_time_on() {
        for (publish_at, unpublish_at, next_at, next_move) in [
            (None, None, None, None),
            (Some(hours(1)), None, Some(hours(1)), Some(ScheduledMove::Publish)),
            (Some(hours(1)), Some(hours(2)), Some(hours(1)), Some(ScheduledMove::Publish)),
            (None, Some(hours(2)), Some(hours(2)), Some(ScheduledMove::Unpublish)),
        ] {
            let schedule = schedule(publish_at, unpublish_at);
            assert_eq!(schedule.next_at(), next_at);
            let Some(at) = next_at else { continue };
            assert_eq!(schedule.due(at - time::Duration::SECOND), None);
            assert_eq!([schedule.due(at), schedule.due(hours(9))], [next_move; 2]);
        }
    }

    /// A draft is scheduled to be published, and a published post only to be unpublished.
    #[test]
    fn schedule_fits_the_status() {
        use PostStatus::{Archived, Draft, Published};
        let (early, late) = (Some(hours(3)), Some(hours(4)));
        for (status, publish_at, unpublish_at, expected) in [
            (Draft, early, None, Ok(())),
            (Draft, early, late, Ok(())),
            (Draft, None, None, Ok(())),
            (Draft, None, late, Err(POST_INVALID_TRANSITION)),
            (Published, None, late, Ok(())),
            (Published, None, None, Ok(())),
            (Published, early, None, Err(POST_INVALID_TRANSITION)),
            (Published, early, late, Err(POST_INVALID_TRANSITION)),
            (Draft, Some(NOW), Some(hours(2)), Err(POST_SCHEDULE_MISSED)),
            (Draft, Some(NOW), Some(hours(1)), Err(POST_SCHEDULE_MISSED)),
            (Published, None, Some(hours(1)), Ok(())),
            (Archived, early, None, Err(POST_ARCHIVED)),
        ] {
            let (mut scheduled, user) = (post(status), UserId::generate());
            let set = scheduled.set_schedule(publish_at, unpublish_at, (user, NOW), hours(2));
            assert_eq!(set, expected, "{status} {publish_at:?} {unpublish_at:?}");
            if expected.is_ok() {
                let set_by = publish_at.or(unpublish_at).map(|_| (user, NOW));
                assert_eq!(scheduled.schedule, Schedule { publish_at, unpublish_at, set_by });
            }
        }
    }

    /// A failed move clears the schedule, and the next schedule clears the failure.
    #[test]
    fn failed_move_clears_the_schedule() {
        let mut failed: Post = post(PostStatus::Draft);
        failed.fail_schedule(ScheduledMove::Publish, POST_PUBLISH_INCOMPLETE, hours(5));
        assert_eq!(failed.schedule, Schedule::default());
        let failure = failed.schedule_failure.clone().unwrap();
        assert_eq!((failure.failed_move, failure.failed_at), (ScheduledMove::Publish, hours(5)));
        assert_eq!(failure.code, POST_PUBLISH_INCOMPLETE.id);
        failed.set_schedule(Some(hours(9)), None, (UserId::generate(), NOW), hours(6)).unwrap();
        assert_eq!(failed.schedule_failure, None);
    }
}
