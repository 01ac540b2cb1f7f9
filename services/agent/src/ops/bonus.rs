//! Bonuses: one employee proposes them, and another one decides.

use ::db::Tx;
use auth::UserId;
use time::OffsetDateTime;
use values::{Currency, Money};

use super::accrual::open_sale;
use crate::db;
use crate::domain::{
    Accrual, AccrualId, AccrualKind, AdjustmentStatus, BonusLimit, BonusProposal, BonusProposalId,
    BonusProposalView, Comment, Entry, MoneyEntry, Overflow,
};
use crate::error::{
    ACCRUAL_NOT_FOUND, BONUS_ALREADY_DECIDED, BONUS_AMOUNT_INVALID, BONUS_NOT_FOUND, BONUS_OWN, Error,
};

/// The request for a bonus.
pub struct NewBonus {
    pub accrual_id: AccrualId,
    pub amount: Money,
    pub reason: Comment,
    pub by: UserId,
}

/// Stores a proposal without creating an accrual.
///
/// # Errors
/// - [`ACCRUAL_NOT_FOUND`] if the accrual does not exist.
/// - [`BONUS_OWN`] if it is the caller's.
/// - The codes of [`crate::domain::Sale::check_bonus`].
pub async fn propose(
    tx: &mut Tx,
    new: NewBonus,
    limit: BonusLimit,
    now: OffsetDateTime,
) -> Result<BonusProposalView, Error> {
    let key = db::sale::find_key(tx, new.accrual_id).await?.ok_or(ACCRUAL_NOT_FOUND)?;
    if key.agent_user_id == new.by {
        return Err(BONUS_OWN.into());
    }
    // The end of the sale takes the same locks. It either closes this proposal afterwards, or is
    // visible to the check below.
    let (_, sale, completed) = open_sale(tx, key, new.by).await?;
    sale.check_bonus(new.accrual_id, new.amount, completed, limit)?;
    let proposal = BonusProposal {
        id: BonusProposalId::generate(),
        accrual_id: new.accrual_id,
        agent_user_id: key.agent_user_id,
        amount: new.amount.amount_minor,
        reason: new.reason,
        status: AdjustmentStatus::Open,
        decision_comment: None,
        result_accrual_id: None,
        created_at: now,
        proposed_by_user_id: new.by,
        decided_at: None,
        decided_by_user_id: None,
        version: 1,
    };
    db::bonus::insert(tx, &proposal).await?;
    db::money_log::append(tx, vec![MoneyEntry::of_bonus(&proposal, key.currency)]).await?;
    Ok(BonusProposalView::of(proposal, key.currency))
}

/// Approves a proposal and creates its accrual.
///
/// # Errors
/// - [`BONUS_NOT_FOUND`] if the proposal does not exist.
/// - The codes of [`BonusProposal::check_decidable`] and [`crate::domain::Sale::check_bonus`].
/// - [`BONUS_AMOUNT_INVALID`] if a sum would exceed 64 bits.
pub async fn approve(
    tx: &mut Tx,
    id: BonusProposalId,
    by: UserId,
    comment: Option<Comment>,
    limit: BonusLimit,
    now: OffsetDateTime,
) -> Result<BonusProposalView, Error> {
    let proposal = find_decidable(tx, id, by).await?;
    let key = db::sale::find_key(tx, proposal.accrual_id).await?.ok_or(ACCRUAL_NOT_FOUND)?;
    let (mut books, sale, completed) = open_sale(tx, key, by).await?;
    // Another decision or the end of the sale may have closed the proposal before the locks were
    // taken.
    let proposal = find_decidable(tx, id, by).await?;
    let amount = Money { amount_minor: proposal.amount, currency: key.currency };
    let base = sale.check_bonus(proposal.accrual_id, amount, completed, limit)?;
    // An employee has decided the amount, so the accrual needs no release.
    let bonus = base.new_adjustment(AccrualKind::Bonus, proposal.amount, now);
    let bonus = Accrual { released_by_user_id: Some(by), ..bonus };
    let approved = BonusProposal {
        result_accrual_id: Some(bonus.id),
        ..proposal.with_decision(AdjustmentStatus::Approved, by, comment, now)
    };
    books.post(vec![Entry::added(bonus)]).map_err(|Overflow| BONUS_AMOUNT_INVALID)?;
    books.close(tx).await?;
    save_decision(tx, approved, key.currency).await
}

/// Rejects a proposal.
///
/// # Errors
/// - [`BONUS_NOT_FOUND`] if the proposal does not exist.
/// - The codes of [`BonusProposal::check_decidable`].
pub async fn reject(
    tx: &mut Tx,
    id: BonusProposalId,
    by: UserId,
    comment: Comment,
    now: OffsetDateTime,
) -> Result<BonusProposalView, Error> {
    let proposal = find_decidable(tx, id, by).await?;
    let key = db::sale::find_key(tx, proposal.accrual_id).await?.ok_or(ACCRUAL_NOT_FOUND)?;
    let rejected = proposal.with_decision(AdjustmentStatus::Rejected, by, Some(comment), now);
    save_decision(tx, rejected, key.currency).await
}

/// Returns a proposal that the caller may decide.
async fn find_decidable(tx: &mut Tx, id: BonusProposalId, by: UserId) -> Result<BonusProposal, Error> {
    let proposal = db::bonus::find(tx, id).await?.ok_or(BONUS_NOT_FOUND)?;
    proposal.check_decidable(by)?;
    Ok(proposal)
}

async fn save_decision(
    tx: &mut Tx,
    decided: BonusProposal,
    currency: Currency,
) -> Result<BonusProposalView, Error> {
    if !db::bonus::save_decision(tx, &decided).await? {
        return Err(BONUS_ALREADY_DECIDED.into());
    }
    db::money_log::append(tx, vec![MoneyEntry::of_bonus(&decided, currency)]).await?;
    Ok(BonusProposalView::of(decided, currency))
}
