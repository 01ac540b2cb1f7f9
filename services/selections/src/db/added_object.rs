//! The data of objects when they were added to a selection.

use std::collections::HashMap;

use ::db::{Conn, Json, Prepared, Tx};
use diesel::prelude::*;
use diesel::sql_types::{Array, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use values::{Currency, Money};

use crate::domain::{AddedObject, Item, PropertyObjectId, SelectionId, ShownObject};
use crate::schema::{added_object, property_object};

const RECORD: &str = "\
    insert into added_object (selection_id, property_object_id, status, amount_minor, currency) \
    select $1, id, shown->>'Status', (shown->'Price'->>'AmountMinor')::bigint, shown->'Price'->>'Currency' \
    from property_object where id = any($2) and is_public";

/// Records the present data of the added objects that are public.
pub async fn record(tx: &mut Tx, selection: SelectionId, added: &[Item]) -> Result<(), ::db::Error> {
    if added.is_empty() {
        return Ok(());
    }
    let ids: Vec<PropertyObjectId> = added.iter().map(|item| item.property_object_id).collect();
    let record = diesel::sql_query(RECORD).bind::<SqlUuid, _>(selection).bind::<Array<SqlUuid>, _>(ids);
    Prepared(record).execute(tx.conn()).await?;
    Ok(())
}

/// Deletes the data of the objects that are no longer in the list.
pub async fn retain(tx: &mut Tx, selection: SelectionId, items: &[Item]) -> Result<(), ::db::Error> {
    let ids: Vec<PropertyObjectId> = items.iter().map(|item| item.property_object_id).collect();
    let removed = added_object::table
        .filter(added_object::selection_id.eq(selection))
        .filter(added_object::property_object_id.ne_all(ids));
    diesel::delete(removed).execute(tx.conn()).await?;
    Ok(())
}

/// Returns the data of each recorded object when it was added, and its present data if it is
/// public.
pub async fn find_with_present(
    mut conn: &Conn,
    selection: SelectionId,
) -> QueryResult<HashMap<PropertyObjectId, (AddedObject, Option<ShownObject>)>> {
    type Row = (PropertyObjectId, Option<String>, Option<i64>, Option<Currency>, bool, Json<ShownObject>);

    let objects = added_object::table
        .inner_join(property_object::table.on(property_object::id.eq(added_object::property_object_id)))
        .filter(added_object::selection_id.eq(selection))
        .select((
            added_object::property_object_id,
            added_object::status,
            added_object::amount_minor,
            added_object::currency,
            property_object::is_public,
            property_object::shown,
        ));
    let rows: Vec<Row> = objects.load(&mut conn).await?;
    let to_entry = |(id, status, amount, currency, is_public, Json(shown)): Row| {
        let price = amount.zip(currency).map(|(amount_minor, currency)| Money { amount_minor, currency });
        (id, (AddedObject { status, price }, is_public.then_some(shown)))
    };
    Ok(rows.into_iter().map(to_entry).collect())
}
