//! Property objects of the catalog.

use ::db::{Conn, Limited, Prepared};
use ::web::{CursorPage, CursorPaging, SortKey, Sorting};
use auth::CompanyId;
use diesel::dsl::{auto_type, sql};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use serde::{Deserialize, Serialize};
use service::list;
use strum::{EnumString, VariantNames};
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::{Currency, Money};

use crate::domain::{
    AreaBound, BuildingId, BuildingName, DeveloperStatus, Finishing, FloorBound, GridItem, ObjectFacts,
    ObjectKind, ObjectStatus, PriceBound, ProjectId, ProjectName, ProjectStatus, PropertyObjectId,
    RoomCategory,
};
use crate::schema::{building, developer, project, property_object};

/// The sort keys of the object search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
pub enum CatalogObjectSort {
    Id,
    Price,
    AreaTotal,
}

impl SortKey for CatalogObjectSort {
    const DEFAULT: &'static str = "Id";
}

/// The content of a cursor: the sort key of the last object of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectKey {
    last: LastObject,
    descending: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum LastObject {
    Id(PropertyObjectId),
    Price(i64, PropertyObjectId),
    /// The area is in hundredths of a square metre.
    AreaTotal(i64, PropertyObjectId),
}

impl ObjectKey {
    fn new(object: &CatalogObject, sorting: Sorting<CatalogObjectSort>) -> Self {
        let GridObject { id, facts, .. } = &object.object;
        let last = match sorting.key {
            CatalogObjectSort::Id => LastObject::Id(*id),
            CatalogObjectSort::Price => LastObject::Price(facts.price.amount_minor.get(), *id),
            CatalogObjectSort::AreaTotal => LastObject::AreaTotal(facts.area_total.units().into(), *id),
        };
        Self { last, descending: sorting.descending }
    }

    /// Returns true if the cursor was issued for this sort key and direction.
    pub fn has_sorting(&self, sorting: Sorting<CatalogObjectSort>) -> bool {
        let key = match self.last {
            LastObject::Id(_) => CatalogObjectSort::Id,
            LastObject::Price(..) => CatalogObjectSort::Price,
            LastObject::AreaTotal(..) => CatalogObjectSort::AreaTotal,
        };
        sorting == Sorting { key, descending: self.descending }
    }
}

/// The paging of the object search: 50 objects by default and at most 500.
pub type ObjectPaging = CursorPaging<ObjectKey, 50, 500>;

/// The filters of the object search.
#[derive(Default)]
pub struct ObjectFilter {
    pub ids: Option<Vec<PropertyObjectId>>,
    pub project_id: Option<ProjectId>,
    pub developer_id: Option<CompanyId>,
    pub building_id: Option<BuildingId>,
    pub kinds: Option<Vec<ObjectKind>>,
    pub rooms: Option<Vec<RoomCategory>>,
    pub finishings: Option<Vec<Finishing>>,
    pub statuses: Option<Vec<ObjectStatus>>,
    pub price_from: Option<PriceBound>,
    /// Exclusive upper bound.
    pub price_to: Option<PriceBound>,
    pub area_min: Option<AreaBound>,
    pub area_max: Option<AreaBound>,
    pub floor_min: Option<FloorBound>,
    pub floor_max: Option<FloorBound>,
}

impl ObjectFilter {
    /// Returns true for a walk through the Available objects of a project or a developer, without
    /// another filter and in pages of the default size.
    ///
    /// The statements of such walks are few and read in the order of an index, so they are prepared
    /// once.
    pub fn is_plain_walk(&self, paging: &ObjectPaging) -> bool {
        let Self {
            project_id: _,
            developer_id: _,
            ids,
            building_id,
            statuses,
            kinds,
            rooms,
            finishings,
            price_from,
            price_to,
            area_min,
            area_max,
            floor_min,
            floor_max,
        } = self;
        paging.default_limit().is_some()
            && statuses.as_deref() == Some(&[ObjectStatus::Available])
            && ids.is_none()
            && building_id.is_none()
            && kinds.is_none()
            && rooms.is_none()
            && finishings.is_none()
            && price_from.is_none()
            && price_to.is_none()
            && area_min.is_none()
            && area_max.is_none()
            && floor_min.is_none()
            && floor_max.is_none()
    }
}

/// An object as guests see it.
#[derive(Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = property_object, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct GridObject {
    pub id: PropertyObjectId,
    #[serde(flatten)]
    #[diesel(embed)]
    pub facts: ObjectFacts,
    pub status: ObjectStatus,
}

impl GridItem for GridObject {
    fn section(&self) -> i64 {
        self.facts.section.get()
    }

    fn floor(&self) -> i64 {
        self.facts.floor.get()
    }
}

/// An object with its building, project and developer.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CatalogObject {
    #[serde(flatten)]
    pub object: GridObject,
    pub developer_id: CompanyId,
    pub project_id: ProjectId,
    pub project_name: ProjectName,
    pub building_id: BuildingId,
    pub building_name: BuildingName,
    #[serde(with = "time::serde::rfc3339")]
    pub updated_at: OffsetDateTime,
}

type Row = (GridObject, CompanyId, ProjectId, ProjectName, BuildingId, BuildingName, OffsetDateTime);

impl From<Row> for CatalogObject {
    fn from(
        (object, developer_id, project_id, project_name, building_id, building_name, updated_at): Row,
    ) -> Self {
        Self { object, developer_id, project_id, project_name, building_id, building_name, updated_at }
    }
}

/// Selects the live objects of Published projects of Published developers.
#[auto_type(no_type_alias)]
pub(super) fn visible() -> _ {
    let project_status: ProjectStatus = ProjectStatus::Published;
    let developer_status: DeveloperStatus = DeveloperStatus::Published;
    property_object::table
        .inner_join(building::table.on(building::id.eq(property_object::building_id)))
        .inner_join(project::table.on(project::id.eq(property_object::project_id)))
        .inner_join(developer::table.on(developer::id.eq(property_object::tenant_id)))
        .filter(property_object::removed_at.is_null())
        .filter(building::deleted_at.is_null())
        .filter(project::deleted_at.is_null())
        .filter(project::status.eq(project_status))
        .filter(developer::deleted_at.is_null())
        .filter(developer::status.eq(developer_status))
}

/// The columns of a [`Row`].
type Columns = (
    diesel::dsl::AsSelect<GridObject, Pg>,
    property_object::tenant_id,
    property_object::project_id,
    project::name,
    property_object::building_id,
    building::name,
    property_object::updated_at,
);

fn columns() -> Columns {
    (
        GridObject::as_select(),
        property_object::tenant_id,
        property_object::project_id,
        project::name,
        property_object::building_id,
        building::name,
        property_object::updated_at,
    )
}

pub async fn look_up(mut conn: &Conn, id: PropertyObjectId) -> QueryResult<Option<CatalogObject>> {
    let object = visible().filter(property_object::id.eq(id)).select(columns());
    let row: Option<Row> = object.first(&mut conn).await.optional()?;
    Ok(row.map(CatalogObject::from))
}

/// Returns the visible objects of a building in the order of a grid.
///
/// Checks the visibility again. The caller may have read the building from a read replica that is
/// behind, and this query may run on the primary.
pub async fn list_by_building(
    mut conn: &Conn,
    building_id: BuildingId,
) -> Result<Vec<GridObject>, ::db::Error> {
    let objects = visible().filter(property_object::building_id.eq(building_id)).order((
        property_object::section,
        property_object::floor.desc(),
        property_object::position_on_floor,
        property_object::number,
    ));
    Ok(objects.select(GridObject::as_select()).load(&mut conn).await?)
}

/// Returns one page of a search, after the cursor.
///
/// The statement reads a page in index order, so a late page costs as much as the first one. Ties
/// sort by id in the direction of the sort, because the index has this order.
pub async fn search(
    mut conn: &Conn,
    filter: &ObjectFilter,
    sorting: Sorting<CatalogObjectSort>,
    paging: &ObjectPaging,
) -> QueryResult<CursorPage<CatalogObject>> {
    let mut found = visible().select(columns()).into_boxed::<Pg>();
    if let Some(ids) = &filter.ids {
        found = found.filter(property_object::id.eq_any(ids));
    }
    if let Some(project) = filter.project_id {
        found = found.filter(property_object::project_id.eq(project));
    }
    if let Some(developer) = filter.developer_id {
        found = found.filter(property_object::tenant_id.eq(developer));
    }
    if let Some(building) = filter.building_id {
        found = found.filter(property_object::building_id.eq(building));
    }
    if let Some(kinds) = &filter.kinds {
        found = found.filter(property_object::kind.eq_any(kinds));
    }
    if let Some(rooms) = &filter.rooms {
        found = found.filter(property_object::room_category.eq_any(rooms));
    }
    if let Some(finishings) = &filter.finishings {
        found = found.filter(property_object::finishing.eq_any(finishings));
    }
    if let Some(statuses) = &filter.statuses {
        found = found.filter(property_object::status.eq_any(statuses));
    }
    if let Some(from) = filter.price_from {
        found = found.filter(property_object::price.ge(from));
    }
    if let Some(to) = filter.price_to {
        found = found.filter(property_object::price.lt(to));
    }
    if let Some(min) = filter.area_min {
        found = found.filter(property_object::area_total.ge(min));
    }
    if let Some(max) = filter.area_max {
        found = found.filter(property_object::area_total.le(max));
    }
    if let Some(min) = filter.floor_min {
        found = found.filter(property_object::floor.ge(min));
    }
    if let Some(max) = filter.floor_max {
        found = found.filter(property_object::floor.le(max));
    }
    if let Some(ObjectKey { last, descending }) = paging.after {
        // A comparison of pairs can use the index.
        let beyond = if descending { "<" } else { ">" };
        let pairs = |key: &str, value: i64, id: PropertyObjectId| {
            let after = sql::<Bool>(&format!("(property_object.{key}, property_object.id) {beyond} ("));
            after.bind::<BigInt, _>(value).sql(", ").bind::<SqlUuid, _>(id).sql(")")
        };
        found = match last {
            LastObject::Id(id) if descending => found.filter(property_object::id.lt(id)),
            LastObject::Id(id) => found.filter(property_object::id.gt(id)),
            LastObject::Price(price, id) => found.filter(pairs("price", price, id)),
            LastObject::AreaTotal(units, id) => found.filter(pairs("area_total", units, id)),
        };
    }
    let id = property_object::id;
    found = match (sorting.key, sorting.descending) {
        (CatalogObjectSort::Id, false) => found.order(id.asc()),
        (CatalogObjectSort::Id, true) => found.order(id.desc()),
        (CatalogObjectSort::Price, false) => found.order((property_object::price.asc(), id.asc())),
        (CatalogObjectSort::Price, true) => found.order((property_object::price.desc(), id.desc())),
        (CatalogObjectSort::AreaTotal, false) => found.order((property_object::area_total.asc(), id.asc())),
        (CatalogObjectSort::AreaTotal, true) => found.order((property_object::area_total.desc(), id.desc())),
    };
    let rows: Vec<Row> = match paging.default_limit().filter(|_| filter.is_plain_walk(paging)) {
        Some(limit) => Prepared(Limited(found, limit)).load(&mut conn).await?,
        None => found.filter(list::custom_plan()).limit(paging.limit()).load(&mut conn).await?,
    };
    let objects = rows.into_iter().map(CatalogObject::from).collect();
    Ok(paging.page(objects, |last| ObjectKey::new(last, sorting)))
}

/// A past or the current price of an object.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct PastPrice {
    price: Money,
    #[serde(with = "time::serde::rfc3339")]
    changed_at: OffsetDateTime,
}

/// A row of a visible object's price history. All columns are null if the history is empty.
#[derive(QueryableByName)]
struct PastPriceRow {
    #[diesel(sql_type = Nullable<BigInt>)]
    price: Option<i64>,
    #[diesel(sql_type = Nullable<Text>)]
    currency: Option<Currency>,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    changed_at: Option<OffsetDateTime>,
}

const PRICE_HISTORY: &str = "\
    with visible as ( \
        select object.id, project.published_at from property_object as object \
            join building on building.id = object.building_id and building.deleted_at is null \
            join project on project.id = object.project_id \
                and project.deleted_at is null and project.status = 'Published' \
            join developer on developer.id = object.tenant_id \
                and developer.deleted_at is null and developer.status = 'Published' \
        where object.id = $1 and object.removed_at is null \
    ) \
    select past.price, past.currency, past.changed_at from visible left join lateral ( \
        select price, currency, changed_at, version from price_history \
        where property_object_id = visible.id and version >= coalesce(( \
            select max(version) from price_history \
            where property_object_id = visible.id and changed_at <= visible.published_at), 0) \
        order by version desc limit 100 \
    ) as past on true order by past.version desc";

/// Returns the price of a visible object at the first publication of its project and each later
/// price.
///
/// Returns up to 100 prices, newest first, and `None` for an object that guests do not see.
pub async fn list_price_history(
    mut conn: &Conn,
    id: PropertyObjectId,
) -> QueryResult<Option<Vec<PastPrice>>> {
    let statement = Prepared(diesel::sql_query(PRICE_HISTORY).bind::<SqlUuid, _>(id));
    let rows: Vec<PastPriceRow> = statement.load(&mut conn).await?;
    let is_visible = !rows.is_empty();
    let prices = rows.into_iter().filter_map(|row| {
        let price = Money { amount_minor: row.price?, currency: row.currency? };
        Some(PastPrice { price, changed_at: row.changed_at? })
    });
    Ok(is_visible.then(|| prices.collect()))
}
