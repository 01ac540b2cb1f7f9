//! What becomes of a deal: as it is afterwards, what its timeline gets, and what others are told.

use auth::UserId;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::{Booking, BookingStatus, Deal, DealStatus, Entry, Role, Situation, Step, StepGroup, Words};

/// Who changes something, as the timeline names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Author {
    /// Nobody, of a job.
    pub user_id: Option<UserId>,
    pub role: Role,
}

impl Author {
    pub const SYSTEM: Self = Self { user_id: None, role: Role::System };
}

/// An event of a change, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    DealStageChanged,
    DealCancelled,
    DealCompleted,
    BookingCreated,
    BookingExpired,
}

/// A change that was decided upon, and holds while the deal is still as it was `before`.
#[derive(Clone, Debug)]
pub struct Change {
    pub before: Deal,
    pub after: Deal,
    /// The booking that was Active before.
    pub booked_before: Option<Booking>,
    /// That, or a new one, as it is afterwards.
    pub booking: Option<Booking>,
    pub entries: Vec<Entry>,
    pub by: Author,
}

impl Change {
    /// INV-DEAL-3. No clock that is behind another has anything end before it began.
    pub(super) fn of(situation: &Situation, by: Author, now: OffsetDateTime) -> Self {
        let before = situation.deal.clone();
        let after = Deal {
            row_version: before.row_version + 1,
            updated_at: now.max(before.updated_at),
            updated_by_user_id: by.user_id,
            ..before.clone()
        };
        let booking = situation.booking.clone();
        Self { before, after, booked_before: booking.clone(), booking, entries: Vec::new(), by }
    }

    /// When it happens.
    pub fn at(&self) -> OffsetDateTime {
        self.after.updated_at
    }

    /// INV-DEAL-2, INV-DEAL-4
    #[must_use]
    pub(super) fn into_step(mut self, step: &Step, cancel_reason: Option<Words>) -> Self {
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

    /// With a row of the timeline.
    #[must_use]
    pub(super) fn telling(mut self, entry: Entry) -> Self {
        self.entries.push(entry);
        self
    }

    /// With the row of a change of status, where it is one.
    #[must_use]
    pub(super) fn telling_status(self, reason: Option<Words>) -> Self {
        let (from_status, to_status) = (self.before.status, self.after.status);
        if from_status == to_status {
            return self;
        }
        self.telling(Entry::StatusChanged { from_status, to_status, reason })
    }

    /// INV-BKG-3
    #[must_use]
    pub(super) fn ending_booking(mut self, status: BookingStatus) -> Self {
        let at = self.at();
        self.booking = self.booking.map(|booking| booking.ended(status, at));
        self
    }

    /// INV-BKG-4, and the rows in their order.
    #[must_use]
    pub(super) fn finished(mut self) -> Self {
        let is_kept = self.after.step_group == StepGroup::Contract;
        if let Some(booking) = self.booking.as_mut().filter(|booking| booking.status == BookingStatus::Active)
        {
            booking.is_kept = is_kept;
        }
        self.entries.sort_by_key(Entry::kind);
        self
    }

    /// Whether the deal comes into another step.
    pub fn enters_step(&self) -> bool {
        self.before.step_id != self.after.step_id
    }

    /// The booking that is to be written.
    pub fn changed_booking(&self) -> Option<&Booking> {
        self.booking.as_ref().filter(|booking| self.booked_before.as_ref() != Some(booking))
    }

    /// Whether an Active booking ends.
    pub fn ends_booking(&self) -> bool {
        self.booking.as_ref().is_some_and(|booking| booking.status != BookingStatus::Active)
    }

    /// What others are told, in order.
    pub fn told(&self) -> Vec<Told> {
        let is_staged = self.enters_step() || self.before.agent_user_id != self.after.agent_user_id;
        let is_new = |status| self.before.status != status && self.after.status == status;
        let expires = self.booking.as_ref().is_some_and(|booking| booking.status == BookingStatus::Expired);
        [
            (is_staged, Told::DealStageChanged),
            (is_new(DealStatus::Cancelled), Told::DealCancelled),
            (is_new(DealStatus::Completed), Told::DealCompleted),
            (self.booked_before.is_none() && self.booking.is_some(), Told::BookingCreated),
            (expires, Told::BookingExpired),
        ]
        .into_iter()
        .filter_map(|(is_so, told)| is_so.then_some(told))
        .collect()
    }
}
