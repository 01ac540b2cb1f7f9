//! Deals, as four topics of CRM report them in any order.

use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use time::OffsetDateTime;
use values::{Currency, Money};

use super::{DealId, PropertyObjectId};
use crate::schema::deal;

values::text_enum! {
    /// The status of a deal in CRM.
    ///
    /// If two events with the same `RowVersion` have different statuses, the status that is listed
    /// later here wins.
    pub enum DealStatus {
        Application,
        Booking,
        Sale,
        /// A status that this service does not know.
        Other,
        Cancelled,
        Completed,
    }
}

/// The topic of an event of CRM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DealTopic {
    Created,
    StageChanged,
    Cancelled,
    Completed,
}

/// One event about a deal.
#[derive(Clone, Debug)]
pub struct DealEvent {
    pub topic: DealTopic,
    pub deal_id: DealId,
    pub developer_company_id: CompanyId,
    pub property_object_id: PropertyObjectId,
    pub row_version: i64,
    pub status: DealStatus,
    /// Time of the creation, change, cancellation or completion.
    pub at: OffsetDateTime,
    /// The user who changed the stage, if the event names one.
    pub by: Option<UserId>,
    /// The outer `None` leaves the agent as it is. The inner one removes the agent.
    #[expect(clippy::option_option, reason = "an absent member and null differ")]
    pub agent_user_id: Option<Option<UserId>>,
    pub amount: Option<Money>,
    /// The version of the previous stage change; 0 for the first one, and for an event that does
    /// not name it.
    pub previous_row_version: i64,
}

/// A change of a deal's stage. The ledger follows these changes alone.
#[derive(Clone, Copy, Debug)]
pub struct StageChange {
    pub row_version: i64,
    pub to: DealStatus,
    pub at: OffsetDateTime,
    pub by: Option<UserId>,
    pub agent_user_id: Option<UserId>,
    pub amount: Money,
}

impl DealEvent {
    /// Returns true for a stage change that the ledger has applied, or that is older than an
    /// applied one.
    pub fn is_outdated(&self, deal: &Deal) -> bool {
        self.topic == DealTopic::StageChanged && self.row_version <= deal.applied_row_version
    }

    /// Returns true if the ledger has applied the previous stage change. Otherwise a stage change
    /// is missing, and the ledger does not apply this one.
    pub fn follows(&self, deal: &Deal) -> bool {
        self.previous_row_version <= deal.applied_row_version
    }

    /// Returns the change for the ledger, or `None` for the other topics.
    pub fn stage_change(&self) -> Option<StageChange> {
        let amount = self.amount.filter(|_| self.topic == DealTopic::StageChanged)?;
        Some(StageChange {
            row_version: self.row_version,
            to: self.status,
            at: self.at,
            by: self.by,
            agent_user_id: self.agent_user_id.flatten(),
            amount,
        })
    }
}

/// A deal as it is stored.
///
/// Statistics use status, agent and amount. Next to each is the version that decided it.
/// The ledger has columns of its own, so that an unknown status changes no money.
#[derive(Clone, Debug, PartialEq, Eq, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = deal, treat_none_as_null = true, check_for_backend(Pg))]
pub struct Deal {
    pub id: DealId,
    pub developer_company_id: CompanyId,
    pub property_object_id: PropertyObjectId,
    pub created_at: Option<OffsetDateTime>,
    pub status: DealStatus,
    pub status_row_version: i64,
    pub agent_user_id: Option<UserId>,
    pub agent_row_version: i64,
    pub amount: Option<i64>,
    pub currency: Option<Currency>,
    pub amount_row_version: i64,
    pub cancelled_at: Option<OffsetDateTime>,
    pub known_row_version: i64,
    /// The time at which the deal became held. None of its accruals then enters a payout
    /// (INV-AGT-8).
    pub held_since: Option<OffsetDateTime>,
    pub applied_row_version: i64,
    /// The active sale, identified by the `RowVersion` of its beginning.
    pub sale_row_version: Option<i64>,
    pub sold_at: Option<OffsetDateTime>,
    pub sale_agent_user_id: Option<UserId>,
    pub sale_amount: Option<i64>,
    pub sale_currency: Option<Currency>,
    pub completed_at: Option<OffsetDateTime>,
    pub completed_amount: Option<i64>,
    pub is_unrated: bool,
    /// The platform named the agent of the active sale.
    pub is_agent_assigned: bool,
}

impl Deal {
    /// Creates a deal with the ids of an event and no other data.
    pub fn empty(event: &DealEvent) -> Self {
        Self {
            id: event.deal_id,
            developer_company_id: event.developer_company_id,
            property_object_id: event.property_object_id,
            created_at: None,
            status: DealStatus::Other,
            status_row_version: -1,
            agent_user_id: None,
            agent_row_version: -1,
            amount: None,
            currency: None,
            amount_row_version: -1,
            cancelled_at: None,
            known_row_version: 0,
            held_since: None,
            applied_row_version: 0,
            sale_row_version: None,
            sold_at: None,
            sale_agent_user_id: None,
            sale_amount: None,
            sale_currency: None,
            completed_at: None,
            completed_amount: None,
            is_unrated: false,
            is_agent_assigned: false,
        }
    }

    /// Updates the statistics: status, agent and amount each come from the highest version that has
    /// the value.
    pub fn update(&mut self, event: &DealEvent) {
        let version = event.row_version;
        if event.topic == DealTopic::Created {
            self.created_at.get_or_insert(event.at);
        }
        // CRM publishes one change as several events with the same version. The status that
        // `DealStatus` lists later wins.
        let is_newer = (version, event.status) > (self.status_row_version, self.status);
        // Of the events of a cancellation, `deal-cancelled` decides the time.
        let is_cancellation = event.topic == DealTopic::Cancelled
            && (version, event.status) == (self.status_row_version, self.status);
        if is_newer || is_cancellation {
            // A later stage change within Cancelled is no new cancellation.
            let keeps_time = event.topic == DealTopic::StageChanged && self.cancelled_at.is_some();
            (self.status, self.status_row_version) = (event.status, version);
            let cancelled_at = if keeps_time { self.cancelled_at } else { Some(event.at) };
            self.cancelled_at = cancelled_at.filter(|_| event.status == DealStatus::Cancelled);
        }
        let outranks =
            |known: i64| version > known || event.topic == DealTopic::Completed && version == known;
        if let Some(agent) = event.agent_user_id
            && outranks(self.agent_row_version)
        {
            (self.agent_user_id, self.agent_row_version) = (agent, version);
        }
        if let Some(Money { amount_minor, currency }) = event.amount
            && outranks(self.amount_row_version)
        {
            (self.amount, self.currency) = (Some(amount_minor), Some(currency));
            self.amount_row_version = version;
        }
        self.known_row_version = self.known_row_version.max(version);
    }

    /// Holds the deal while the ledger is behind the highest known version (INV-AGT-8).
    ///
    /// A deal of which only `deal-created` has arrived is not held, because no stage change
    /// precedes it.
    pub fn update_held_since(&mut self, event: &DealEvent, now: OffsetDateTime) {
        let is_behind = self.known_row_version > self.applied_row_version;
        let may_lack_a_change =
            event.topic != DealTopic::Created || self.applied_row_version > 0 || self.held_since.is_some();
        self.held_since = (is_behind && may_lack_a_change).then(|| self.held_since.unwrap_or(now));
    }
}

#[cfg(test)]
mod tests {
    use time::{Duration, OffsetDateTime};
    use uuid::Uuid;
    use values::{Currency, Money};

    use super::{Deal, DealEvent, DealStatus, DealTopic};
    use crate::domain::samples::{NOW, user};

    fn event(topic: DealTopic, row_version: i64, status: DealStatus) -> DealEvent {
        DealEvent {
            topic,
            deal_id: Uuid::from_u128(1).into(),
            developer_company_id: Uuid::from_u128(2).into(),
            property_object_id: Uuid::from_u128(3).into(),
            row_version,
            status,
            at: at(row_version),
            by: None,
            agent_user_id: None,
            amount: None,
            previous_row_version: 0,
        }
    }

    fn at(hours: i64) -> OffsetDateTime {
        NOW + Duration::hours(hours)
    }

    fn rub(amount_minor: i64) -> Money {
        Money { amount_minor, currency: Currency::RUB }
    }

    fn updated(events: &[DealEvent]) -> Deal {
        let mut deal = Deal::empty(&events[0]);
        for event in events {
            deal.update(event);
        }
        deal
    }

    #[test]
    fn stage_change_follows_the_applied_version() {
        let deal = Deal {
            applied_row_version: 3,
            ..Deal::empty(&event(DealTopic::Created, 1, DealStatus::Application))
        };
        let follows = |previous_row_version| {
            let change = event(DealTopic::StageChanged, 9, DealStatus::Sale);
            DealEvent { previous_row_version, ..change }.follows(&deal)
        };
        assert_eq!([2, 3, 4].map(follows), [true, true, false]);
    }

    #[test]
    fn only_a_stage_change_with_an_amount_reaches_the_ledger() {
        for (topic, amount, expected) in [
            (DealTopic::StageChanged, Some(rub(5)), true),
            (DealTopic::StageChanged, None, false),
            (DealTopic::Created, Some(rub(5)), false),
            (DealTopic::Completed, Some(rub(5)), false),
        ] {
            let event = DealEvent { amount, ..event(topic, 2, DealStatus::Sale) };
            assert_eq!(event.stage_change().map(|change| change.amount), amount.filter(|_| expected));
        }
    }

    /// The highest version wins. Of events with one version, the status that is listed later wins.
    #[test]
    fn status_of_the_highest_version_wins() {
        use DealTopic::{Cancelled, Completed, Created, StageChanged};
        for (first, second, expected) in [
            (
                (Created, 0, DealStatus::Application),
                (StageChanged, 2, DealStatus::Sale),
                (DealStatus::Sale, 2),
            ),
            (
                (StageChanged, 2, DealStatus::Sale),
                (StageChanged, 1, DealStatus::Booking),
                (DealStatus::Sale, 2),
            ),
            (
                (StageChanged, 2, DealStatus::Sale),
                (Completed, 2, DealStatus::Completed),
                (DealStatus::Completed, 2),
            ),
            (
                (Completed, 2, DealStatus::Completed),
                (StageChanged, 2, DealStatus::Sale),
                (DealStatus::Completed, 2),
            ),
            (
                (StageChanged, 5, DealStatus::Sale),
                (Cancelled, 3, DealStatus::Cancelled),
                (DealStatus::Sale, 5),
            ),
        ] {
            let deal =
                updated(&[first, second].map(|(topic, version, status)| event(topic, version, status)));
            assert_eq!((deal.status, deal.status_row_version), expected);
            assert_eq!(deal.known_row_version, first.1.max(second.1));
        }
        let first = updated(&[event(Created, 0, DealStatus::Application)]);
        assert_eq!((first.status, first.created_at), (DealStatus::Application, Some(at(0))));
        assert_eq!(updated(&[event(StageChanged, 2, DealStatus::Sale)]).created_at, None);
    }

    /// `deal-cancelled` decides the time of the cancellation, whichever event arrives first.
    #[test]
    fn cancellation_has_the_time_of_its_own_event() {
        let stage = event(DealTopic::StageChanged, 2, DealStatus::Cancelled);
        let own = DealEvent { at: at(7), ..event(DealTopic::Cancelled, 2, DealStatus::Cancelled) };
        let next = event(DealTopic::StageChanged, 3, DealStatus::Cancelled);
        let reopened = event(DealTopic::StageChanged, 4, DealStatus::Booking);
        for (events, expected) in [
            (vec![stage.clone()], Some(at(2))),
            (vec![stage.clone(), own.clone()], Some(at(7))),
            (vec![own.clone(), stage], Some(at(7))),
            (vec![own.clone(), next], Some(at(7))),
            (vec![own, reopened], None),
        ] {
            assert_eq!(updated(&events).cancelled_at, expected, "{events:?}");
        }
    }

    /// Agent and amount come from the highest version. `deal-completed` outranks an event of its
    /// version.
    #[test]
    fn agent_and_amount_of_the_highest_version_win() {
        let with_terms = |topic, version, number: u128| DealEvent {
            agent_user_id: Some(Some(user(number))),
            amount: Some(rub(i64::try_from(number).unwrap())),
            ..event(topic, version, DealStatus::Sale)
        };
        let changed = |version, number| with_terms(DealTopic::StageChanged, version, number);
        let completed = |version, number| with_terms(DealTopic::Completed, version, number);
        for (events, expected) in [
            (vec![changed(0, 1)], 1),
            (vec![changed(1, 1), changed(2, 2)], 2),
            (vec![changed(2, 2), changed(1, 1)], 2),
            (vec![changed(2, 2), changed(2, 3)], 2),
            (vec![changed(2, 2), completed(2, 3)], 3),
            (vec![changed(2, 2), completed(1, 3)], 2),
            (vec![changed(2, 2), completed(3, 3)], 3),
        ] {
            let deal = updated(&events);
            assert_eq!(deal.agent_user_id, Some(user(expected)), "{events:?}");
            assert_eq!(deal.amount, i64::try_from(expected).ok(), "{events:?}");
        }
        let removed = DealEvent { agent_user_id: Some(None), ..changed(3, 4) };
        assert_eq!(updated(&[changed(2, 2), removed]).agent_user_id, None);
        let without_terms = event(DealTopic::StageChanged, 3, DealStatus::Sale);
        assert_eq!(updated(&[changed(2, 2), without_terms]).agent_user_id, Some(user(2)));
    }

    /// INV-AGT-8: a deal is held while a stage change may be missing.
    #[test]
    fn deal_is_held_while_a_stage_change_may_be_missing() {
        let later = at(1);
        let earlier = at(-1);
        for (topic, known, applied, held_since, expected) in [
            (DealTopic::Created, 1, 0, None, None),
            (DealTopic::StageChanged, 2, 0, None, Some(later)),
            (DealTopic::Cancelled, 2, 2, None, None),
            (DealTopic::StageChanged, 2, 3, Some(earlier), None),
            (DealTopic::StageChanged, 3, 2, Some(earlier), Some(earlier)),
            (DealTopic::Created, 2, 0, Some(earlier), Some(earlier)),
            (DealTopic::Created, 2, 1, None, Some(later)),
        ] {
            let event = event(topic, 1, DealStatus::Sale);
            let mut deal = Deal {
                known_row_version: known,
                applied_row_version: applied,
                held_since,
                ..Deal::empty(&event)
            };
            deal.update_held_since(&event, later);
            assert_eq!(deal.held_since, expected, "{topic:?} {known} {applied} {held_since:?}");
        }
    }
}
