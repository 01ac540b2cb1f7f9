//! Facets of the catalog's project search.

use ::db::{Conn, Json};
use ::web::MAX_TOTAL_COUNT;
use diesel::QueryableByName;
use diesel::sql_types::{BigInt, Json as SqlJson, Nullable};
use diesel_async::RunQueryDsl;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use values::{Currency, Money};

use super::catalog_project::{
    CITY_FILTER, CLASS_FILTER, COMMON_FILTERS, IS_VISIBLE, MATCHING_HOME, ProjectFilter,
};
use crate::domain::ProjectClass;

/// The facets of a project search. Each list ignores the filter of its own kind.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Facets {
    /// Number of matching projects. 10,000 means 10,000 or more.
    #[schema(maximum = 10000)]
    pub total_count: i64,
    /// Lowest price of the Available flats and apartments of the matching projects.
    pub price_min: Option<Money>,
    /// Highest price of the Available flats and apartments of the matching projects.
    pub price_max: Option<Money>,
    /// Cities with the most projects.
    #[schema(max_items = 100)]
    pub cities: Vec<CityFacet>,
    /// Classes of the matching projects.
    pub classes: Vec<ClassFacet>,
    pub rooms: Vec<RoomsFacet>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CityFacet {
    /// The spelling that most of the city's projects use.
    pub city: String,
    pub projects_count: i64,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ClassFacet {
    pub class: ProjectClass,
    pub projects_count: i64,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct RoomsFacet {
    /// Number of rooms, 0 for studios.
    pub rooms: i16,
    pub projects_count: i64,
}

#[derive(QueryableByName)]
struct FacetsRow {
    #[diesel(sql_type = BigInt)]
    total_count: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    price_min: Option<i64>,
    #[diesel(sql_type = Nullable<BigInt>)]
    price_max: Option<i64>,
    #[diesel(sql_type = SqlJson)]
    cities: Json<Vec<CityFacet>>,
    #[diesel(sql_type = SqlJson)]
    classes: Json<Vec<ClassFacet>>,
    #[diesel(sql_type = SqlJson)]
    rooms: Json<Vec<RoomsFacet>>,
}

/// Returns the SQL of the offers of each project.
///
/// The SQL reads the stored figures of projects. For projects with pending changes it adds up their
/// buildings instead. With the filter `ReadyBefore` it does so for all projects.
fn offers(filter: &ProjectFilter) -> String {
    if filter.ready_before.is_some() {
        return building_sums(filter, "");
    }
    let prices = if filter.has_price_filter() { ", offer_prices" } else { "" };
    let changed = "and building.project_id = any (array(select project_id from project_figures_change))";
    format!(
        "select project_id, price_from, price_to, null::bool as is_ready, offer_bits{prices} from project_figures \
            where project_id not in (select project_id from project_figures_change) \
        union all {}",
        building_sums(filter, changed)
    )
}

/// Returns the SQL that adds up the figures of buildings by project. `ReadyBefore` leaves out the
/// offers of buildings that are ready later.
fn building_sums(filter: &ProjectFilter, condition: &str) -> String {
    const IN_TIME: &str = "filter (where $13::date is null or building.ready_on < $13)";
    let prices = if filter.has_price_filter() {
        format!(", bit_or(offer_prices) {IN_TIME} as offer_prices")
    } else {
        String::new()
    };
    format!(
        "select building.project_id, min(price_from) as price_from, max(price_to) as price_to, \
            bool_or(building.ready_on < $13) as is_ready, bit_or(offer_bits) {IN_TIME} as offer_bits{prices} \
        from building left join building_figures as figures on figures.building_id = building.id \
        where building.deleted_at is null {condition} group by building.project_id"
    )
}

/// Returns the SQL condition that a project has a matching home with a number of rooms.
///
/// Prices are divided into 256 steps, and a project stores a bit for each step in which it offers a
/// home. If the whole of an offered step is inside the price range, a home matches. If the range
/// overlaps no offered step, no home matches. Otherwise the condition searches the homes
/// themselves.
fn matching_home_condition() -> String {
    const STEPS: &str = "substring(project.offer_prices from rooms.first_step for 256)";
    format!(
        "case when bit_count({STEPS} & price_step_bits( \
                coalesce(price_step($11 - 1) + 1, 0), coalesce(price_step($12) - 1, 255))) > 0 then true \
            when bit_count({STEPS} & price_step_bits( \
                coalesce(price_step($11), 0), coalesce(price_step($12 - 1), 255))) = 0 then false \
            else {MATCHING_HOME} and home.room_category = rooms.rooms limit 1) end"
    )
}

/// Returns the statement that counts the facets without the catalog index. Its parameters are
/// those of [`ProjectFilter::bind`].
///
/// The statement reads homes only if the stored price steps cannot decide the price filter.
fn statement(filter: &ProjectFilter) -> String {
    let offers = offers(filter);
    let has_match = if filter.has_price_filter() { matching_home_condition() } else { "true".to_owned() };
    let rooms_filter = if filter.rooms.is_some() { "where rooms = any ($10)" } else { "" };
    let is_found = match (filter.has_home_filter(), filter.ready_before) {
        (true, _) => "matched.id is not null",
        (false, Some(_)) => "coalesce(project.is_ready, false)",
        (false, None) => "true",
    };
    // The number of rooms is also the number of its bit. -1 means homes without a number of rooms,
    // which have bit 21.
    format!(
        "with candidate as materialized ( \
            select project.id, project.city, project.folded_city, project.class, \
                {CITY_FILTER} as in_city, {CLASS_FILTER} as of_class, offers.* \
            from project join developer on developer.id = project.tenant_id \
                left join ({offers}) as offers on offers.project_id = project.id \
            where {IS_VISIBLE} and {COMMON_FILTERS} \
        ), rooms as materialized ( \
            select rooms, 1 << (rooms + 22) % 22 as bit, offer_offset(rooms) + 1 as first_step \
            from generate_series(-1, 20) as rooms \
        ), matching as materialized ( \
            select project.id, rooms.rooms from candidate as project join rooms on project.offer_bits & rooms.bit <> 0 \
            where {has_match} \
        ), found as materialized ( \
            select project.id, city, folded_city, class, in_city, of_class, price_from, price_to, {is_found} as is_found \
            from candidate as project \
                left join (select distinct id from matching {rooms_filter}) as matched on matched.id = project.id \
        ) \
        select least((select count(*) from found where in_city and of_class and is_found), {MAX_TOTAL_COUNT}) as total_count, \
            (select min(price_from) from found where in_city and of_class and is_found) as price_min, \
            (select max(price_to) from found where in_city and of_class and is_found) as price_max, \
            (select coalesce(json_agg(json_build_object('City', city, 'ProjectsCount', count) \
                    order by count desc, folded_city), '[]') \
                from ( \
                    select mode() within group (order by city collate \"C\") as city, folded_city, count(*) as count \
                    from found where of_class and is_found group by folded_city order by count desc, folded_city limit 100 \
                ) as city) as cities, \
            (select coalesce(json_agg(json_build_object('Class', class, 'ProjectsCount', count) \
                    order by array_position('{{Economy,Comfort,Business,Elite}}'::text[], class)), '[]') \
                from (select class, count(*) as count from found where in_city and is_found group by class) as class \
            ) as classes, \
            (select coalesce(json_agg(json_build_object('Rooms', rooms, 'ProjectsCount', count) order by rooms), '[]') \
                from ( \
                    select rooms, count(*) as count from matching join found using (id) \
                    where in_city and of_class and rooms >= 0 group by rooms \
                ) as rooms) as rooms"
    )
}

/// Counts the facets in one statement.
pub async fn count(
    mut conn: &Conn,
    filter: &ProjectFilter,
    currency: Currency,
) -> Result<Facets, ::db::Error> {
    let FacetsRow { total_count, price_min, price_max, cities, classes, rooms } =
        filter.bind(statement(filter)).get_result(&mut conn).await?;
    let money = |amount_minor| Money { amount_minor, currency };
    Ok(Facets {
        total_count,
        price_min: price_min.map(money),
        price_max: price_max.map(money),
        cities: cities.0,
        classes: classes.0,
        rooms: rooms.0,
    })
}
