//! Accruals: amounts that a sale earns for an agent, or that the agent owes back.

use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use time::OffsetDateTime;
use values::{BasisPoints, Currency, Money};

use super::{AccrualId, DealId, PayoutId, PropertyObjectId};
use crate::schema::accrual;

values::text_enum! {
    /// The reason for an accrual.
    pub enum AccrualKind {
        /// A sale began.
        Base,
        /// A bonus was granted, for a proposal or for an adjustment request.
        Bonus,
        /// Another accrual was corrected.
        Correction,
        /// Another accrual was undone.
        Reversal,
    }
}

values::text_enum! {
    /// The status of an accrual. Paid, Rejected and Reversed are final.
    pub enum AccrualStatus {
        Pending,
        Approved,
        Paid,
        Rejected,
        Reversed,
    }
}

/// The greatest absolute amount that a completion approves, in minor units of any currency.
#[derive(Clone, Copy, Debug)]
pub struct ApprovalLimit(pub u64);

impl ApprovalLimit {
    pub fn is_below(self, amount: i64) -> bool {
        self.0 < amount.unsigned_abs()
    }
}

/// An accrual as it is stored.
///
/// Only the status, `awaits_release`, the payout, the decisions, the version and the times of these
/// changes are mutable (INV-AGT-2).
#[derive(Clone, Debug, PartialEq, Eq, Queryable, QueryableByName, Selectable, Insertable)]
#[diesel(table_name = accrual, check_for_backend(Pg))]
pub struct Accrual {
    pub id: AccrualId,
    pub agent_user_id: UserId,
    pub deal_id: DealId,
    /// The sale of the deal, identified by the `RowVersion` of its beginning.
    pub sale_row_version: i64,
    pub property_object_id: PropertyObjectId,
    pub developer_company_id: CompanyId,
    pub kind: AccrualKind,
    pub base_amount: i64,
    pub rate_bps: i32,
    /// In minor units of `currency`, like `base_amount`.
    pub amount: i64,
    pub currency: Currency,
    pub status: AccrualStatus,
    pub payout_id: Option<PayoutId>,
    pub reverses_accrual_id: Option<AccrualId>,
    pub adjusts_accrual_id: Option<AccrualId>,
    pub earned_at: OffsetDateTime,
    pub approved_at: Option<OffsetDateTime>,
    pub paid_at: Option<OffsetDateTime>,
    pub created_at: OffsetDateTime,
    pub updated_at: OffsetDateTime,
    /// The agent made the latest change of the rate card of the sale.
    pub is_self_rated: bool,
    /// The sale is completed, and the platform has to release the accrual. It is Pending.
    pub awaits_release: bool,
    /// The employee who released or granted the accrual. The approval limit applies only while
    /// there is none.
    pub released_by_user_id: Option<UserId>,
    pub decided_by_user_id: Option<UserId>,
    pub decision_comment: Option<String>,
    pub version: i64,
}

impl Accrual {
    pub fn money(&self) -> Money {
        Money { amount_minor: self.amount, currency: self.currency }
    }

    /// Returns true if the accrual counts in the agent's total (INV-AGT-1).
    pub fn is_counted(&self) -> bool {
        !matches!(self.status, AccrualStatus::Rejected | AccrualStatus::Reversed)
    }

    /// Returns true if only a release approves the accrual (INV-AGT-9).
    pub fn requires_release(&self, limit: ApprovalLimit) -> bool {
        (self.is_self_rated || limit.is_below(self.amount)) && self.released_by_user_id.is_none()
    }

    pub fn rate(&self) -> BasisPoints {
        BasisPoints(self.rate_bps.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::{Accrual, AccrualKind, AccrualStatus, ApprovalLimit};
    use crate::domain::samples::{accrual, user};

    /// INV-AGT-9: only a release approves an amount above the limit, or at the agent's own rate.
    #[test]
    fn accrual_requires_a_release_above_the_limit_or_at_the_own_rate() {
        for (amount, is_self_rated, is_released, expected) in [
            (99, false, false, false),
            (100, false, false, false),
            (101, false, false, true),
            (-100, false, false, false),
            (-101, false, false, true),
            (1, true, false, true),
            (101, false, true, false),
            (1, true, true, false),
        ] {
            let accrual = Accrual {
                is_self_rated,
                released_by_user_id: is_released.then(|| user(9)),
                ..accrual(AccrualKind::Base, AccrualStatus::Pending, amount)
            };
            assert_eq!(accrual.requires_release(ApprovalLimit(100)), expected, "{amount} {is_self_rated}");
        }
    }

    /// INV-AGT-1: a Rejected or Reversed accrual does not count.
    #[test]
    fn rejected_or_reversed_accrual_is_not_counted() {
        for (status, expected) in [
            (AccrualStatus::Pending, true),
            (AccrualStatus::Approved, true),
            (AccrualStatus::Paid, true),
            (AccrualStatus::Rejected, false),
            (AccrualStatus::Reversed, false),
        ] {
            assert_eq!(accrual(AccrualKind::Base, status, 1).is_counted(), expected, "{status}");
        }
    }
}
