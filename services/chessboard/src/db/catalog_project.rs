//! Projects of the catalog: lists and cards.

use ::db::Conn;
use ::web::{MAX_TOTAL_COUNT, Page, Paging, SortKey};
use auth::CompanyId;
use diesel::QueryResult;
use diesel::QueryableByName;
use diesel::pg::Pg;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::sql_types::{
    Array, BigInt, Date as SqlDate, Double, Nullable, SmallInt, Text, Timestamptz, Uuid as SqlUuid,
};
use diesel_async::RunQueryDsl;
use serde::Serialize;
use strum::{EnumString, VariantNames};
use time::{Date, OffsetDateTime};
use utoipa::ToSchema;
use values::{Currency, Money, like_containing};

use crate::domain::{
    Address, BoundingBox, City, DeveloperName, FileId, Latitude, Longitude, PriceBound, ProjectClass,
    ProjectDescription, ProjectId, ProjectName, RoomCategory,
};

/// The filters of the project search.
#[derive(Debug, Default)]
pub struct ProjectFilter {
    /// The folded form of the text.
    pub city: Option<String>,
    pub developer_id: Option<CompanyId>,
    pub classes: Option<Vec<ProjectClass>>,
    pub rooms: Option<Vec<RoomCategory>>,
    pub price_from: Option<PriceBound>,
    /// Exclusive upper bound.
    pub price_to: Option<PriceBound>,
    pub ready_before: Option<Date>,
    pub within: Option<BoundingBox>,
    /// The folded form of the text.
    pub query: Option<String>,
}

/// The sort keys of the catalog's project list.
#[derive(Clone, Copy, Debug, EnumString, VariantNames)]
pub enum CatalogProjectSort {
    PublishedAt,
    Name,
    PriceFrom,
}

impl SortKey for CatalogProjectSort {
    const DEFAULT: &'static str = "-PublishedAt";
}

/// A project in the catalog. Its numbers concern the whole project, regardless of the filters.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CatalogProject {
    pub id: ProjectId,
    pub developer_id: CompanyId,
    pub developer_name: DeveloperName,
    pub name: ProjectName,
    pub class: ProjectClass,
    pub city: City,
    pub address: Address,
    pub latitude: Option<Latitude>,
    pub longitude: Option<Longitude>,
    pub cover_file_id: Option<FileId>,
    /// Time of the first publication, in UTC.
    #[serde(with = "time::serde::rfc3339::option")]
    pub published_at: Option<OffsetDateTime>,
    /// Lowest price of the Available flats and apartments.
    pub price_from: Option<Money>,
    /// Number of Available flats and apartments.
    pub free_count: i64,
    pub free_by_kind: FreeByKind,
    /// Available flats and apartments by number of rooms, ascending, with null last.
    pub offers: Vec<Offer>,
}

/// Number of Available objects of each kind.
#[derive(Clone, Copy, Debug, QueryableByName, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct FreeByKind {
    /// Number of free flats.
    #[diesel(sql_type = BigInt)]
    pub flat: i64,
    /// Number of free apartments.
    #[diesel(sql_type = BigInt)]
    pub apartment: i64,
    /// Number of free parking spaces.
    #[diesel(sql_type = BigInt)]
    pub parking: i64,
    /// Number of free storage rooms.
    #[diesel(sql_type = BigInt)]
    pub storage: i64,
    /// Number of free commercial objects.
    #[diesel(sql_type = BigInt)]
    pub commercial: i64,
}

/// The Available flats and apartments with one number of rooms.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Offer {
    /// 0 for studios, and `null` for homes without a number of rooms.
    pub rooms: Option<i16>,
    /// Number of free objects.
    pub free_count: i64,
    /// Lowest price of a free object.
    pub price_from: Money,
}

/// The condition that a project and its developer are live and Published.
pub(super) const IS_VISIBLE: &str = "project.deleted_at is null and project.status = 'Published' \
    and developer.deleted_at is null and developer.status = 'Published'";

/// The filters that have no facet. A filter that is not sent is null, and the planner removes it.
pub(super) const COMMON_FILTERS: &str = "($1::uuid is null or project.tenant_id = $1) \
    and ($2::float8 is null or project.latitude between $2 and $3 and project.longitude between $4 and $5) \
    and ($6::text is null or project.folded_name like $6 and trigrams(project.folded_name) @> trigrams($7))";

/// The filter by city, which the facet of cities ignores.
pub(super) const CITY_FILTER: &str = "($8::text is null or project.folded_city = $8)";
/// The filter by class, which the facet of classes ignores.
pub(super) const CLASS_FILTER: &str = "($9::text[] is null or project.class = any ($9))";

/// The beginning of a scalar subquery for a matching home. The caller adds a condition on
/// `home.room_category` and the end ` limit 1)`.
///
/// Even without a filter by rooms, the caller's condition names room categories. A list searches
/// all of them at once, and facets search one at a time. The planner then searches the index by
/// category and price, and does not read all prices of a project. The query is a scalar subquery
/// because the planner turns `exists` into a join with all homes.
pub(super) const MATCHING_HOME: &str = "(select true from property_object as home join building on building.id = home.building_id \
    where home.project_id = project.id and home.removed_at is null and home.status = 'Available' \
    and home.kind in ('Flat', 'Apartment') and home.price >= coalesce($11, 0) \
    and home.price < coalesce($12, 9223372036854775807) \
    and building.deleted_at is null and ($13::date is null or building.ready_on < $13)";

/// The condition that a project has a building that is ready in time.
const READY_BUILDING: &str = "exists (select from building where building.project_id = project.id \
    and building.deleted_at is null and building.ready_on < $13)";

/// The join of buildings with their figures.
const BUILDING_FIGURES: &str =
    "building join building_figures as figures on figures.building_id = building.id";

/// The requested room categories, or all of them. -1 means homes without a number of rooms.
const ROOM_CATEGORIES: &str =
    "coalesce($10::smallint[], '{-1,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20}')";

impl ProjectFilter {
    /// Returns true if the filter has conditions on homes.
    pub(super) fn has_home_filter(&self) -> bool {
        self.rooms.is_some() || self.has_price_filter()
    }

    pub fn has_price_filter(&self) -> bool {
        self.price_from.is_some() || self.price_to.is_some()
    }

    /// Binds the filters as the parameters `$1` to `$13` of a statement.
    pub(super) fn bind(&self, sql: String) -> BoxedSqlQuery<'_, Pg, SqlQuery> {
        let within = |side: fn(&BoundingBox) -> f64| self.within.as_ref().map(side);
        diesel::sql_query(sql)
            .into_boxed()
            .bind::<Nullable<SqlUuid>, _>(self.developer_id)
            .bind::<Nullable<Double>, _>(within(|within| within.south))
            .bind::<Nullable<Double>, _>(within(|within| within.north))
            .bind::<Nullable<Double>, _>(within(|within| within.west))
            .bind::<Nullable<Double>, _>(within(|within| within.east))
            .bind::<Nullable<Text>, _>(self.query.as_deref().map(like_containing))
            .bind::<Nullable<Text>, _>(self.query.as_deref())
            .bind::<Nullable<Text>, _>(self.city.as_deref())
            .bind::<Nullable<Array<Text>>, _>(self.classes.as_ref())
            .bind::<Nullable<Array<SmallInt>>, _>(self.rooms.as_ref())
            .bind::<Nullable<BigInt>, _>(self.price_from)
            .bind::<Nullable<BigInt>, _>(self.price_to)
            .bind::<Nullable<SqlDate>, _>(self.ready_before)
    }
}

/// The projects of a page and the number of all matching projects.
#[derive(QueryableByName)]
struct PageRow {
    #[diesel(sql_type = BigInt)]
    total_count: i64,
    #[diesel(sql_type = Array<SqlUuid>)]
    ids: Vec<ProjectId>,
}

/// Returns one page of a search without the catalog index, in two statements: the ids of the page,
/// then its projects.
pub async fn search(
    mut conn: &Conn,
    filter: &ProjectFilter,
    paging: &Paging<CatalogProjectSort>,
    currency: Currency,
) -> Result<Page<CatalogProject>, ::db::Error> {
    let direction = if paging.descending { "desc" } else { "asc" };
    let (key, prices) = match paging.sort {
        CatalogProjectSort::PublishedAt => ("project.published_at", String::new()),
        CatalogProjectSort::Name => ("project.folded_name", String::new()),
        CatalogProjectSort::PriceFrom => (
            "prices.price_from",
            format!(
                "left join (select building.project_id, min(figures.price_from) as price_from from {BUILDING_FIGURES} \
             where building.deleted_at is null group by building.project_id) as prices on prices.project_id = project.id"
            ),
        ),
    };
    let homes = match (filter.has_home_filter(), filter.ready_before) {
        (true, _) => format!("{MATCHING_HOME} and home.room_category = any ({ROOM_CATEGORIES}) limit 1)"),
        (false, Some(_)) => READY_BUILDING.to_owned(),
        (false, None) => "true".to_owned(),
    };
    // An expensive search runs once for both the page and the count. A cheap search runs twice, so
    // that both can stop early.
    let is_expensive = filter.has_home_filter()
        || filter.ready_before.is_some()
        || filter.query.is_some()
        || !prices.is_empty();
    let materialized = if is_expensive { "materialized" } else { "not materialized" };
    let sql = format!(
        "with found as {materialized} ( \
            select project.id, {key} as key from project join developer on developer.id = project.tenant_id {prices} \
            where {IS_VISIBLE} and {COMMON_FILTERS} and {CITY_FILTER} and {CLASS_FILTER} and {homes} \
        ) \
        select (select count(*) from (select from found limit $14) as counted) as total_count, \
            array(select id from found order by key {direction} nulls last, id limit $15 offset $16) as ids"
    );
    let found = filter.bind(sql).bind::<BigInt, _>(MAX_TOTAL_COUNT);
    let found = found.bind::<BigInt, _>(paging.limit()).bind::<BigInt, _>(paging.offset());
    let PageRow { total_count, ids } = found.get_result(&mut conn).await?;
    Ok(paging.page(list(conn, &ids, currency).await?, total_count))
}

/// Returns the visible projects among `ids`, in their order.
pub async fn list(conn: &Conn, ids: &[ProjectId], currency: Currency) -> QueryResult<Vec<CatalogProject>> {
    let rows = load_rows(conn, ids).await?;
    Ok(rows.into_iter().map(|row| row.into_project(currency)).collect())
}

/// A project with the added-up figures of its buildings.
#[derive(QueryableByName)]
struct ProjectRow {
    #[diesel(sql_type = SqlUuid)]
    id: ProjectId,
    #[diesel(sql_type = SqlUuid)]
    developer_id: CompanyId,
    #[diesel(sql_type = Text)]
    developer_name: DeveloperName,
    #[diesel(sql_type = Text)]
    name: ProjectName,
    #[diesel(sql_type = Text)]
    class: ProjectClass,
    #[diesel(sql_type = Text)]
    city: City,
    #[diesel(sql_type = Text)]
    address: Address,
    #[diesel(sql_type = Nullable<Double>)]
    latitude: Option<Latitude>,
    #[diesel(sql_type = Nullable<Double>)]
    longitude: Option<Longitude>,
    #[diesel(sql_type = Nullable<SqlUuid>)]
    cover_file_id: Option<FileId>,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    published_at: Option<OffsetDateTime>,
    #[diesel(sql_type = Nullable<Text>)]
    description: Option<ProjectDescription>,
    #[diesel(embed)]
    free_by_kind: FreeByKind,
    #[diesel(sql_type = Nullable<BigInt>)]
    price_from: Option<i64>,
    /// Room categories, in the order of `offer_free` and `offer_price_from`. -1 means homes without
    /// a number of rooms.
    #[diesel(sql_type = Array<SmallInt>)]
    offer_rooms: Vec<i16>,
    #[diesel(sql_type = Array<BigInt>)]
    offer_free: Vec<i64>,
    #[diesel(sql_type = Array<BigInt>)]
    offer_price_from: Vec<i64>,
}

/// Returns the visible projects among `ids`, in their order.
async fn load_rows(mut conn: &Conn, ids: &[ProjectId]) -> QueryResult<Vec<ProjectRow>> {
    let sql = format!(
        "select project.id, project.tenant_id as developer_id, developer.name as developer_name, project.name, \
            project.class, project.city, project.address, project.latitude, project.longitude, \
            project.cover_file_id, project.published_at, project.description, free.*, offers.* \
        from unnest($1) with ordinality as requested (id, rank) \
            join project on project.id = requested.id \
            join developer on developer.id = project.tenant_id \
            cross join lateral ( \
                select coalesce(sum(free_flat), 0) as flat, coalesce(sum(free_apartment), 0) as apartment, \
                    coalesce(sum(free_parking), 0) as parking, coalesce(sum(free_storage), 0) as storage, \
                    coalesce(sum(free_commercial), 0) as commercial, min(price_from) as price_from \
                from {BUILDING_FIGURES} where building.project_id = project.id and building.deleted_at is null \
            ) as free \
            cross join lateral ( \
                select coalesce(array_agg(rooms order by rooms < 0, rooms), '{{}}') as offer_rooms, \
                    coalesce(array_agg(free order by rooms < 0, rooms), '{{}}') as offer_free, \
                    coalesce(array_agg(price order by rooms < 0, rooms), '{{}}') as offer_price_from \
                from ( \
                    select rooms, sum(free) as free, min(price) as price from {BUILDING_FIGURES} \
                        cross join unnest(offer_rooms, offer_free, offer_price_from) as offer (rooms, free, price) \
                    where building.project_id = project.id and building.deleted_at is null \
                    group by rooms \
                ) as offer \
            ) as offers \
        where {IS_VISIBLE} order by requested.rank"
    );
    ::db::Prepared(diesel::sql_query(sql).bind::<Array<SqlUuid>, _>(ids)).load(&mut conn).await
}

impl ProjectRow {
    fn into_project(self, currency: Currency) -> CatalogProject {
        let money = |amount_minor| Money { amount_minor, currency };
        let offers = self.offer_rooms.iter().zip(&self.offer_free).zip(&self.offer_price_from);
        let offers = offers.map(|((&rooms, &free_count), &price_from)| Offer {
            rooms: (rooms >= 0).then_some(rooms),
            free_count,
            price_from: money(price_from),
        });
        CatalogProject {
            id: self.id,
            developer_id: self.developer_id,
            developer_name: self.developer_name,
            name: self.name,
            class: self.class,
            city: self.city,
            address: self.address,
            latitude: self.latitude,
            longitude: self.longitude,
            cover_file_id: self.cover_file_id,
            published_at: self.published_at,
            price_from: self.price_from.map(money),
            free_count: self.free_by_kind.flat + self.free_by_kind.apartment,
            free_by_kind: self.free_by_kind,
            offers: offers.collect(),
        }
    }
}

/// Returns a visible project and its description.
pub async fn look_up(
    conn: &Conn,
    id: ProjectId,
    currency: Currency,
) -> QueryResult<Option<(CatalogProject, Option<ProjectDescription>)>> {
    let found = load_rows(conn, &[id]).await?.pop();
    Ok(found.map(|mut row| {
        let description = row.description.take();
        (row.into_project(currency), description)
    }))
}
