//! The override of a deal's status by the platform.

use time::OffsetDateTime;
use values::Code;

use super::rules::check_contract;
use super::{BookingStatus, Change, DealState, DealStatus, FreeText, NoteAudience, TimelineEntry};

/// A requested override.
#[derive(Clone, Debug)]
pub struct StatusOverride {
    pub target: DealStatus,
    /// `None` in a preview.
    pub comment: Option<FreeText>,
    /// The readers of the comment.
    pub audience: NoteAudience,
    /// Books the object in the same change, until this time.
    pub booked_until: Option<OffsetDateTime>,
}

impl DealState {
    pub(super) fn override_status(
        &self,
        change: Change,
        requested: StatusOverride,
    ) -> Result<Option<Change>, Code> {
        let StatusOverride { target, comment, audience, booked_until } = requested;
        if target == self.deal.status {
            return Ok(None);
        }
        let step = self.receiving_step(target.group())?;
        check_contract(step.group, &self.deal.contract)?;
        let change = Change { audience, override_comment: comment.clone(), ..change };
        let change = if target == DealStatus::Cancelled {
            change
                .with_step(step, comment.clone())
                .with_ended_booking(BookingStatus::Cancelled)
                .with_entry(TimelineEntry::DealCancelled { reason: comment.clone() })
        } else {
            change.with_step(step, None).with_status_entry(comment.clone())
        };
        let change = match booked_until {
            Some(expires_at) => {
                self.check_bookable()?;
                change.with_booking(expires_at)
            }
            None => change,
        };
        Ok(Some(match comment {
            Some(text) => change.with_entry(TimelineEntry::ManualNote { text }),
            None => change,
        }))
    }
}
