//! What a search of projects could be narrowed down to.

use ::db::{Json, Lookup};
use ::web::COUNTED;
use diesel::QueryableByName;
use diesel::sql_types::{BigInt, Json as SqlJson, Nullable};
use diesel_async::RunQueryDsl;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use values::{Currency, Money};

use super::catalog_project::{FITTING, IN_CITY, NARROWED, OF_CLASS, ProjectFilter, SHOWN};
use crate::domain::ProjectClass;

/// What a search could be narrowed down to. Each list leaves out the filter of its own kind.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Facets {
    /// Of projects found; 10,000 stands for "or more".
    #[schema(maximum = 10000)]
    pub total_count: i64,
    /// The lowest and the highest price of an available flat or apartment of these.
    pub price_min: Option<Money>,
    pub price_max: Option<Money>,
    /// Those with most projects.
    #[schema(max_items = 100)]
    pub cities: Vec<CityFacet>,
    pub classes: Vec<ClassFacet>,
    pub rooms: Vec<RoomsFacet>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CityFacet {
    /// As most of its projects write it.
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
    /// 0 for studios.
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

/// What projects offer: as kept, where nothing has changed since.
fn offers(filter: &ProjectFilter) -> String {
    if filter.ready_before.is_some() {
        return added_up(filter, "");
    }
    let prices = if filter.is_of_prices() { ", offer_prices" } else { "" };
    let changed = "and building.project_id = any (array(select project_id from project_figures_change))";
    format!(
        "select project_id, price_from, price_to, null::bool as is_ready, offer_bits{prices} from project_figures \
            where project_id not in (select project_id from project_figures_change) \
        union all {}",
        added_up(filter, changed)
    )
}

/// The same, added up from those buildings that are ready in time.
fn added_up(filter: &ProjectFilter, which: &str) -> String {
    const IN_TIME: &str = "filter (where $13::date is null or building.ready_on < $13)";
    let prices = if filter.is_of_prices() {
        format!(", bit_or(offer_prices) {IN_TIME} as offer_prices")
    } else {
        String::new()
    };
    format!(
        "select building.project_id, min(price_from) as price_from, max(price_to) as price_to, \
            bool_or(building.ready_on < $13) as is_ready, bit_or(offer_bits) {IN_TIME} as offer_bits{prices} \
        from building left join building_figures as figures on figures.building_id = building.id \
        where building.deleted_at is null {which} group by building.project_id"
    )
}

/// Whether a project has a home with so many rooms that fits. A step of prices that lies within those asked for says yes, none
/// that they touch no; a home is looked for where neither is so.
fn fitting() -> String {
    const STEPS: &str = "substring(project.offer_prices from rooms.place for 256)";
    format!(
        "case when bit_count({STEPS} & price_step_bits( \
                coalesce(price_step($11 - 1) + 1, 0), coalesce(price_step($12) - 1, 255))) > 0 then true \
            when bit_count({STEPS} & price_step_bits( \
                coalesce(price_step($11), 0), coalesce(price_step($12 - 1), 255))) = 0 then false \
            else {FITTING} and home.rooms_asked = rooms.rooms limit 1) end"
    )
}

/// What a search could be narrowed down to, in one statement: homes are looked at only where prices are asked for and what is
/// kept of them does not say.
pub async fn count(
    mut conn: Lookup<'_>,
    filter: &ProjectFilter,
    currency: Currency,
) -> Result<Facets, ::db::Error> {
    let offers = offers(filter);
    let fitting = if filter.is_of_prices() { fitting() } else { "true".to_owned() };
    let is_found = match (filter.is_of_homes(), filter.ready_before) {
        (true, _) if filter.rooms.is_some() => {
            "project.id in (select id from fitting where rooms = any ($10))"
        }
        (true, _) => "project.id in (select id from fitting)",
        (false, Some(_)) => "coalesce(project.is_ready, false)",
        (false, None) => "true",
    };
    let sql = format!(
        "with candidate as materialized ( \
            select project.id, project.city, project.lower_city, project.class, \
                {IN_CITY} as in_city, {OF_CLASS} as of_class, offers.* \
            from project join developer on developer.id = project.tenant_id \
                left join ({offers}) as offers on offers.project_id = project.id \
            where {SHOWN} and {NARROWED} \
        ), rooms as materialized ( \
            select rooms, 1 << (rooms + 22) % 22 as bit, offer_place(rooms) + 1 as place \
            from generate_series(-1, 20) as rooms \
        ), fitting as materialized ( \
            select project.id, rooms.rooms from candidate as project join rooms on project.offer_bits & rooms.bit <> 0 \
            where {fitting} \
        ), found as materialized ( \
            select id, city, lower_city, class, in_city, of_class, price_from, price_to, {is_found} as is_found \
            from candidate as project \
        ) \
        select least((select count(*) from found where in_city and of_class and is_found), {COUNTED}) as total_count, \
            (select min(price_from) from found where in_city and of_class and is_found) as price_min, \
            (select max(price_to) from found where in_city and of_class and is_found) as price_max, \
            (select coalesce(json_agg(json_build_object('City', city, 'ProjectsCount', count) \
                    order by count desc, lower_city), '[]') \
                from ( \
                    select mode() within group (order by city collate \"C\") as city, lower_city, count(*) as count \
                    from found where of_class and is_found group by lower_city order by count desc, lower_city limit 100 \
                ) as city) as cities, \
            (select coalesce(json_agg(json_build_object('Class', class, 'ProjectsCount', count) \
                    order by array_position('{{Economy,Comfort,Business,Elite}}'::text[], class)), '[]') \
                from (select class, count(*) as count from found where in_city and is_found group by class) as class \
            ) as classes, \
            (select coalesce(json_agg(json_build_object('Rooms', rooms, 'ProjectsCount', count) order by rooms), '[]') \
                from ( \
                    select rooms, count(*) as count from fitting join found using (id) \
                    where in_city and of_class and rooms >= 0 group by rooms \
                ) as rooms) as rooms"
    );
    let FacetsRow { total_count, price_min, price_max, cities, classes, rooms } =
        filter.bind(sql).get_result(&mut conn).await?;
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
