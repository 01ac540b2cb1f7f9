//! Entries of the money log: who moved or decided money.

use auth::UserId;
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;
use values::{Currency, Money};

use super::{
    Accrual, AccrualStatus, AdjustmentRequest, AdjustmentStatus, Agent, BonusProposal, MoneyEntryId, Payout,
    PayoutRun, PayoutStatus, Rate, RateCard, SaleAssignment, SubjectId,
};
use crate::schema::money_log;

values::text_enum! {
    /// The action that an entry records.
    pub enum MoneyAction {
        AccrualCreated,
        /// A sale was completed, and its accrual awaits a release.
        AccrualHeld,
        AccrualApproved,
        AccrualReleased,
        AccrualRejected,
        AccrualReversed,
        AdjustmentApproved,
        AdjustmentRejected,
        BonusProposed,
        BonusApproved,
        BonusRejected,
        RateCardReplaced,
        AgentReplaced,
        /// A sale without an agent or without a rate was assigned.
        SaleAssigned,
        PayoutRunStarted,
        PayoutScheduled,
        PayoutSent,
        PayoutPaid,
        PayoutFailed,
        PayoutCancelled,
    }
}

/// An entry as it is stored. It never changes.
#[derive(Clone, Debug, PartialEq, Eq, Queryable, Selectable, Insertable)]
#[diesel(table_name = money_log, check_for_backend(Pg))]
pub struct MoneyEntry {
    pub id: MoneyEntryId,
    pub at: OffsetDateTime,
    pub action: MoneyAction,
    pub subject_id: SubjectId,
    pub agent_user_id: Option<UserId>,
    /// `None` if the job `unrated-deals` made the change, or if CRM's event names no user.
    pub actor_user_id: Option<UserId>,
    /// In minor units of `currency`.
    pub amount: Option<i64>,
    pub currency: Option<Currency>,
    pub rate_bps: Option<i32>,
    pub trace_id: Option<String>,
}

impl MoneyEntry {
    /// Creates an entry without an agent and an amount.
    fn new(
        action: MoneyAction,
        subject: impl Into<Uuid>,
        actor_user_id: Option<UserId>,
        at: OffsetDateTime,
    ) -> Self {
        let subject: Uuid = subject.into();
        Self {
            id: MoneyEntryId::generate(),
            at,
            action,
            subject_id: subject.into(),
            agent_user_id: None,
            actor_user_id,
            amount: None,
            currency: None,
            rate_bps: None,
            trace_id: None,
        }
    }

    fn about(self, agent: UserId, money: Option<Money>) -> Self {
        let (amount, currency) = money.map(|money| (money.amount_minor, money.currency)).unzip();
        Self { agent_user_id: Some(agent), amount, currency, ..self }
    }

    /// Records a change of an accrual.
    ///
    /// Returns `None` for a change by a payout, which has an entry of its own.
    pub fn of_accrual(before: Option<&Accrual>, after: &Accrual, by: Option<UserId>) -> Option<Self> {
        let awaited_release = before.is_some_and(|before| before.awaits_release);
        let action = match after.status {
            _ if before.is_none() => MoneyAction::AccrualCreated,
            AccrualStatus::Pending if after.awaits_release && !awaited_release => MoneyAction::AccrualHeld,
            _ if before.is_some_and(|before| before.status == after.status) => return None,
            AccrualStatus::Approved if awaited_release => MoneyAction::AccrualReleased,
            AccrualStatus::Approved => MoneyAction::AccrualApproved,
            AccrualStatus::Rejected => MoneyAction::AccrualRejected,
            AccrualStatus::Reversed => MoneyAction::AccrualReversed,
            AccrualStatus::Pending | AccrualStatus::Paid => return None,
        };
        let entry = Self::new(action, after.id, by, after.updated_at);
        let entry = entry.about(after.agent_user_id, Some(after.money()));
        Some(Self { rate_bps: Some(after.rate_bps), ..entry })
    }

    /// Records a decision about a request, with the granted amount.
    pub fn of_decision(request: &AdjustmentRequest, currency: Currency, at: OffsetDateTime) -> Self {
        // A decided request is not Open.
        let action = match request.status {
            AdjustmentStatus::Approved => MoneyAction::AdjustmentApproved,
            AdjustmentStatus::Open | AdjustmentStatus::Rejected => MoneyAction::AdjustmentRejected,
        };
        let granted = request.granted_amount.map(|amount_minor| Money { amount_minor, currency });
        Self::new(action, request.id, request.decided_by_user_id, at).about(request.agent_user_id, granted)
    }

    /// Records the new rates of a card, with the highest of them.
    pub fn of_card(card: &RateCard, rates: &[Rate]) -> Self {
        let by = Some(card.updated_by_user_id);
        let entry = Self::new(MoneyAction::RateCardReplaced, card.id, by, card.updated_at);
        let rate_bps = rates.iter().map(|rate| rate.rate_bps).max();
        Self { agent_user_id: card.agent_user_id, rate_bps, ..entry }
    }

    /// Records the new agency of an agent.
    pub fn of_agent(agent: &Agent) -> Self {
        let by = Some(agent.updated_by_user_id);
        Self::new(MoneyAction::AgentReplaced, agent.user_id, by, agent.updated_at).about(agent.user_id, None)
    }

    /// Records the proposal of a bonus, or the decision about it.
    pub fn of_bonus(proposal: &BonusProposal, currency: Currency) -> Self {
        let (action, by) = match proposal.status {
            AdjustmentStatus::Open => (MoneyAction::BonusProposed, Some(proposal.proposed_by_user_id)),
            AdjustmentStatus::Approved => (MoneyAction::BonusApproved, proposal.decided_by_user_id),
            AdjustmentStatus::Rejected => (MoneyAction::BonusRejected, proposal.decided_by_user_id),
        };
        let entry = Self::new(action, proposal.id, by, proposal.decided_at.unwrap_or(proposal.created_at));
        entry.about(proposal.agent_user_id, Some(Money { amount_minor: proposal.amount, currency }))
    }

    /// Records the assignment of a sale, with the amount of its Base.
    pub fn of_assignment(assignment: &SaleAssignment, amount: Money) -> Self {
        let by = Some(assignment.assigned_by_user_id);
        let entry = Self::new(MoneyAction::SaleAssigned, assignment.deal_id, by, assignment.assigned_at);
        let entry = entry.about(assignment.agent_user_id, Some(amount));
        Self { rate_bps: Some(assignment.rate_bps), ..entry }
    }

    pub fn of_run(run: &PayoutRun) -> Self {
        Self::new(MoneyAction::PayoutRunStarted, run.id, Some(run.created_by_user_id), run.created_at)
    }

    /// Records the latest transition of a payout, with its net amount.
    pub fn of_payout(payout: &Payout) -> Self {
        let action = match payout.status {
            PayoutStatus::Scheduled => MoneyAction::PayoutScheduled,
            PayoutStatus::InTransit => MoneyAction::PayoutSent,
            PayoutStatus::Paid => MoneyAction::PayoutPaid,
            PayoutStatus::Failed => MoneyAction::PayoutFailed,
            PayoutStatus::Cancelled => MoneyAction::PayoutCancelled,
        };
        let entry = Self::new(action, payout.id, Some(payout.updated_by_user_id), payout.updated_at);
        entry.about(payout.agent_user_id, Some(payout.money(payout.net)))
    }
}

/// An entry of the money log.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
#[schema(as = MoneyEntry)]
pub struct MoneyEntryView {
    id: MoneyEntryId,
    #[serde(with = "time::serde::rfc3339")]
    at: OffsetDateTime,
    action: MoneyAction,
    /// Accrual, adjustment request, bonus proposal, rate card, agent, deal, payout run or payout.
    subject_id: SubjectId,
    /// Null for a run, and for a card that names no agent.
    agent_user_id: Option<UserId>,
    /// Employee of the platform, or the user who changed the deal; null if a deal event without a
    /// user, or the job for sales without a rate, made the change.
    actor_user_id: Option<UserId>,
    /// Amount of the accrual, granted amount of the request, or net amount of the payout.
    amount: Option<Money>,
    /// Rate of the accrual, or the highest rate of the card.
    #[schema(minimum = 0, maximum = 10000)]
    rate_bps: Option<i32>,
    trace_id: Option<String>,
}

impl From<MoneyEntry> for MoneyEntryView {
    fn from(entry: MoneyEntry) -> Self {
        let amount = entry.amount.zip(entry.currency);
        Self {
            id: entry.id,
            at: entry.at,
            action: entry.action,
            subject_id: entry.subject_id,
            agent_user_id: entry.agent_user_id,
            actor_user_id: entry.actor_user_id,
            amount: amount.map(|(amount_minor, currency)| Money { amount_minor, currency }),
            rate_bps: entry.rate_bps,
            trace_id: entry.trace_id,
        }
    }
}

#[cfg(test)]
mod tests {
    use time::Duration;
    use uuid::Uuid;
    use values::{Currency, Money};

    use super::{
        Accrual, AccrualStatus, Agent, BonusProposal, MoneyAction, MoneyEntry, Rate, RateCard, SaleAssignment,
    };
    use crate::domain::samples::{NOW, accrual, bonus_proposal, comment, user};
    use crate::domain::{AccrualKind, AdjustmentStatus, DealId, RateCardId};

    #[test]
    fn change_of_an_accrual_is_recorded_once() {
        use AccrualStatus::{Approved, Paid, Pending, Rejected, Reversed};
        let of =
            |status, awaits_release| Accrual { awaits_release, ..accrual(AccrualKind::Base, status, 100) };
        for (before, after, expected) in [
            (None, of(Pending, false), Some(MoneyAction::AccrualCreated)),
            (None, of(Approved, false), Some(MoneyAction::AccrualCreated)),
            (Some(of(Pending, false)), of(Pending, true), Some(MoneyAction::AccrualHeld)),
            (Some(of(Pending, true)), of(Pending, true), None),
            (Some(of(Pending, false)), of(Pending, false), None),
            (Some(of(Pending, true)), of(Approved, false), Some(MoneyAction::AccrualReleased)),
            (Some(of(Pending, false)), of(Approved, false), Some(MoneyAction::AccrualApproved)),
            (Some(of(Approved, false)), of(Approved, false), None),
            (Some(of(Pending, true)), of(Rejected, false), Some(MoneyAction::AccrualRejected)),
            (Some(of(Pending, true)), of(Reversed, false), Some(MoneyAction::AccrualReversed)),
            (Some(of(Approved, false)), of(Paid, false), None),
        ] {
            let entry = MoneyEntry::of_accrual(before.as_ref(), &after, Some(user(9)));
            assert_eq!(entry.as_ref().map(|entry| entry.action), expected, "{before:?} {after:?}");
            if let Some(entry) = entry {
                assert_eq!((entry.at, entry.actor_user_id), (after.updated_at, Some(user(9))));
                assert_eq!((entry.agent_user_id, entry.rate_bps), (Some(user(1)), Some(1_000)));
                assert_eq!((entry.amount, entry.currency), (Some(100), Some(Currency::RUB)));
            }
        }
    }

    #[test]
    fn entry_of_a_card_has_its_agent_and_its_highest_rate() {
        let card = RateCard {
            id: RateCardId::generate(),
            developer_company_id: None,
            agency_company_id: None,
            agent_user_id: Some(user(1)),
            created_at: NOW,
            updated_at: NOW,
            updated_by_user_id: user(9),
            version: 1,
        };
        let rates = [100, 300, 200].map(|rate_bps| Rate { rate_bps, valid_from: NOW, valid_to: None });
        let entry = MoneyEntry::of_card(&card, &rates);
        assert_eq!((entry.agent_user_id, entry.rate_bps), (Some(user(1)), Some(300)));
        assert_eq!((entry.actor_user_id, entry.amount), (Some(user(9)), None));
        let agent = Agent {
            user_id: user(1),
            agency_company_id: None,
            version: 1,
            updated_at: NOW,
            updated_by_user_id: user(9),
        };
        let entry = MoneyEntry::of_agent(&agent);
        assert_eq!((entry.action, entry.agent_user_id), (MoneyAction::AgentReplaced, Some(user(1))));
    }

    #[test]
    fn entry_of_an_assignment_has_its_rate_and_amount() {
        let assignment = SaleAssignment {
            deal_id: DealId::generate(),
            sale_row_version: 1,
            agent_user_id: user(1),
            agency_company_id: Uuid::nil().into(),
            rate_bps: 250,
            comment: comment("по договору"),
            assigned_by_user_id: user(9),
            assigned_at: NOW,
        };
        let amount = Money { amount_minor: 70, currency: Currency::RUB };
        let entry = MoneyEntry::of_assignment(&assignment, amount);
        assert_eq!((entry.agent_user_id, entry.rate_bps), (Some(user(1)), Some(250)));
        assert_eq!((entry.amount, entry.currency), (Some(70), Some(Currency::RUB)));
        assert_eq!((entry.action, entry.actor_user_id), (MoneyAction::SaleAssigned, Some(user(9))));
    }

    #[test]
    fn entry_of_a_bonus_names_the_author_of_its_latest_change() {
        let later = NOW + Duration::hours(1);
        for (status, expected) in [
            (AdjustmentStatus::Open, (MoneyAction::BonusProposed, user(2), NOW)),
            (AdjustmentStatus::Approved, (MoneyAction::BonusApproved, user(3), later)),
            (AdjustmentStatus::Rejected, (MoneyAction::BonusRejected, user(3), later)),
        ] {
            let decided = status != AdjustmentStatus::Open;
            let proposal = BonusProposal {
                decided_at: decided.then_some(later),
                decided_by_user_id: decided.then(|| user(3)),
                ..bonus_proposal(status)
            };
            let entry = MoneyEntry::of_bonus(&proposal, Currency::RUB);
            assert_eq!(
                (entry.action, entry.actor_user_id, entry.at),
                (expected.0, Some(expected.1), expected.2)
            );
        }
    }
}
