//! Payout runs: started once for each key, and paid account by account.

use ::db::Tx;
use messaging::outbox;
use time::OffsetDateTime;

use super::Books;
use crate::db;
use crate::domain::{
    AccountKey, Entry, MoneyEntry, Payout, PayoutRun, PayoutRunId, PayoutRunPart, PayoutRunStatus,
};
use crate::error::{Error, PAYOUT_RUN_KEY_REUSED};
use crate::events::PayoutStatusChanged;

/// The kind of the jobs of a run. The job whose key is the run's id divides the run into parts.
/// Each job with a key like `<run>/<part>` pays one part.
pub const PAYOUT_RUN: &str = "payout-run";

/// The greatest number of parts: half of the eight jobs that a replica runs at once, so that
/// another run does not wait for this one.
const MAX_PARTS: i64 = 4;
/// The smallest number of accounts in a part, except the last part. A smaller part would take less
/// than a second.
const MIN_ACCOUNTS: i64 = 100;

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

/// Divides a run into parts, and schedules their jobs. A run of named agents has one part.
pub async fn divide(tx: &mut Tx, id: PayoutRunId, now: OffsetDateTime) -> Result<(), Error> {
    // Two replicas may both run the job after a lease has expired. The lock serializes them.
    let run = db::payout_run::lock(tx, id).await?;
    if run.status == PayoutRunStatus::Completed || db::payout_run_part::has_unpaid_part(tx, id).await? {
        return Ok(());
    }
    let ends = match run.agent_user_ids {
        None => db::payout_run_part::find_range_ends(tx, MAX_PARTS, MIN_ACCOUNTS).await?,
        Some(_) => Vec::new(),
    };
    let parts = PayoutRunPart::of(id, &ends);
    db::payout_run_part::insert(tx, &parts).await?;
    let keys = parts.iter().map(|part| format!("{id}/{}", part.part));
    Ok(jobs::schedule(tx, PAYOUT_RUN, keys, now).await?)
}

/// Pays the next account of a part. Removes the part and returns false if no account is left. The
/// last part completes the run.
pub async fn pay_next(
    tx: &mut Tx,
    (id, part): (PayoutRunId, i16),
    max_lines: i64,
    now: OffsetDateTime,
) -> Result<bool, Error> {
    // After a lease has expired, two replicas may run the job at once. The lock serializes them.
    let Some(mut part) = db::payout_run_part::lock(tx, id, part).await? else { return Ok(false) };
    let run = db::payout_run::find(tx, id).await?;
    if let Some(account) = db::payout_run_part::next_account(tx, &run, &part).await? {
        pay(tx, &run, account, max_lines, now).await?;
        (part.last_agent_user_id, part.last_currency) = (Some(account.0), Some(account.1));
        db::payout_run_part::save_progress(tx, &part).await?;
        return Ok(true);
    }
    db::payout_run_part::remove(tx, &part).await?;
    // The lock serializes parts that end at the same time, so the last one finds no other part and
    // completes the run.
    db::payout_run::lock(tx, id).await?;
    if !db::payout_run_part::has_unpaid_part(tx, id).await? {
        db::payout_run::complete(tx, id, now.max(run.created_at)).await?;
    }
    Ok(false)
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
        // The log line omits the agent, because logs must not contain user ids.
        tracing::warn!(run = %run.id, currency = %account.1, "an account was skipped; a sum would exceed 64 bits");
        return Ok(());
    }
    db::payout::insert(tx, &payout).await?;
    books.close(tx).await?;
    db::payout::freeze_statement(tx, payout.id).await?;
    db::money_log::append(tx, vec![MoneyEntry::of_payout(&payout)]).await?;
    Ok(outbox::append(tx, &PayoutStatusChanged::of(&payout, None)).await?)
}
