//! Queries on property objects for managers, deals and jobs, with writes and locks.

use ::db::{Conn, Json, Prepared, Tx};
use auth::{CompanyId, UserId};
use diesel::prelude::*;
use diesel::sql_types::Json as SqlJson;
use diesel_async::RunQueryDsl;
use serde::Serialize;
use time::OffsetDateTime;
use uuid::Uuid;
use values::Currency;

use super::ancestors::ObjectLocation;
use super::external_id::map_taken_external_id;
use super::propagation::{Propagation, Scope};
use crate::domain::{
    Area, BuildingId, BuildingName, DealId, ExternalId, FileId, Finishing, Floor, ObjectKind, ObjectNumber,
    ObjectStatus, Position, ProjectId, ProjectName, PropertyObject, PropertyObjectId, Rooms, Section,
};
use crate::error::{Error, PROPERTY_OBJECT_NUMBER_TAKEN};
use crate::schema::{building, property_object};

/// Returns the live objects of a building in the order of a grid.
pub async fn list_by_building(mut conn: &Conn, building: BuildingId) -> QueryResult<Vec<PropertyObject>> {
    property_object::table
        .filter(property_object::building_id.eq(building))
        .filter(property_object::removed_at.is_null())
        .order((
            property_object::section,
            property_object::floor.desc(),
            property_object::position_on_floor,
            property_object::number,
        ))
        .select(PropertyObject::as_select())
        .load(&mut conn)
        .await
}

/// Returns the number of live objects of a building.
pub async fn count(mut conn: &Conn, building: BuildingId) -> QueryResult<i64> {
    property_object::table
        .filter(property_object::building_id.eq(building))
        .filter(property_object::removed_at.is_null())
        .count()
        .get_result(&mut conn)
        .await
}

/// Returns the live objects of a building, and those removed objects that have one of these
/// numbers.
pub async fn find_for_grid(
    tx: &mut Tx,
    building: BuildingId,
    numbers: &[ObjectNumber],
) -> Result<Vec<PropertyObject>, ::db::Error> {
    let listed = property_object::number.eq_any(numbers);
    let rows = property_object::table
        .filter(property_object::building_id.eq(building))
        .filter(property_object::removed_at.is_null().or(listed))
        .select(PropertyObject::as_select());
    Ok(rows.load(tx.conn()).await?)
}

/// Returns the live objects of the developer's live buildings with these external ids, and all
/// objects of the building with these numbers.
pub async fn find_for_upsert(
    conn: &mut Conn,
    tenant: CompanyId,
    building: BuildingId,
    external_ids: &[ExternalId],
    numbers: &[ObjectNumber],
) -> Result<Vec<PropertyObject>, ::db::Error> {
    let named = property_object::tenant_id.eq(tenant).and(property_object::external_id.eq_any(external_ids));
    let numbered = property_object::building_id.eq(building).and(property_object::number.eq_any(numbers));
    let rows = property_object::table
        .inner_join(building::table.on(building::id.eq(property_object::building_id)))
        .filter(building::deleted_at.is_null())
        .filter(named.or(numbered.nullable()))
        .select(PropertyObject::as_select());
    Ok(rows.load(conn).await?)
}

/// Returns the live object of a developer with an external id, in a live building. A removed object
/// has no external id.
pub async fn look_up_by_external_id(
    mut conn: &Conn,
    tenant: CompanyId,
    id: &ExternalId,
) -> QueryResult<Option<PropertyObject>> {
    let row = property_object::table
        .inner_join(building::table.on(building::id.eq(property_object::building_id)))
        .filter(building::deleted_at.is_null())
        .filter(property_object::tenant_id.eq(tenant))
        .filter(property_object::external_id.eq(id));
    row.select(PropertyObject::as_select()).first(&mut conn).await.optional()
}

/// Removes these external ids from objects of deleted buildings, and from the objects `changed`.
/// The transaction then writes the objects `changed`, some of them with other external ids.
pub async fn free_external_ids(
    tx: &mut Tx,
    tenant: CompanyId,
    external_ids: &[&ExternalId],
    changed: &[PropertyObjectId],
) -> Result<(), ::db::Error> {
    let is_free = building::deleted_at.is_not_null().or(property_object::id.eq_any(changed));
    let owners = property_object::table
        .inner_join(building::table.on(building::id.eq(property_object::building_id)))
        .filter(property_object::tenant_id.eq(tenant))
        .filter(property_object::external_id.eq_any(external_ids))
        .filter(is_free)
        .order(property_object::id)
        .select(property_object::id)
        .for_no_key_update();
    let owners: Vec<PropertyObjectId> = owners.load(tx.conn()).await?;
    if !owners.is_empty() {
        let rows = property_object::table.filter(property_object::id.eq_any(owners));
        let free = diesel::update(rows).set(property_object::external_id.eq(None::<ExternalId>));
        Prepared(free).execute(tx.conn()).await?;
    }
    Ok(())
}

/// Returns a live object of a building.
pub async fn find(
    conn: &mut Conn,
    building: BuildingId,
    id: PropertyObjectId,
) -> Result<Option<PropertyObject>, ::db::Error> {
    let row = property_object::table
        .find(id)
        .filter(property_object::building_id.eq(building))
        .filter(property_object::removed_at.is_null());
    Ok(row.select(PropertyObject::as_select()).first(conn).await.optional()?)
}

/// Returns the location of an object of a developer, which may be removed.
pub async fn look_up_location(
    mut conn: &Conn,
    tenant: CompanyId,
    id: PropertyObjectId,
) -> QueryResult<Option<ObjectLocation>> {
    let row = property_object::table.find(id).filter(property_object::tenant_id.eq(tenant)).select(LOCATION);
    Ok(row.first(&mut conn).await.optional()?.map(location))
}

/// Returns the locations of these objects. Unknown objects are left out.
pub async fn find_locations(
    tx: &mut Tx,
    ids: &[PropertyObjectId],
) -> Result<Vec<ObjectLocation>, ::db::Error> {
    let rows = property_object::table.filter(property_object::id.eq_any(ids)).select(LOCATION);
    Ok(rows.load(tx.conn()).await?.into_iter().map(location).collect())
}

/// Returns the locations of the next live objects of a propagation, by id.
pub async fn list_next(
    tx: &mut Tx,
    propagation: &Propagation,
    limit: i64,
) -> Result<Vec<ObjectLocation>, ::db::Error> {
    let live = property_object::table.filter(property_object::removed_at.is_null()).into_boxed();
    let all = match propagation.scope {
        Scope::Developer => live.filter(property_object::tenant_id.eq(propagation.scope_id)),
        Scope::Project => live.filter(property_object::project_id.eq(propagation.scope_id)),
        Scope::Building => live.filter(property_object::building_id.eq(propagation.scope_id)),
    };
    let rest = match propagation.published_to {
        None => all,
        Some(published_to) => all.filter(property_object::id.gt(published_to)),
    };
    let rows = rest.order(property_object::id).limit(limit).select(LOCATION).load(tx.conn()).await?;
    Ok(rows.into_iter().map(location).collect())
}

const LOCATION: (
    property_object::tenant_id,
    property_object::project_id,
    property_object::building_id,
    property_object::id,
) = (
    property_object::tenant_id,
    property_object::project_id,
    property_object::building_id,
    property_object::id,
);

fn location(
    (tenant_id, project_id, building_id, id): (CompanyId, ProjectId, BuildingId, PropertyObjectId),
) -> ObjectLocation {
    ObjectLocation { tenant_id, project_id, building_id, id }
}

/// Locks the objects for writing until the transaction ends, in the order of their ids.
pub async fn lock(tx: &mut Tx, ids: &[PropertyObjectId]) -> Result<Vec<PropertyObject>, ::db::Error> {
    let rows = property_object::table
        .filter(property_object::id.eq_any(ids))
        .order(property_object::id)
        .select(PropertyObject::as_select())
        .for_no_key_update();
    Ok(rows.load(tx.conn()).await?)
}

/// Returns the objects with these ids, sorted by id.
pub async fn list_by_ids(conn: &mut Conn, ids: &[Uuid]) -> Result<Vec<PropertyObject>, ::db::Error> {
    let rows = property_object::table.filter(property_object::id.eq_any(ids)).order(property_object::id);
    Ok(rows.select(PropertyObject::as_select()).load(conn).await?)
}

/// A row of the table as a JSON document.
#[derive(Debug, Serialize)]
struct Row<'o> {
    id: PropertyObjectId,
    building_id: BuildingId,
    project_id: ProjectId,
    tenant_id: CompanyId,
    external_id: Option<&'o ExternalId>,
    number: &'o ObjectNumber,
    kind: ObjectKind,
    section: Section,
    floor: Floor,
    position_on_floor: Position,
    rooms: Option<Rooms>,
    is_studio: bool,
    area_total: i32,
    area_living: Option<i32>,
    area_kitchen: Option<i32>,
    finishing: Finishing,
    price: i64,
    currency: Currency,
    layout_file_id: Option<FileId>,
    status: ObjectStatus,
    own_status: ObjectStatus,
    hold_deal_id: Option<DealId>,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    updated_at: OffsetDateTime,
    updated_by_user_id: Option<UserId>,
    #[serde(with = "time::serde::rfc3339::option")]
    removed_at: Option<OffsetDateTime>,
    version: i64,
    published_project_name: &'o ProjectName,
    published_building_name: &'o BuildingName,
    published_is_live: bool,
    published_is_public: bool,
}

/// Columns that an update leaves unchanged.
const IMMUTABLE_COLUMNS: &str = "id, building_id, project_id, tenant_id, created_at";
const MUTABLE_COLUMNS: &str = "external_id, number, kind, section, floor, position_on_floor, rooms, is_studio, area_total, area_living, \
    area_kitchen, finishing, price, currency, layout_file_id, status, own_status, hold_deal_id, updated_at, \
    updated_by_user_id, removed_at, version, published_project_name, published_building_name, published_is_live, published_is_public";

impl<'o> Row<'o> {
    fn new(object: &'o PropertyObject) -> Self {
        let facts = &object.facts;
        Self {
            id: object.id,
            building_id: object.building_id,
            project_id: object.project_id,
            tenant_id: object.tenant_id,
            external_id: object.external_id.as_ref(),
            number: &facts.number,
            kind: facts.kind,
            section: facts.section,
            floor: facts.floor,
            position_on_floor: facts.position_on_floor,
            rooms: facts.rooms,
            is_studio: facts.is_studio,
            area_total: facts.area_total.units(),
            area_living: facts.area_living.map(Area::units),
            area_kitchen: facts.area_kitchen.map(Area::units),
            finishing: facts.finishing,
            price: facts.price.amount_minor.get(),
            currency: facts.price.currency,
            layout_file_id: facts.layout_file_id,
            status: object.status,
            own_status: object.own_status,
            hold_deal_id: object.hold_deal_id,
            created_at: object.created_at,
            updated_at: object.updated_at,
            updated_by_user_id: object.updated_by_user_id,
            removed_at: object.removed_at,
            version: object.version,
            published_project_name: &object.published.project_name,
            published_building_name: &object.published.building_name,
            published_is_live: object.published.is_live,
            published_is_public: object.published.is_public,
        }
    }
}

/// Inserts or updates objects in one statement. The transaction has locked the existing ones, or
/// their buildings for writing.
///
/// # Errors
/// [`PROPERTY_OBJECT_NUMBER_TAKEN`] or [`EXTERNAL_ID_TAKEN`](crate::error::EXTERNAL_ID_TAKEN) if
/// another object has the number or the external id.
pub async fn write<'o>(
    tx: &mut Tx,
    objects: impl IntoIterator<Item = &'o PropertyObject>,
) -> Result<(), Error> {
    let rows: Vec<_> = objects.into_iter().map(Row::new).collect();
    let write = diesel::sql_query(format!(
        "insert into property_object ({IMMUTABLE_COLUMNS}, {MUTABLE_COLUMNS}) \
         select {IMMUTABLE_COLUMNS}, {MUTABLE_COLUMNS} \
         from json_populate_recordset(null::property_object, $1) order by id \
         on conflict (id) do update set ({MUTABLE_COLUMNS}) = row({})",
        MUTABLE_COLUMNS
            .split(", ")
            .map(|column| format!("excluded.{}", column.trim()))
            .collect::<Vec<_>>()
            .join(", ")
    ));
    let written = Prepared(write.bind::<SqlJson, _>(Json(rows))).execute(tx.conn()).await;
    written.map_err(::db::Error::from).map_err(map_constraint)?;
    Ok(())
}

/// Maps a violated constraint to its code (INV-OBJ-1).
fn map_constraint(error: ::db::Error) -> Error {
    match error.violated_constraint() {
        Some("property_object_number") => PROPERTY_OBJECT_NUMBER_TAKEN.into(),
        _ => map_taken_external_id(error),
    }
}
