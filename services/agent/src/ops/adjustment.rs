//! Requests to adjust accruals: made by agents, decided by the platform.

use ::db::Tx;
use auth::UserId;
use time::OffsetDateTime;
use values::{Currency, Money};

use super::accrual::open_sale;
use crate::db;
use crate::domain::{
    AdjustmentRequest, AdjustmentRequestId, AdjustmentRequestShown, AdjustmentStatus, Entry, Overflow, Words,
};
use crate::error::{
    ACCRUAL_NOT_FOUND, ADJUSTMENT_ALREADY_DECIDED, ADJUSTMENT_ALREADY_OPEN, ADJUSTMENT_AMOUNT_INVALID,
    ADJUSTMENT_NOT_FOUND, ADJUSTMENT_OWN, Error,
};

/// Keeps what an agent asks for; `requested` is what the accrual should be in whole, where they say so.
///
/// # Errors
/// [`ACCRUAL_NOT_FOUND`], [`crate::error::ACCRUAL_NOT_ADJUSTABLE`], [`ADJUSTMENT_ALREADY_OPEN`], [`ADJUSTMENT_AMOUNT_INVALID`]
pub async fn ask(
    tx: &mut Tx,
    request: AdjustmentRequest,
    requested: Option<Money>,
) -> Result<AdjustmentRequestShown, Error> {
    let key = db::sale::key_of(tx, request.accrual_id).await?;
    let key = key.filter(|key| key.agent_user_id == request.agent_user_id).ok_or(ACCRUAL_NOT_FOUND)?;
    // Whoever ends the sale or pays the accrual has the account, too, and closes what is open then.
    db::account::lock(tx, &[(key.agent_user_id, key.currency)]).await?;
    let sale = db::sale::read(tx, key.deal_id, key.sale_row_version).await?;
    let accrual = sale.adjustable(request.accrual_id)?;
    if !db::adjustment::insert(tx, &request).await? {
        return Err(ADJUSTMENT_ALREADY_OPEN.into());
    }
    // What is refused now takes the request back.
    if let Some(requested) = requested {
        accrual.grant(requested)?;
    }
    Ok(AdjustmentRequestShown::of(request, key.currency))
}

/// Grants what a request asks for, or another amount.
///
/// # Errors
/// [`ADJUSTMENT_NOT_FOUND`], [`ADJUSTMENT_OWN`], [`ADJUSTMENT_ALREADY_DECIDED`], [`ADJUSTMENT_AMOUNT_INVALID`]
pub async fn approve(
    tx: &mut Tx,
    id: AdjustmentRequestId,
    by: UserId,
    amount: Option<Money>,
    comment: Option<Words>,
    now: OffsetDateTime,
) -> Result<AdjustmentRequestShown, Error> {
    let request = to_decide(tx, id, by).await?;
    let key = db::sale::key_of(tx, request.accrual_id).await?.ok_or(ACCRUAL_NOT_FOUND)?;
    let (mut books, sale, _) = open_sale(tx, key).await?;
    // Whatever was decided meanwhile, by the end of the sale, too, is seen under the locks.
    let request = to_decide(tx, id, by).await?;
    let accrual = sale.find(request.accrual_id).ok_or(ACCRUAL_NOT_FOUND)?;
    let requested = request.requested_amount.map(|amount_minor| Money { amount_minor, ..accrual.money() });
    let granted = accrual.grant(amount.or(requested).ok_or(ADJUSTMENT_AMOUNT_INVALID)?)?;
    let difference = i64::try_from(i128::from(granted) - sale.sum_with(accrual.id)).ok();
    let difference = difference.filter(|difference| *difference != 0).ok_or(ADJUSTMENT_AMOUNT_INVALID)?;
    let result = accrual.adjusted(request.kind(), difference, now);
    let decided = AdjustmentRequest {
        status: AdjustmentStatus::Approved,
        granted_amount: Some(granted),
        result_accrual_id: Some(result.id),
        ..request.decided(by, comment, now)
    };
    books.post(vec![Entry::added(result)]).map_err(|Overflow| ADJUSTMENT_AMOUNT_INVALID)?;
    books.close(tx).await?;
    decide(tx, decided, key.currency).await
}

/// Refuses a request.
///
/// # Errors
/// [`ADJUSTMENT_NOT_FOUND`], [`ADJUSTMENT_OWN`], [`ADJUSTMENT_ALREADY_DECIDED`]
pub async fn reject(
    tx: &mut Tx,
    id: AdjustmentRequestId,
    by: UserId,
    comment: Words,
    now: OffsetDateTime,
) -> Result<AdjustmentRequestShown, Error> {
    let request = to_decide(tx, id, by).await?;
    let key = db::sale::key_of(tx, request.accrual_id).await?.ok_or(ACCRUAL_NOT_FOUND)?;
    decide(tx, request.decided(by, Some(comment), now), key.currency).await
}

/// A request that this person may decide.
async fn to_decide(tx: &mut Tx, id: AdjustmentRequestId, by: UserId) -> Result<AdjustmentRequest, Error> {
    let request = db::adjustment::find(tx, id).await?.ok_or(ADJUSTMENT_NOT_FOUND)?;
    if request.agent_user_id == by {
        return Err(ADJUSTMENT_OWN.into());
    }
    if request.status != AdjustmentStatus::Open {
        return Err(ADJUSTMENT_ALREADY_DECIDED.into());
    }
    Ok(request)
}

async fn decide(
    tx: &mut Tx,
    decided: AdjustmentRequest,
    currency: Currency,
) -> Result<AdjustmentRequestShown, Error> {
    if !db::adjustment::decide(tx, &decided).await? {
        return Err(ADJUSTMENT_ALREADY_DECIDED.into());
    }
    Ok(AdjustmentRequestShown::of(decided, currency))
}
