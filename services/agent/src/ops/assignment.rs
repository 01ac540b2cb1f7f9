//! Assignments of sales that lack an agent or a rate.

use ::db::Tx;
use auth::UserId;
use time::OffsetDateTime;
use values::BasisPoints;

use super::Books;
use crate::db;
use crate::domain::{
    Accrual, ApprovalLimit, Comment, Deal, DealId, MoneyEntry, Overflow, SaleAssignment, SaleRate,
};
use crate::error::{
    ASSIGNEE_INVALID, CONCURRENCY_CONFLICT, DEAL_NOT_FOUND, Error, RATE_MISSING, SALE_NOT_ASSIGNABLE,
    TERMS_OWN,
};

/// The request to assign a sale.
pub struct NewAssignment {
    pub agent: UserId,
    /// The commission rate, or `None` for the rate of the first card that covers the sale.
    pub rate: Option<BasisPoints>,
    pub comment: Comment,
    /// The sale that the caller has read, or `None` for the active one.
    pub sale_row_version: Option<i64>,
    pub by: UserId,
}

/// Assigns the active sale of a deal to an agent and a rate, and creates its accruals.
///
/// Returns the Base. A sale that has this agent and this rate already stays unchanged.
///
/// # Errors
/// - [`DEAL_NOT_FOUND`] if the deal does not exist.
/// - [`TERMS_OWN`] if the agent is the caller.
/// - [`CONCURRENCY_CONFLICT`] if another sale was expected.
/// - [`SALE_NOT_ASSIGNABLE`] if no sale is active, if the sale has another agent or an accrual at
///   another rate, or if a sum would exceed 64 bits.
/// - [`ASSIGNEE_INVALID`] if the agent has no active agency.
/// - [`RATE_MISSING`] if neither the request nor a card has a rate.
pub async fn assign(
    tx: &mut Tx,
    id: DealId,
    new: NewAssignment,
    limit: ApprovalLimit,
    now: OffsetDateTime,
) -> Result<Accrual, Error> {
    // The lock serializes the assignment and the events of the deal.
    let mut deal = db::deal::lock(tx, id).await?.ok_or(DEAL_NOT_FOUND)?;
    if new.agent == new.by {
        return Err(TERMS_OWN.into());
    }
    let sale_row_version = deal.sale_row_version.ok_or(SALE_NOT_ASSIGNABLE)?;
    if new.sale_row_version.is_some_and(|expected| expected != sale_row_version) {
        return Err(CONCURRENCY_CONFLICT.into());
    }
    if deal.sale_agent_user_id.is_some_and(|agent| agent != new.agent) {
        return Err(SALE_NOT_ASSIGNABLE.into());
    }
    if deal.missing_term().is_none() {
        let sale = db::sale::read(tx, id, sale_row_version).await?;
        let is_same = |base: &&Accrual| new.rate.is_none_or(|rate| rate == base.rate());
        return Ok(sale.base().filter(is_same).cloned().ok_or(SALE_NOT_ASSIGNABLE)?);
    }
    let agency_company_id = db::agency::find_active(tx, new.agent).await?.ok_or(ASSIGNEE_INVALID)?;
    let rate = find_rate(tx, &deal, &new).await?.ok_or(RATE_MISSING)?;
    deal.assign(new.agent);
    let mut books = Books::open(tx, Some(new.by), deal.sale_account()).await?;
    let entries = deal.accrue(rate, limit, now).map_err(|Overflow| SALE_NOT_ASSIGNABLE)?;
    let base = entries.first().map(|entry| entry.after.clone()).ok_or(SALE_NOT_ASSIGNABLE)?;
    books.post(entries).map_err(|Overflow| SALE_NOT_ASSIGNABLE)?;
    books.close_with(tx, async |tx: &Tx| db::deal::save(tx, &deal).await).await?;
    let assignment = SaleAssignment {
        deal_id: id,
        sale_row_version,
        agent_user_id: new.agent,
        agency_company_id,
        rate_bps: base.rate_bps,
        comment: new.comment,
        assigned_by_user_id: new.by,
        assigned_at: now,
    };
    db::assignment::insert(tx, &assignment).await?;
    db::money_log::append(tx, vec![MoneyEntry::of_assignment(&assignment, base.money())]).await?;
    Ok(db::sale::load_accrual(tx, base.id).await?)
}

/// Returns the requested rate, or the one that a card has for the beginning of the sale.
async fn find_rate(tx: &Tx, deal: &Deal, new: &NewAssignment) -> Result<Option<SaleRate>, Error> {
    match (new.rate, deal.sold_at) {
        (Some(share), _) => Ok(Some(SaleRate { share, is_set_by_agent: false })),
        (None, Some(sold_at)) => Ok(db::rate::find(tx, new.agent, deal.developer_company_id, sold_at).await?),
        (None, None) => Ok(None),
    }
}
