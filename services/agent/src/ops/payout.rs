//! Transitions of payouts.

use ::db::Tx;
use auth::UserId;
use messaging::outbox;
use time::OffsetDateTime;

use super::Books;
use crate::db;
use crate::domain::{Entry, MoneyEntry, Overflow, Payout, PayoutId, PayoutTransition};
use crate::error::{CONCURRENCY_CONFLICT, Error, PAYOUT_INVALID_TRANSITION, PAYOUT_NOT_FOUND, PAYOUT_OWN};
use crate::events::PayoutStatusChanged;

/// Makes a transition of a payout and settles its accruals. A repeated transition changes nothing.
///
/// # Errors
/// - [`PAYOUT_NOT_FOUND`] if the payout does not exist, and [`PAYOUT_OWN`] if it is the caller's.
/// - [`PAYOUT_INVALID_TRANSITION`] as in [`Payout::apply`], or if a sum would exceed 64 bits.
/// - [`CONCURRENCY_CONFLICT`] if another change won the race.
pub async fn apply_transition(
    tx: &mut Tx,
    id: PayoutId,
    transition: PayoutTransition,
    by: UserId,
    now: OffsetDateTime,
) -> Result<Payout, Error> {
    let found = db::payout::find(tx, id).await?.ok_or(PAYOUT_NOT_FOUND)?;
    if found.agent_user_id == by {
        return Err(PAYOUT_OWN.into());
    }
    let mut books = Books::open(tx, Some(by), [(found.agent_user_id, found.currency)]).await?;
    // Read again under the account's lock, because every transition takes this lock first.
    let before = db::payout::find(tx, id).await?.ok_or(PAYOUT_NOT_FOUND)?;
    let Some(after) = before.apply(transition, by, now)? else { return Ok(before) };
    if after.is_settled() {
        let accruals = db::payout::list_accruals(tx, id).await?;
        let settled = accruals.iter().map(|accrual| Entry::changed(accrual, after.settle(accrual)));
        books.post(settled.collect()).map_err(|Overflow| PAYOUT_INVALID_TRANSITION)?;
        books.close(tx).await?;
    }
    if !db::payout::update(tx, &after).await? {
        return Err(CONCURRENCY_CONFLICT.into());
    }
    db::money_log::append(tx, vec![MoneyEntry::of_payout(&after)]).await?;
    outbox::append(tx, &PayoutStatusChanged::of(&after, Some(before.status))).await?;
    Ok(after)
}
