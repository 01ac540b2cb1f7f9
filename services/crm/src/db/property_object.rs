//! The copy of property objects.

use ::db::{Prepared, Tx};
use diesel::prelude::*;
use diesel::upsert::excluded;
use diesel_async::RunQueryDsl;
use values::fold;

use crate::domain::PropertyObject;
use crate::schema::property_object;

/// Stores an object unless the stored version is at least as high.
pub async fn upsert(tx: &mut Tx, new: &PropertyObject) -> Result<(), ::db::Error> {
    use diesel::query_dsl::methods::FilterDsl;

    let latest = (
        property_object::tenant_id.eq(excluded(property_object::tenant_id)),
        property_object::project_name.eq(excluded(property_object::project_name)),
        property_object::building_name.eq(excluded(property_object::building_name)),
        property_object::number.eq(excluded(property_object::number)),
        property_object::price.eq(excluded(property_object::price)),
        property_object::currency.eq(excluded(property_object::currency)),
        property_object::status.eq(excluded(property_object::status)),
        property_object::version.eq(excluded(property_object::version)),
        property_object::folded_project_name.eq(excluded(property_object::folded_project_name)),
        property_object::folded_number.eq(excluded(property_object::folded_number)),
    );
    let upsert = diesel::insert_into(property_object::table)
        .values((
            new,
            property_object::folded_project_name.eq(fold(new.project_name.as_str())),
            property_object::folded_number.eq(fold(new.number.as_str())),
        ))
        .on_conflict(property_object::id)
        .do_update()
        .set(latest)
        .filter(property_object::version.lt(excluded(property_object::version)));
    Prepared(upsert).execute(tx.conn()).await?;
    Ok(())
}
