//! Runs, and how far they have come.

use ::db::{Cached, Lookup, Tx};
use auth::UserId;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use values::Currency;

use super::schema::payout_run;
use crate::domain::{PayoutRun, PayoutRunId, PayoutRunShown, RunKey, RunTotal, Sum};

/// Stores a run, unless there is one of its key.
pub async fn insert(tx: &mut Tx, new: &PayoutRun) -> Result<bool, ::db::Error> {
    let insert = diesel::insert_into(payout_run::table).values(new).on_conflict_do_nothing();
    Ok(Cached(insert).execute(tx.conn()).await? == 1)
}

pub async fn of_key(tx: &mut Tx, key: &RunKey) -> Result<PayoutRun, ::db::Error> {
    let of_key = payout_run::table.filter(payout_run::run_key.eq(key)).select(PayoutRun::as_select());
    Ok(of_key.first(tx.conn()).await?)
}

/// Has it to itself until the end of the transaction: whoever works on a run takes turns.
pub async fn lock(tx: &mut Tx, id: PayoutRunId) -> Result<PayoutRun, ::db::Error> {
    let lock = payout_run::table.find(id).select(PayoutRun::as_select()).for_no_key_update();
    Ok(lock.get_result(tx.conn()).await?)
}

/// The next account that the run may pay something of.
pub async fn next_account(tx: &mut Tx, run: &PayoutRun) -> Result<Option<(UserId, Currency)>, ::db::Error> {
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
            and exists (select from accrual where accrual.agent_user_id = account.agent_user_id \
                and accrual.currency = account.currency and accrual.status = 'Approved' \
                and accrual.payout_id is null and accrual.amount >= 0 and accrual.approved_at < $4) \
         order by agent_user_id, currency limit 1",
    );
    // Planned for its values: some ask for everybody, some for a few.
    let next = next
        .bind::<Nullable<SqlUuid>, _>(run.done_agent_user_id)
        .bind::<Nullable<Text>, _>(run.done_currency)
        .bind::<Nullable<Array<SqlUuid>>, _>(run.agent_user_ids.as_ref())
        .bind::<Timestamptz, _>(run.period_to);
    let next = next.get_result::<Next>(tx.conn()).await.optional()?;
    Ok(next.map(|next| (next.agent_user_id, next.currency)))
}

/// Remembers how far it has come, or that it is done.
pub async fn advance(tx: &mut Tx, run: &PayoutRun) -> Result<(), ::db::Error> {
    let update = diesel::update(payout_run::table.find(run.id)).set((
        payout_run::status.eq(run.status),
        payout_run::done_agent_user_id.eq(run.done_agent_user_id),
        payout_run::done_currency.eq(run.done_currency),
        payout_run::completed_at.eq(run.completed_at),
    ));
    Cached(update).execute(tx.conn()).await?;
    Ok(())
}

/// A run, beside what its payouts come to in one currency, if there are any.
#[derive(QueryableByName)]
struct Row {
    #[diesel(embed)]
    run: PayoutRun,
    #[diesel(sql_type = Nullable<Text>)]
    currency: Option<Currency>,
    #[diesel(sql_type = Nullable<BigInt>)]
    count: Option<i64>,
    #[diesel(sql_type = Nullable<Array<Text>>)]
    sums: Option<Vec<String>>,
}

impl Row {
    fn total(&self) -> Option<RunTotal> {
        let (currency, sums) = self.currency.zip(self.sums.as_ref())?;
        let sum = |at: usize| Some(Sum { amount_minor: sums.get(at)?.parse().ok()?, currency });
        Some(RunTotal { currency, gross: sum(0)?, withheld: sum(1)?, net: sum(2)? })
    }
}

/// A run with what it has made so far.
pub async fn show(mut conn: Lookup<'_>, id: PayoutRunId) -> QueryResult<Option<PayoutRunShown>> {
    let show = diesel::sql_query(
        "select run.*, made.* from payout_run as run left join lateral ( \
            select currency, count(*) as count, \
                array[sum(gross)::text, sum(withheld)::text, sum(net)::text] as sums \
            from payout where run_id = run.id group by currency \
        ) as made on true where run.id = $1 order by made.currency",
    );
    let rows: Vec<Row> = Cached(show.bind::<SqlUuid, _>(id)).load(&mut conn).await?;
    let count = rows.iter().filter_map(|row| row.count).sum();
    let totals = rows.iter().filter_map(Row::total).collect();
    let run = rows.into_iter().next().map(|row| row.run);
    Ok(run.map(|run| PayoutRunShown::of(run, count, totals)))
}
