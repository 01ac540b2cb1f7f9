//! Replica of chessboard's property objects.

use std::collections::HashMap;

use ::db::{Conn, Json, Prepared, Tx};
use diesel::prelude::*;
use diesel::upsert::excluded;
use diesel_async::RunQueryDsl;

use super::schema::property_object;
use crate::domain::{PropertyObjectId, ShownObject};

/// Stores the public data of an object if `version` is above the stored one.
pub async fn upsert(
    tx: &mut Tx,
    id: PropertyObjectId,
    version: i64,
    shown: ShownObject,
) -> Result<(), ::db::Error> {
    use diesel::query_dsl::methods::FilterDsl;

    let upsert = diesel::insert_into(property_object::table)
        .values((
            property_object::id.eq(id),
            property_object::version.eq(version),
            property_object::shown.eq(Json(shown)),
        ))
        .on_conflict(property_object::id)
        .do_update()
        .set((
            property_object::version.eq(excluded(property_object::version)),
            property_object::shown.eq(excluded(property_object::shown)),
        ))
        .filter(property_object::version.lt(excluded(property_object::version)));
    Prepared(upsert).execute(tx.conn()).await?;
    Ok(())
}

/// Returns the public data of the objects of `ids` that the replica has.
pub async fn find_shown(
    conn: &mut Conn,
    ids: impl IntoIterator<Item = PropertyObjectId>,
) -> Result<HashMap<PropertyObjectId, ShownObject>, ::db::Error> {
    let ids: Vec<PropertyObjectId> = ids.into_iter().collect();
    let rows: Vec<(PropertyObjectId, Json<ShownObject>)> = property_object::table
        .filter(property_object::id.eq_any(ids))
        .select((property_object::id, property_object::shown))
        .load(conn)
        .await?;
    Ok(rows.into_iter().map(|(id, Json(shown))| (id, shown)).collect())
}
