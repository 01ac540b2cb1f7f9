//! Payouts as they are made and moved, and their statements.

use ::db::{Cached, Conn, Lookup, Tx};
use auth::{CompanyId, UserId};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Integer, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;
use values::{Currency, Private};

use super::schema::{accrual, payout};
use crate::domain::{Accrual, AccrualId, AccrualKind, DealId, Payout, PayoutId, PropertyObjectId};

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
        payout::updated_at.eq(new.updated_at),
        payout::version.eq(new.version),
    ));
    Cached(insert).execute(tx.conn()).await?;
    Ok(())
}

/// Freezes the statement of a payout that has its accruals.
pub async fn freeze(tx: &mut Tx, id: PayoutId) -> Result<(), ::db::Error> {
    let insert = diesel::sql_query(
        "insert into payout_line (payout_id, accrual_id, developer_name) \
         select accrual.payout_id, accrual.id, developer.name from accrual \
         left join developer on developer.id = accrual.developer_company_id where accrual.payout_id = $1",
    );
    Cached(insert.bind::<SqlUuid, _>(id)).execute(tx.conn()).await?;
    Ok(())
}

pub async fn find(tx: &mut Tx, id: PayoutId) -> Result<Option<Payout>, ::db::Error> {
    Ok(payout::table.find(id).select(Payout::as_select()).first(tx.conn()).await.optional()?)
}

pub async fn look_up(mut conn: Lookup<'_>, id: PayoutId) -> QueryResult<Option<Payout>> {
    payout::table.find(id).select(Payout::as_select()).first(&mut conn).await.optional()
}

/// What is in a payout now.
pub async fn accruals(tx: &mut Tx, id: PayoutId) -> Result<Vec<Accrual>, ::db::Error> {
    let within = accrual::table.filter(accrual::payout_id.eq(id)).select(Accrual::as_select());
    Ok(within.order(accrual::id).load(tx.conn()).await?)
}

/// Writes what may change of a payout, by compare and swap. `false`: it is not as it was.
pub async fn update(tx: &mut Tx, after: &Payout) -> Result<bool, ::db::Error> {
    let row = payout::table.find(after.id).filter(payout::version.eq(after.version - 1));
    let update = diesel::update(row).set((
        payout::status.eq(after.status),
        payout::reference.eq(after.reference.as_ref().map(Private::expose)),
        payout::failure_reason.eq(after.failure_reason.as_ref().map(Private::expose)),
        payout::sent_at.eq(after.sent_at),
        payout::paid_at.eq(after.paid_at),
        payout::updated_at.eq(after.updated_at),
        payout::version.eq(after.version),
    ));
    Ok(Cached(update).execute(tx.conn()).await? == 1)
}

/// A line of a statement, as it was when the payout was made. None of it ever changes.
#[derive(Debug, QueryableByName)]
pub struct Line {
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

/// The statement of a payout.
pub async fn lines(conn: &mut Conn, id: PayoutId) -> Result<Vec<Line>, ::db::Error> {
    let lines = diesel::sql_query(
        "select line.accrual_id, accrual.deal_id, accrual.property_object_id, accrual.developer_company_id, \
            line.developer_name, accrual.kind, accrual.base_amount, accrual.rate_bps, accrual.amount, \
            accrual.currency, accrual.earned_at \
         from payout_line as line join accrual on accrual.id = line.accrual_id \
         where line.payout_id = $1 order by accrual.earned_at, accrual.id",
    );
    Ok(Cached(lines.bind::<SqlUuid, _>(id)).load(conn).await?)
}

/// Waits for whoever is changing a deal of which a run can pay something, and keeps them from it until the transaction ends.
/// They need the account, so this comes before it is locked.
pub async fn await_deals(
    tx: &mut Tx,
    (agent, currency): (UserId, Currency),
    before: OffsetDateTime,
    most: i64,
) -> Result<(), ::db::Error> {
    // `offset 0`: however many there may be, no more deals are looked at than accruals are taken.
    let deals = diesel::sql_query(
        "select from deal where held_since is null and id in ( \
            select deal_id from accrual cross join lateral ( \
                select from deal as owed where owed.id = accrual.deal_id and held_since is null offset 0 \
            ) as owed \
            where agent_user_id = $1 and currency = $2 and status = 'Approved' \
                and payout_id is null and approved_at < $3 \
            order by (amount >= 0), approved_at, accrual.id limit $4 \
         ) order by id for share",
    );
    let deals = deals.bind::<SqlUuid, _>(agent).bind::<Text, _>(currency);
    let deals = deals.bind::<Timestamptz, _>(before).bind::<BigInt, _>(most);
    Cached(deals).execute(tx.conn()).await?;
    Ok(())
}

/// What a run can pay of an account that it has locked: clear of INV-AGT-8 for as long as the transaction lasts. What is owed
/// back comes first.
pub async fn payable(
    tx: &mut Tx,
    (agent, currency): (UserId, Currency),
    before: OffsetDateTime,
    most: i64,
) -> Result<Vec<Accrual>, ::db::Error> {
    // Whoever changes a deal holds its row and then waits for the account, so from here on nobody may wait for a deal: what has
    // become payable since this transaction waited, and is being changed already, waits for the next run.
    let payable = diesel::sql_query(
        "select accrual.* from accrual cross join lateral ( \
            select from deal where deal.id = accrual.deal_id and held_since is null for share skip locked \
         ) as free \
         where agent_user_id = $1 and currency = $2 and status = 'Approved' \
            and payout_id is null and approved_at < $3 \
         order by (amount >= 0), approved_at, accrual.id limit $4",
    );
    let payable = payable.bind::<SqlUuid, _>(agent).bind::<Text, _>(currency);
    let payable = payable.bind::<Timestamptz, _>(before).bind::<BigInt, _>(most);
    Ok(Cached(payable).load(tx.conn()).await?)
}
