//! Copy of chessboard's property objects.

use std::collections::{HashMap, HashSet};

use ::db::{Conn, Json, Prepared, Tx};
use diesel::prelude::*;
use diesel::upsert::excluded;
use diesel_async::RunQueryDsl;

use crate::domain::{ObjectCard, PropertyObjectId, ShownObject};
use crate::schema::property_object;

/// Stores the data of an object if `version` is above the stored one.
pub async fn upsert(
    tx: &mut Tx,
    id: PropertyObjectId,
    version: i64,
    is_public: bool,
    card: ObjectCard,
) -> Result<(), ::db::Error> {
    use diesel::query_dsl::methods::FilterDsl;

    let upsert = diesel::insert_into(property_object::table)
        .values((
            property_object::id.eq(id),
            property_object::version.eq(version),
            property_object::is_public.eq(is_public),
            property_object::shown.eq(Json(card)),
        ))
        .on_conflict(property_object::id)
        .do_update()
        .set((
            property_object::version.eq(excluded(property_object::version)),
            property_object::is_public.eq(excluded(property_object::is_public)),
            property_object::shown.eq(excluded(property_object::shown)),
        ))
        .filter(property_object::version.lt(excluded(property_object::version)));
    Prepared(upsert).execute(tx.conn()).await?;
    Ok(())
}

/// Returns the data of the objects of `ids` that are public (INV-DEV-6).
pub async fn find_shown(
    conn: &mut Conn,
    ids: impl IntoIterator<Item = PropertyObjectId>,
) -> Result<HashMap<PropertyObjectId, ShownObject>, ::db::Error> {
    let ids: Vec<PropertyObjectId> = ids.into_iter().collect();
    let rows: Vec<(PropertyObjectId, Json<ShownObject>)> = property_object::table
        .filter(property_object::id.eq_any(ids))
        .filter(property_object::is_public)
        .select((property_object::id, property_object::shown))
        .load(conn)
        .await?;
    Ok(rows.into_iter().map(|(id, Json(shown))| (id, shown)).collect())
}

/// Returns the cards of the objects of `ids` that are public (INV-DEV-6).
pub async fn find_cards(
    mut conn: &Conn,
    ids: impl IntoIterator<Item = PropertyObjectId>,
) -> QueryResult<HashMap<PropertyObjectId, ObjectCard>> {
    let ids: Vec<PropertyObjectId> = ids.into_iter().collect();
    let public = property_object::table
        .filter(property_object::id.eq_any(ids))
        .filter(property_object::is_public)
        .select((property_object::id, property_object::shown));
    let rows: Vec<(PropertyObjectId, Json<ObjectCard>)> = public.load(&mut conn).await?;
    Ok(rows.into_iter().map(|(id, Json(card))| (id, card)).collect())
}

/// Returns the objects of `ids` that are public now. An object that the copy does not have is
/// not public.
pub async fn find_public(
    conn: &mut Conn,
    ids: impl IntoIterator<Item = PropertyObjectId>,
) -> Result<HashSet<PropertyObjectId>, ::db::Error> {
    let ids: Vec<PropertyObjectId> = ids.into_iter().collect();
    let public: Vec<PropertyObjectId> = property_object::table
        .filter(property_object::id.eq_any(ids))
        .filter(property_object::is_public)
        .select(property_object::id)
        .load(conn)
        .await?;
    Ok(public.into_iter().collect())
}
