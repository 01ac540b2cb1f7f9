//! Places in an owner's allowance, taken and given back under the lock of the owner's row, so that
//! the limits hold whatever races.

use ::db::{Cached, Tx};
use auth::UserId;
use diesel::prelude::*;
use diesel::query_dsl::methods::FilterDsl;
use diesel::upsert::excluded;
use diesel_async::RunQueryDsl;

use super::schema::owner;
use crate::domain::{MAX_FAVORITES, MAX_SELECTIONS};

/// Takes a place for a selection; `false` when there is none (INV-SEL-007).
pub async fn take_selection(tx: &mut Tx, user_id: UserId) -> Result<bool, ::db::Error> {
    let take = diesel::insert_into(owner::table)
        .values((owner::user_id.eq(user_id), owner::selections_count.eq(1)))
        .on_conflict(owner::user_id)
        .do_update()
        .set(owner::selections_count.eq(owner::selections_count + excluded(owner::selections_count)))
        .filter(owner::selections_count.lt(i32::from(MAX_SELECTIONS)));
    let taken = Cached(take).execute(tx.conn()).await?;
    Ok(taken == 1)
}

pub async fn give_back_selection(tx: &mut Tx, user_id: UserId) -> Result<(), ::db::Error> {
    let give_back = diesel::update(owner::table.find(user_id))
        .set(owner::selections_count.eq(owner::selections_count - 1));
    Cached(give_back).execute(tx.conn()).await?;
    Ok(())
}

/// Takes a place for a favorite; `false` when there is none.
pub async fn take_favorite(tx: &mut Tx, user_id: UserId) -> Result<bool, ::db::Error> {
    let take = diesel::insert_into(owner::table)
        .values((owner::user_id.eq(user_id), owner::favorites_count.eq(1)))
        .on_conflict(owner::user_id)
        .do_update()
        .set(owner::favorites_count.eq(owner::favorites_count + excluded(owner::favorites_count)))
        .filter(owner::favorites_count.lt(i32::from(MAX_FAVORITES)));
    let taken = Cached(take).execute(tx.conn()).await?;
    Ok(taken == 1)
}

pub async fn give_back_favorite(tx: &mut Tx, user_id: UserId) -> Result<(), ::db::Error> {
    let give_back =
        diesel::update(owner::table.find(user_id)).set(owner::favorites_count.eq(owner::favorites_count - 1));
    Cached(give_back).execute(tx.conn()).await?;
    Ok(())
}
