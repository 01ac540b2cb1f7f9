//! Effects of deals on the ledger.

use std::collections::HashMap;

use ::db::Tx;
use futures_util::future::try_join;
use messaging::Failure;
use time::OffsetDateTime;

use super::Books;
use super::accrual::reject_open;
use crate::db;
use crate::db::rate::UnratedSale;
use crate::domain::{
    AccrualId, ApprovalLimit, Deal, DealEvent, DealId, DealTopic, Overflow, Sale, SaleTransition, StageChange,
};
use crate::error::Error;

/// The kind of the job that looks for rates of unrated deals.
pub const UNRATED_DEALS: &str = "unrated-deals";

/// The greatest number of unrated deals in one transaction.
const UNRATED_BATCH_SIZE: i64 = 1_000;

/// Applies an event about a deal. A repeated event changes nothing.
///
/// A completion approves accruals up to `limit`.
///
/// # Errors
/// - [`Failure::Rejected`] if a sum would exceed 64 bits.
/// - [`Failure::Transient`] if a concurrent event of another topic has stored the deal.
pub async fn handle(
    tx: &mut Tx,
    event: &DealEvent,
    limit: ApprovalLimit,
    now: OffsetDateTime,
) -> Result<(), Failure> {
    let stored = db::deal::lock(tx, event.deal_id).await?;
    let mut is_stored = stored.is_some();
    let known = stored.unwrap_or_else(|| Deal::empty(event));
    if event.topic == DealTopic::StageChanged && event.row_version <= known.applied_row_version {
        return Ok(());
    }
    let mut deal = known.clone();
    deal.update(event);
    // If the previous change is missing, this one is not applied. CRM has to republish both.
    let applied = match event.stage_change().filter(|_| event.follows(&known)) {
        Some(change) => {
            // The deal is inserted first, since accruals have a foreign key to it.
            if !is_stored && !deal.sale_transitions(&change).is_empty() {
                insert(tx, &deal).await?;
                is_stored = true;
            }
            Some(apply_stage_change(tx, &mut deal, &change, limit, now).await?)
        }
        None => None,
    };
    deal.update_hold(event, now);
    if !is_stored {
        return insert(tx, &deal).await;
    }
    let save = async |tx: &Tx| if deal == known { Ok(()) } else { db::deal::save(tx, &deal).await };
    let Some((books, ended)) = applied else { return Ok(save(tx).await?) };
    books.close_with(tx, save).await?;
    if !ended.is_empty() {
        reject_open(tx, &ended, None, now).await?;
    }
    Ok(())
}

/// Stores a new deal.
async fn insert(tx: &Tx, deal: &Deal) -> Result<(), Failure> {
    let concurrent = || Failure::Transient("a concurrent event has stored the deal".to_owned());
    if db::deal::insert(tx, deal).await? { Ok(()) } else { Err(concurrent()) }
}

/// Applies a stage change to the deal and opens the books for its entries.
///
/// Returns the books and the accruals of the sale that has ended.
async fn apply_stage_change(
    tx: &mut Tx,
    deal: &mut Deal,
    change: &StageChange,
    limit: ApprovalLimit,
    now: OffsetDateTime,
) -> Result<(Books, Vec<AccrualId>), Failure> {
    let transitions = deal.sale_transitions(change);
    let rate = async {
        match change.agent_user_id {
            Some(agent) if transitions.contains(&SaleTransition::Begin) => {
                db::rate::find(tx, agent, deal.developer_company_id, change.at).await
            }
            _ => Ok(None),
        }
    };
    let accounts = deal.affected_accounts(transitions, change);
    let (mut books, rate) = try_join(Books::open(tx, change.by, accounts), rate).await?;
    // Read after locking the accounts, so the sale cannot change concurrently.
    let sale = match deal.sale_row_version {
        Some(version) if !transitions.is_empty() => db::sale::read(tx, deal.id, version).await?,
        _ => Sale::new(Vec::new()),
    };
    let posting = deal.apply(transitions, change, sale, rate, limit, now).map_err(reject_overflow)?;
    books.post(posting.entries).map_err(reject_overflow)?;
    Ok((books, posting.ended))
}

fn reject_overflow(Overflow: Overflow) -> Failure {
    Failure::Rejected("a sum of the agent's account would exceed 64 bits".to_owned())
}

/// Creates the accruals of a batch of unrated deals. Deals without a rate stay unrated.
///
/// The batch follows `after` in the order of the sales.
/// Returns the last sale of a full batch, or `None` if there are no more.
pub async fn accrue_unrated(
    tx: &mut Tx,
    after: Option<&UnratedSale>,
    limit: ApprovalLimit,
    now: OffsetDateTime,
) -> Result<Option<UnratedSale>, Error> {
    let batch = db::rate::list_unrated(tx, after, UNRATED_BATCH_SIZE).await?;
    let rated: HashMap<DealId, _> = batch
        .iter()
        .filter_map(|unrated| Some((unrated.deal_id, (unrated.sale_row_version, unrated.rate()?))))
        .collect();
    if !rated.is_empty() {
        let ids: Vec<_> = rated.keys().copied().collect();
        let deals = db::deal::lock_unrated(tx, &ids).await?;
        let mut books = Books::open(tx, None, deals.iter().filter_map(Deal::sale_account)).await?;
        let mut accrued = Vec::new();
        for deal in &deals {
            // Another sale of the deal may have begun before the lock.
            let rate = rated.get(&deal.id).filter(|(sale, _)| Some(*sale) == deal.sale_row_version);
            let Some((_, rate)) = rate else { continue };
            if deal.accrue(*rate, limit, now).and_then(|entries| books.post(entries)).is_ok() {
                accrued.push(deal.id);
            } else {
                tracing::warn!(deal = %deal.id, "a deal was left unrated; a sum of its agent would exceed 64 bits");
            }
        }
        books.close(tx).await?;
        db::deal::mark_rated(tx, &accrued).await?;
    }
    let is_full = i64::try_from(batch.len()).is_ok_and(|count| count == UNRATED_BATCH_SIZE);
    Ok(batch.last().copied().filter(|_| is_full))
}
