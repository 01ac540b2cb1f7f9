//! Favorites of a user.

use ::db::{Conn, Prepared, Tx};
use ::web::{Page, Paging, SortKey};
use auth::UserId;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde::Serialize;
use service::list;
use strum::{EnumString, VariantNames};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::PropertyObjectId;
use crate::schema::favorite;

/// A property object that a user marked.
#[derive(Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = favorite, check_for_backend(diesel::pg::Pg))]
#[serde(rename_all = "PascalCase")]
pub struct FavoriteView {
    pub property_object_id: PropertyObjectId,
    #[serde(with = "time::serde::rfc3339")]
    pub added_at: OffsetDateTime,
}

/// Sort keys of the list.
#[derive(Clone, Copy, Debug, EnumString, VariantNames)]
pub enum FavoriteSort {
    AddedAt,
}

impl SortKey for FavoriteSort {
    const DEFAULT: &'static str = "-AddedAt";
}

/// Inserts a favorite. Returns false if the object is already marked.
pub async fn insert(
    tx: &mut Tx,
    owner: UserId,
    object: PropertyObjectId,
    now: OffsetDateTime,
) -> Result<bool, ::db::Error> {
    let insert = diesel::insert_into(favorite::table)
        .values((
            favorite::owner_user_id.eq(owner),
            favorite::property_object_id.eq(object),
            favorite::added_at.eq(now),
        ))
        .on_conflict_do_nothing();
    let inserted = Prepared(insert).execute(tx.conn()).await?;
    Ok(inserted == 1)
}

/// Deletes a favorite. Returns false if the object is not marked.
pub async fn delete(tx: &mut Tx, owner: UserId, object: PropertyObjectId) -> Result<bool, ::db::Error> {
    let deleted = diesel::delete(favorite::table.find((owner, object))).execute(tx.conn()).await?;
    Ok(deleted == 1)
}

/// Returns all favorites in the order in which they were marked, ties by id.
pub async fn find_all(conn: &mut Conn, owner: UserId) -> Result<Vec<PropertyObjectId>, ::db::Error> {
    let ids = favorite::table
        .filter(favorite::owner_user_id.eq(owner))
        .order((favorite::added_at, favorite::property_object_id))
        .select(favorite::property_object_id)
        .load(conn)
        .await?;
    Ok(ids)
}

/// Returns one page of the favorites.
pub async fn list(
    conn: &Conn,
    owner: UserId,
    paging: &Paging<FavoriteSort>,
) -> Result<Page<FavoriteView>, ::db::Error> {
    let own = || favorite::table.filter(favorite::owner_user_id.eq(owner));
    let order = match paging.sort {
        FavoriteSort::AddedAt => list::order_by(paging, favorite::added_at),
    };
    let sorted = own().select(FavoriteView::as_select()).order((order, favorite::property_object_id));
    Ok(list::page(conn, paging, sorted, own().select(favorite::property_object_id)).await?)
}
