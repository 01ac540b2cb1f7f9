//! A change of a deal: the deal afterwards, the rows of its timeline and the types of its events.

use auth::UserId;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::{
    Booking, BookingStatus, Deal, DealState, DealStatus, FreeText, NoteAudience, Role, Step, StepGroup,
    TimelineEntry,
};

/// The author of a change, as the timeline records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Author {
    /// `None` for a job.
    pub user_id: Option<UserId>,
    pub role: Role,
}

impl Author {
    pub const SYSTEM: Self = Self { user_id: None, role: Role::System };
}

/// The type of an event of a deal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DealEventType {
    DealStageChanged,
    DealCancelled,
    DealCompleted,
    BookingCreated,
    BookingExpired,
}

/// A decided change. It may be written only while the deal still has the version of `before`.
#[derive(Clone, Debug)]
pub struct Change {
    pub before: Deal,
    pub after: Deal,
    /// The Active booking before the change.
    pub previous_booking: Option<Booking>,
    /// The previous or a new booking, as it is after the change.
    pub booking: Option<Booking>,
    pub entries: Vec<TimelineEntry>,
    /// The readers of the note and the reason of an override.
    pub audience: NoteAudience,
    /// The comment of an override, for the register.
    pub override_comment: Option<FreeText>,
    pub author: Author,
}

impl Change {
    /// Starts a change of the deal and raises its version by one (INV-DEAL-3).
    ///
    /// Clamps `now` to the previous change, since the clocks of replicas may differ.
    pub(super) fn of(state: &DealState, author: Author, now: OffsetDateTime) -> Self {
        let before = state.deal.clone();
        let after = Deal {
            row_version: before.row_version + 1,
            updated_at: now.max(before.updated_at),
            updated_by_user_id: author.user_id,
            ..before.clone()
        };
        let booking = state.booking.clone();
        Self {
            before,
            after,
            previous_booking: booking.clone(),
            booking,
            entries: Vec::new(),
            audience: NoteAudience::Everyone,
            override_comment: None,
            author,
        }
    }

    /// Returns the time of the change.
    pub fn at(&self) -> OffsetDateTime {
        self.after.updated_at
    }

    /// Moves the deal to a step and sets the dependent fields (INV-DEAL-2, INV-DEAL-4).
    #[must_use]
    pub(super) fn with_step(mut self, step: &Step, cancel_reason: Option<FreeText>) -> Self {
        let (at, deal) = (self.at(), &mut self.after);
        deal.step_id = step.id;
        deal.step_group = step.group;
        deal.step_entered_at = at;
        deal.status = step.group.status();
        deal.cancelled_at = (deal.status == DealStatus::Cancelled).then_some(at);
        deal.cancel_reason = cancel_reason;
        deal.completed_at = (deal.status == DealStatus::Completed).then_some(at);
        self
    }

    /// Adds a row to the timeline.
    #[must_use]
    pub(super) fn with_entry(mut self, entry: TimelineEntry) -> Self {
        self.entries.push(entry);
        self
    }

    /// Books the object until `expires_at`. The deal must have its new step already.
    #[must_use]
    pub(super) fn with_booking(mut self, expires_at: OffsetDateTime) -> Self {
        let booking = Booking::new(&self.after, expires_at);
        let created = TimelineEntry::BookingCreated { booking_id: booking.id, expires_at };
        self.booking = Some(booking);
        self.with_entry(created)
    }

    /// Adds a `StatusChanged` row if the status has changed.
    #[must_use]
    pub(super) fn with_status_entry(self, reason: Option<FreeText>) -> Self {
        let (from_status, to_status) = (self.before.status, self.after.status);
        if from_status == to_status {
            return self;
        }
        self.with_entry(TimelineEntry::StatusChanged { from_status, to_status, reason })
    }

    /// Ends the booking, if there is one (INV-BKG-3).
    #[must_use]
    pub(super) fn with_ended_booking(mut self, status: BookingStatus) -> Self {
        let at = self.at();
        self.booking = self.booking.map(|booking| booking.end(status, at));
        self
    }

    /// Sorts the timeline rows by kind, and stores the version of a stage change. Suspends the
    /// expiry of an Active booking while the deal is in Contract (INV-BKG-4).
    #[must_use]
    pub(super) fn finish(mut self) -> Self {
        let is_expiry_suspended = self.after.step_group == StepGroup::Contract;
        if let Some(booking) = self.booking.as_mut().filter(|booking| booking.status == BookingStatus::Active)
        {
            booking.is_expiry_suspended = is_expiry_suspended;
        }
        self.entries.sort_by_key(TimelineEntry::kind);
        if self.is_stage_change() {
            self.after.stage_change_version = self.after.row_version;
        }
        self
    }

    /// Returns true if the step, the status or the agent changes. The status changes only with the
    /// step.
    fn is_stage_change(&self) -> bool {
        self.has_changed_step() || self.before.agent_user_id != self.after.agent_user_id
    }

    /// Returns true if the deal enters another step.
    pub fn has_changed_step(&self) -> bool {
        self.before.step_id != self.after.step_id
    }

    /// Returns the booking if it differs from the previous one and must be written.
    pub fn changed_booking(&self) -> Option<&Booking> {
        self.booking.as_ref().filter(|booking| self.previous_booking.as_ref() != Some(booking))
    }

    /// Returns true if the change ends an Active booking.
    pub fn has_ended_booking(&self) -> bool {
        self.booking.as_ref().is_some_and(|booking| booking.status != BookingStatus::Active)
    }

    /// Returns the types of the change's events in the order of publication.
    pub fn event_types(&self) -> Vec<DealEventType> {
        let is_new = |status| self.before.status != status && self.after.status == status;
        let has_expired =
            self.booking.as_ref().is_some_and(|booking| booking.status == BookingStatus::Expired);
        [
            (self.is_stage_change(), DealEventType::DealStageChanged),
            (is_new(DealStatus::Cancelled), DealEventType::DealCancelled),
            (is_new(DealStatus::Completed), DealEventType::DealCompleted),
            (self.previous_booking.is_none() && self.booking.is_some(), DealEventType::BookingCreated),
            (has_expired, DealEventType::BookingExpired),
        ]
        .into_iter()
        .filter_map(|(is_published, event_type)| is_published.then_some(event_type))
        .collect()
    }
}
