//! The accruals of a sale, and the lock of its deal.

use std::collections::HashMap;

use ::db::{Prepared, Tx};
use auth::UserId;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use values::Currency;

use crate::domain::{Accrual, AccrualId, DealId, Sale};
use crate::schema::{accrual, deal};

/// The immutable columns of an accrual that identify its sale and its account.
#[derive(Clone, Copy, Debug, Queryable, Selectable)]
#[diesel(table_name = accrual, check_for_backend(Pg))]
pub struct SaleKey {
    pub deal_id: DealId,
    pub sale_row_version: i64,
    pub agent_user_id: UserId,
    pub currency: Currency,
}

pub async fn find_key(tx: &mut Tx, id: AccrualId) -> Result<Option<SaleKey>, ::db::Error> {
    let key = accrual::table.find(id).select(SaleKey::as_select());
    Ok(key.first(tx.conn()).await.optional()?)
}

pub async fn load_accrual(tx: &mut Tx, id: AccrualId) -> Result<Accrual, ::db::Error> {
    Ok(accrual::table.find(id).select(Accrual::as_select()).first(tx.conn()).await?)
}

/// Locks the deal of a sale. A transaction locks deals before accounts.
///
/// Returns the deal's amount at its completion, or `None` for a deal that is not completed.
pub async fn lock_deal(tx: &mut Tx, deal: DealId) -> Result<Option<i64>, ::db::Error> {
    let lock = deal::table.find(deal).select(deal::completed_amount).for_no_key_update();
    Ok(lock.get_result(tx.conn()).await?)
}

/// Returns the accruals of several sales by deal, in the order of their creation. `sales` has at
/// most one sale of each deal.
pub async fn read_all(
    tx: &mut Tx,
    sales: impl IntoIterator<Item = (DealId, i64)>,
) -> Result<HashMap<DealId, Sale>, ::db::Error> {
    let (deals, versions): (Vec<_>, Vec<_>) = sales.into_iter().unzip();
    if deals.is_empty() {
        return Ok(HashMap::new());
    }
    let read = diesel::sql_query(
        "select accrual.* from unnest($1, $2) as sale (deal, version) \
         join accrual on accrual.deal_id = sale.deal and accrual.sale_row_version = sale.version \
         order by accrual.created_at, accrual.id",
    );
    let read = read.bind::<Array<SqlUuid>, _>(deals).bind::<Array<BigInt>, _>(versions);
    let mut accruals: HashMap<DealId, Vec<Accrual>> = HashMap::new();
    for accrual in Prepared(read).load::<Accrual>(tx.conn()).await? {
        accruals.entry(accrual.deal_id).or_default().push(accrual);
    }
    Ok(accruals.into_iter().map(|(deal, accruals)| (deal, Sale::new(accruals))).collect())
}

/// Returns the accruals of a sale in the order of their creation.
pub async fn read(tx: &mut Tx, deal: DealId, sale_row_version: i64) -> Result<Sale, ::db::Error> {
    let accruals = accrual::table
        .filter(accrual::deal_id.eq(deal))
        .filter(accrual::sale_row_version.eq(sale_row_version))
        .select(Accrual::as_select())
        .order((accrual::created_at, accrual::id));
    Ok(Sale::new(accruals.load(tx.conn()).await?))
}
