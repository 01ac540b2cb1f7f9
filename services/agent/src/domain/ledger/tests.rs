use proptest::prelude::*;
use time::OffsetDateTime;
use time::macros::datetime;
use uuid::Uuid;
use values::{BasisPoints, Currency, Money};

use super::{Entry, SaleTransition};
use crate::domain::{
    Accrual, AccrualKind, AccrualStatus, ApprovalLimit, Deal, DealEvent, DealStatus, DealTopic, MissingTerm,
    PayoutId, Sale, SaleRate, StageChange,
};

const AT: OffsetDateTime = datetime!(2026-11-22 12:00 UTC);

/// A deal and all of its accruals.
struct Ledger {
    deal: Deal,
    limit: u64,
    accruals: Vec<Accrual>,
}

fn change(row_version: i64, to: DealStatus, amount_minor: i64, currency: Currency) -> StageChange {
    let agent_user_id = Some(Uuid::from_u128(7).into());
    StageChange { row_version, to, at: AT, by: None, agent_user_id, amount: Money { amount_minor, currency } }
}

fn sale_rate(bps: u32) -> SaleRate {
    SaleRate { share: BasisPoints(bps), is_set_by_agent: false }
}

impl Ledger {
    fn new() -> Self {
        let event = DealEvent {
            topic: DealTopic::StageChanged,
            deal_id: Uuid::from_u128(1).into(),
            developer_company_id: Uuid::from_u128(2).into(),
            property_object_id: Uuid::from_u128(3).into(),
            row_version: 0,
            status: DealStatus::Application,
            at: AT,
            by: None,
            agent_user_id: None,
            amount: None,
            previous_row_version: 0,
        };
        Self { deal: Deal::empty(&event), limit: u64::MAX, accruals: Vec::new() }
    }

    fn apply(&mut self, change: &StageChange, rate: Option<SaleRate>) -> &'static [SaleTransition] {
        let of_sale = |accrual: &&Accrual| Some(accrual.sale_row_version) == self.deal.sale_row_version;
        let mut sale = Sale::new(self.accruals.iter().filter(of_sale).cloned().collect());
        let transitions = self.deal.sale_transitions(change);
        let posting =
            self.deal.apply(transitions, change, &mut sale, rate, ApprovalLimit(self.limit), AT).unwrap();
        for Entry { before, after } in posting.entries {
            let Some(before) = before else {
                self.accruals.push(after);
                continue;
            };
            let place = self.accruals.iter().position(|accrual| accrual.id == before.id).unwrap();
            assert_eq!(self.accruals[place], before);
            assert_eq!((before.amount, before.currency), (after.amount, after.currency));
            self.accruals[place] = after;
        }
        transitions
    }

    /// Releases every accrual that awaits it.
    fn release(&mut self) {
        for accrual in self.accruals.iter_mut().filter(|accrual| accrual.awaits_release) {
            *accrual = accrual.with_release(Uuid::from_u128(9).into(), AT);
        }
    }

    /// Puts every Approved accrual into a payout.
    fn pay(&mut self) {
        for accrual in &mut self.accruals {
            if accrual.status == AccrualStatus::Approved {
                accrual.payout_id = accrual.payout_id.or_else(|| Some(PayoutId::generate()));
            }
        }
    }

    /// Returns the sum of the counted accruals of a sale.
    fn sum(&self, sale: i64) -> i128 {
        let of_sale = self.accruals.iter().filter(|accrual| accrual.sale_row_version == sale);
        of_sale.filter(|accrual| accrual.is_counted()).map(|accrual| i128::from(accrual.amount)).sum()
    }

    /// Checks INV-AGT-3, INV-AGT-4 and INV-AGT-9.
    fn check(&self) {
        for accrual in &self.accruals {
            let is_approved = accrual.status == AccrualStatus::Approved;
            let is_reversal = accrual.kind == AccrualKind::Reversal;
            assert!(!is_approved || is_reversal || !accrual.requires_release(ApprovalLimit(self.limit)));
            assert!(!accrual.awaits_release || accrual.status == AccrualStatus::Pending);
            let of_sale = |other: &&Accrual| other.sale_row_version == accrual.sale_row_version;
            let bases = self.accruals.iter().filter(of_sale).filter(|one| one.kind == AccrualKind::Base);
            assert_eq!(bases.count(), 1, "one Base for each sale");
            let reversals = self.accruals.iter().filter(|one| one.reverses_accrual_id == Some(accrual.id));
            assert!(reversals.count() <= 1, "one Reversal for each accrual");
            let is_active = self.deal.sale_row_version == Some(accrual.sale_row_version);
            let limit = if is_active {
                i128::from(self.deal.sale_amount.max(self.deal.completed_amount).unwrap())
            } else {
                0
            };
            let sum = self.sum(accrual.sale_row_version);
            assert!(if is_active { (0..=limit).contains(&sum) } else { sum == 0 }, "{sum} of {limit}");
        }
    }
}

fn status() -> impl Strategy<Value = DealStatus> {
    use DealStatus::{Application, Booking, Cancelled, Completed, Other, Sale};
    prop::sample::select(vec![Application, Booking, Sale, Sale, Completed, Completed, Cancelled, Other])
}

fn rate() -> impl Strategy<Value = SaleRate> {
    let parts = (0_u32..=10_000, any::<bool>());
    parts.prop_map(|(bps, is_set_by_agent)| SaleRate { share: BasisPoints(bps), is_set_by_agent })
}

proptest! {
    /// INV-AGT-3, INV-AGT-4, INV-AGT-9: an ended sale sums to 0, and an active one to at most its
    /// amount. Only a release approves amounts above the limit, or at the agent's own rate.
    #[test]
    fn counted_sum_of_a_sale_stays_within_its_amount(
        changes in prop::collection::vec(
            (status(), 0_i64..=i64::MAX, any::<bool>(), rate(), any::<bool>(), any::<bool>()), 1..12,
        ),
        limit in 0..=u64::MAX >> 1,
    ) {
        let mut ledger = Ledger { limit, ..Ledger::new() };
        for (version, (to, amount, in_dollars, rate, is_released, is_paid)) in (1..).zip(changes) {
            let currency = if in_dollars { "USD".parse().unwrap() } else { Currency::RUB };
            ledger.apply(&change(version, to, amount, currency), Some(rate));
            ledger.check();
            if is_released {
                ledger.release();
            }
            if is_paid {
                ledger.pay();
            }
        }
    }
}

/// RULE-AGT-001: each stage change causes the transitions of the table.
#[test]
fn stage_change_causes_the_transitions_of_the_table() {
    use DealStatus::{Application, Booking, Cancelled, Completed, Other, Sale};
    let none: &[SaleTransition] = &[];
    let (begin, complete, end) =
        (&[SaleTransition::Begin][..], &[SaleTransition::Complete][..], &[SaleTransition::End][..]);
    for (earlier, to, expected) in [
        (vec![], Sale, begin),
        (vec![Application], Sale, begin),
        (vec![Booking], Sale, begin),
        (vec![Cancelled], Sale, begin),
        (vec![Other], Sale, begin),
        (vec![Sale, Cancelled], Sale, begin),
        (vec![Sale], Sale, none),
        (vec![Sale, Other], Sale, none),
        (vec![Completed], Sale, none),
        (vec![Sale], Completed, complete),
        (vec![Sale, Other], Completed, complete),
        (vec![], Completed, &[SaleTransition::Begin, SaleTransition::Complete]),
        (vec![Booking], Completed, &[SaleTransition::Begin, SaleTransition::Complete]),
        (vec![Sale, Booking], Completed, &[SaleTransition::Begin, SaleTransition::Complete]),
        (vec![Completed], Completed, none),
        (vec![Sale, Completed, Other], Completed, none),
        (vec![Sale], Application, end),
        (vec![Sale], Booking, end),
        (vec![Sale], Cancelled, end),
        (vec![Sale, Other], Cancelled, end),
        (vec![Sale, Completed], Application, end),
        (vec![Completed], Booking, end),
        (vec![Completed], Cancelled, end),
        (vec![], Application, none),
        (vec![Booking], Cancelled, none),
        (vec![Sale, Cancelled], Cancelled, none),
        (vec![], Other, none),
        (vec![Sale], Other, none),
    ] {
        let mut ledger = Ledger::new();
        for (version, before) in (1..).zip(&earlier) {
            ledger.apply(&change(version, *before, 100, Currency::RUB), None);
        }
        let transitions = ledger.apply(&change(100, to, 100, Currency::RUB), None);
        assert_eq!(transitions, expected, "{to} after {earlier:?}");
        assert_eq!(ledger.deal.applied_row_version, 100);
    }
}

/// RULE-AGT-006: a completion in another currency ends the sale and begins another one.
#[test]
fn completion_in_another_currency_begins_another_sale() {
    let mut ledger = Ledger::new();
    ledger.apply(&change(1, DealStatus::Sale, 1_000, Currency::RUB), Some(sale_rate(1_000)));
    let usd = "USD".parse().unwrap();
    let transitions = ledger.apply(&change(2, DealStatus::Completed, 50, usd), Some(sale_rate(1_000)));
    assert_eq!(transitions, [SaleTransition::End, SaleTransition::Begin, SaleTransition::Complete]);
    let state = |accrual: &Accrual| (accrual.status, accrual.amount, accrual.currency);
    let [former, latter] = &ledger.accruals[..] else { panic!("{:?}", ledger.accruals) };
    assert_eq!(state(former), (AccrualStatus::Reversed, 100, Currency::RUB));
    assert_eq!(state(latter), (AccrualStatus::Approved, 5, usd));
    assert_eq!((latter.sale_row_version, ledger.deal.sale_row_version), (2, Some(2)));
}

/// RULE-AGT-068: a sale without an agent or a rate lacks a term until it is assigned.
#[test]
fn assigned_sale_lacks_no_term_and_accrues() {
    let limit = ApprovalLimit(u64::MAX);
    let mut ledger = Ledger::new();
    assert_eq!(ledger.deal.missing_term(), None, "no sale is active");
    let sale = change(1, DealStatus::Sale, 1_000, Currency::RUB);
    ledger.apply(&StageChange { agent_user_id: None, ..sale }, Some(sale_rate(1_000)));
    assert_eq!((ledger.deal.missing_term(), ledger.deal.is_unrated), (Some(MissingTerm::Agent), false));
    assert_eq!(ledger.deal.accrue(sale_rate(500), limit, AT), Ok(Vec::new()));
    ledger.deal.assign(Uuid::from_u128(7).into());
    assert_eq!((ledger.deal.missing_term(), ledger.deal.is_agent_assigned), (None, true));
    let entries = ledger.deal.accrue(sale_rate(500), limit, AT).unwrap();
    let [Entry { before: None, after }] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((after.amount, after.status), (50, AccrualStatus::Pending));

    let mut ledger = Ledger::new();
    ledger.apply(&sale, None);
    assert_eq!(ledger.deal.missing_term(), Some(MissingTerm::Rate));
    ledger.apply(&change(2, DealStatus::Completed, 1_000, Currency::RUB), None);
    ledger.deal.assign(Uuid::from_u128(7).into());
    assert_eq!((ledger.deal.missing_term(), ledger.deal.is_agent_assigned), (None, false));
    let entries = ledger.deal.accrue(sale_rate(500), limit, AT).unwrap();
    assert_eq!(
        entries.iter().map(|entry| entry.after.status).collect::<Vec<_>>(),
        [AccrualStatus::Pending, AccrualStatus::Approved,]
    );
}

/// A stage change may change two accounts: that of the active sale, and that of the sale that
/// begins.
#[test]
fn beginning_affects_the_accounts_of_both_sales() {
    let mut ledger = Ledger::new();
    let sale = change(1, DealStatus::Sale, 1_000, Currency::RUB);
    let accounts = |deal: &Deal, change: &StageChange| {
        deal.affected_accounts(deal.sale_transitions(change), change).collect::<Vec<_>>()
    };
    let (agent, usd) = (Uuid::from_u128(7).into(), "USD".parse().unwrap());
    assert_eq!(accounts(&ledger.deal, &sale), [(agent, Currency::RUB)]);
    ledger.apply(&sale, Some(sale_rate(1_000)));
    let in_dollars = change(2, DealStatus::Completed, 50, usd);
    assert_eq!(accounts(&ledger.deal, &in_dollars), [(agent, Currency::RUB), (agent, usd)]);
    let cancelled = change(2, DealStatus::Cancelled, 50, usd);
    assert_eq!(accounts(&ledger.deal, &cancelled), [(agent, Currency::RUB)]);
}

/// INV-AGT-9: a Correction awaits a release with its Base, above the limit, or with a whole amount
/// above the limit.
#[test]
fn correction_awaits_a_release_with_its_base_or_above_the_limit() {
    let later = AT + time::Duration::hours(1);
    for (limit, amount, is_set_by_agent, base, correction) in [
        (200, 1_500, false, AccrualStatus::Approved, AccrualStatus::Approved),
        (150, 1_500, false, AccrualStatus::Approved, AccrualStatus::Approved),
        (149, 1_500, false, AccrualStatus::Approved, AccrualStatus::Pending),
        (99, 900, false, AccrualStatus::Pending, AccrualStatus::Pending),
        (200, 900, true, AccrualStatus::Pending, AccrualStatus::Pending),
        (200, 4_000, false, AccrualStatus::Approved, AccrualStatus::Pending),
    ] {
        let mut ledger = Ledger { limit, ..Ledger::new() };
        let rate = SaleRate { is_set_by_agent, ..sale_rate(1_000) };
        ledger.apply(&change(1, DealStatus::Sale, 1_000, Currency::RUB), Some(rate));
        let completed = change(2, DealStatus::Completed, amount, Currency::RUB);
        ledger.apply(&StageChange { at: later, ..completed }, Some(rate));
        let [first, second] = &ledger.accruals[..] else { panic!("{:?}", ledger.accruals) };
        assert_eq!((first.status, second.status), (base, correction), "{limit} {amount}");
        assert_eq!((second.kind, second.amount), (AccrualKind::Correction, amount / 10 - 100));
        assert_eq!((first.earned_at, second.earned_at), (AT, later));
    }
}

/// INV-AGT-9: an adjustment above the limit awaits a release, although its Base does not.
#[test]
fn adjustment_above_the_limit_awaits_a_release_alone() {
    let mut ledger = Ledger { limit: 200, ..Ledger::new() };
    ledger.apply(&change(1, DealStatus::Sale, 1_000, Currency::RUB), Some(sale_rate(1_000)));
    let adjustment = ledger.accruals[0].new_adjustment(AccrualKind::Bonus, 201, AT);
    let sale = Sale::new(vec![ledger.accruals[0].clone(), adjustment]);
    let later = AT + time::Duration::hours(1);
    let entries = sale.complete(1_000, AT, ApprovalLimit(200), later).unwrap();
    let completed =
        entries.iter().map(|Entry { after, .. }| (after.status, after.awaits_release, after.updated_at));
    assert_eq!(
        completed.collect::<Vec<_>>(),
        [(AccrualStatus::Approved, false, later), (AccrualStatus::Pending, true, later),]
    );
}
