//! Queries on buildings for managers, with writes and locks.

use ::db::{Conn, Prepared, Tx};
use auth::CompanyId;
use diesel::dsl::{exists, max};
use diesel::prelude::*;
use diesel::sql_types::{Array, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use super::external_id::map_taken_external_id;
use crate::domain::{Building, BuildingId, ExternalId, Floor, ProjectId, Section};
use crate::error::{CONFLICT, Error};
use crate::schema::{building, property_object};

/// Inserts a building.
///
/// # Errors
/// [`EXTERNAL_ID_TAKEN`](crate::error::EXTERNAL_ID_TAKEN) if another building has the external id.
pub async fn insert(tx: &mut Tx, new: &Building) -> Result<(), Error> {
    let inserted = Prepared(diesel::insert_into(building::table).values(new)).execute(tx.conn()).await;
    inserted.map_err(::db::Error::from).map_err(map_taken_external_id)?;
    Ok(renew_figures(tx, vec![new.id]).await?)
}

/// Recomputes the figures of buildings that this transaction has inserted, or whose objects it has
/// written.
pub async fn renew_figures(tx: &mut Tx, ids: Vec<BuildingId>) -> Result<(), ::db::Error> {
    let renew = diesel::sql_query("select renew_building_figures(id) from unnest($1) as id");
    Prepared(renew.bind::<Array<SqlUuid>, _>(ids)).execute(tx.conn()).await?;
    Ok(())
}

pub async fn look_up(mut conn: &Conn, project: ProjectId, id: BuildingId) -> QueryResult<Option<Building>> {
    live(project, id).select(Building::as_select()).first(&mut conn).await.optional()
}

/// Returns the live buildings of a project by name.
pub async fn list_by_project(mut conn: &Conn, project: ProjectId) -> QueryResult<Vec<Building>> {
    building::table
        .filter(building::project_id.eq(project))
        .filter(building::deleted_at.is_null())
        .order((diesel::dsl::sql::<Text>("name collate \"C\""), building::id))
        .select(Building::as_select())
        .load(&mut conn)
        .await
}

/// Returns the number of live buildings of a project.
pub async fn count(tx: &mut Tx, project: ProjectId) -> Result<i64, ::db::Error> {
    let rows =
        building::table.filter(building::project_id.eq(project)).filter(building::deleted_at.is_null());
    Ok(rows.count().get_result(tx.conn()).await?)
}

/// Returns the committed version without waiting for concurrent writers.
///
/// An update without a version expects this one. It therefore conflicts with a writer that changes
/// the building while the update waits for the lock.
pub async fn find_version(
    conn: &mut Conn,
    project: ProjectId,
    id: BuildingId,
) -> Result<Option<i64>, ::db::Error> {
    Ok(live(project, id).select(building::version).first(conn).await.optional()?)
}

/// Returns a live building of a developer.
pub async fn find(
    conn: &mut Conn,
    tenant: CompanyId,
    id: BuildingId,
) -> Result<Option<Building>, ::db::Error> {
    let row = building::table.find(id).filter(building::tenant_id.eq(tenant));
    let row = row.filter(building::deleted_at.is_null()).select(Building::as_select());
    Ok(row.first(conn).await.optional()?)
}

/// Returns the live building of a developer with an external id.
pub async fn look_up_by_external_id(
    mut conn: &Conn,
    tenant: CompanyId,
    id: &ExternalId,
) -> QueryResult<Option<Building>> {
    with_external_id(tenant, id.clone()).select(Building::as_select()).first(&mut conn).await.optional()
}

/// Locks the live building of a developer with an external id for writing until the transaction
/// ends.
pub async fn lock_by_external_id(
    tx: &mut Tx,
    tenant: CompanyId,
    id: &ExternalId,
) -> Result<Option<Building>, ::db::Error> {
    let row = with_external_id(tenant, id.clone()).select(Building::as_select()).for_no_key_update();
    Ok(row.first(tx.conn()).await.optional()?)
}

/// Locks the building for writing until the transaction ends.
pub async fn lock(tx: &mut Tx, project: ProjectId, id: BuildingId) -> Result<Option<Building>, ::db::Error> {
    Ok(live(project, id)
        .select(Building::as_select())
        .for_no_key_update()
        .first(tx.conn())
        .await
        .optional()?)
}

/// Returns the highest section and the highest floor of the live objects.
pub async fn find_extent(tx: &mut Tx, id: BuildingId) -> Result<Option<(Section, Floor)>, ::db::Error> {
    let objects = property_object::table
        .filter(property_object::building_id.eq(id))
        .filter(property_object::removed_at.is_null())
        .select((max(property_object::section), max(property_object::floor)));
    let (section, floor): (Option<Section>, Option<Floor>) = objects.get_result(tx.conn()).await?;
    Ok(section.zip(floor))
}

/// Returns true if a deal holds an object of the building.
pub async fn has_held_object(tx: &mut Tx, id: BuildingId) -> Result<bool, ::db::Error> {
    let held = property_object::table
        .filter(property_object::building_id.eq(id))
        .filter(property_object::hold_deal_id.is_not_null());
    Ok(diesel::select(exists(held)).get_result(tx.conn()).await?)
}

/// Writes the mutable columns and raises the version of the row and of `changed`.
///
/// # Errors
/// - [`CONFLICT`] if the row no longer has the version that was read.
/// - [`EXTERNAL_ID_TAKEN`](crate::error::EXTERNAL_ID_TAKEN) if another building has the external
///   id.
pub async fn save(tx: &mut Tx, changed: &mut Building) -> Result<(), Error> {
    let row = building::table.find(changed.id).filter(building::version.eq(changed.version));
    let save = diesel::update(row).set((
        &changed.facts,
        building::external_id.eq(&changed.external_id),
        building::updated_at.eq(changed.updated_at),
        building::deleted_at.eq(changed.deleted_at),
        building::version.eq(changed.version + 1),
    ));
    let saved = Prepared(save).execute(tx.conn()).await;
    if saved.map_err(::db::Error::from).map_err(map_taken_external_id)? == 0 {
        return Err(CONFLICT.into());
    }
    changed.version += 1;
    Ok(())
}

#[diesel::dsl::auto_type(no_type_alias)]
fn live(project: ProjectId, id: BuildingId) -> _ {
    building::table.find(id).filter(building::project_id.eq(project)).filter(building::deleted_at.is_null())
}

#[diesel::dsl::auto_type(no_type_alias)]
fn with_external_id(tenant: CompanyId, id: ExternalId) -> _ {
    building::table
        .filter(building::tenant_id.eq(tenant))
        .filter(building::external_id.eq(id))
        .filter(building::deleted_at.is_null())
}
