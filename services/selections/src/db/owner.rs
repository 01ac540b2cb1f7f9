//! Counters of a user's selections, favorites and added items.
//!
//! Each statement locks the row of the owner, so that the limits hold under concurrent requests.

use ::db::{Prepared, Tx};
use auth::UserId;
use diesel::prelude::*;
use diesel::query_dsl::methods::FilterDsl;
use diesel::sql_types::{Integer, Timestamptz, Uuid as SqlUuid};
use diesel::upsert::excluded;
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;

use crate::domain::{AddedItems, MAX_FAVORITES, MAX_SELECTIONS};
use crate::schema::owner;

/// Increments the number of selections. Returns false at the limit (INV-SEL-007).
pub async fn reserve_selection(tx: &mut Tx, user_id: UserId) -> Result<bool, ::db::Error> {
    let reserve = diesel::insert_into(owner::table)
        .values((owner::user_id.eq(user_id), owner::selections_count.eq(1)))
        .on_conflict(owner::user_id)
        .do_update()
        .set(owner::selections_count.eq(owner::selections_count + excluded(owner::selections_count)))
        .filter(owner::selections_count.lt(i32::from(MAX_SELECTIONS)));
    let reserved = Prepared(reserve).execute(tx.conn()).await?;
    Ok(reserved == 1)
}

/// Decrements the number of selections.
pub async fn release_selection(tx: &mut Tx, user_id: UserId) -> Result<(), ::db::Error> {
    let release = diesel::update(owner::table.find(user_id))
        .set(owner::selections_count.eq(owner::selections_count - 1));
    Prepared(release).execute(tx.conn()).await?;
    Ok(())
}

/// Locks the row of a user with whom selections are shared. Inserts it if there is none.
pub async fn lock(tx: &mut Tx, user_id: UserId) -> Result<(), ::db::Error> {
    let lock = diesel::insert_into(owner::table)
        .values(owner::user_id.eq(user_id))
        .on_conflict(owner::user_id)
        .do_update()
        .set(owner::user_id.eq(excluded(owner::user_id)));
    Prepared(lock).execute(tx.conn()).await?;
    Ok(())
}

/// Increments the number of favorites. Returns false at the limit.
pub async fn reserve_favorite(tx: &mut Tx, user_id: UserId) -> Result<bool, ::db::Error> {
    let reserve = diesel::insert_into(owner::table)
        .values((owner::user_id.eq(user_id), owner::favorites_count.eq(1)))
        .on_conflict(owner::user_id)
        .do_update()
        .set(owner::favorites_count.eq(owner::favorites_count + excluded(owner::favorites_count)))
        .filter(owner::favorites_count.lt(i32::from(MAX_FAVORITES)));
    let reserved = Prepared(reserve).execute(tx.conn()).await?;
    Ok(reserved == 1)
}

/// Decrements the number of favorites.
pub async fn release_favorite(tx: &mut Tx, user_id: UserId) -> Result<(), ::db::Error> {
    let release =
        diesel::update(owner::table.find(user_id)).set(owner::favorites_count.eq(owner::favorites_count - 1));
    Prepared(release).execute(tx.conn()).await?;
    Ok(())
}

#[derive(QueryableByName)]
struct AddedItemsRow {
    #[diesel(sql_type = Integer)]
    added_items_count: i32,
    #[diesel(sql_type = Timestamptz)]
    added_items_since: OffsetDateTime,
}

/// Counts the items that a user adds.
pub async fn count_added_items(
    tx: &mut Tx,
    user_id: UserId,
    added: i32,
    now: OffsetDateTime,
) -> Result<AddedItems, ::db::Error> {
    let count = diesel::sql_query(
        "insert into owner (user_id, added_items_count, added_items_since) values ($1, $2, $3) \
         on conflict (user_id) do update set \
             added_items_count = case when owner.added_items_since > $4 then owner.added_items_count else 0 end + $2, \
             added_items_since = case when owner.added_items_since > $4 then owner.added_items_since else $3 end \
         returning added_items_count, added_items_since",
    )
    .bind::<SqlUuid, _>(user_id)
    .bind::<Integer, _>(added)
    .bind::<Timestamptz, _>(now)
    .bind::<Timestamptz, _>(now - AddedItems::PERIOD);
    let row: AddedItemsRow = Prepared(count).get_result(tx.conn()).await?;
    Ok(AddedItems { count: row.added_items_count, since: row.added_items_since })
}
