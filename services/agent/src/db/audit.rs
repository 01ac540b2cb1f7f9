//! The ledger audit.

use std::time::Duration;

use ::db::{Conn, Tx};
use diesel::OptionalExtension;
use diesel::sql_types::BigInt;
use diesel_async::RunQueryDsl;

/// The statement timeout of the audit, which reads every accrual.
const AUDIT_TIMEOUT: Duration = Duration::from_mins(10);

/// The clauses of a statement that selects the accounts that differ from their accruals.
const MISMATCHED_ACCOUNTS: &str = "\
    account full join ( \
        select agent_user_id, currency, count(*) as entries, \
            sum(amount) filter (where status = 'Pending') as pending, \
            sum(amount) filter (where status = 'Approved' and payout_id is null) as approved, \
            sum(amount) filter (where status = 'Approved' and payout_id is not null) as in_payout, \
            sum(amount) filter (where status = 'Paid') as paid \
        from accrual group by agent_user_id, currency \
    ) as earned using (agent_user_id, currency) \
    where coalesce(account.pending, 0) <> coalesce(earned.pending, 0) \
        or coalesce(account.approved, 0) <> coalesce(earned.approved, 0) \
        or coalesce(account.in_payout, 0) <> coalesce(earned.in_payout, 0) \
        or coalesce(account.paid, 0) <> coalesce(earned.paid, 0) \
        or coalesce(account.entries, 0) <> coalesce(earned.entries, 0)";

/// The clauses of a statement that selects the payouts that differ from their lines or accruals.
const MISMATCHED_PAYOUTS: &str = "\
    payout left join ( \
        select line.payout_id, count(*) as count, sum(accrual.amount) as sum, \
            count(*) filter (where accrual.payout_id = line.payout_id and accrual.status = 'Approved') as waiting, \
            count(*) filter (where accrual.payout_id = line.payout_id and accrual.status = 'Paid') as paid, \
            bool_and(accrual.agent_user_id = owed.agent_user_id and accrual.currency = owed.currency) as is_theirs \
        from payout_line as line join accrual on accrual.id = line.accrual_id \
            join payout as owed on owed.id = line.payout_id \
        group by line.payout_id \
    ) as lines on lines.payout_id = payout.id \
    left join ( \
        select payout_id, count(*) as count from accrual where payout_id is not null group by payout_id \
    ) as held on held.payout_id = payout.id \
    where lines.count is distinct from payout.accruals_count or lines.sum is distinct from payout.gross \
        or not lines.is_theirs or payout.gross <> payout.withheld + payout.net \
        or coalesce(held.count, 0) <> \
            case when payout.status in ('Failed', 'Cancelled') then 0 else payout.accruals_count end \
        or lines.waiting <> \
            case when payout.status in ('Scheduled', 'InTransit') then payout.accruals_count else 0 end \
        or lines.paid <> case when payout.status = 'Paid' then payout.accruals_count else 0 end";

#[derive(diesel::QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

/// Counts the accounts and payouts that violate INV-AGT-1, INV-AGT-5 or INV-AGT-6.
///
/// An account must equal the sums of its accruals. A payout must equal the sum of its lines, and
/// its accruals must have the state that its status requires.
pub async fn count_mismatches(tx: &mut Tx) -> Result<i64, ::db::Error> {
    tx.extend_timeout(AUDIT_TIMEOUT).await?;
    let accounts = diesel::sql_query(format!("select count(*) as count from {MISMATCHED_ACCOUNTS}"));
    let payouts = diesel::sql_query(format!("select count(*) as count from {MISMATCHED_PAYOUTS}"));
    // Each statement compares rows of one snapshot, so a commit between the two causes no mismatch.
    let accounts: Count = accounts.get_result(tx.conn()).await?;
    let payouts: Count = payouts.get_result(tx.conn()).await?;
    Ok(accounts.count + payouts.count)
}

/// Stores the result of an audit, which every worker reports.
pub async fn save_mismatches(tx: &mut Tx, found: i64) -> Result<(), ::db::Error> {
    let save = diesel::sql_query(
        "insert into ledger_audit (mismatches) values ($1) on conflict (only_one) do update \
         set mismatches = excluded.mismatches, audited_at = excluded.audited_at",
    );
    save.bind::<BigInt, _>(found).execute(tx.conn()).await?;
    Ok(())
}

/// Returns the result of the last audit, 0 before the first one.
pub async fn last_mismatches(conn: &mut Conn) -> Result<i64, ::db::Error> {
    let last = diesel::sql_query("select mismatches as count from ledger_audit");
    let last: Option<Count> = last.get_result(conn).await.optional()?;
    Ok(last.map_or(0, |last| last.count))
}

#[cfg(test)]
mod tests {
    use super::{MISMATCHED_ACCOUNTS, MISMATCHED_PAYOUTS};

    const RUNBOOK: &str = include_str!("../../../../docs/runbooks/alerts.md");

    fn words(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// INV-AGT-1: an operator finds with the statements of the runbook what the audit counts.
    #[test]
    fn runbook_has_the_statements_of_the_audit() {
        let runbook = words(RUNBOOK);
        for rows in [MISMATCHED_ACCOUNTS, MISMATCHED_PAYOUTS] {
            let statement = words(&format!("select * from {rows};"));
            assert!(runbook.contains(&statement), "{statement}");
        }
    }
}
