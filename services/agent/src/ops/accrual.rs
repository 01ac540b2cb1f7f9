//! Decisions of the platform about accruals: release, rejection and reversal.

use ::db::Tx;
use auth::UserId;
use time::OffsetDateTime;

use super::Books;
use crate::db;
use crate::db::sale::SaleKey;
use crate::domain::{Accrual, AccrualId, AccrualStatus, Comment, Entry, Overflow, Sale, Undo};
use crate::error::{
    ACCRUAL_NOT_FOUND, ACCRUAL_NOT_REJECTABLE, ACCRUAL_NOT_RELEASABLE, ACCRUAL_NOT_REVERSIBLE, ACCRUAL_OWN,
    Error,
};

/// Returns the key of an accrual's sale. Rejects a caller who is the agent of the accrual.
async fn find_decidable(tx: &mut Tx, id: AccrualId, by: UserId) -> Result<SaleKey, Error> {
    let key = db::sale::find_key(tx, id).await?.ok_or(ACCRUAL_NOT_FOUND)?;
    if key.agent_user_id == by { Err(ACCRUAL_OWN.into()) } else { Ok(key) }
}

/// Locks a sale until the end of the transaction, for changes by an employee.
///
/// Returns the books of its account, the sale, and the amount of the deal at its completion.
pub(super) async fn open_sale(
    tx: &mut Tx,
    key: SaleKey,
    by: UserId,
) -> Result<(Books, Sale, Option<i64>), ::db::Error> {
    let completed = db::sale::lock_deal(tx, key.deal_id).await?;
    let books = Books::open(tx, Some(by), [(key.agent_user_id, key.currency)]).await?;
    Ok((books, db::sale::read(tx, key.deal_id, key.sale_row_version).await?, completed))
}

/// Sets the open requests and bonus proposals about accruals to Rejected.
pub(super) async fn reject_open(
    tx: &mut Tx,
    accruals: &[AccrualId],
    by: Option<UserId>,
    now: OffsetDateTime,
) -> Result<(), ::db::Error> {
    db::adjustment::reject_open(tx, accruals, by, now).await?;
    db::bonus::reject_open(tx, accruals, by, now).await
}

/// A decision with its author, comment and time.
pub struct Decision<'d> {
    pub by: UserId,
    pub comment: &'d Comment,
    pub now: OffsetDateTime,
}

impl Decision<'_> {
    fn attach_to(&self, mut accrual: Accrual) -> Accrual {
        accrual.decided_by_user_id = Some(self.by);
        accrual.decision_comment = Some(self.comment.expose().as_str().to_owned());
        accrual
    }
}

/// Releases the accrual `id`, and all others of its sale that await a release (INV-AGT-9).
///
/// An accrual that was released before stays unchanged.
///
/// # Errors
/// - [`ACCRUAL_NOT_FOUND`] if the accrual does not exist.
/// - [`ACCRUAL_OWN`] if it is the caller's.
/// - [`ACCRUAL_NOT_RELEASABLE`] as in [`Sale::find_releasable`], or if a sum would exceed 64 bits.
pub async fn release(tx: &mut Tx, id: AccrualId, by: UserId, now: OffsetDateTime) -> Result<Accrual, Error> {
    let key = find_decidable(tx, id, by).await?;
    // The end of the sale, and the approval of a request or of a bonus, also lock the deal. So the
    // sale does not change before the commit.
    let (mut books, sale, _) = open_sale(tx, key, by).await?;
    let waiting = sale.find_releasable(id)?.into_iter();
    let released = waiting.map(|before| Entry::changed(before, before.with_release(by, now)));
    books.post(released.collect()).map_err(|Overflow| ACCRUAL_NOT_RELEASABLE)?;
    books.close(tx).await?;
    Ok(db::sale::load_accrual(tx, id).await?)
}

/// Rejects an accrual and its adjustments. A Rejected accrual stays unchanged.
///
/// # Errors
/// - [`ACCRUAL_NOT_FOUND`] if the accrual does not exist.
/// - [`ACCRUAL_OWN`] if it is the caller's.
/// - [`ACCRUAL_NOT_REJECTABLE`] as in [`Sale::find_rejectable`], or if a sum would exceed 64 bits.
pub async fn reject(tx: &mut Tx, id: AccrualId, decision: Decision<'_>) -> Result<Accrual, Error> {
    let key = find_decidable(tx, id, decision.by).await?;
    let (mut books, sale, completed) = open_sale(tx, key, decision.by).await?;
    let accrual = sale.find(id).ok_or(ACCRUAL_NOT_FOUND)?;
    if accrual.status == AccrualStatus::Rejected {
        return Ok(accrual.clone());
    }
    let (mut ids, mut entries) = (Vec::new(), Vec::new());
    for before in sale.find_rejectable(id, completed)? {
        ids.push(before.id);
        let updated_at = decision.now.max(before.updated_at);
        let after =
            Accrual { status: AccrualStatus::Rejected, awaits_release: false, updated_at, ..before.clone() };
        entries.push(Entry::changed(before, decision.attach_to(after)));
    }
    books.post(entries).map_err(|Overflow| ACCRUAL_NOT_REJECTABLE)?;
    books.close(tx).await?;
    reject_open(tx, &ids, Some(decision.by), decision.now).await?;
    Ok(db::sale::load_accrual(tx, id).await?)
}

/// Reverses an accrual that is in a payout, and undoes its adjustments.
///
/// Returns the new Reversal, or the one that exists already.
///
/// # Errors
/// - [`ACCRUAL_NOT_FOUND`] if the accrual does not exist.
/// - [`ACCRUAL_OWN`] if it is the caller's.
/// - [`ACCRUAL_NOT_REVERSIBLE`] as in [`Sale::find_reversible`], or if a sum would exceed 64 bits.
pub async fn reverse(tx: &mut Tx, id: AccrualId, decision: Decision<'_>) -> Result<Accrual, Error> {
    let key = find_decidable(tx, id, decision.by).await?;
    let (mut books, sale, completed) = open_sale(tx, key, decision.by).await?;
    if let Some(reversal) = sale.reversal_of(id) {
        return Ok(reversal.clone());
    }
    let (mut ids, mut entries, mut result) = (Vec::new(), Vec::new(), None);
    for accrual in sale.find_reversible(id, completed)? {
        ids.push(accrual.id);
        match accrual.undo(decision.now, decision.now).map_err(|Overflow| ACCRUAL_NOT_REVERSIBLE)? {
            Undo::MarkReversed(after) => entries.push(Entry::changed(accrual, decision.attach_to(after))),
            Undo::AddReversal(reversal) => {
                let reversal = decision.attach_to(reversal);
                if accrual.id == id {
                    result = Some(reversal.clone());
                }
                entries.push(Entry::added(reversal));
            }
        }
    }
    books.post(entries).map_err(|Overflow| ACCRUAL_NOT_REVERSIBLE)?;
    books.close(tx).await?;
    reject_open(tx, &ids, Some(decision.by), decision.now).await?;
    Ok(result.ok_or(ACCRUAL_NOT_REVERSIBLE)?)
}
