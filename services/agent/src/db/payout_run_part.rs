//! The parts of payout runs.

use std::time::Duration;

use ::db::{Prepared, Tx};
use auth::UserId;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use values::Currency;

use crate::domain::{AccountKey, PayoutRun, PayoutRunId, PayoutRunPart};
use crate::schema::payout_run_part;

/// The timeout of the statement that reads the keys of all accounts.
const DIVISION_TIMEOUT: Duration = Duration::from_mins(5);

/// Divides all agents into up to `max_parts` ranges, each with about the same number of accounts.
/// Each range but the last has at least `min_accounts`.
///
/// Returns the last agent of each range except the last.
pub async fn find_range_ends(
    tx: &mut Tx,
    max_parts: i64,
    min_accounts: i64,
) -> Result<Vec<UserId>, ::db::Error> {
    #[derive(QueryableByName)]
    struct End {
        #[diesel(sql_type = SqlUuid)]
        agent_user_id: UserId,
    }
    tx.extend_timeout(DIVISION_TIMEOUT).await?;
    let ends = diesel::sql_query(
        "select distinct agent_user_id from ( \
            select agent_user_id, row_number() over (order by agent_user_id, currency) as place, \
                count(*) over () as total \
            from account \
         ) as placed \
         where place % greatest((total + $1 - 1) / $1, $2) = 0 and place < total order by agent_user_id",
    );
    let ends = ends.bind::<BigInt, _>(max_parts).bind::<BigInt, _>(min_accounts);
    let ends: Vec<End> = ends.load(tx.conn()).await?;
    Ok(ends.into_iter().map(|end| end.agent_user_id).collect())
}

pub async fn insert(tx: &mut Tx, parts: &[PayoutRunPart]) -> Result<(), ::db::Error> {
    diesel::insert_into(payout_run_part::table).values(parts).execute(tx.conn()).await?;
    Ok(())
}

/// Returns true if a run has a part that is not paid yet.
pub async fn has_unpaid_part(tx: &mut Tx, run: PayoutRunId) -> Result<bool, ::db::Error> {
    let parts = payout_run_part::table.filter(payout_run_part::run_id.eq(run));
    Ok(Prepared(diesel::select(diesel::dsl::exists(parts))).get_result(tx.conn()).await?)
}

/// Locks a part, so that two workers do not pay it at the same time. Returns `None` if it is paid.
pub async fn lock(tx: &mut Tx, run: PayoutRunId, part: i16) -> Result<Option<PayoutRunPart>, ::db::Error> {
    let lock = payout_run_part::table.find((run, part)).select(PayoutRunPart::as_select());
    Ok(Prepared(lock.for_no_key_update()).get_result(tx.conn()).await.optional()?)
}

/// Returns the next account of a part with a payable accrual that is not negative.
pub async fn next_account(
    tx: &mut Tx,
    run: &PayoutRun,
    part: &PayoutRunPart,
) -> Result<Option<AccountKey>, ::db::Error> {
    #[derive(QueryableByName)]
    struct Next {
        #[diesel(sql_type = SqlUuid)]
        agent_user_id: UserId,
        #[diesel(sql_type = Text)]
        currency: Currency,
    }
    let next = diesel::sql_query(
        "select agent_user_id, currency from account \
         where ($1::uuid is null or (agent_user_id, currency) > ($1, $2)) \
            and ($3::uuid[] is null or agent_user_id = any($3)) \
            and ($5::uuid is null or agent_user_id > $5) and ($6::uuid is null or agent_user_id <= $6) \
            and exists (select from accrual where accrual.agent_user_id = account.agent_user_id \
                and accrual.currency = account.currency and accrual.status = 'Approved' \
                and accrual.payout_id is null and accrual.amount >= 0 and accrual.approved_at < $4) \
         order by agent_user_id, currency limit 1",
    );
    // Not cached: the plan depends on the values, because a run pays all agents or a few.
    let next = next
        .bind::<Nullable<SqlUuid>, _>(part.last_agent_user_id)
        .bind::<Nullable<Text>, _>(part.last_currency)
        .bind::<Nullable<Array<SqlUuid>>, _>(run.agent_user_ids.as_ref())
        .bind::<Timestamptz, _>(run.period_to)
        .bind::<Nullable<SqlUuid>, _>(part.after_agent_user_id)
        .bind::<Nullable<SqlUuid>, _>(part.up_to_agent_user_id);
    let next = next.get_result::<Next>(tx.conn()).await.optional()?;
    Ok(next.map(|next| (next.agent_user_id, next.currency)))
}

/// Stores the account that was processed last.
pub async fn save_progress(tx: &mut Tx, part: &PayoutRunPart) -> Result<(), ::db::Error> {
    let update = diesel::update(payout_run_part::table.find((part.run_id, part.part))).set((
        payout_run_part::last_agent_user_id.eq(part.last_agent_user_id),
        payout_run_part::last_currency.eq(part.last_currency),
    ));
    Prepared(update).execute(tx.conn()).await?;
    Ok(())
}

/// Removes a part that is paid.
pub async fn remove(tx: &mut Tx, part: &PayoutRunPart) -> Result<(), ::db::Error> {
    let delete = diesel::delete(payout_run_part::table.find((part.run_id, part.part)));
    Prepared(delete).execute(tx.conn()).await?;
    Ok(())
}
