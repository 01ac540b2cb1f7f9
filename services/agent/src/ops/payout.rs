//! What becomes of payouts.

use ::db::Tx;
use messaging::outbox;
use time::OffsetDateTime;

use super::Books;
use crate::db;
use crate::domain::{Entry, Move, Overflow, Payout, PayoutId};
use crate::error::{CONCURRENCY_CONFLICT, Error, PAYOUT_INVALID_TRANSITION, PAYOUT_NOT_FOUND};
use crate::events::PayoutStatusChanged;

/// Moves a payout, and its accruals with it. The move that was made last, again, changes nothing.
///
/// # Errors
/// [`PAYOUT_NOT_FOUND`], [`PAYOUT_INVALID_TRANSITION`], [`CONCURRENCY_CONFLICT`]
pub async fn move_payout(tx: &mut Tx, id: PayoutId, by: Move, now: OffsetDateTime) -> Result<Payout, Error> {
    let found = db::payout::find(tx, id).await?.ok_or(PAYOUT_NOT_FOUND)?;
    let mut books = Books::open(tx, [(found.agent_user_id, found.currency)]).await?;
    // Whoever moves a payout has its account, so from here on it stays as it is.
    let before = db::payout::find(tx, id).await?.ok_or(PAYOUT_NOT_FOUND)?;
    let Some(after) = before.moved(by, now)? else { return Ok(before) };
    if after.is_settled() {
        let accruals = db::payout::accruals(tx, id).await?;
        let settled = accruals.iter().map(|accrual| Entry::changed(accrual, after.settle(accrual)));
        books.post(settled.collect()).map_err(|Overflow| PAYOUT_INVALID_TRANSITION)?;
        books.close(tx).await?;
    }
    if !db::payout::update(tx, &after).await? {
        return Err(CONCURRENCY_CONFLICT.into());
    }
    outbox::append(tx, &PayoutStatusChanged::of(&after, Some(before.status))).await?;
    Ok(after)
}
