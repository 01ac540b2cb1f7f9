//! Property objects as they are stored, locked and found.

use ::db::{Cached, Conn, Json, Lookup, Tx};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Json as SqlJson, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use serde::Serialize;
use time::OffsetDateTime;
use uuid::Uuid;
use values::Currency;

use super::above::Place;
use super::propagation::{Propagation, Scope};
use super::schema::property_object;
use crate::domain::{
    Area, BuildingId, BuildingName, DealId, FileId, Finishing, Floor, ObjectKind, ObjectNumber, ObjectStatus,
    Position, ProjectId, ProjectName, PropertyObject, PropertyObjectId, Rooms, Section,
};
use crate::error::{Error, PROPERTY_OBJECT_NUMBER_TAKEN};

/// The objects of a building as its grid shows them: sections upwards, floors downwards, by place and number.
pub async fn of_building(mut conn: Lookup<'_>, building: BuildingId) -> QueryResult<Vec<PropertyObject>> {
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

/// How many objects a building has.
pub async fn count(mut conn: Lookup<'_>, building: BuildingId) -> QueryResult<i64> {
    property_object::table
        .filter(property_object::building_id.eq(building))
        .filter(property_object::removed_at.is_null())
        .count()
        .get_result(&mut conn)
        .await
}

/// The objects of a building that are live, and those of these numbers that were removed.
pub async fn standing(
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

/// An object that is live in a building.
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

/// Where these stand, of those that are known.
pub async fn places(tx: &mut Tx, ids: &[PropertyObjectId]) -> Result<Vec<Place>, ::db::Error> {
    let rows = property_object::table.filter(property_object::id.eq_any(ids)).select(PLACE);
    Ok(rows.load(tx.conn()).await?.into_iter().map(place).collect())
}

/// Where the next objects below something stand, by id.
pub async fn below(tx: &mut Tx, asked: &Propagation, limit: i64) -> Result<Vec<Place>, ::db::Error> {
    let live = property_object::table.filter(property_object::removed_at.is_null()).into_boxed();
    let below = match asked.scope {
        Scope::Developer => live.filter(property_object::tenant_id.eq(asked.scope_id)),
        Scope::Project => live.filter(property_object::project_id.eq(asked.scope_id)),
        Scope::Building => live.filter(property_object::building_id.eq(asked.scope_id)),
    };
    let rest = match asked.told_to {
        None => below,
        Some(told_to) => below.filter(property_object::id.gt(told_to)),
    };
    let rows = rest.order(property_object::id).limit(limit).select(PLACE).load(tx.conn()).await?;
    Ok(rows.into_iter().map(place).collect())
}

const PLACE: (
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

fn place(
    (tenant_id, project_id, building_id, id): (auth::CompanyId, ProjectId, BuildingId, PropertyObjectId),
) -> Place {
    Place { tenant_id, project_id, building_id, id }
}

/// These, by id, which are this transaction's to change until it ends.
pub async fn lock(tx: &mut Tx, ids: &[PropertyObjectId]) -> Result<Vec<PropertyObject>, ::db::Error> {
    let rows = property_object::table
        .filter(property_object::id.eq_any(ids))
        .order(property_object::id)
        .select(PropertyObject::as_select())
        .for_no_key_update();
    Ok(rows.load(tx.conn()).await?)
}

/// Those of `keys`, by id.
pub async fn all_of(conn: &mut Conn, keys: &[Uuid]) -> Result<Vec<PropertyObject>, ::db::Error> {
    let some = property_object::table.filter(property_object::id.eq_any(keys)).order(property_object::id);
    Ok(some.select(PropertyObject::as_select()).load(conn).await?)
}

/// A row as JSON has it.
#[derive(Debug, Serialize)]
struct Row<'o> {
    id: PropertyObjectId,
    building_id: BuildingId,
    project_id: ProjectId,
    tenant_id: auth::CompanyId,
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
    #[serde(with = "time::serde::rfc3339::option")]
    removed_at: Option<OffsetDateTime>,
    version: i64,
    told_project_name: &'o ProjectName,
    told_building_name: &'o BuildingName,
    told_is_live: bool,
    told_is_public: bool,
}

/// What a row is known by, and where it stands: this never changes.
const KEPT: &str = "id, building_id, project_id, tenant_id, created_at";
const CHANGED: &str = "number, kind, section, floor, position_on_floor, rooms, is_studio, area_total, area_living, \
    area_kitchen, finishing, price, currency, layout_file_id, status, own_status, hold_deal_id, updated_at, \
    removed_at, version, told_project_name, told_building_name, told_is_live, told_is_public";

impl<'o> Row<'o> {
    fn of(object: &'o PropertyObject) -> Self {
        let facts = &object.facts;
        Self {
            id: object.id,
            building_id: object.building_id,
            project_id: object.project_id,
            tenant_id: object.tenant_id,
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
            removed_at: object.removed_at,
            version: object.version,
            told_project_name: &object.told.project_name,
            told_building_name: &object.told.building_name,
            told_is_live: object.told.is_live,
            told_is_public: object.told.is_public,
        }
    }
}

/// Writes objects that are new or this transaction's to change: one statement, however many they are.
///
/// # Errors
/// [`PROPERTY_OBJECT_NUMBER_TAKEN`]
pub async fn write<'o>(
    tx: &mut Tx,
    objects: impl IntoIterator<Item = &'o PropertyObject>,
) -> Result<(), Error> {
    let rows: Vec<_> = objects.into_iter().map(Row::of).collect();
    let write = diesel::sql_query(format!(
        "insert into property_object ({KEPT}, {CHANGED}) \
         select {KEPT}, {CHANGED} from json_populate_recordset(null::property_object, $1) order by id \
         on conflict (id) do update set ({CHANGED}) = row({})",
        CHANGED
            .split(", ")
            .map(|column| format!("excluded.{}", column.trim()))
            .collect::<Vec<_>>()
            .join(", ")
    ));
    let written = Cached(write.bind::<SqlJson, _>(Json(rows))).execute(tx.conn()).await;
    written.map_err(::db::Error::from).map_err(number_taken)?;
    Ok(())
}

/// INV-OBJ-1
fn number_taken(error: ::db::Error) -> Error {
    match error.violated_constraint() {
        Some("property_object_number") => PROPERTY_OBJECT_NUMBER_TAKEN.into(),
        _ => error.into(),
    }
}

/// INV-OBJ-3: adds the prices of these to the history.
pub async fn record_prices<'o>(
    tx: &mut Tx,
    objects: impl IntoIterator<Item = &'o PropertyObject>,
    now: OffsetDateTime,
) -> Result<(), ::db::Error> {
    let (mut ids, mut versions, mut prices, mut currencies) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for object in objects {
        ids.push(object.id);
        versions.push(object.version);
        prices.push(object.facts.price.amount_minor.get());
        currencies.push(object.facts.price.currency);
    }
    if ids.is_empty() {
        return Ok(());
    }
    let insert = diesel::sql_query(
        "insert into price_history (property_object_id, version, price, currency, changed_at) \
         select id, version, price, currency, $5 from unnest($1, $2, $3, $4) as new (id, version, price, currency)",
    )
    .bind::<Array<SqlUuid>, _>(ids)
    .bind::<Array<BigInt>, _>(versions)
    .bind::<Array<BigInt>, _>(prices)
    .bind::<Array<Text>, _>(currencies)
    .bind::<Timestamptz, _>(now);
    Cached(insert).execute(tx.conn()).await?;
    Ok(())
}
