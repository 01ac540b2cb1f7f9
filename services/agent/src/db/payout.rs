//! Payouts, their statements, and the accruals that a run can pay.

use ::db::{Conn, Prepared, Tx};
use auth::CompanyId;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Integer, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;
use values::{Currency, Private};

use crate::domain::{
    AccountKey, Accrual, AccrualId, AccrualKind, DealId, Payout, PayoutId, PropertyObjectId,
};
use crate::schema::{accrual, payout};

pub async fn insert(tx: &mut Tx, new: &Payout) -> Result<(), ::db::Error> {
    let insert = diesel::insert_into(payout::table).values((
        payout::id.eq(new.id),
        payout::run_id.eq(new.run_id),
        payout::agent_user_id.eq(new.agent_user_id),
        (payout::period_from.eq(new.period_from), payout::period_to.eq(new.period_to)),
        payout::currency.eq(new.currency),
        payout::gross.eq(new.gross),
        payout::withholding_bps.eq(new.withholding_bps),
        payout::withheld.eq(new.withheld),
        payout::net.eq(new.net),
        payout::accruals_count.eq(new.accruals_count),
        payout::status.eq(new.status),
        payout::created_at.eq(new.created_at),
        (payout::updated_at.eq(new.updated_at), payout::updated_by_user_id.eq(new.updated_by_user_id)),
        payout::version.eq(new.version),
    ));
    Prepared(insert).execute(tx.conn()).await?;
    Ok(())
}

/// Stores the statement of a payout whose accruals are written.
pub async fn freeze_statement(tx: &mut Tx, id: PayoutId) -> Result<(), ::db::Error> {
    let insert = diesel::sql_query(
        "insert into payout_line (payout_id, accrual_id, developer_name) \
         select accrual.payout_id, accrual.id, developer.name from accrual \
         left join developer on developer.id = accrual.developer_company_id where accrual.payout_id = $1",
    );
    Prepared(insert.bind::<SqlUuid, _>(id)).execute(tx.conn()).await?;
    Ok(())
}

pub async fn find(tx: &mut Tx, id: PayoutId) -> Result<Option<Payout>, ::db::Error> {
    Ok(payout::table.find(id).select(Payout::as_select()).first(tx.conn()).await.optional()?)
}

pub async fn look_up(mut conn: &Conn, id: PayoutId) -> QueryResult<Option<Payout>> {
    payout::table.find(id).select(Payout::as_select()).first(&mut conn).await.optional()
}

/// Returns the accruals that are in a payout now.
pub async fn list_accruals(tx: &mut Tx, id: PayoutId) -> Result<Vec<Accrual>, ::db::Error> {
    let within = accrual::table.filter(accrual::payout_id.eq(id)).select(Accrual::as_select());
    Ok(within.order(accrual::id).load(tx.conn()).await?)
}

/// Updates the mutable columns by compare and swap. Returns false if the payout has changed.
pub async fn update(tx: &mut Tx, after: &Payout) -> Result<bool, ::db::Error> {
    let row = payout::table.find(after.id).filter(payout::version.eq(after.version - 1));
    let update = diesel::update(row).set((
        payout::status.eq(after.status),
        payout::reference.eq(after.reference.as_ref().map(Private::expose)),
        payout::failure_reason.eq(after.failure_reason.as_ref().map(Private::expose)),
        payout::sent_at.eq(after.sent_at),
        payout::paid_at.eq(after.paid_at),
        payout::updated_at.eq(after.updated_at),
        payout::updated_by_user_id.eq(after.updated_by_user_id),
        payout::version.eq(after.version),
    ));
    Ok(Prepared(update).execute(tx.conn()).await? == 1)
}

/// A line of a statement. It never changes.
#[derive(Debug, QueryableByName)]
pub struct PayoutLine {
    #[diesel(sql_type = SqlUuid)]
    pub accrual_id: AccrualId,
    #[diesel(sql_type = SqlUuid)]
    pub deal_id: DealId,
    #[diesel(sql_type = SqlUuid)]
    pub property_object_id: PropertyObjectId,
    #[diesel(sql_type = SqlUuid)]
    pub developer_company_id: CompanyId,
    #[diesel(sql_type = Nullable<Text>)]
    pub developer_name: Option<String>,
    #[diesel(sql_type = Text)]
    pub kind: AccrualKind,
    #[diesel(sql_type = BigInt)]
    pub base_amount: i64,
    #[diesel(sql_type = Integer)]
    pub rate_bps: i32,
    #[diesel(sql_type = BigInt)]
    pub amount: i64,
    #[diesel(sql_type = Text)]
    pub currency: Currency,
    #[diesel(sql_type = Timestamptz)]
    pub earned_at: OffsetDateTime,
}

/// Returns the lines of a payout's statement in order.
pub async fn list_lines(conn: &mut Conn, id: PayoutId) -> Result<Vec<PayoutLine>, ::db::Error> {
    let lines = diesel::sql_query(
        "select line.accrual_id, accrual.deal_id, accrual.property_object_id, accrual.developer_company_id, \
            line.developer_name, accrual.kind, accrual.base_amount, accrual.rate_bps, accrual.amount, \
            accrual.currency, accrual.earned_at \
         from payout_line as line join accrual on accrual.id = line.accrual_id \
         where line.payout_id = $1 order by accrual.earned_at, accrual.id",
    );
    Ok(Prepared(lines.bind::<SqlUuid, _>(id)).load(conn).await?)
}

/// Locks the deals whose accruals a run can pay, against changes until the end of the transaction.
///
/// Call this function before locking the account. A transaction that changes a deal locks the
/// account afterwards, so the opposite order would be a deadlock.
pub async fn lock_payable_deals(
    tx: &mut Tx,
    (agent, currency): AccountKey,
    before: OffsetDateTime,
    limit: i64,
) -> Result<(), ::db::Error> {
    // `offset 0` keeps the planner from joining all deals first. The query then reads only the
    // deals of `limit` accruals.
    let deals = diesel::sql_query(
        "select from deal where held_since is null and id in ( \
            select deal_id from accrual cross join lateral ( \
                select from deal where deal.id = accrual.deal_id and held_since is null offset 0 \
            ) as free \
            where agent_user_id = $1 and currency = $2 and status = 'Approved' \
                and payout_id is null and approved_at < $3 \
            order by (amount >= 0), approved_at, accrual.id limit $4 \
         ) order by id for share",
    );
    let deals = deals.bind::<SqlUuid, _>(agent).bind::<Text, _>(currency);
    let deals = deals.bind::<Timestamptz, _>(before).bind::<BigInt, _>(limit);
    Prepared(deals).execute(tx.conn()).await?;
    Ok(())
}

/// Returns the accruals of a locked account that a run can pay, debts first.
///
/// Their deals stay locked, so that none of them becomes held before the commit (INV-AGT-8).
pub async fn list_payable(
    tx: &mut Tx,
    (agent, currency): AccountKey,
    before: OffsetDateTime,
    limit: i64,
) -> Result<Vec<Accrual>, ::db::Error> {
    // A deal that became payable after `lock_payable_deals` is not locked by this transaction yet.
    // Another transaction may have locked the deal and wait for this account. `skip locked` avoids
    // that deadlock: the accruals of such a deal wait for the next run.
    let payable = diesel::sql_query(
        "select accrual.* from accrual cross join lateral ( \
            select from deal where deal.id = accrual.deal_id and held_since is null for share skip locked \
         ) as free \
         where agent_user_id = $1 and currency = $2 and status = 'Approved' \
            and payout_id is null and approved_at < $3 \
         order by (amount >= 0), approved_at, accrual.id limit $4",
    );
    let payable = payable.bind::<SqlUuid, _>(agent).bind::<Text, _>(currency);
    let payable = payable.bind::<Timestamptz, _>(before).bind::<BigInt, _>(limit);
    Ok(Prepared(payable).load(tx.conn()).await?)
}
