//! Adjustment requests: agents file them, and the platform decides them.

use ::db::Tx;
use auth::UserId;
use time::OffsetDateTime;
use values::{Currency, Money};

use super::accrual::open_sale;
use crate::db;
use crate::domain::{
    Accrual, AdjustmentRequest, AdjustmentRequestId, AdjustmentRequestView, AdjustmentStatus, Comment, Entry,
    MoneyEntry, Overflow,
};
use crate::error::{
    ACCRUAL_NOT_FOUND, ADJUSTMENT_ALREADY_DECIDED, ADJUSTMENT_ALREADY_OPEN, ADJUSTMENT_AMOUNT_INVALID,
    ADJUSTMENT_NOT_FOUND, ADJUSTMENT_OWN, Error,
};

/// Files a request. `requested` is the whole amount that the accrual should have.
/// With `disputes_paid` the accrual may be Paid.
///
/// # Errors
/// - [`ACCRUAL_NOT_FOUND`] if the accrual does not exist or belongs to another agent.
/// - [`crate::error::ACCRUAL_NOT_ADJUSTABLE`] as in [`crate::domain::Sale::find_adjustable`].
/// - [`ADJUSTMENT_ALREADY_OPEN`] if the accrual has an open request.
/// - [`ADJUSTMENT_AMOUNT_INVALID`] as in [`Accrual::check_whole_amount`].
pub async fn file(
    tx: &mut Tx,
    request: AdjustmentRequest,
    requested: Option<Money>,
    disputes_paid: bool,
) -> Result<AdjustmentRequestView, Error> {
    let key = db::sale::find_key(tx, request.accrual_id).await?;
    let key = key.filter(|key| key.agent_user_id == request.agent_user_id).ok_or(ACCRUAL_NOT_FOUND)?;
    // The end of a sale locks the account, too. It either closes this request afterwards, or is
    // visible to the check below.
    db::account::lock(tx, &[(key.agent_user_id, key.currency)]).await?;
    let sale = db::sale::read(tx, key.deal_id, key.sale_row_version).await?;
    let accrual = sale.find_adjustable(request.accrual_id, disputes_paid)?;
    if !db::adjustment::insert(tx, &request).await? {
        return Err(ADJUSTMENT_ALREADY_OPEN.into());
    }
    // An open request is reported before an invalid amount, so the amount is checked last. An error
    // rolls the insertion back.
    if let Some(requested) = requested {
        accrual.check_whole_amount(requested)?;
    }
    Ok(AdjustmentRequestView::of(request, key.currency))
}

/// Approves a request with `amount` or, if it is `None`, with the requested amount.
///
/// # Errors
/// - [`ADJUSTMENT_NOT_FOUND`], [`ADJUSTMENT_OWN`] and [`ADJUSTMENT_ALREADY_DECIDED`] as for
///   [`reject`].
/// - [`ADJUSTMENT_AMOUNT_INVALID`] if there is no amount or no difference, as in
///   [`Accrual::check_whole_amount`], or if a sum would exceed 64 bits.
pub async fn approve(
    tx: &mut Tx,
    id: AdjustmentRequestId,
    by: UserId,
    amount: Option<Money>,
    comment: Option<Comment>,
    now: OffsetDateTime,
) -> Result<AdjustmentRequestView, Error> {
    let request = find_decidable(tx, id, by).await?;
    let key = db::sale::find_key(tx, request.accrual_id).await?.ok_or(ACCRUAL_NOT_FOUND)?;
    let (mut books, sale, _) = open_sale(tx, key, by).await?;
    // Another decision or the end of the sale may have closed the request before the locks were
    // taken.
    let request = find_decidable(tx, id, by).await?;
    let accrual = sale.find(request.accrual_id).ok_or(ACCRUAL_NOT_FOUND)?;
    let requested = request.requested_amount.map(|amount_minor| Money { amount_minor, ..accrual.money() });
    let granted = accrual.check_whole_amount(amount.or(requested).ok_or(ADJUSTMENT_AMOUNT_INVALID)?)?;
    let difference = i64::try_from(i128::from(granted) - sale.effective_sum(accrual.id)).ok();
    let difference = difference.filter(|difference| *difference != 0).ok_or(ADJUSTMENT_AMOUNT_INVALID)?;
    // An employee has decided the amount, so the approval limit does not apply to the adjustment.
    // If the Base awaits a release, the adjustment does, too.
    let result = accrual.new_adjustment(request.kind(), difference, now);
    let result = Accrual { released_by_user_id: Some(by), ..result };
    let approved = AdjustmentRequest {
        granted_amount: Some(granted),
        result_accrual_id: Some(result.id),
        ..request.with_decision(AdjustmentStatus::Approved, by, comment, now)
    };
    books.post(vec![Entry::added(result)]).map_err(|Overflow| ADJUSTMENT_AMOUNT_INVALID)?;
    books.close(tx).await?;
    save_decision(tx, approved, key.currency, now).await
}

/// Rejects a request.
///
/// # Errors
/// - [`ADJUSTMENT_NOT_FOUND`] if the request does not exist.
/// - [`ADJUSTMENT_OWN`] if the caller filed it.
/// - [`ADJUSTMENT_ALREADY_DECIDED`] if it is not open.
pub async fn reject(
    tx: &mut Tx,
    id: AdjustmentRequestId,
    by: UserId,
    comment: Comment,
    now: OffsetDateTime,
) -> Result<AdjustmentRequestView, Error> {
    let request = find_decidable(tx, id, by).await?;
    let key = db::sale::find_key(tx, request.accrual_id).await?.ok_or(ACCRUAL_NOT_FOUND)?;
    let rejected = request.with_decision(AdjustmentStatus::Rejected, by, Some(comment), now);
    save_decision(tx, rejected, key.currency, now).await
}

/// Returns an open request that the caller may decide.
async fn find_decidable(
    tx: &mut Tx,
    id: AdjustmentRequestId,
    by: UserId,
) -> Result<AdjustmentRequest, Error> {
    let request = db::adjustment::find(tx, id).await?.ok_or(ADJUSTMENT_NOT_FOUND)?;
    if request.agent_user_id == by {
        return Err(ADJUSTMENT_OWN.into());
    }
    if request.status != AdjustmentStatus::Open {
        return Err(ADJUSTMENT_ALREADY_DECIDED.into());
    }
    Ok(request)
}

async fn save_decision(
    tx: &mut Tx,
    decided: AdjustmentRequest,
    currency: Currency,
    now: OffsetDateTime,
) -> Result<AdjustmentRequestView, Error> {
    if !db::adjustment::save_decision(tx, &decided).await? {
        return Err(ADJUSTMENT_ALREADY_DECIDED.into());
    }
    db::money_log::append(tx, vec![MoneyEntry::of_decision(&decided, currency, now)]).await?;
    Ok(AdjustmentRequestView::of(decided, currency))
}
