//! The preview of an import: its buildings and their changes.

use std::collections::HashSet;

use ::db::{Conn, Json, Prepared, Tx};
use ::web::{CursorPage, CursorPaging};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::Json as SqlJson;
use diesel_async::RunQueryDsl;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::{BuildingId, FeedBuildingState, FeedImportId, ObjectNumber, ProjectId, PropertyObjectId};
use crate::schema::{building, feed_building, feed_change};

values::text_enum! {
    /// The change of an object in an import.
    pub enum FeedChangeKind {
        /// The object is new or restored.
        Created,
        Updated,
        /// The object is held, Booked or Sold, and stays as it is.
        Kept,
        /// No offer names the object, and it stays as it is.
        Missing,
    }
}

/// A field that an import changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct FieldChange {
    /// The name of the field, as in a property object. `Price` is in minor units.
    pub field: String,
    /// The value before. Null for a new object and for a missing value.
    pub from: Option<String>,
    /// The value after. Null for a missing value.
    pub to: Option<String>,
}

/// A building of an import.
#[derive(Clone, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = feed_building, check_for_backend(Pg))]
pub struct FeedBuilding {
    pub import_id: FeedImportId,
    pub building_id: BuildingId,
    pub building_version: i64,
    pub state: FeedBuildingState,
    pub offers_count: i32,
    pub rejected_count: i32,
    pub created_count: i32,
    pub updated_count: i32,
    pub unchanged_count: i32,
    pub kept_count: i32,
    pub missing_count: i32,
}

/// A change of an object.
#[derive(Debug, Serialize)]
pub struct NewChange {
    pub import_id: FeedImportId,
    pub building_id: BuildingId,
    pub position: usize,
    pub kind: FeedChangeKind,
    pub property_object_id: PropertyObjectId,
    pub number: ObjectNumber,
    pub external_id: Option<String>,
    pub fields: Vec<FieldChange>,
}

pub async fn insert_building(tx: &mut Tx, new: &FeedBuilding) -> Result<(), ::db::Error> {
    Prepared(diesel::insert_into(feed_building::table).values(new)).execute(tx.conn()).await?;
    Ok(())
}

/// Stores changes in one statement.
pub async fn insert_changes(tx: &mut Tx, changes: Vec<NewChange>) -> Result<(), ::db::Error> {
    if changes.is_empty() {
        return Ok(());
    }
    let insert = diesel::sql_query(
        "insert into feed_change select * from json_populate_recordset(null::feed_change, $1)",
    );
    Prepared(insert.bind::<SqlJson, _>(Json(changes))).execute(tx.conn()).await?;
    Ok(())
}

/// Returns the objects of a building that the preview shows as kept.
pub async fn list_kept(
    tx: &mut Tx,
    import: FeedImportId,
    building: BuildingId,
) -> Result<HashSet<PropertyObjectId>, ::db::Error> {
    let rows = feed_change::table
        .filter(feed_change::import_id.eq(import))
        .filter(feed_change::building_id.eq(building))
        .filter(feed_change::kind.eq(FeedChangeKind::Kept))
        .select(feed_change::property_object_id);
    let kept: Vec<PropertyObjectId> = rows.load(tx.conn()).await?;
    Ok(kept.into_iter().collect())
}

/// Returns the next building in one of these states, by id.
pub async fn find_in_state(
    tx: &mut Tx,
    import: FeedImportId,
    states: &[FeedBuildingState],
) -> Result<Option<FeedBuilding>, ::db::Error> {
    let rows = feed_building::table
        .filter(feed_building::import_id.eq(import))
        .filter(feed_building::state.eq_any(states))
        .order(feed_building::building_id)
        .select(FeedBuilding::as_select());
    Ok(rows.first(tx.conn()).await.optional()?)
}

pub async fn set_state(
    tx: &mut Tx,
    import: FeedImportId,
    building: BuildingId,
    state: FeedBuildingState,
) -> Result<(), ::db::Error> {
    let row = diesel::update(feed_building::table.find((import, building)));
    Prepared(row.set(feed_building::state.eq(state))).execute(tx.conn()).await?;
    Ok(())
}

/// Returns one page of the buildings of an import, by id, with their projects.
pub async fn list_buildings(
    mut conn: &Conn,
    import: FeedImportId,
    paging: &CursorPaging<BuildingId>,
) -> QueryResult<CursorPage<(FeedBuilding, ProjectId)>> {
    let mut rows = feed_building::table
        .inner_join(building::table.on(building::id.eq(feed_building::building_id)))
        .filter(feed_building::import_id.eq(import))
        .into_boxed();
    if let Some(after) = paging.after {
        rows = rows.filter(feed_building::building_id.gt(after));
    }
    let page = rows.order(feed_building::building_id).limit(paging.limit());
    let rows = page.select((FeedBuilding::as_select(), building::project_id)).load(&mut conn).await?;
    Ok(paging.page(rows, |(last, _): &(FeedBuilding, ProjectId)| last.building_id))
}

/// A change of an object as it is stored.
#[derive(Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = feed_change, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct StoredChange {
    #[serde(skip)]
    position: i32,
    pub kind: FeedChangeKind,
    /// The object. A new object gets another id when the import is applied.
    pub property_object_id: PropertyObjectId,
    pub number: String,
    pub external_id: Option<String>,
    #[schema(value_type = Vec<FieldChange>)]
    pub fields: Json<Vec<FieldChange>>,
}

/// Returns one page of the changes of a building.
pub async fn list_changes(
    mut conn: &Conn,
    import: FeedImportId,
    building: BuildingId,
    paging: &CursorPaging<i32>,
) -> QueryResult<CursorPage<StoredChange>> {
    let mut rows = feed_change::table
        .filter(feed_change::import_id.eq(import))
        .filter(feed_change::building_id.eq(building))
        .into_boxed();
    if let Some(after) = paging.after {
        rows = rows.filter(feed_change::position.gt(after));
    }
    let page = rows.order(feed_change::position).limit(paging.limit());
    let rows = page.select(StoredChange::as_select()).load(&mut conn).await?;
    Ok(paging.page(rows, |last| last.position))
}
