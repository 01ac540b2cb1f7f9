//! What deals do to the ledger.

use std::collections::HashMap;

use ::db::Tx;
use futures_util::future::try_join;
use messaging::Failure;
use time::OffsetDateTime;

use super::Books;
use crate::db;
use crate::db::rate::Unrated;
use crate::domain::{AccrualId, Deal, DealId, DealTold, DealTopic, Overflow, Sale, StageChange, Step};
use crate::error::Error;

/// The job that looks for rates of unrated deals.
pub const UNRATED_DEALS: &str = "unrated-deals";

/// So many deals are looked at in one transaction.
const MOST: i64 = 1_000;

/// Takes what a topic tells of a deal; what it is told again changes nothing.
///
/// # Errors
/// Those of the database; rejected where a sum would be more than can be told; transient where another topic was first to
/// tell of the deal, a moment ago.
pub async fn hear(tx: &mut Tx, told: &DealTold, now: OffsetDateTime) -> Result<(), Failure> {
    let stored = db::deal::lock(tx, told.deal_id).await?;
    let mut is_stored = stored.is_some();
    let known = stored.unwrap_or_else(|| Deal::unheard(told));
    if told.topic == DealTopic::StageChanged && told.row_version <= known.applied_row_version {
        return Ok(());
    }
    let mut deal = known.clone();
    deal.hear(told);
    let followed = match told.stage_change() {
        Some(change) => {
            // What it earns refers to it.
            if !is_stored && !deal.steps(&change).is_empty() {
                insert(tx, &deal).await?;
                is_stored = true;
            }
            Some(follow(tx, &mut deal, &change, now).await?)
        }
        None => None,
    };
    deal.hold(told, now);
    if !is_stored {
        return insert(tx, &deal).await;
    }
    let save = async |tx: &Tx| if deal == known { Ok(()) } else { db::deal::save(tx, &deal).await };
    let Some((books, ended)) = followed else { return Ok(save(tx).await?) };
    books.close_beside(tx, save).await?;
    if !ended.is_empty() {
        db::adjustment::close(tx, &ended, None, now).await?;
    }
    Ok(())
}

/// Stores a deal that nobody has told of before.
async fn insert(tx: &Tx, deal: &Deal) -> Result<(), Failure> {
    let made_meanwhile = || Failure::Transient("another topic tells of the deal, too".to_owned());
    if db::deal::insert(tx, deal).await? { Ok(()) } else { Err(made_meanwhile()) }
}

/// Has the ledger follow a change that it has not applied: what is to be written, and the accruals that have ended.
async fn follow(
    tx: &mut Tx,
    deal: &mut Deal,
    change: &StageChange,
    now: OffsetDateTime,
) -> Result<(Books, Vec<AccrualId>), Failure> {
    let steps = deal.steps(change);
    let rate = async {
        match change.agent_user_id {
            Some(agent) if steps.contains(&Step::Begin) => {
                db::rate::find(tx, agent, deal.developer_company_id, change.at).await
            }
            _ => Ok(None),
        }
    };
    let (mut books, rate) = try_join(Books::open(tx, deal.holders(steps, change)), rate).await?;
    // Behind the accounts' locks: nobody else changes what stands of it.
    let sale = match deal.sale_row_version {
        Some(version) if !steps.is_empty() => db::sale::read(tx, deal.id, version).await?,
        _ => Sale::of(Vec::new()),
    };
    let posting = deal.apply(steps, change, sale, rate, now).map_err(too_much)?;
    books.post(posting.entries).map_err(too_much)?;
    Ok((books, posting.ended))
}

fn too_much(Overflow: Overflow) -> Failure {
    Failure::Rejected("an agent's sum would be more than can be told".to_owned())
}

/// Looks at the unrated deals behind one, and accrues those that have a rate now: the last one that it has looked at, if
/// there may be more behind it.
pub async fn accrue_unrated(
    tx: &mut Tx,
    behind: Option<&Unrated>,
    now: OffsetDateTime,
) -> Result<Option<Unrated>, Error> {
    let looked_at = db::rate::unrated(tx, behind, MOST).await?;
    let rated: HashMap<DealId, _> = looked_at
        .iter()
        .filter_map(|unrated| Some((unrated.deal_id, (unrated.sale_row_version, unrated.rate()?))))
        .collect();
    if !rated.is_empty() {
        let ids: Vec<_> = rated.keys().copied().collect();
        let deals = db::deal::lock_unrated(tx, &ids).await?;
        let mut books = Books::open(tx, deals.iter().filter_map(Deal::holder)).await?;
        let mut accrued = Vec::new();
        for deal in &deals {
            // Meanwhile another sale of it may have begun.
            let rate = rated.get(&deal.id).filter(|(sale, _)| Some(*sale) == deal.sale_row_version);
            let Some((_, rate)) = rate else { continue };
            if deal.accrue(*rate, now).and_then(|entries| books.post(entries)).is_ok() {
                accrued.push(deal.id);
            } else {
                tracing::warn!(deal = %deal.id, "an agent's sum would be more than can be told: it stays unrated");
            }
        }
        books.close(tx).await?;
        db::deal::mark_rated(tx, &accrued).await?;
    }
    let is_full = i64::try_from(looked_at.len()).is_ok_and(|count| count == MOST);
    Ok(looked_at.last().copied().filter(|_| is_full))
}
