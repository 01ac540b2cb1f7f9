//! Counters of an owner's selections and favorites.
//!
//! Each statement locks the row of the owner, so that the limits hold under concurrent requests.

use ::db::{Prepared, Tx};
use auth::UserId;
use diesel::prelude::*;
use diesel::query_dsl::methods::FilterDsl;
use diesel::upsert::excluded;
use diesel_async::RunQueryDsl;

use crate::domain::{MAX_FAVORITES, MAX_SELECTIONS};
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
