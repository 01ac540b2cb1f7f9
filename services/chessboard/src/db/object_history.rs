//! The history of prices and statuses of property objects.

use ::db::{Conn, Prepared, Tx};
use ::web::{CursorPage, CursorPaging};
use auth::UserId;
use diesel::sql_types::{Array, BigInt, Bool, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel::{QueryResult, QueryableByName};
use diesel_async::RunQueryDsl;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::{Currency, Money};

use crate::domain::{ObjectChange, ObjectStatus, PropertyObjectId};

/// Adds the changed prices and statuses to the history, in one statement (INV-OBJ-3, INV-OBJ-4).
pub async fn record(tx: &mut Tx, changes: &[ObjectChange]) -> Result<(), ::db::Error> {
    let (mut ids, mut versions, mut times, mut users) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut prices, mut currencies, mut have_prices) = (Vec::new(), Vec::new(), Vec::new());
    let (mut from, mut to) = (Vec::new(), Vec::new());
    for change in changes {
        let (object, statuses) = (&change.after, change.statuses());
        if !change.changes_price() && statuses.0 == statuses.1 {
            continue;
        }
        ids.push(object.id);
        versions.push(object.version);
        times.push(object.updated_at);
        users.push(object.updated_by_user_id);
        prices.push(object.facts.price.amount_minor.get());
        currencies.push(object.facts.price.currency);
        have_prices.push(change.changes_price());
        from.push(statuses.0);
        to.push(statuses.1);
    }
    if ids.is_empty() {
        return Ok(());
    }
    let insert = diesel::sql_query(
        "with change as ( \
            select * from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9) \
                as change (id, version, changed_at, user_id, price, currency, has_price, from_status, to_status) \
        ), priced as ( \
            insert into price_history (property_object_id, version, price, currency, changed_at, changed_by_user_id) \
            select id, version, price, currency, changed_at, user_id from change where has_price \
        ) \
        insert into status_history (property_object_id, version, from_status, to_status, changed_at, changed_by_user_id) \
        select id, version, from_status, to_status, changed_at, user_id from change \
        where from_status is distinct from to_status",
    )
    .bind::<Array<SqlUuid>, _>(ids)
    .bind::<Array<BigInt>, _>(versions)
    .bind::<Array<Timestamptz>, _>(times)
    .bind::<Array<Nullable<SqlUuid>>, _>(users)
    .bind::<Array<BigInt>, _>(prices)
    .bind::<Array<Text>, _>(currencies)
    .bind::<Array<Bool>, _>(have_prices)
    .bind::<Array<Nullable<Text>>, _>(from)
    .bind::<Array<Nullable<Text>>, _>(to);
    Prepared(insert).execute(tx.conn()).await?;
    Ok(())
}

/// The sort key of a history.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HistoryKey {
    version: i64,
}

/// A change of the price or the status of an object.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ObjectHistoryEntry {
    /// The object's version with this change.
    version: i64,
    /// The new price. Null if the price did not change.
    price: Option<Money>,
    /// The status before the change. Null if the object was new or removed, or if the status did
    /// not change.
    from: Option<ObjectStatus>,
    /// The status after the change. Null if the object was removed, or if the status did not
    /// change.
    to: Option<ObjectStatus>,
    /// The user who made the change. Null for a deal.
    actor_user_id: Option<UserId>,
    #[serde(with = "time::serde::rfc3339")]
    occurred_at: OffsetDateTime,
}

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = BigInt)]
    version: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    price: Option<i64>,
    #[diesel(sql_type = Nullable<Text>)]
    currency: Option<Currency>,
    #[diesel(sql_type = Nullable<Text>)]
    from_status: Option<ObjectStatus>,
    #[diesel(sql_type = Nullable<Text>)]
    to_status: Option<ObjectStatus>,
    #[diesel(sql_type = Nullable<SqlUuid>)]
    user_id: Option<UserId>,
    #[diesel(sql_type = Timestamptz)]
    changed_at: OffsetDateTime,
}

impl From<Row> for ObjectHistoryEntry {
    fn from(row: Row) -> Self {
        let price = row.price.zip(row.currency);
        Self {
            version: row.version,
            price: price.map(|(amount_minor, currency)| Money { amount_minor, currency }),
            from: row.from_status,
            to: row.to_status,
            actor_user_id: row.user_id,
            occurred_at: row.changed_at,
        }
    }
}

/// Returns one page of the history of an object, newest first.
pub async fn list(
    mut conn: &Conn,
    id: PropertyObjectId,
    paging: &CursorPaging<HistoryKey>,
) -> QueryResult<CursorPage<ObjectHistoryEntry>> {
    // The newest changes of both tables are among the newest of each one.
    const NEWEST: &str = "where property_object_id = $1 and version < $2 order by version desc limit $3";
    let rows = diesel::sql_query(format!(
        "select version, price, currency, from_status, to_status, \
            coalesce(prices.changed_by_user_id, statuses.changed_by_user_id) as user_id, \
            coalesce(prices.changed_at, statuses.changed_at) as changed_at \
        from (select * from price_history {NEWEST}) as prices \
            full join (select * from status_history {NEWEST}) as statuses using (version) \
        order by version desc limit $3"
    ))
    .bind::<SqlUuid, _>(id)
    .bind::<BigInt, _>(paging.after.as_ref().map_or(i64::MAX, |after| after.version))
    .bind::<BigInt, _>(paging.limit());
    let rows: Vec<Row> = Prepared(rows).load(&mut conn).await?;
    let entries = rows.into_iter().map(ObjectHistoryEntry::from).collect();
    Ok(paging.page(entries, |last: &ObjectHistoryEntry| HistoryKey { version: last.version }))
}
