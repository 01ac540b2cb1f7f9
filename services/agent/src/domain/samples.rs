//! Values for the unit tests of the domain.

use auth::UserId;
use time::OffsetDateTime;
use time::macros::datetime;
use uuid::Uuid;
use values::{Currency, Private, Prose};

use super::{
    Accrual, AccrualId, AccrualKind, AccrualStatus, AdjustmentStatus, BonusProposal, BonusProposalId,
    Comment, DealId, PayoutRun, PayoutRunId, PayoutRunStatus, PropertyObjectId, RunKey,
};

pub const NOW: OffsetDateTime = datetime!(2026-11-22 12:00 UTC);

pub fn user(number: u128) -> UserId {
    Uuid::from_u128(number).into()
}

pub fn comment(text: &str) -> Comment {
    Private::new(Prose::parse(text).unwrap())
}

/// Creates an accrual that is in no payout, of a sale of 1,000 minor units.
pub fn accrual(kind: AccrualKind, status: AccrualStatus, amount: i64) -> Accrual {
    Accrual {
        id: AccrualId::generate(),
        agent_user_id: user(1),
        deal_id: DealId::generate(),
        sale_row_version: 1,
        property_object_id: PropertyObjectId::generate(),
        developer_company_id: Uuid::nil().into(),
        kind,
        base_amount: 1_000,
        rate_bps: 1_000,
        amount,
        currency: Currency::RUB,
        status,
        payout_id: None,
        reverses_accrual_id: None,
        adjusts_accrual_id: None,
        earned_at: NOW,
        approved_at: None,
        paid_at: None,
        created_at: NOW,
        updated_at: NOW,
        is_self_rated: false,
        awaits_release: false,
        released_by_user_id: None,
        decided_by_user_id: None,
        decision_comment: None,
        version: 1,
    }
}

/// Creates a proposal of user 2 for agent 1 in a status, without the data of a decision.
pub fn bonus_proposal(status: AdjustmentStatus) -> BonusProposal {
    BonusProposal {
        id: BonusProposalId::generate(),
        accrual_id: AccrualId::generate(),
        agent_user_id: user(1),
        amount: 100,
        reason: comment("за срочность"),
        status,
        decision_comment: None,
        result_accrual_id: None,
        created_at: NOW,
        proposed_by_user_id: user(2),
        decided_at: None,
        decided_by_user_id: None,
        version: 1,
    }
}

pub fn payout_run(withholding_bps: i32) -> PayoutRun {
    PayoutRun {
        id: PayoutRunId::generate(),
        run_key: RunKey::parse("2026-10").unwrap(),
        period_from: datetime!(2026-10-01 00:00 UTC),
        period_to: datetime!(2026-11-01 00:00 UTC),
        agent_user_ids: None,
        withholding_bps,
        status: PayoutRunStatus::Running,
        created_at: NOW,
        created_by_user_id: user(5),
        completed_at: None,
    }
}
