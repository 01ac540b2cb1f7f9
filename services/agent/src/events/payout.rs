//! Events about payouts. They contain no reference and no reason.

use auth::UserId;
use messaging::{Aggregate, Event};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::Money;

use crate::domain::{Payout, PayoutId, PayoutStatus};

const PAYOUT: Aggregate = Aggregate { name: "Payout", table: "payout", key: "id" };

/// A payout was created, or its status has changed.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.agent.payout-status-changed.v1", version = 1, aggregate = PAYOUT, key = payout_id)]
pub struct PayoutStatusChanged {
    payout_id: PayoutId,
    agent_user_id: UserId,
    /// Null for a new payout.
    from: Option<PayoutStatus>,
    to: PayoutStatus,
    net: Money,
    accruals_count: i32,
    #[schema(minimum = 1)]
    version: i64,
    /// Employee who made the change, or started the run.
    changed_by_user_id: UserId,
    #[serde(with = "time::serde::rfc3339")]
    changed_at: OffsetDateTime,
}

impl PayoutStatusChanged {
    /// Creates the event for the current state of a payout.
    pub fn of(payout: &Payout, from: Option<PayoutStatus>) -> Self {
        Self {
            payout_id: payout.id,
            agent_user_id: payout.agent_user_id,
            from,
            to: payout.status,
            net: payout.money(payout.net),
            accruals_count: payout.accruals_count,
            version: payout.version,
            changed_by_user_id: payout.updated_by_user_id,
            changed_at: payout.updated_at,
        }
    }
}
