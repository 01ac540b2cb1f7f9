//! Runs: asked for once, and worked off account by account.

use ::db::Tx;
use auth::UserId;
use messaging::outbox;
use time::OffsetDateTime;
use values::Currency;

use super::Books;
use crate::db;
use crate::domain::{Entry, Payout, PayoutRun, PayoutRunId, PayoutRunStatus};
use crate::error::{Error, PAYOUT_RUN_KEY_REUSED};
use crate::events::PayoutStatusChanged;

/// The job that works a run off; its key is the run's id.
pub const PAYOUT_RUN: &str = "payout-run";

/// Begins a run, unless there is one of its key: which run it is, and whether it is new.
///
/// # Errors
/// [`PAYOUT_RUN_KEY_REUSED`]
pub async fn begin(tx: &mut Tx, new: &PayoutRun) -> Result<(PayoutRunId, bool), Error> {
    if db::payout_run::insert(tx, new).await? {
        jobs::schedule(tx, PAYOUT_RUN, [new.id], new.created_at).await?;
        return Ok((new.id, true));
    }
    let begun = db::payout_run::of_key(tx, &new.run_key).await?;
    if new.asks_as(&begun) { Ok((begun.id, false)) } else { Err(PAYOUT_RUN_KEY_REUSED.into()) }
}

/// Works off the next account of a run. `false`: there was none left, and the run is completed.
pub async fn pay_next(
    tx: &mut Tx,
    id: PayoutRunId,
    most_lines: i64,
    now: OffsetDateTime,
) -> Result<bool, Error> {
    // Of two replicas that both believe the run to be theirs one waits here.
    let mut run = db::payout_run::lock(tx, id).await?;
    if run.status == PayoutRunStatus::Completed {
        return Ok(false);
    }
    let next = db::payout_run::next_account(tx, &run).await?;
    if let Some(holder) = next {
        pay(tx, &run, holder, most_lines, now).await?;
        (run.done_agent_user_id, run.done_currency) = (Some(holder.0), Some(holder.1));
    } else {
        (run.status, run.completed_at) = (PayoutRunStatus::Completed, Some(now.max(run.created_at)));
    }
    db::payout_run::advance(tx, &run).await?;
    Ok(next.is_some())
}

/// Makes the payout of an account, if anything is to be paid.
async fn pay(
    tx: &mut Tx,
    run: &PayoutRun,
    holder: (UserId, Currency),
    most_lines: i64,
    now: OffsetDateTime,
) -> Result<(), Error> {
    db::payout::await_deals(tx, holder, run.period_to, most_lines).await?;
    let mut books = Books::open(tx, [holder]).await?;
    let payable = db::payout::payable(tx, holder, run.period_to, most_lines).await?;
    let Some((payout, taken)) = Payout::of(run, &payable, now) else { return Ok(()) };
    let taken = std::iter::zip(&payable, taken).map(|(before, after)| Entry::changed(before, after));
    if books.post(taken.collect()).is_err() {
        tracing::warn!(agent = %holder.0, "an account's payouts come to more than can be told: it waits");
        return Ok(());
    }
    db::payout::insert(tx, &payout).await?;
    books.close(tx).await?;
    db::payout::freeze(tx, payout.id).await?;
    Ok(outbox::append(tx, &PayoutStatusChanged::of(&payout, None)).await?)
}
