//! Property objects as guests find them.

use ::db::{Cached, Limited, Lookup};
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

use super::schema::{building, developer, project, property_object};
use crate::domain::{
    AreaBound, BuildingId, BuildingName, DeveloperStatus, Finishing, FloorBound, ObjectFacts, ObjectKind,
    ObjectStatus, Placed, PriceBound, ProjectId, ProjectName, ProjectStatus, PropertyObjectId, RoomsAsked,
};

/// What the search may be sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
pub enum CatalogObjectSort {
    Id,
    Price,
    AreaTotal,
}

impl SortKey for CatalogObjectSort {
    const DEFAULT: &'static str = "Id";
}

/// Where a walk stands: at the object that was shown last, by what the walk is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectKey {
    last: LastObject,
    descending: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum LastObject {
    Id(PropertyObjectId),
    Price(i64, PropertyObjectId),
    /// In units of the last place.
    AreaTotal(i64, PropertyObjectId),
}

impl ObjectKey {
    fn of(object: &CatalogObject, sorting: Sorting<CatalogObjectSort>) -> Self {
        let GridObject { id, facts, .. } = &object.shown;
        let last = match sorting.key {
            CatalogObjectSort::Id => LastObject::Id(*id),
            CatalogObjectSort::Price => LastObject::Price(facts.price.amount_minor.get(), *id),
            CatalogObjectSort::AreaTotal => LastObject::AreaTotal(facts.area_total.units().into(), *id),
        };
        Self { last, descending: sorting.descending }
    }

    /// Whether it is of a walk that is sorted so.
    pub fn is_of(&self, sorting: Sorting<CatalogObjectSort>) -> bool {
        let key = match self.last {
            LastObject::Id(_) => CatalogObjectSort::Id,
            LastObject::Price(..) => CatalogObjectSort::Price,
            LastObject::AreaTotal(..) => CatalogObjectSort::AreaTotal,
        };
        sorting == Sorting { key, descending: self.descending }
    }
}

/// A page of the search has 50 objects, or as many as are asked for, up to 500.
pub type ObjectPaging = CursorPaging<ObjectKey, 50, 500>;

/// Which objects are asked for.
#[derive(Default)]
pub struct ObjectFilter {
    pub project_id: Option<ProjectId>,
    pub developer_id: Option<CompanyId>,
    pub building_id: Option<BuildingId>,
    pub kinds: Option<Vec<ObjectKind>>,
    pub rooms: Option<Vec<RoomsAsked>>,
    pub finishings: Option<Vec<Finishing>>,
    pub statuses: Vec<ObjectStatus>,
    pub price_from: Option<PriceBound>,
    /// Exclusive.
    pub price_to: Option<PriceBound>,
    pub area_min: Option<AreaBound>,
    pub area_max: Option<AreaBound>,
    pub floor_min: Option<FloorBound>,
    pub floor_max: Option<FloorBound>,
}

impl ObjectFilter {
    /// Whether it asks for all that is for sale of a developer or in a project, in pages of the usual size. They are read in the
    /// order of an index by the same few statements for all.
    pub fn is_walk(&self, paging: &ObjectPaging) -> bool {
        let Self {
            project_id: _,
            developer_id: _,
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
        paging.usual_limit().is_some()
            && statuses == &[ObjectStatus::Available]
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

/// An object as anybody sees it: in a grid, and wherever else one is shown.
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

impl Placed for GridObject {
    fn section(&self) -> i64 {
        self.facts.section.get()
    }

    fn floor(&self) -> i64 {
        self.facts.floor.get()
    }
}

/// An object with what it is in.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CatalogObject {
    #[serde(flatten)]
    pub shown: GridObject,
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
        (shown, developer_id, project_id, project_name, building_id, building_name, updated_at): Row,
    ) -> Self {
        Self { shown, developer_id, project_id, project_name, building_id, building_name, updated_at }
    }
}

/// Objects that are live, in what is live and published.
#[auto_type(no_type_alias)]
fn shown() -> _ {
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

/// What a [`Row`] is made of.
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

pub async fn look_up(mut conn: Lookup<'_>, id: PropertyObjectId) -> QueryResult<Option<CatalogObject>> {
    let object = shown().filter(property_object::id.eq(id)).select(columns());
    let row: Option<Row> = object.first(&mut conn).await.optional()?;
    Ok(row.map(CatalogObject::from))
}

/// The objects of a building, as they stand: from the top floor down.
pub async fn of_building(mut conn: Lookup<'_>, of: BuildingId) -> Result<Vec<GridObject>, ::db::Error> {
    let objects = property_object::table
        .filter(property_object::building_id.eq(of))
        .filter(property_object::removed_at.is_null())
        .order((
            property_object::section,
            property_object::floor.desc(),
            property_object::position_on_floor,
            property_object::number,
        ));
    Ok(objects.select(GridObject::as_select()).load(&mut conn).await?)
}

/// One page of a search, from where the last one ended: however deep that is, it is read from there in the order of an
/// index. Ties are by id in the direction of the sort, as such an index has them.
pub async fn search(
    mut conn: Lookup<'_>,
    filter: &ObjectFilter,
    sorting: Sorting<CatalogObjectSort>,
    paging: &ObjectPaging,
) -> QueryResult<CursorPage<CatalogObject>> {
    let mut found = shown().select(columns()).into_boxed::<Pg>();
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
        found = found.filter(property_object::rooms_asked.eq_any(rooms));
    }
    if let Some(finishings) = &filter.finishings {
        found = found.filter(property_object::finishing.eq_any(finishings));
    }
    found = found.filter(property_object::status.eq_any(&filter.statuses));
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
        // Compared as pairs, which an index is read by.
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
    let rows: Vec<Row> = match paging.usual_limit().filter(|_| filter.is_walk(paging)) {
        Some(limit) => Cached(Limited(found, limit)).load(&mut conn).await?,
        None => found.filter(list::planned_anew()).limit(paging.limit()).load(&mut conn).await?,
    };
    let objects = rows.into_iter().map(CatalogObject::from).collect();
    Ok(paging.page(objects, |last| ObjectKey::of(last, sorting)))
}

/// A price that an object has had.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct PastPrice {
    price: Money,
    #[serde(with = "time::serde::rfc3339")]
    changed_at: OffsetDateTime,
}

/// Of an object that is shown; without a price where it had none.
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
    with shown as ( \
        select object.id, project.published_at from property_object as object \
            join building on building.id = object.building_id and building.deleted_at is null \
            join project on project.id = object.project_id \
                and project.deleted_at is null and project.status = 'Published' \
            join developer on developer.id = object.tenant_id \
                and developer.deleted_at is null and developer.status = 'Published' \
        where object.id = $1 and object.removed_at is null \
    ) \
    select past.price, past.currency, past.changed_at from shown left join lateral ( \
        select price, currency, changed_at, version from price_history \
        where property_object_id = shown.id and version >= coalesce(( \
            select max(version) from price_history \
            where property_object_id = shown.id and changed_at <= shown.published_at), 0) \
        order by version desc limit 100 \
    ) as past on true order by past.version desc";

/// The prices of an object that is shown: the one that it had when its project was first published, and each since,
/// newest first, a hundred at most.
pub async fn price_history(
    mut conn: Lookup<'_>,
    id: PropertyObjectId,
) -> QueryResult<Option<Vec<PastPrice>>> {
    let statement = Cached(diesel::sql_query(PRICE_HISTORY).bind::<SqlUuid, _>(id));
    let rows: Vec<PastPriceRow> = statement.load(&mut conn).await?;
    let is_shown = !rows.is_empty();
    let prices = rows.into_iter().filter_map(|row| {
        let price = Money { amount_minor: row.price?, currency: row.currency? };
        Some(PastPrice { price, changed_at: row.changed_at? })
    });
    Ok(is_shown.then(|| prices.collect()))
}
