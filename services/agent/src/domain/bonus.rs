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
use crate::error::{
    ACCRUAL_NOT_FOUND, BONUS_ALREADY_DECIDED, BONUS_AMOUNT_INVALID, BONUS_NOT_ALLOWED, BONUS_OWN,
    BONUS_SECOND_PERSON,
};
use crate::schema::bonus_proposal;

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

    /// Returns the proposal with a decision. For an approval, the caller also sets the created
    /// accrual.
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

#[cfg(test)]
mod tests {
    use time::Duration;
    use values::{Code, Currency, Money};

    use super::{AdjustmentStatus, BonusLimit, BonusProposal, Sale};
    use crate::domain::samples::{NOW, accrual, bonus_proposal, comment, user};
    use crate::domain::{Accrual, AccrualKind, AccrualStatus};
    use crate::error::{
        ACCRUAL_NOT_FOUND, BONUS_ALREADY_DECIDED, BONUS_AMOUNT_INVALID, BONUS_NOT_ALLOWED, BONUS_OWN,
        BONUS_SECOND_PERSON,
    };

    /// A proposal of user 2 for agent 1.
    fn proposal(status: AdjustmentStatus) -> BonusProposal {
        BonusProposal { version: 3, ..bonus_proposal(status) }
    }

    /// INV-AGT-12: neither the agent nor the author decides a proposal. A decided proposal is not
    /// decided again.
    #[test]
    fn open_proposal_is_decided_by_a_third_person() {
        let open = proposal(AdjustmentStatus::Open);
        let decided = proposal(AdjustmentStatus::Rejected);
        assert_eq!(open.check_decidable(user(1)), Err(BONUS_OWN));
        assert_eq!(open.check_decidable(user(2)), Err(BONUS_SECOND_PERSON));
        assert_eq!(open.check_decidable(user(3)), Ok(()));
        assert_eq!(decided.check_decidable(user(3)), Err(BONUS_ALREADY_DECIDED));
    }

    #[test]
    fn decision_records_its_author_time_and_comment() {
        let open = proposal(AdjustmentStatus::Open);
        let later = NOW + Duration::hours(1);
        let decide =
            |at| open.clone().with_decision(AdjustmentStatus::Approved, user(3), Some(comment("да")), at);
        let expected = BonusProposal {
            status: AdjustmentStatus::Approved,
            decision_comment: Some(comment("да")),
            decided_at: Some(later),
            decided_by_user_id: Some(user(3)),
            version: 4,
            ..open.clone()
        };
        assert_eq!(decide(later), expected);
        assert_eq!(decide(NOW - Duration::hours(1)).decided_at, Some(NOW), "not before the proposal");
    }

    /// Checks a bonus for the Base of a sale of 1,000, with a limit of 950.
    fn check(base: &Accrual, others: &[Accrual], amount: i64, completed: Option<i64>) -> Result<(), Code> {
        let sale = Sale::new([std::slice::from_ref(base), others].concat());
        let bonus = Money { amount_minor: amount, currency: Currency::RUB };
        sale.check_bonus(base.id, bonus, completed, BonusLimit(950)).map(|found| assert_eq!(found, base))
    }

    #[test]
    fn bonus_needs_an_effective_base_of_a_completed_sale() {
        let base = |status| accrual(AccrualKind::Base, status, 100);
        let reversal_of = |base: &Accrual| Accrual {
            reverses_accrual_id: Some(base.id),
            ..accrual(AccrualKind::Reversal, AccrualStatus::Approved, -100)
        };
        for (status, expected) in [
            (AccrualStatus::Approved, Ok(())),
            (AccrualStatus::Paid, Ok(())),
            (AccrualStatus::Pending, Err(BONUS_NOT_ALLOWED)),
            (AccrualStatus::Rejected, Err(BONUS_NOT_ALLOWED)),
            (AccrualStatus::Reversed, Err(BONUS_NOT_ALLOWED)),
        ] {
            assert_eq!(check(&base(status), &[], 1, None), expected, "{status}");
        }
        let paid = base(AccrualStatus::Paid);
        assert_eq!(check(&paid, &[reversal_of(&paid)], 1, None), Err(BONUS_NOT_ALLOWED));
        let correction = accrual(AccrualKind::Correction, AccrualStatus::Approved, 100);
        assert_eq!(check(&correction, &[], 1, None), Err(BONUS_NOT_ALLOWED));
        let bonus = Money { amount_minor: 1, currency: Currency::RUB };
        let missing = Sale::new(Vec::new()).check_bonus(paid.id, bonus, None, BonusLimit(950)).map(|_| ());
        assert_eq!(missing, Err(ACCRUAL_NOT_FOUND));
    }

    /// INV-AGT-4: the sum of the sale stays within its amount, or the greater completed amount.
    #[test]
    fn bonus_stays_within_its_limit_and_the_amount_of_the_sale() {
        let base = accrual(AccrualKind::Base, AccrualStatus::Approved, 100);
        for (amount, completed, expected) in [
            (900, None, Ok(())),
            (901, None, Err(BONUS_AMOUNT_INVALID)),
            (901, Some(900), Err(BONUS_AMOUNT_INVALID)),
            (950, Some(1_050), Ok(())),
            (951, Some(2_000), Err(BONUS_AMOUNT_INVALID)),
            (-951, Some(2_000), Err(BONUS_AMOUNT_INVALID)),
        ] {
            assert_eq!(check(&base, &[], amount, completed), expected, "{amount} {completed:?}");
        }
        let earlier = Accrual {
            adjusts_accrual_id: Some(base.id),
            ..accrual(AccrualKind::Bonus, AccrualStatus::Approved, 400)
        };
        assert_eq!(check(&base, std::slice::from_ref(&earlier), 500, None), Ok(()));
        assert_eq!(check(&base, &[earlier], 501, None), Err(BONUS_AMOUNT_INVALID));
        let sale = Sale::new(vec![base.clone()]);
        let dollars = Money { amount_minor: 1, currency: "USD".parse().unwrap() };
        let refused = sale.check_bonus(base.id, dollars, None, BonusLimit(950)).map(|_| ());
        assert_eq!(refused, Err(BONUS_AMOUNT_INVALID));
    }
}
