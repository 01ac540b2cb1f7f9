//! A deal, as crm's four topics tell of it in whatever order they come.

use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use time::OffsetDateTime;
use values::{Currency, Money};

use super::{DealId, PropertyObjectId};
use crate::db::schema::deal;

values::text_enum! {
    /// Where a deal stands, as crm has it: what ends more comes later.
    pub enum DealStatus {
        Application,
        Booking,
        Sale,
        /// One that crm has got since.
        Other,
        Cancelled,
        Completed,
    }
}

/// Which of crm's topics tells of a deal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DealTopic {
    Created,
    StageChanged,
    Cancelled,
    Completed,
}

/// What one event tells of a deal.
#[derive(Clone, Debug)]
pub struct DealTold {
    pub topic: DealTopic,
    pub deal_id: DealId,
    pub developer_company_id: CompanyId,
    pub property_object_id: PropertyObjectId,
    pub row_version: i64,
    pub status: DealStatus,
    /// When the deal was made, changed, cancelled or completed.
    pub at: OffsetDateTime,
    /// `None`: nothing is said of the agent.
    #[expect(clippy::option_option, reason = "that there is no agent any more is said by null")]
    pub agent_user_id: Option<Option<UserId>>,
    pub amount: Option<Money>,
}

/// A change of a deal's stage, which moves money.
#[derive(Clone, Copy, Debug)]
pub struct StageChange {
    pub row_version: i64,
    pub to: DealStatus,
    pub at: OffsetDateTime,
    pub agent_user_id: Option<UserId>,
    pub amount: Money,
}

impl DealTold {
    /// What it does to the ledger; the other topics move no money.
    pub fn stage_change(&self) -> Option<StageChange> {
        let amount = self.amount.filter(|_| self.topic == DealTopic::StageChanged)?;
        Some(StageChange {
            row_version: self.row_version,
            to: self.status,
            at: self.at,
            agent_user_id: self.agent_user_id.flatten(),
            amount,
        })
    }
}

/// What is known of a deal, as it is stored. What the ledger goes by stands apart from what is shown.
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
    /// INV-AGT-8: nothing of it is paid meanwhile.
    pub held_since: Option<OffsetDateTime>,
    pub applied_row_version: i64,
    /// The sale that stands, by the version of its beginning.
    pub sale_row_version: Option<i64>,
    pub sold_at: Option<OffsetDateTime>,
    pub sale_agent_user_id: Option<UserId>,
    pub sale_amount: Option<i64>,
    pub sale_currency: Option<Currency>,
    pub completed_at: Option<OffsetDateTime>,
    pub completed_amount: Option<i64>,
    pub is_unrated: bool,
}

impl Deal {
    /// One of which nothing was heard but whose it is.
    pub fn unheard(told: &DealTold) -> Self {
        Self {
            id: told.deal_id,
            developer_company_id: told.developer_company_id,
            property_object_id: told.property_object_id,
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
        }
    }

    /// Takes what is shown of it: of each fact what the highest version tells that carries it.
    pub fn hear(&mut self, told: &DealTold) {
        let version = told.row_version;
        if told.topic == DealTopic::Created {
            self.created_at.get_or_insert(told.at);
        }
        // Events of one change carry one version: what ends more decides, and a cancellation knows best when it was.
        let is_newer = (version, told.status) > (self.status_row_version, self.status);
        let is_cancellation = told.topic == DealTopic::Cancelled
            && (version, told.status) == (self.status_row_version, self.status);
        if is_newer || is_cancellation {
            let stays = told.topic == DealTopic::StageChanged && self.cancelled_at.is_some();
            (self.status, self.status_row_version) = (told.status, version);
            let cancelled_at = if stays { self.cancelled_at } else { Some(told.at) };
            self.cancelled_at = cancelled_at.filter(|_| told.status == DealStatus::Cancelled);
        }
        let outranks = |known: i64| version > known || told.topic == DealTopic::Completed && version == known;
        if let Some(agent) = told.agent_user_id
            && outranks(self.agent_row_version)
        {
            (self.agent_user_id, self.agent_row_version) = (agent, version);
        }
        if let Some(Money { amount_minor, currency }) = told.amount
            && outranks(self.amount_row_version)
        {
            (self.amount, self.currency) = (Some(amount_minor), Some(currency));
            self.amount_row_version = version;
        }
        self.known_row_version = self.known_row_version.max(version);
    }

    /// INV-AGT-8: holds it while the ledger is behind what is known of it. Of a deal that has only been made
    /// the ledger lacks nothing.
    pub fn hold(&mut self, told: &DealTold, now: OffsetDateTime) {
        let is_behind = self.known_row_version > self.applied_row_version;
        let may_lack =
            told.topic != DealTopic::Created || self.applied_row_version > 0 || self.held_since.is_some();
        self.held_since = (is_behind && may_lack).then(|| self.held_since.unwrap_or(now));
    }
}
