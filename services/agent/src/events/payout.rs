//! Events of payouts. Reference and reason are in none of them.

use auth::UserId;
use messaging::{Aggregate, Event};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;
use values::Money;

use super::PAYOUT;
use crate::domain::{PayoutId, PayoutStatus};

/// A payout was made, or has moved.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct PayoutStatusChanged {
    pub payout_id: PayoutId,
    pub agent_user_id: UserId,
    /// Null: it is new.
    pub from: Option<PayoutStatus>,
    pub to: PayoutStatus,
    pub net: Money,
    pub accruals_count: i32,
    pub version: i64,
    #[serde(with = "time::serde::rfc3339")]
    pub changed_at: OffsetDateTime,
}

impl Event for PayoutStatusChanged {
    const TOPIC: &'static str = "platform.agent.payout-status-changed.v1";
    const CONTRACT_VERSION: u32 = 1;
    const AGGREGATE: Aggregate = PAYOUT;

    fn key(&self) -> Uuid {
        self.payout_id.into()
    }
}
