//! Payout runs and their progress.

use ::db::{Conn, Prepared, Tx};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Nullable, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;
use values::Currency;

use crate::domain::{PayoutRun, PayoutRunId, PayoutRunStatus, PayoutRunView, RunKey, RunTotal, Sum};
use crate::schema::payout_run;

/// Stores a run. Returns false if a run with this key exists.
pub async fn insert(tx: &mut Tx, new: &PayoutRun) -> Result<bool, ::db::Error> {
    let insert = diesel::insert_into(payout_run::table).values(new).on_conflict_do_nothing();
    Ok(Prepared(insert).execute(tx.conn()).await? == 1)
}

pub async fn find_by_key(tx: &mut Tx, key: &RunKey) -> Result<PayoutRun, ::db::Error> {
    let of_key = payout_run::table.filter(payout_run::run_key.eq(key)).select(PayoutRun::as_select());
    Ok(of_key.first(tx.conn()).await?)
}

pub async fn find(tx: &mut Tx, id: PayoutRunId) -> Result<PayoutRun, ::db::Error> {
    let find = payout_run::table.find(id).select(PayoutRun::as_select());
    Ok(Prepared(find).get_result(tx.conn()).await?)
}

/// Locks a run, so that two workers neither divide nor complete it at the same time.
pub async fn lock(tx: &mut Tx, id: PayoutRunId) -> Result<PayoutRun, ::db::Error> {
    let lock = payout_run::table.find(id).select(PayoutRun::as_select()).for_no_key_update();
    Ok(lock.get_result(tx.conn()).await?)
}

/// Stores that a run is completed.
pub async fn complete(tx: &mut Tx, id: PayoutRunId, at: OffsetDateTime) -> Result<(), ::db::Error> {
    let update = diesel::update(payout_run::table.find(id))
        .set((payout_run::status.eq(PayoutRunStatus::Completed), payout_run::completed_at.eq(at)));
    Prepared(update).execute(tx.conn()).await?;
    Ok(())
}

/// A run with the sums of its payouts in one currency. The sums are null for a run without payouts.
#[derive(QueryableByName)]
struct RunRow {
    #[diesel(embed)]
    run: PayoutRun,
    #[diesel(sql_type = Nullable<Text>)]
    currency: Option<Currency>,
    #[diesel(sql_type = Nullable<BigInt>)]
    count: Option<i64>,
    #[diesel(sql_type = Nullable<Array<Text>>)]
    sums: Option<Vec<String>>,
}

impl RunRow {
    fn total(&self) -> Option<RunTotal> {
        let (currency, sums) = self.currency.zip(self.sums.as_ref())?;
        let sum = |at: usize| Some(Sum { amount_minor: sums.get(at)?.parse().ok()?, currency });
        Some(RunTotal { currency, gross: sum(0)?, withheld: sum(1)?, net: sum(2)? })
    }
}

/// Returns a run with the sums of its payouts so far.
pub async fn find_view(mut conn: &Conn, id: PayoutRunId) -> QueryResult<Option<PayoutRunView>> {
    let find = diesel::sql_query(
        "select run.*, total.* from payout_run as run left join lateral ( \
            select currency, count(*) as count, \
                array[sum(gross)::text, sum(withheld)::text, sum(net)::text] as sums \
            from payout where run_id = run.id group by currency \
        ) as total on true where run.id = $1 order by total.currency",
    );
    let rows: Vec<RunRow> = Prepared(find.bind::<SqlUuid, _>(id)).load(&mut conn).await?;
    let count = rows.iter().filter_map(|row| row.count).sum();
    let totals = rows.iter().filter_map(RunRow::total).collect();
    let run = rows.into_iter().next().map(|row| row.run);
    Ok(run.map(|run| PayoutRunView::of(run, count, totals)))
}
