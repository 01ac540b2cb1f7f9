//! Effects of deals on the ledger.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ::db::Tx;
use futures_util::future::try_join;
use messaging::{Failure, TracedMessage};
use time::OffsetDateTime;

use super::Books;
use super::accrual::reject_open;
use crate::db;
use crate::db::rate::{SaleBeginning, UnratedSale};
use crate::domain::{
    AccountKey, ApprovalLimit, Deal, DealEvent, DealId, Overflow, Sale, SaleTransition, StageChange,
};
use crate::error::Error;

/// The kind of the job that looks for rates of unrated deals.
pub const UNRATED_DEALS: &str = "unrated-deals";

/// The greatest number of unrated deals in one transaction.
const UNRATED_BATCH_SIZE: i64 = 1_000;

/// Applies events about deals in their order. A repeated event changes nothing.
///
/// A completion approves accruals up to `limit`. The locks are taken in one order by all
/// transactions, and each table is read and written once.
///
/// # Errors
/// - [`Failure::Rejected`] if a sum would exceed 64 bits.
/// - [`Failure::Transient`] if a concurrent event of another topic has stored a deal.
pub async fn handle_all(
    tx: &mut Tx,
    events: &[(&TracedMessage<'_>, DealEvent)],
    limit: ApprovalLimit,
    now: OffsetDateTime,
) -> Result<(), Failure> {
    let ids = events.iter().map(|(_, event)| event.deal_id).collect();
    let stored = db::deal::lock_all(tx, &ids).await?;
    let stored: BTreeMap<DealId, Deal> = stored.into_iter().map(|deal| (deal.id, deal)).collect();
    let all = events.iter().map(|(_, event)| event);
    let needed = Needed::of(all, &stored, limit, now).map_err(reject_overflow)?;
    let (mut books, rates) =
        try_join(Books::open(tx, None, needed.accounts), db::rate::find_all(tx, &needed.rates)).await?;
    // Read after locking the accounts, so the sales cannot change concurrently.
    let mut sales = db::sale::read_all(tx, needed.sales).await?;

    let (mut deals, mut ended) = (stored.clone(), Vec::new());
    for (traced, event) in events {
        let known = deals.get(&event.deal_id).cloned();
        let mut deal = known.unwrap_or_else(|| Deal::empty(event));
        if event.is_outdated(&deal) {
            continue;
        }
        deal.update(event);
        // If the previous change is missing, this one is not applied. CRM has to republish both.
        if let Some(change) = event.stage_change().filter(|_| event.follows(&deal)) {
            let transitions = deal.sale_transitions(&change);
            let beginning = beginning_of(&deal, transitions, &change);
            let rate = beginning.and_then(|beginning| rates.get(&beginning)).copied();
            let sale = sales.entry(deal.id).or_default();
            let posting =
                deal.apply(transitions, &change, sale, rate, limit, now).map_err(reject_overflow)?;
            traced.in_scope(|| books.post_by(change.by, posting.entries)).map_err(reject_overflow)?;
            ended.extend(posting.ended);
        }
        deal.update_held_since(event, now);
        deals.insert(deal.id, deal);
    }

    let (mut new, mut changed) = (Vec::new(), Vec::new());
    for deal in deals.values() {
        match stored.get(&deal.id) {
            None => new.push(deal),
            Some(known) if deal != known => changed.push(deal),
            Some(_) => {}
        }
    }
    // The deals are inserted first, since accruals have a foreign key to them.
    if !db::deal::insert_all(tx, &new).await? {
        return Err(Failure::Transient("a concurrent event has stored a deal".to_owned()));
    }
    books.close_with(tx, async |tx: &Tx| db::deal::save_all(tx, &changed).await).await?;
    if !ended.is_empty() {
        reject_open(tx, &ended, None, now).await?;
    }
    Ok(())
}

/// The data that events need beside their deals.
#[derive(Default)]
struct Needed {
    accounts: BTreeSet<AccountKey>,
    rates: Vec<SaleBeginning>,
    /// The stored sales that change: each deal with its `sale_row_version`.
    sales: BTreeMap<DealId, i64>,
}

impl Needed {
    /// Returns the data that these events need.
    ///
    /// Applies the events to copies of the deals, since the stages of a deal depend neither on
    /// rates nor on accruals.
    fn of<'e>(
        events: impl Iterator<Item = &'e DealEvent>,
        stored: &BTreeMap<DealId, Deal>,
        limit: ApprovalLimit,
        now: OffsetDateTime,
    ) -> Result<Self, Overflow> {
        let (mut needed, mut deals) = (Self::default(), stored.clone());
        for event in events {
            let deal = deals.entry(event.deal_id).or_insert_with(|| Deal::empty(event));
            if event.is_outdated(deal) {
                continue;
            }
            deal.update(event);
            let Some(change) = event.stage_change().filter(|_| event.follows(deal)) else { continue };
            let transitions = deal.sale_transitions(&change);
            needed.accounts.extend(deal.affected_accounts(transitions, &change));
            needed.rates.extend(beginning_of(deal, transitions, &change));
            let stored_sale = stored.get(&deal.id).and_then(|stored| stored.sale_row_version);
            if !transitions.is_empty() && deal.sale_row_version == stored_sale {
                needed.sales.extend(stored_sale.map(|version| (deal.id, version)));
            }
            deal.apply(transitions, &change, &mut Sale::default(), None, limit, now)?;
        }
        Ok(needed)
    }
}

/// Returns the sale that begins with the transitions of a change, if it has an agent.
fn beginning_of(deal: &Deal, transitions: &[SaleTransition], change: &StageChange) -> Option<SaleBeginning> {
    let agent = change.agent_user_id.filter(|_| transitions.contains(&SaleTransition::Begin))?;
    Some((agent, deal.developer_company_id, change.at))
}

fn reject_overflow(Overflow: Overflow) -> Failure {
    Failure::Rejected("a sum of the agent's account would exceed 64 bits".to_owned())
}

/// Creates the accruals of a batch of unrated deals. Deals without a rate stay unrated.
///
/// The batch follows `after` in the order of the sales.
/// Returns the last sale of a full batch, or `None` if the batch is not full.
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
