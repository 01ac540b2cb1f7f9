use time::{Duration, OffsetDateTime};
use values::{Code, Currency, Money};

use super::{Sale, Undo};
use crate::domain::samples::{NOW, accrual, user};
use crate::domain::{Accrual, AccrualId, AccrualKind, AccrualStatus, Overflow, PayoutId};
use crate::error::{
    ACCRUAL_NOT_ADJUSTABLE, ACCRUAL_NOT_FOUND, ACCRUAL_NOT_REJECTABLE, ACCRUAL_NOT_RELEASABLE,
    ACCRUAL_NOT_REVERSIBLE, ADJUSTMENT_AMOUNT_INVALID,
};

fn later() -> OffsetDateTime {
    NOW + Duration::hours(1)
}

fn base(status: AccrualStatus) -> Accrual {
    accrual(AccrualKind::Base, status, 100)
}

fn in_payout(accrual: Accrual) -> Accrual {
    Accrual { payout_id: Some(PayoutId::generate()), ..accrual }
}

fn adjustment_of(base: &Accrual, amount: i64) -> Accrual {
    Accrual {
        adjusts_accrual_id: Some(base.id),
        ..accrual(AccrualKind::Correction, AccrualStatus::Approved, amount)
    }
}

fn reversal_of(reversed: &Accrual) -> Accrual {
    Accrual {
        reverses_accrual_id: Some(reversed.id),
        ..accrual(AccrualKind::Reversal, AccrualStatus::Approved, -reversed.amount)
    }
}

fn sale(accruals: &[&Accrual]) -> Sale {
    Sale::new(accruals.iter().map(|accrual| (*accrual).clone()).collect())
}

fn ids(found: Result<Vec<&Accrual>, Code>) -> Result<Vec<AccrualId>, Code> {
    found.map(|accruals| accruals.into_iter().map(|accrual| accrual.id).collect())
}

/// INV-AGT-3: a Reversal, and an accrual that it undoes, are not effective.
#[test]
fn effective_sum_leaves_out_undone_accruals() {
    let base = base(AccrualStatus::Approved);
    let (kept, undone) = (adjustment_of(&base, 40), adjustment_of(&base, 20));
    let rejected = Accrual { status: AccrualStatus::Rejected, ..adjustment_of(&base, 7) };
    let (reversal, other) = (reversal_of(&undone), accrual(AccrualKind::Bonus, AccrualStatus::Approved, 1));
    let sale = sale(&[&kept, &base, &undone, &rejected, &reversal, &other]);
    assert_eq!(sale.base(), Some(&base));
    assert_eq!(sale.find(kept.id), Some(&kept));
    assert_eq!(sale.find(AccrualId::generate()), None);
    assert_eq!(sale.reversal_of(undone.id), Some(&reversal));
    let effective: Vec<_> = sale.effective().map(|accrual| accrual.id).collect();
    assert_eq!(effective, [kept.id, base.id, other.id]);
    assert_eq!(sale.effective_sum(base.id), 140);
    assert_eq!(sale.effective_sum(kept.id), 40);
}

#[test]
fn accrual_is_rejected_with_its_adjustments_before_a_payout() {
    let base = base(AccrualStatus::Approved);
    let adjustment = adjustment_of(&base, 40);
    assert_eq!(
        ids(sale(&[&base, &adjustment]).find_rejectable(base.id, None)),
        Ok(vec![base.id, adjustment.id])
    );
    let paid = in_payout(adjustment.clone());
    let rejected = Accrual { status: AccrualStatus::Rejected, ..base.clone() };
    for (accruals, id, expected) in [
        (vec![&base, &adjustment], AccrualId::generate(), ACCRUAL_NOT_FOUND),
        (vec![&base, &paid], base.id, ACCRUAL_NOT_REJECTABLE),
        (vec![&rejected], rejected.id, ACCRUAL_NOT_REJECTABLE),
    ] {
        assert_eq!(ids(sale(&accruals).find_rejectable(id, None)), Err(expected));
    }
}

/// INV-AGT-4: an adjustment stays if the sum without it would exceed the amount of the sale.
#[test]
fn adjustment_stays_while_the_rest_would_be_too_high() {
    let base = base(AccrualStatus::Approved);
    let (raise, reduction) = (adjustment_of(&base, 901), adjustment_of(&base, -1));
    let all = sale(&[&base, &raise, &reduction]);
    assert_eq!(ids(all.find_rejectable(reduction.id, None)), Err(ACCRUAL_NOT_REJECTABLE));
    assert_eq!(ids(all.find_rejectable(reduction.id, Some(1_001))), Ok(vec![reduction.id]));
    assert_eq!(ids(all.find_rejectable(raise.id, None)), Ok(vec![raise.id]));
    let full = adjustment_of(&base, 900);
    assert_eq!(
        ids(sale(&[&base, &full, &reduction]).find_rejectable(reduction.id, None)),
        Ok(vec![reduction.id])
    );
    let paid = in_payout(reduction.clone());
    let all = sale(&[&base, &raise, &paid]);
    assert_eq!(ids(all.find_reversible(paid.id, None)), Err(ACCRUAL_NOT_REVERSIBLE));
    assert_eq!(ids(all.find_reversible(paid.id, Some(1_001))), Ok(vec![paid.id]));
}

#[test]
fn accrual_is_reversed_with_its_adjustments_in_a_payout() {
    let paid = in_payout(base(AccrualStatus::Paid));
    let adjustment = adjustment_of(&paid, 40);
    let reversal = in_payout(reversal_of(&paid));
    let free = base(AccrualStatus::Approved);
    let all = sale(&[&paid, &adjustment]);
    assert_eq!(ids(all.find_reversible(paid.id, None)), Ok(vec![paid.id, adjustment.id]));
    for (accruals, id, expected) in [
        (vec![&paid], AccrualId::generate(), ACCRUAL_NOT_FOUND),
        (vec![&free], free.id, ACCRUAL_NOT_REVERSIBLE),
        (vec![&reversal], reversal.id, ACCRUAL_NOT_REVERSIBLE),
    ] {
        assert_eq!(ids(sale(&accruals).find_reversible(id, None)), Err(expected));
    }
}

/// INV-AGT-9: a release covers all accruals of the sale that await it, and a repeat covers none.
#[test]
fn release_covers_every_accrual_that_awaits_it() {
    let held = Accrual { awaits_release: true, ..base(AccrualStatus::Pending) };
    let adjustment = Accrual { awaits_release: true, ..adjustment_of(&held, 5) };
    let free = adjustment_of(&held, 6);
    let all = sale(&[&held, &free, &adjustment]);
    assert_eq!(ids(all.find_releasable(adjustment.id)), Ok(vec![held.id, adjustment.id]));
    assert_eq!(ids(all.find_releasable(free.id)), Err(ACCRUAL_NOT_RELEASABLE));
    assert_eq!(ids(all.find_releasable(AccrualId::generate())), Err(ACCRUAL_NOT_FOUND));
    for (status, is_released, expected) in [
        (AccrualStatus::Approved, true, Ok(vec![])),
        (AccrualStatus::Paid, true, Ok(vec![])),
        (AccrualStatus::Reversed, true, Err(ACCRUAL_NOT_RELEASABLE)),
        (AccrualStatus::Paid, false, Err(ACCRUAL_NOT_RELEASABLE)),
    ] {
        let accrual = Accrual { released_by_user_id: is_released.then(|| user(9)), ..base(status) };
        assert_eq!(ids(sale(&[&accrual]).find_releasable(accrual.id)), expected, "{status} {is_released}");
    }
}

#[test]
fn only_an_open_base_is_adjustable() {
    for (status, disputes_paid, expected) in [
        (AccrualStatus::Pending, false, true),
        (AccrualStatus::Approved, false, true),
        (AccrualStatus::Paid, false, false),
        (AccrualStatus::Paid, true, true),
        (AccrualStatus::Rejected, true, false),
        (AccrualStatus::Reversed, true, false),
    ] {
        let base = base(status);
        let found = sale(&[&base]).find_adjustable(base.id, disputes_paid).map(|found| found.id);
        assert_eq!(found, if expected { Ok(base.id) } else { Err(ACCRUAL_NOT_ADJUSTABLE) }, "{status}");
    }
    let (base, bonus) =
        (base(AccrualStatus::Approved), accrual(AccrualKind::Bonus, AccrualStatus::Approved, 1));
    let refused =
        |accruals: &[&Accrual], id| sale(accruals).find_adjustable(id, false).map(|_| ()).unwrap_err();
    assert_eq!(refused(&[&bonus], bonus.id), ACCRUAL_NOT_ADJUSTABLE);
    assert_eq!(refused(&[&base, &reversal_of(&base)], base.id), ACCRUAL_NOT_ADJUSTABLE);
    assert_eq!(refused(&[&base], bonus.id), ACCRUAL_NOT_FOUND);
}

/// INV-AGT-3: an accrual in a payout stays and gets a Reversal; another one becomes Reversed.
#[test]
fn undone_accrual_becomes_reversed_or_gets_a_reversal() {
    let free = Accrual { awaits_release: true, ..base(AccrualStatus::Pending) };
    let marked = Accrual {
        status: AccrualStatus::Reversed,
        awaits_release: false,
        updated_at: later(),
        ..free.clone()
    };
    assert_eq!(free.undo(NOW, later()), Ok(Undo::MarkReversed(marked)));

    let paid = Accrual {
        paid_at: Some(NOW),
        awaits_release: true,
        adjusts_accrual_id: Some(AccrualId::generate()),
        released_by_user_id: Some(user(9)),
        decided_by_user_id: Some(user(9)),
        decision_comment: Some("верно".to_owned()),
        version: 4,
        ..in_payout(base(AccrualStatus::Paid))
    };
    let cause = NOW + Duration::minutes(1);
    let Ok(Undo::AddReversal(reversal)) = paid.undo(cause, later()) else { panic!("no Reversal") };
    assert_ne!(reversal.id, paid.id);
    let expected = Accrual {
        id: reversal.id,
        kind: AccrualKind::Reversal,
        amount: -100,
        status: AccrualStatus::Approved,
        reverses_accrual_id: Some(paid.id),
        earned_at: cause,
        approved_at: Some(cause),
        created_at: later(),
        updated_at: later(),
        payout_id: None,
        adjusts_accrual_id: None,
        paid_at: None,
        awaits_release: false,
        released_by_user_id: None,
        decided_by_user_id: None,
        decision_comment: None,
        version: 1,
        ..paid.clone()
    };
    assert_eq!(reversal, expected);
    assert_eq!(Accrual { amount: i64::MIN, ..paid }.undo(NOW, NOW), Err(Overflow));
}

#[test]
fn release_and_completion_set_status_and_time() {
    let held = Accrual { awaits_release: true, ..base(AccrualStatus::Pending) };
    let released = Accrual {
        status: AccrualStatus::Approved,
        awaits_release: false,
        released_by_user_id: Some(user(9)),
        approved_at: Some(later()),
        updated_at: later(),
        ..held.clone()
    };
    assert_eq!(held.with_release(user(9), later()), released);
    let completed = base(AccrualStatus::Pending).with_completion(true, later());
    assert_eq!((completed.status, completed.awaits_release), (AccrualStatus::Pending, true));
    assert_eq!(completed.approved_at, None);
    let completed = held.with_completion(false, later());
    assert_eq!((completed.status, completed.awaits_release), (AccrualStatus::Approved, false));
    assert_eq!(completed.approved_at, Some(later()));
}

#[test]
fn whole_amount_is_within_the_base_amount() {
    let base = base(AccrualStatus::Approved);
    let check = |amount_minor, currency| base.check_whole_amount(Money { amount_minor, currency });
    for (amount, expected) in [
        (0, Ok(0)),
        (1_000, Ok(1_000)),
        (1_001, Err(ADJUSTMENT_AMOUNT_INVALID)),
        (-1, Err(ADJUSTMENT_AMOUNT_INVALID)),
    ] {
        assert_eq!(check(amount, Currency::RUB), expected);
    }
    assert_eq!(check(10, "USD".parse().unwrap()), Err(ADJUSTMENT_AMOUNT_INVALID));
}

#[test]
fn adjustment_is_pending_only_for_a_pending_accrual_and_has_no_decision() {
    for (status, expected) in [
        (AccrualStatus::Pending, (AccrualStatus::Pending, None)),
        (AccrualStatus::Approved, (AccrualStatus::Approved, Some(later()))),
        (AccrualStatus::Paid, (AccrualStatus::Approved, Some(later()))),
    ] {
        let adjusted = Accrual {
            paid_at: Some(NOW),
            adjusts_accrual_id: Some(AccrualId::generate()),
            reverses_accrual_id: Some(AccrualId::generate()),
            released_by_user_id: Some(user(9)),
            decided_by_user_id: Some(user(9)),
            decision_comment: Some("верно".to_owned()),
            version: 4,
            ..in_payout(base(status))
        };
        let adjustment = adjusted.new_adjustment(AccrualKind::Correction, -5, later());
        assert_eq!((adjustment.status, adjustment.approved_at), expected, "{status}");
        assert_ne!(adjustment.id, adjusted.id);
        let expected = Accrual {
            id: adjustment.id,
            kind: AccrualKind::Correction,
            amount: -5,
            status: adjustment.status,
            approved_at: adjustment.approved_at,
            adjusts_accrual_id: Some(adjusted.id),
            earned_at: later(),
            created_at: later(),
            updated_at: later(),
            payout_id: None,
            reverses_accrual_id: None,
            paid_at: None,
            released_by_user_id: None,
            decided_by_user_id: None,
            decision_comment: None,
            version: 1,
            ..adjusted
        };
        assert_eq!(adjustment, expected);
    }
}
