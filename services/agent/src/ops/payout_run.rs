//! Payout runs: started once for each key, and paid account by account.

use ::db::Tx;
use messaging::outbox;
use time::OffsetDateTime;

use super::Books;
use crate::db;
use crate::domain::{AccountKey, Entry, MoneyEntry, Payout, PayoutRun, PayoutRunId, PayoutRunStatus};
use crate::error::{Error, PAYOUT_RUN_KEY_REUSED};
use crate::events::PayoutStatusChanged;

/// The kind of the job that pays a run. Its key is the run's id.
pub const PAYOUT_RUN: &str = "payout-run";

/// Starts a run unless a run with its key exists. Returns the id of the run, and true if it is new.
///
/// # Errors
/// [`PAYOUT_RUN_KEY_REUSED`] if the run of the key has other content.
pub async fn start(tx: &mut Tx, new: &PayoutRun) -> Result<(PayoutRunId, bool), Error> {
    if db::payout_run::insert(tx, new).await? {
        db::money_log::append(tx, vec![MoneyEntry::of_run(new)]).await?;
        jobs::schedule(tx, PAYOUT_RUN, [new.id], new.created_at).await?;
        return Ok((new.id, true));
    }
    let existing = db::payout_run::find_by_key(tx, &new.run_key).await?;
    if new.has_same_content(&existing) { Ok((existing.id, false)) } else { Err(PAYOUT_RUN_KEY_REUSED.into()) }
}

/// Pays the next account of a run. Completes the run and returns false if no account is left.
pub async fn pay_next(
    tx: &mut Tx,
    id: PayoutRunId,
    max_lines: i64,
    now: OffsetDateTime,
) -> Result<bool, Error> {
    // After a lease has expired, two replicas may run the job at once. The lock serializes them.
    let mut run = db::payout_run::lock(tx, id).await?;
    if run.status == PayoutRunStatus::Completed {
        return Ok(false);
    }
    let next = db::payout_run::next_account(tx, &run).await?;
    if let Some(account) = next {
        pay(tx, &run, account, max_lines, now).await?;
        (run.last_agent_user_id, run.last_currency) = (Some(account.0), Some(account.1));
    } else {
        (run.status, run.completed_at) = (PayoutRunStatus::Completed, Some(now.max(run.created_at)));
    }
    db::payout_run::save_progress(tx, &run).await?;
    Ok(next.is_some())
}

/// Creates the payout of an account, if its payable accruals have a sum above 0.
async fn pay(
    tx: &mut Tx,
    run: &PayoutRun,
    account: AccountKey,
    max_lines: i64,
    now: OffsetDateTime,
) -> Result<(), Error> {
    db::payout::lock_payable_deals(tx, account, run.period_to, max_lines).await?;
    let mut books = Books::open(tx, Some(run.created_by_user_id), [account]).await?;
    let payable = db::payout::list_payable(tx, account, run.period_to, max_lines).await?;
    let Some((payout, taken)) = Payout::create(run, &payable, now) else { return Ok(()) };
    let taken = std::iter::zip(&payable, taken).map(|(before, after)| Entry::changed(before, after));
    if books.post(taken.collect()).is_err() {
        // The agent is left out, because logs must not contain user ids.
        tracing::warn!(run = %run.id, currency = %account.1, "an account was skipped; a sum would exceed 64 bits");
        return Ok(());
    }
    db::payout::insert(tx, &payout).await?;
    books.close(tx).await?;
    db::payout::freeze_statement(tx, payout.id).await?;
    db::money_log::append(tx, vec![MoneyEntry::of_payout(&payout)]).await?;
    Ok(outbox::append(tx, &PayoutStatusChanged::of(&payout, None)).await?)
}
