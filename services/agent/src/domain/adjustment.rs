//! What an agent asks for about an accrual, and what was decided.

use auth::UserId;
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::{Currency, Money, Private, Prose};

use super::{AccrualId, AccrualKind, AdjustmentRequestId};
use crate::db::schema::adjustment_request;

values::text_enum! {
    /// What is wrong with an accrual.
    pub enum AdjustmentReason {
        WrongAmount,
        WrongRate,
        MissingBonus,
        WrongDeal,
        Other,
    }
}

values::text_enum! {
    /// Whether a request was decided. Approved and Rejected are final.
    pub enum AdjustmentStatus {
        Open,
        Approved,
        Rejected,
    }
}

/// Why somebody asks, or decides as they do.
pub type Words = Private<Prose<1, 2000>>;

/// The aggregate, as it is stored. Its amounts are in the currency of its accrual.
#[derive(Clone, Debug, PartialEq, Eq, Queryable, QueryableByName, Selectable)]
#[diesel(table_name = adjustment_request, check_for_backend(Pg))]
pub struct AdjustmentRequest {
    pub id: AdjustmentRequestId,
    pub accrual_id: AccrualId,
    pub agent_user_id: UserId,
    pub reason: AdjustmentReason,
    /// What the accrual should be in whole.
    pub requested_amount: Option<i64>,
    pub comment: Words,
    pub status: AdjustmentStatus,
    pub granted_amount: Option<i64>,
    pub decision_comment: Option<Words>,
    pub result_accrual_id: Option<AccrualId>,
    pub created_at: OffsetDateTime,
    pub decided_at: Option<OffsetDateTime>,
    pub decided_by_user_id: Option<UserId>,
    pub version: i64,
}

impl AdjustmentRequest {
    /// What is granted for it.
    pub fn kind(&self) -> AccrualKind {
        match self.reason {
            AdjustmentReason::MissingBonus => AccrualKind::Bonus,
            _ => AccrualKind::Correction,
        }
    }

    /// Rejected, unless what was granted is added to it.
    #[must_use]
    pub fn decided(self, by: UserId, comment: Option<Words>, now: OffsetDateTime) -> Self {
        Self {
            status: AdjustmentStatus::Rejected,
            decision_comment: comment,
            decided_at: Some(now.max(self.created_at)),
            decided_by_user_id: Some(by),
            version: self.version + 1,
            ..self
        }
    }
}

/// A request as it is shown.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
#[schema(as = AdjustmentRequest)]
pub struct AdjustmentRequestShown {
    id: AdjustmentRequestId,
    accrual_id: AccrualId,
    agent_user_id: UserId,
    reason: AdjustmentReason,
    /// What the accrual should be in whole.
    requested_amount: Option<Money>,
    comment: Words,
    status: AdjustmentStatus,
    /// What it is in whole.
    granted_amount: Option<Money>,
    decision_comment: Option<Words>,
    /// What was granted for it.
    result_accrual_id: Option<AccrualId>,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    decided_at: Option<OffsetDateTime>,
    version: i64,
}

impl AdjustmentRequestShown {
    /// `currency` is that of its accrual.
    pub fn of(request: AdjustmentRequest, currency: Currency) -> Self {
        let money = |amount: Option<i64>| amount.map(|amount_minor| Money { amount_minor, currency });
        Self {
            id: request.id,
            accrual_id: request.accrual_id,
            agent_user_id: request.agent_user_id,
            reason: request.reason,
            requested_amount: money(request.requested_amount),
            comment: request.comment,
            status: request.status,
            granted_amount: money(request.granted_amount),
            decision_comment: request.decision_comment,
            result_accrual_id: request.result_accrual_id,
            created_at: request.created_at,
            decided_at: request.decided_at,
            version: request.version,
        }
    }
}
