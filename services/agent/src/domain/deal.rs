//! Deals, as four topics of CRM report them in any order.

use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use time::OffsetDateTime;
use values::{Currency, Money};

use super::{DealId, PropertyObjectId};
use crate::db::schema::deal;

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
/// Statistics show status, agent and amount, each with the version that decided it.
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
    /// Start of the hold. No accrual of a held deal enters a payout (INV-AGT-8).
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
    pub fn update_hold(&mut self, event: &DealEvent, now: OffsetDateTime) {
        let is_behind = self.known_row_version > self.applied_row_version;
        let may_lack_a_change =
            event.topic != DealTopic::Created || self.applied_row_version > 0 || self.held_since.is_some();
        self.held_since = (is_behind && may_lack_a_change).then(|| self.held_since.unwrap_or(now));
    }
}
