//! Events of deals. They have no contract data except the amount, and no text of a person except
//! the reason for a cancellation.

use auth::{CompanyId, UserId};
use messaging::{Aggregate, Event};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::{
    Amount, Change, Deal, DealId, DealStatus, FreeText, PropertyObjectId, StepGroup, StepId,
};

/// The aggregate of all events of the service.
pub const DEAL: Aggregate = Aggregate { name: "Deal", table: "deal", key: "id" };

/// A deal was created.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.crm.deal-created.v1", version = 1, aggregate = DEAL, key = deal_id)]
pub struct DealCreated {
    pub deal_id: DealId,
    pub tenant_id: CompanyId,
    pub property_object_id: PropertyObjectId,
    pub client_user_id: UserId,
    pub agent_user_id: Option<UserId>,
    pub amount: Amount,
    pub created_by_user_id: UserId,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    #[schema(minimum = 1, maximum = 4_294_967_295_i64)]
    pub row_version: i64,
}

impl DealCreated {
    pub fn of(deal: &Deal) -> Self {
        Self {
            deal_id: deal.id,
            tenant_id: deal.tenant_id,
            property_object_id: deal.property_object_id,
            client_user_id: deal.client_user_id,
            agent_user_id: deal.agent_user_id,
            amount: deal.amount,
            created_by_user_id: deal.created_by_user_id,
            created_at: deal.created_at,
            row_version: deal.row_version,
        }
    }
}

/// The step, status or agent of a deal has changed. Agent and amount are those after the change.
#[derive(Clone, Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.crm.deal-stage-changed.v1", version = 1, aggregate = DEAL, key = deal_id)]
pub struct DealStageChanged {
    pub deal_id: DealId,
    pub tenant_id: CompanyId,
    pub from_step_id: StepId,
    pub to_step_id: StepId,
    pub from_step_group: StepGroup,
    pub to_step_group: StepGroup,
    pub from_status: DealStatus,
    pub to_status: DealStatus,
    pub changed_by_user_id: UserId,
    #[serde(with = "time::serde::rfc3339")]
    pub changed_at: OffsetDateTime,
    pub property_object_id: PropertyObjectId,
    pub client_user_id: UserId,
    pub agent_user_id: Option<UserId>,
    pub created_by_user_id: UserId,
    pub amount: Amount,
    #[schema(minimum = 1, maximum = 4_294_967_295_i64)]
    pub row_version: i64,
    /// The `RowVersion` of the previous event of this type for the deal; 0 in the first one. If a
    /// consumer does not have that event, it is late or lost.
    #[schema(minimum = 0, maximum = 4_294_967_295_i64)]
    pub previous_row_version: i64,
}

impl DealStageChanged {
    /// Returns `None` for a change by a job, which changes neither step nor agent.
    pub fn of(change: &Change) -> Option<Self> {
        let (before, after) = (&change.before, &change.after);
        Some(Self {
            deal_id: after.id,
            tenant_id: after.tenant_id,
            from_step_id: before.step_id,
            to_step_id: after.step_id,
            from_step_group: before.step_group,
            to_step_group: after.step_group,
            from_status: before.status,
            to_status: after.status,
            changed_by_user_id: change.author.user_id?,
            changed_at: change.at(),
            property_object_id: after.property_object_id,
            client_user_id: after.client_user_id,
            agent_user_id: after.agent_user_id,
            created_by_user_id: after.created_by_user_id,
            amount: after.amount,
            row_version: after.row_version,
            previous_row_version: before.stage_change_version,
        })
    }

    /// Returns an event whose beginning and end are both the present stage. Its version is the
    /// present version of the deal.
    pub fn present(deal: &Deal, previous_row_version: i64) -> Self {
        Self {
            deal_id: deal.id,
            tenant_id: deal.tenant_id,
            from_step_id: deal.step_id,
            to_step_id: deal.step_id,
            from_step_group: deal.step_group,
            to_step_group: deal.step_group,
            from_status: deal.status,
            to_status: deal.status,
            changed_by_user_id: deal.updated_by_user_id.unwrap_or(deal.created_by_user_id),
            changed_at: deal.step_entered_at,
            property_object_id: deal.property_object_id,
            client_user_id: deal.client_user_id,
            agent_user_id: deal.agent_user_id,
            created_by_user_id: deal.created_by_user_id,
            amount: deal.amount,
            row_version: deal.row_version,
            previous_row_version,
        }
    }

    /// Returns true if both changes lead to the same step, agent and amount.
    pub fn has_same_result(&self, other: &Self) -> bool {
        let result = |change: &Self| (change.to_step_id, change.agent_user_id, change.amount);
        result(self) == result(other)
    }

    /// Returns this change with the end of `previous` as its beginning, and with `row_version`.
    #[must_use]
    pub fn following(self, previous: &Self, row_version: i64) -> Self {
        Self {
            from_step_id: previous.to_step_id,
            from_step_group: previous.to_step_group,
            from_status: previous.to_status,
            row_version,
            previous_row_version: previous.row_version,
            ..self
        }
    }
}

/// A deal was cancelled. Its booking, if any, has ended with it.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.crm.deal-cancelled.v1", version = 1, aggregate = DEAL, key = deal_id)]
pub struct DealCancelled {
    pub deal_id: DealId,
    pub tenant_id: CompanyId,
    pub property_object_id: PropertyObjectId,
    pub cancelled_by_user_id: UserId,
    pub cancel_reason: FreeText,
    #[serde(with = "time::serde::rfc3339")]
    pub cancelled_at: OffsetDateTime,
    #[schema(minimum = 1, maximum = 4_294_967_295_i64)]
    pub row_version: i64,
}

impl DealCancelled {
    /// Returns `None` unless the deal is Cancelled.
    pub fn of(deal: &Deal) -> Option<Self> {
        Some(Self {
            deal_id: deal.id,
            tenant_id: deal.tenant_id,
            property_object_id: deal.property_object_id,
            cancelled_by_user_id: deal.updated_by_user_id?,
            cancel_reason: deal.cancel_reason.clone()?,
            cancelled_at: deal.cancelled_at?,
            row_version: deal.row_version,
        })
    }
}

/// A deal was completed after its entry in the state property registry.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.crm.deal-completed.v1", version = 1, aggregate = DEAL, key = deal_id)]
pub struct DealCompleted {
    pub deal_id: DealId,
    pub tenant_id: CompanyId,
    pub property_object_id: PropertyObjectId,
    pub agent_user_id: Option<UserId>,
    pub amount: Amount,
    /// Time of the completion, in UTC.
    #[serde(with = "time::serde::rfc3339")]
    pub completed_at: OffsetDateTime,
    #[schema(minimum = 1, maximum = 4_294_967_295_i64)]
    pub row_version: i64,
}

impl DealCompleted {
    /// Returns `None` unless the deal is Completed.
    pub fn of(deal: &Deal) -> Option<Self> {
        Some(Self {
            deal_id: deal.id,
            tenant_id: deal.tenant_id,
            property_object_id: deal.property_object_id,
            agent_user_id: deal.agent_user_id,
            amount: deal.amount,
            completed_at: deal.completed_at?,
            row_version: deal.row_version,
        })
    }
}
