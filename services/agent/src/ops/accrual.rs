//! What the platform does about an accrual: rejects what is not paid, reverses what is.

use ::db::Tx;
use auth::UserId;
use time::OffsetDateTime;

use super::Books;
use crate::db;
use crate::db::sale::SaleKey;
use crate::domain::{Accrual, AccrualId, AccrualStatus, Entry, Overflow, Sale, Undone, Words};
use crate::error::{ACCRUAL_NOT_FOUND, ACCRUAL_NOT_REJECTABLE, ACCRUAL_NOT_REVERSIBLE, Error};

/// The sale of an accrual, which nobody else changes until the transaction ends, the books for it, and what its deal came to
/// when it was completed, if it is.
pub(super) async fn open_sale(tx: &mut Tx, key: SaleKey) -> Result<(Books, Sale, Option<i64>), ::db::Error> {
    let completed = db::sale::lock(tx, key.deal_id).await?;
    let books = Books::open(tx, [(key.agent_user_id, key.currency)]).await?;
    Ok((books, db::sale::read(tx, key.deal_id, key.sale_row_version).await?, completed))
}

/// Who decided something, why and when.
pub struct Decision<'d> {
    pub by: UserId,
    pub comment: &'d Words,
    pub now: OffsetDateTime,
}

impl Decision<'_> {
    fn signed(&self, mut accrual: Accrual) -> Accrual {
        accrual.decided_by_user_id = Some(self.by);
        accrual.decision_comment = Some(self.comment.expose().as_str().to_owned());
        accrual
    }
}

/// Rejects an accrual and what adjusts it; one that is Rejected stays as it is.
///
/// # Errors
/// [`ACCRUAL_NOT_FOUND`], [`ACCRUAL_NOT_REJECTABLE`]
pub async fn reject(tx: &mut Tx, id: AccrualId, decision: Decision<'_>) -> Result<Accrual, Error> {
    let key = db::sale::key_of(tx, id).await?.ok_or(ACCRUAL_NOT_FOUND)?;
    let (mut books, sale, completed) = open_sale(tx, key).await?;
    let accrual = sale.find(id).ok_or(ACCRUAL_NOT_FOUND)?;
    if accrual.status == AccrualStatus::Rejected {
        return Ok(accrual.clone());
    }
    let (mut ids, mut entries) = (Vec::new(), Vec::new());
    for before in sale.rejectable(id, completed)? {
        ids.push(before.id);
        let updated_at = decision.now.max(before.updated_at);
        let after = Accrual { status: AccrualStatus::Rejected, updated_at, ..before.clone() };
        entries.push(Entry::changed(before, decision.signed(after)));
    }
    books.post(entries).map_err(|Overflow| ACCRUAL_NOT_REJECTABLE)?;
    books.close(tx).await?;
    db::adjustment::close(tx, &ids, Some(decision.by), decision.now).await?;
    Ok(db::sale::accrual(tx, id).await?)
}

/// Reverses an accrual that is in a payout, or was, and undoes what adjusts it: the Reversal, also where there is one already.
///
/// # Errors
/// [`ACCRUAL_NOT_FOUND`], [`ACCRUAL_NOT_REVERSIBLE`]
pub async fn reverse(tx: &mut Tx, id: AccrualId, decision: Decision<'_>) -> Result<Accrual, Error> {
    let key = db::sale::key_of(tx, id).await?.ok_or(ACCRUAL_NOT_FOUND)?;
    let (mut books, sale, completed) = open_sale(tx, key).await?;
    if let Some(reversal) = sale.reversal_of(id) {
        return Ok(reversal.clone());
    }
    let (mut ids, mut entries, mut made) = (Vec::new(), Vec::new(), None);
    for undone in sale.reversible(id, completed)? {
        ids.push(undone.id);
        match undone.undo(decision.now, decision.now).map_err(|Overflow| ACCRUAL_NOT_REVERSIBLE)? {
            Undone::Reversed(after) => entries.push(Entry::changed(undone, decision.signed(after))),
            Undone::By(reversal) => {
                let reversal = decision.signed(reversal);
                if undone.id == id {
                    made = Some(reversal.clone());
                }
                entries.push(Entry::added(reversal));
            }
        }
    }
    books.post(entries).map_err(|Overflow| ACCRUAL_NOT_REVERSIBLE)?;
    books.close(tx).await?;
    db::adjustment::close(tx, &ids, Some(decision.by), decision.now).await?;
    Ok(made.ok_or(ACCRUAL_NOT_REVERSIBLE)?)
}
