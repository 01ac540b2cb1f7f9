//! Bonuses that one employee proposes and another one decides.

use auth::UserId;
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::{Code, Currency, Money};

use super::{
    Accrual, AccrualId, AccrualKind, AccrualStatus, AdjustmentStatus, BonusProposalId, Comment, Sale,
};
use crate::db::schema::bonus_proposal;
use crate::error::{
    ACCRUAL_NOT_FOUND, BONUS_ALREADY_DECIDED, BONUS_AMOUNT_INVALID, BONUS_NOT_ALLOWED, BONUS_OWN,
    BONUS_SECOND_PERSON,
};

/// The greatest bonus, in minor units of any currency.
#[derive(Clone, Copy, Debug)]
pub struct BonusLimit(pub u64);

/// A proposed bonus as it is stored, in the currency of its accrual.
#[derive(Clone, Debug, PartialEq, Eq, Queryable, Selectable)]
#[diesel(table_name = bonus_proposal, check_for_backend(Pg))]
pub struct BonusProposal {
    pub id: BonusProposalId,
    /// The Base of the sale.
    pub accrual_id: AccrualId,
    pub agent_user_id: UserId,
    pub amount: i64,
    pub reason: Comment,
    pub status: AdjustmentStatus,
    pub decision_comment: Option<Comment>,
    pub result_accrual_id: Option<AccrualId>,
    pub created_at: OffsetDateTime,
    pub proposed_by_user_id: UserId,
    pub decided_at: Option<OffsetDateTime>,
    pub decided_by_user_id: Option<UserId>,
    pub version: i64,
}

impl BonusProposal {
    /// Checks that the user may decide the proposal (INV-AGT-12).
    ///
    /// # Errors
    /// - [`BONUS_OWN`] if the user is the agent of the proposal.
    /// - [`BONUS_SECOND_PERSON`] if the user proposed it.
    /// - [`BONUS_ALREADY_DECIDED`] if it is not open.
    pub fn check_decidable(&self, by: UserId) -> Result<(), Code> {
        if self.agent_user_id == by {
            return Err(BONUS_OWN);
        }
        if self.proposed_by_user_id == by {
            return Err(BONUS_SECOND_PERSON);
        }
        if self.status == AdjustmentStatus::Open { Ok(()) } else { Err(BONUS_ALREADY_DECIDED) }
    }

    /// Returns the proposal with a decision. An approval adds the accrual.
    #[must_use]
    pub fn with_decision(
        self,
        status: AdjustmentStatus,
        by: UserId,
        comment: Option<Comment>,
        now: OffsetDateTime,
    ) -> Self {
        Self {
            status,
            decision_comment: comment,
            decided_at: Some(now.max(self.created_at)),
            decided_by_user_id: Some(by),
            version: self.version + 1,
            ..self
        }
    }
}

impl Sale {
    /// Checks a bonus for a Base, and returns the Base.
    ///
    /// `completed` is the amount of the deal at its completion.
    ///
    /// # Errors
    /// - [`ACCRUAL_NOT_FOUND`] if the accrual is not of this sale.
    /// - [`BONUS_NOT_ALLOWED`] unless the accrual is an effective Base in status Approved or Paid.
    /// - [`BONUS_AMOUNT_INVALID`] if the currency differs, the amount is above `limit`, or the sum
    ///   of the sale would be too high (INV-AGT-4).
    pub fn check_bonus(
        &self,
        id: AccrualId,
        bonus: Money,
        completed: Option<i64>,
        limit: BonusLimit,
    ) -> Result<&Accrual, Code> {
        let base = self.find(id).ok_or(ACCRUAL_NOT_FOUND)?;
        let is_approved = matches!(base.status, AccrualStatus::Approved | AccrualStatus::Paid);
        if base.kind != AccrualKind::Base || !is_approved || self.reversal_of(id).is_some() {
            return Err(BONUS_NOT_ALLOWED);
        }
        let greatest = base.base_amount.max(completed.unwrap_or_default());
        let sum = self.effective_sum(id) + i128::from(bonus.amount_minor);
        let is_valid = bonus.currency == base.currency
            && bonus.amount_minor.unsigned_abs() <= limit.0
            && sum <= i128::from(greatest);
        if is_valid { Ok(base) } else { Err(BONUS_AMOUNT_INVALID) }
    }
}

/// A bonus that an employee of the platform proposes.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
#[schema(as = BonusProposal)]
pub struct BonusProposalView {
    id: BonusProposalId,
    /// Base of the sale.
    accrual_id: AccrualId,
    agent_user_id: UserId,
    amount: Money,
    reason: Comment,
    status: AdjustmentStatus,
    decision_comment: Option<Comment>,
    /// Bonus accrual that the approval created.
    result_accrual_id: Option<AccrualId>,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    decided_at: Option<OffsetDateTime>,
    version: i64,
}

impl BonusProposalView {
    /// Creates the view of a proposal. `currency` is the currency of its accrual.
    pub fn of(proposal: BonusProposal, currency: Currency) -> Self {
        Self {
            id: proposal.id,
            accrual_id: proposal.accrual_id,
            agent_user_id: proposal.agent_user_id,
            amount: Money { amount_minor: proposal.amount, currency },
            reason: proposal.reason,
            status: proposal.status,
            decision_comment: proposal.decision_comment,
            result_accrual_id: proposal.result_accrual_id,
            created_at: proposal.created_at,
            decided_at: proposal.decided_at,
            version: proposal.version,
        }
    }
}
