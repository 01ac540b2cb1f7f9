//! Events about accruals.

use auth::UserId;
use messaging::{Aggregate, Event};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::Money;

use crate::domain::{Accrual, AccrualId, AccrualKind, AccrualStatus, DealId};

const ACCRUAL: Aggregate = Aggregate { name: "Accrual", table: "accrual", key: "id" };

/// An accrual was created, or its status has changed.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.agent.accrual-changed.v1", version = 1, aggregate = ACCRUAL, key = accrual_id)]
pub struct AccrualChanged {
    accrual_id: AccrualId,
    agent_user_id: UserId,
    deal_id: DealId,
    kind: AccrualKind,
    /// Null for a new accrual.
    from: Option<AccrualStatus>,
    to: AccrualStatus,
    amount: Money,
    #[schema(minimum = 1)]
    version: i64,
    /// Employee of the platform, or the user who changed the deal; null if a deal event without a
    /// user, or the job for sales without a rate, made the change.
    changed_by_user_id: Option<UserId>,
    #[serde(with = "time::serde::rfc3339")]
    changed_at: OffsetDateTime,
}

impl AccrualChanged {
    /// Creates the event for the current state of an accrual.
    pub fn of(accrual: &Accrual, from: Option<AccrualStatus>, by: Option<UserId>) -> Self {
        Self {
            accrual_id: accrual.id,
            agent_user_id: accrual.agent_user_id,
            deal_id: accrual.deal_id,
            kind: accrual.kind,
            from,
            to: accrual.status,
            amount: accrual.money(),
            version: accrual.version,
            changed_by_user_id: by,
            changed_at: accrual.updated_at,
        }
    }
}
