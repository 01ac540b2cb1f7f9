//! Payouts: transfers of approved accruals to an agent in one currency.

use auth::UserId;
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::{Code, Currency, Money, Private, Prose, Text};

use super::{Accrual, AccrualStatus, PayoutId, PayoutRun, PayoutRunId};
use crate::error::PAYOUT_INVALID_TRANSITION;
use crate::schema::payout;

values::text_enum! {
    /// The status of a payout. Paid, Failed and Cancelled are final.
    pub enum PayoutStatus {
        Scheduled,
        InTransit,
        Paid,
        Failed,
        Cancelled,
    }
}

/// The bank's reference of a payout.
pub type PaymentReference = Private<Text<1, 128>>;
/// The reason why a payout failed.
pub type FailureReason = Private<Prose<1, 500>>;

/// A payout as it is stored. Its amounts never change (INV-AGT-6).
#[derive(Clone, Debug, PartialEq, Eq, Queryable, QueryableByName, Selectable)]
#[diesel(table_name = payout, check_for_backend(Pg))]
pub struct Payout {
    pub id: PayoutId,
    pub run_id: PayoutRunId,
    pub agent_user_id: UserId,
    pub period_from: OffsetDateTime,
    pub period_to: OffsetDateTime,
    pub currency: Currency,
    /// In minor units of `currency`, like the other amounts.
    pub gross: i64,
    pub withholding_bps: i32,
    pub withheld: i64,
    pub net: i64,
    pub accruals_count: i32,
    pub status: PayoutStatus,
    pub reference: Option<PaymentReference>,
    pub failure_reason: Option<FailureReason>,
    pub created_at: OffsetDateTime,
    pub sent_at: Option<OffsetDateTime>,
    pub paid_at: Option<OffsetDateTime>,
    pub updated_at: OffsetDateTime,
    /// The employee who made the latest transition, or started the run.
    pub updated_by_user_id: UserId,
    pub version: i64,
}

/// A transition of a payout with its data.
#[derive(Clone, Debug)]
pub enum PayoutTransition {
    Send { reference: Option<PaymentReference> },
    Confirm { paid_at: Option<OffsetDateTime>, reference: Option<PaymentReference> },
    Fail { reason: FailureReason },
    Cancel,
}

impl PayoutTransition {
    fn target(&self) -> PayoutStatus {
        match self {
            Self::Send { .. } => PayoutStatus::InTransit,
            Self::Confirm { .. } => PayoutStatus::Paid,
            Self::Fail { .. } => PayoutStatus::Failed,
            Self::Cancel => PayoutStatus::Cancelled,
        }
    }
}

impl Payout {
    /// Creates the payout of a run for payable accruals, which are in payment order.
    ///
    /// Returns the payout with the accruals that it contains.
    /// A payout takes accruals in order until their sum would exceed 64 bits. The remaining ones
    /// wait for the next run.
    /// Returns `None` if the sum is 0 or a debt.
    pub fn create(run: &PayoutRun, payable: &[Accrual], now: OffsetDateTime) -> Option<(Self, Vec<Accrual>)> {
        let first = payable.first()?;
        let (mut gross, mut taken) = (0_i64, Vec::with_capacity(payable.len()));
        let id = PayoutId::generate();
        for accrual in payable {
            let Some(sum) = gross.checked_add(accrual.amount) else { break };
            gross = sum;
            taken.push(Accrual {
                payout_id: Some(id),
                updated_at: now.max(accrual.updated_at),
                ..accrual.clone()
            });
        }
        let whole = Money { amount_minor: gross, currency: first.currency };
        let withheld = whole.share(run.withholding())?.amount_minor;
        let payout = Self {
            id,
            run_id: run.id,
            agent_user_id: first.agent_user_id,
            period_from: run.period_from,
            period_to: run.period_to,
            currency: first.currency,
            gross,
            withholding_bps: run.withholding_bps,
            withheld,
            net: gross - withheld,
            accruals_count: i32::try_from(taken.len()).ok()?,
            status: PayoutStatus::Scheduled,
            reference: None,
            failure_reason: None,
            created_at: now,
            sent_at: None,
            paid_at: None,
            updated_at: now,
            updated_by_user_id: run.created_by_user_id,
            version: 1,
        };
        (gross > 0).then_some((payout, taken))
    }

    /// Returns the payout after a transition, or `None` if it has the target status already.
    ///
    /// # Errors
    /// [`PAYOUT_INVALID_TRANSITION`] if the current status does not permit the transition.
    pub fn apply(
        &self,
        transition: PayoutTransition,
        by: UserId,
        now: OffsetDateTime,
    ) -> Result<Option<Self>, Code> {
        use PayoutStatus::{Cancelled, Failed, InTransit, Paid, Scheduled};
        let to = transition.target();
        if self.status == to {
            return Ok(None);
        }
        if !matches!(
            (self.status, to),
            (Scheduled, InTransit | Paid | Failed | Cancelled) | (InTransit, Paid | Failed)
        ) {
            return Err(PAYOUT_INVALID_TRANSITION);
        }
        // Clamps to the time of the previous change, since replica clocks may differ.
        let now = now.max(self.updated_at);
        let mut after = Self {
            status: to,
            updated_at: now,
            updated_by_user_id: by,
            version: self.version + 1,
            ..self.clone()
        };
        match transition {
            PayoutTransition::Send { reference } => {
                after.sent_at = Some(now);
                after.reference = reference;
            }
            PayoutTransition::Confirm { paid_at, reference } => {
                after.paid_at = Some(paid_at.unwrap_or(now));
                after.reference = reference.or(after.reference);
            }
            PayoutTransition::Fail { reason } => after.failure_reason = Some(reason),
            PayoutTransition::Cancel => {}
        }
        Ok(Some(after))
    }

    /// Returns an accrual of the payout with the changes that the payout's status requires.
    pub fn settle(&self, accrual: &Accrual) -> Accrual {
        let mut settled = Accrual { updated_at: self.updated_at.max(accrual.updated_at), ..accrual.clone() };
        match self.status {
            PayoutStatus::Scheduled | PayoutStatus::InTransit => {}
            PayoutStatus::Paid => {
                settled.status = AccrualStatus::Paid;
                settled.paid_at = self.paid_at;
            }
            PayoutStatus::Failed | PayoutStatus::Cancelled => settled.payout_id = None,
        }
        settled
    }

    /// Returns true if the payout has paid or released its accruals.
    pub fn is_settled(&self) -> bool {
        !matches!(self.status, PayoutStatus::Scheduled | PayoutStatus::InTransit)
    }

    pub fn money(&self, amount_minor: i64) -> Money {
        Money { amount_minor, currency: self.currency }
    }
}

/// A payout to an agent in one currency.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
#[schema(as = Payout)]
pub struct PayoutView {
    id: PayoutId,
    run_id: PayoutRunId,
    agent_user_id: UserId,
    #[serde(with = "time::serde::rfc3339")]
    period_from: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    period_to: OffsetDateTime,
    gross: Money,
    #[schema(minimum = 0, maximum = 10000)]
    withholding_bps: i32,
    withheld: Money,
    net: Money,
    #[schema(minimum = 1)]
    accruals_count: i32,
    status: PayoutStatus,
    reference: Option<PaymentReference>,
    failure_reason: Option<FailureReason>,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    sent_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339::option")]
    paid_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339")]
    updated_at: OffsetDateTime,
    version: i64,
}

impl From<Payout> for PayoutView {
    fn from(payout: Payout) -> Self {
        let [gross, withheld, net] =
            [payout.gross, payout.withheld, payout.net].map(|amount| payout.money(amount));
        Self {
            id: payout.id,
            run_id: payout.run_id,
            agent_user_id: payout.agent_user_id,
            period_from: payout.period_from,
            period_to: payout.period_to,
            gross,
            withholding_bps: payout.withholding_bps,
            withheld,
            net,
            accruals_count: payout.accruals_count,
            status: payout.status,
            reference: payout.reference,
            failure_reason: payout.failure_reason,
            created_at: payout.created_at,
            sent_at: payout.sent_at,
            paid_at: payout.paid_at,
            updated_at: payout.updated_at,
            version: payout.version,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::{Duration, OffsetDateTime};
    use values::{Prose, Text};

    use super::{Accrual, FailureReason, PaymentReference, Payout, PayoutStatus, PayoutTransition};
    use crate::domain::samples::{NOW, accrual, payout_run, user};
    use crate::domain::{AccrualKind, AccrualStatus, PayoutId};
    use crate::error::PAYOUT_INVALID_TRANSITION;

    fn approved(amount: i64) -> Accrual {
        accrual(AccrualKind::Base, AccrualStatus::Approved, amount)
    }

    fn payout(status: PayoutStatus) -> Payout {
        let (payout, _) = Payout::create(&payout_run(1_000), &[approved(100)], NOW).unwrap();
        Payout { status, reference: Some(reference("старая")), ..payout }
    }

    fn reference(text: &str) -> PaymentReference {
        PaymentReference::new(Text::parse(text).unwrap())
    }

    fn reason() -> FailureReason {
        FailureReason::new(Prose::parse("счёт закрыт").unwrap())
    }

    fn later() -> OffsetDateTime {
        NOW + Duration::hours(1)
    }

    /// A payout takes only the transitions of the table, and a repeat changes nothing.
    #[test]
    fn payout_takes_only_the_transitions_of_the_table() {
        use PayoutStatus::{Cancelled, Failed, InTransit, Paid, Scheduled};
        let send = PayoutTransition::Send { reference: None };
        let confirm = PayoutTransition::Confirm { paid_at: None, reference: None };
        let fail = PayoutTransition::Fail { reason: reason() };
        for (to, transition, from) in [
            (InTransit, send, &[Scheduled][..]),
            (Paid, confirm, &[Scheduled, InTransit]),
            (Failed, fail, &[Scheduled, InTransit]),
            (Cancelled, PayoutTransition::Cancel, &[Scheduled]),
        ] {
            for status in [Scheduled, InTransit, Paid, Failed, Cancelled] {
                let after = payout(status).apply(transition.clone(), user(6), later());
                let expected = if status == to {
                    Ok(None)
                } else if from.contains(&status) {
                    Ok(Some(to))
                } else {
                    Err(PAYOUT_INVALID_TRANSITION)
                };
                assert_eq!(after.map(|after| after.map(|after| after.status)), expected, "{status} to {to}");
            }
        }
    }

    #[test]
    fn transition_records_its_author_time_and_data() {
        let before = payout(PayoutStatus::Scheduled);
        let apply = |transition, now| before.apply(transition, user(6), now).unwrap().unwrap();
        let changed = |status| Payout {
            status,
            updated_at: later(),
            updated_by_user_id: user(6),
            version: 2,
            ..before.clone()
        };
        let sent = apply(PayoutTransition::Send { reference: None }, later());
        let expected = changed(PayoutStatus::InTransit);
        assert_eq!(sent, Payout { sent_at: Some(later()), reference: None, ..expected });

        let confirm = |paid_at, reference| PayoutTransition::Confirm { paid_at, reference };
        let paid = changed(PayoutStatus::Paid);
        assert_eq!(apply(confirm(None, None), later()), Payout { paid_at: Some(later()), ..paid.clone() });
        let confirmed = apply(confirm(Some(NOW), Some(reference("новая"))), later());
        assert_eq!(confirmed, Payout { paid_at: Some(NOW), reference: Some(reference("новая")), ..paid });

        let failed = changed(PayoutStatus::Failed);
        let expected = Payout { failure_reason: Some(reason()), ..failed };
        assert_eq!(apply(PayoutTransition::Fail { reason: reason() }, later()), expected);
        assert_eq!(apply(PayoutTransition::Cancel, later()), changed(PayoutStatus::Cancelled));
        let early = apply(PayoutTransition::Cancel, NOW - Duration::hours(1));
        assert_eq!(early.updated_at, NOW, "replica clocks may differ");
    }

    /// A paid payout pays its accruals, and a failed or cancelled one releases them.
    #[test]
    fn final_payout_pays_or_releases_its_accruals() {
        use PayoutStatus::{Cancelled, Failed, InTransit, Paid, Scheduled};
        let id = Some(PayoutId::generate());
        let line = Accrual { payout_id: id, ..approved(100) };
        for (status, expected, is_settled) in [
            (Scheduled, (AccrualStatus::Approved, id, None), false),
            (InTransit, (AccrualStatus::Approved, id, None), false),
            (Paid, (AccrualStatus::Paid, id, Some(later())), true),
            (Failed, (AccrualStatus::Approved, None, None), true),
            (Cancelled, (AccrualStatus::Approved, None, None), true),
        ] {
            let payout = Payout { paid_at: Some(later()), updated_at: later(), ..payout(status) };
            let settled = payout.settle(&line);
            assert_eq!((settled.status, settled.payout_id, settled.paid_at), expected, "{status}");
            assert_eq!(settled.updated_at, later());
            assert_eq!(payout.is_settled(), is_settled, "{status}");
        }
    }

    #[test]
    fn sum_of_zero_or_a_debt_is_not_paid() {
        for amounts in [&[][..], &[5, -5], &[5, -6]] {
            let payable: Vec<_> = amounts.iter().copied().map(approved).collect();
            assert_eq!(Payout::create(&payout_run(0), &payable, NOW), None, "{amounts:?}");
        }
    }

    #[test]
    fn payout_raises_updated_at_of_its_accruals() {
        let newer = Accrual { updated_at: later() + Duration::hours(1), ..approved(100) };
        let (_, taken) = Payout::create(&payout_run(0), &[approved(100), newer.clone()], later()).unwrap();
        assert_eq!([taken[0].updated_at, taken[1].updated_at], [later(), newer.updated_at]);
    }

    proptest! {
        /// INV-AGT-6: `Gross` is the sum of the lines, above 0, and equals `Withheld` + `Net`.
        ///
        /// A payout leaves out only accruals whose sum would exceed 64 bits.
        #[test]
        fn payout_equals_the_sum_of_its_lines(
            amounts in prop::collection::vec(prop_oneof![any::<i64>(), -1_000_i64..1_000], 0..12),
            bps in 0_i32..=10_000,
        ) {
            let payable: Vec<_> = amounts.iter().copied().map(approved).collect();
            let sum = |count: usize| amounts[..count].iter().copied().map(i128::from).sum::<i128>();
            let is_beyond = |count: &usize| i64::try_from(sum(*count)).is_err();
            let count = (0..=amounts.len()).find(is_beyond).map_or(amounts.len(), |first| first - 1);
            match Payout::create(&payout_run(bps), &payable, NOW) {
                Some((payout, taken)) => {
                    prop_assert!(payout.gross > 0 && i128::from(payout.gross) == sum(count));
                    prop_assert_eq!(payout.gross, payout.withheld + payout.net);
                    prop_assert!(payout.withheld >= 0 && payout.net >= 0);
                    prop_assert_eq!(usize::try_from(payout.accruals_count), Ok(taken.len()));
                    prop_assert_eq!(taken.len(), count);
                    prop_assert!(taken.iter().all(|accrual| accrual.payout_id == Some(payout.id)));
                    prop_assert_eq!(payout.status, PayoutStatus::Scheduled);
                }
                None => prop_assert!(sum(count) <= 0, "{} was not paid", sum(count)),
            }
        }
    }
}
