//! The rows of the catalog index: visible projects with their homes, and the changes since a
//! snapshot.

use ::db::{Conn, Prepared};
use auth::CompanyId;
use diesel::sql_types::{
    Array, BigInt, Bool, Double, Integer, Nullable, SmallInt, Text, Timestamptz, Uuid as SqlUuid,
};
use diesel::{QueryResult, QueryableByName};
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;

use super::catalog_project::IS_VISIBLE;
use crate::domain::{ProjectClass, ProjectId};

/// The committed transactions of a database at a moment.
#[derive(Clone, Debug, QueryableByName)]
pub struct Snapshot {
    /// The transactions that are visible, as `pg_snapshot`.
    #[diesel(sql_type = Text)]
    pub transactions: String,
    /// The history of the database, and the life of its server. After a crash, and in another
    /// history, the numbers of lost transactions are used again.
    #[diesel(sql_type = Text)]
    pub history: String,
}

/// The projects that changed between two snapshots.
#[derive(QueryableByName)]
pub struct Changes {
    #[diesel(embed)]
    pub until: Snapshot,
    /// False if the numbers of transactions are below those of the first snapshot.
    #[diesel(sql_type = Bool)]
    pub is_later: bool,
    #[diesel(sql_type = Array<SqlUuid>)]
    pub projects: Vec<ProjectId>,
}

/// A project with its number of homes.
#[derive(Debug, QueryableByName)]
pub struct ProjectSize {
    #[diesel(sql_type = SqlUuid)]
    pub id: ProjectId,
    #[diesel(sql_type = BigInt)]
    pub homes: i64,
}

/// A visible project. The lists of homes are parallel.
#[derive(QueryableByName)]
pub struct ProjectRow {
    #[diesel(sql_type = SqlUuid)]
    pub id: ProjectId,
    #[diesel(sql_type = SqlUuid)]
    pub developer_id: CompanyId,
    #[diesel(sql_type = Text)]
    pub class: ProjectClass,
    #[diesel(sql_type = Text)]
    pub city: String,
    #[diesel(sql_type = Text)]
    pub folded_city: String,
    #[diesel(sql_type = Text)]
    pub folded_name: String,
    #[diesel(sql_type = Nullable<Double>)]
    pub latitude: Option<f64>,
    #[diesel(sql_type = Nullable<Double>)]
    pub longitude: Option<f64>,
    #[diesel(sql_type = Timestamptz)]
    pub published_at: OffsetDateTime,
    /// The Julian day on which the first building is ready.
    #[diesel(sql_type = Integer)]
    pub first_ready_on: i32,
    /// Room categories. -1 means a home without a number of rooms.
    #[diesel(sql_type = Array<SmallInt>)]
    pub home_rooms: Vec<i16>,
    #[diesel(sql_type = Array<BigInt>)]
    pub home_prices: Vec<i64>,
    /// The Julian days on which the buildings of the homes are ready.
    #[diesel(sql_type = Array<Integer>)]
    pub home_ready_on: Vec<i32>,
}

/// The Julian day on which a building is ready: below all days for a commissioned building, and
/// above all days for a building without a year.
const READY_DAY: &str = "case when isfinite(building.ready_on) then extract(julian from building.ready_on)::integer \
    when building.ready_on < '2000-01-01' then -2147483648 else 2147483647 end";

/// The history of [`Snapshot`]. A crash empties `catalog_index_life`, which is an unlogged table.
const HISTORY: &str = "database_history() || '/' || coalesce((select id::text from catalog_index_life), '')";

/// Returns the present snapshot of the database.
pub async fn snapshot(mut conn: &Conn) -> QueryResult<Snapshot> {
    let begin = "insert into catalog_index_life default values on conflict do nothing";
    Prepared(diesel::sql_query(begin)).execute(&mut conn).await?;
    let sql = format!("select pg_current_snapshot()::text as transactions, {HISTORY} as history");
    Prepared(diesel::sql_query(sql)).get_result(&mut conn).await
}

/// Begins another [`Snapshot::history`], as a crash does. Every index is then loaded again.
pub async fn forget_history(mut conn: &Conn) -> QueryResult<()> {
    Prepared(diesel::sql_query("delete from catalog_index_life")).execute(&mut conn).await?;
    Ok(())
}

/// Returns the projects with changes by transactions that `since` does not show.
///
/// `project_figures_change` has the mark of such a change with its transaction in `changed_in`. If
/// the job has removed the mark, `renewed_in` of the project has the transaction of the job, which
/// `since` does not show either.
pub async fn changes(mut conn: &Conn, since: &Snapshot) -> QueryResult<Changes> {
    // Selects rows whose `column` has a transaction that `since` does not show. The upper bound is
    // always true. With both bounds, the planner expects few rows and reads the index.
    let is_unseen = |column: &str| {
        format!(
            "{column} >= pg_snapshot_xmin($1::text::pg_snapshot) and {column} < pg_snapshot_xmax(pg_current_snapshot()) \
            and not pg_visible_in_snapshot({column}, $1::text::pg_snapshot)"
        )
    };
    let (changed, renewed) = (is_unseen("changed_in"), is_unseen("renewed_in"));
    let sql = format!(
        "select pg_current_snapshot()::text as transactions, {HISTORY} as history, \
            pg_snapshot_xmax(pg_current_snapshot()) >= pg_snapshot_xmax($1::text::pg_snapshot) as is_later, \
            array( \
                select project_id from project_figures_change where {changed} \
                union select project_id from project_figures where {renewed} \
            ) as projects"
    );
    Prepared(diesel::sql_query(sql).bind::<Text, _>(&since.transactions)).get_result(&mut conn).await
}

/// The number of homes of `project.id` that the index has if the project is visible.
const HOMES: &str = "(select coalesce(sum(free_flat + free_apartment), 0)::bigint \
    from building join building_figures on building_figures.building_id = building.id \
    where building.project_id = project.id and building.deleted_at is null) as homes";

/// Returns the sizes of up to `limit` projects after `after`, including drafts.
pub async fn page_of_sizes(
    mut conn: &Conn,
    after: Option<ProjectId>,
    limit: i64,
) -> QueryResult<Vec<ProjectSize>> {
    let sql = format!(
        "select id, {HOMES} from project where id > coalesce($1, '00000000-0000-0000-0000-000000000000') \
        order by id limit $2"
    );
    diesel::sql_query(sql).bind::<Nullable<SqlUuid>, _>(after).bind::<BigInt, _>(limit).load(&mut conn).await
}

/// Returns the sizes of `ids`, including those of deleted projects.
pub async fn sizes(mut conn: &Conn, ids: &[ProjectId]) -> QueryResult<Vec<ProjectSize>> {
    let sql = format!("select id, {HOMES} from unnest($1) as project (id)");
    Prepared(diesel::sql_query(sql).bind::<Array<SqlUuid>, _>(ids)).load(&mut conn).await
}

/// Returns the visible projects among `ids`.
pub async fn load(mut conn: &Conn, ids: &[ProjectId]) -> QueryResult<Vec<ProjectRow>> {
    let sql = format!(
        "select project.id, project.tenant_id as developer_id, project.class, project.city, project.folded_city, \
            project.folded_name, project.latitude, project.longitude, project.published_at, \
            buildings.first_ready_on, homes.* \
        from unnest($1) as requested (id) \
            join project on project.id = requested.id \
            join developer on developer.id = project.tenant_id \
            cross join lateral ( \
                select coalesce(min({READY_DAY}), 2147483647) as first_ready_on \
                from building where building.project_id = project.id and building.deleted_at is null \
            ) as buildings \
            cross join lateral ( \
                select coalesce(array_agg(home.room_category), '{{}}') as home_rooms, \
                    coalesce(array_agg(home.price), '{{}}') as home_prices, \
                    coalesce(array_agg({READY_DAY}), '{{}}') as home_ready_on \
                from property_object as home join building on building.id = home.building_id \
                where home.project_id = project.id and home.removed_at is null and home.status = 'Available' \
                    and home.kind in ('Flat', 'Apartment') and building.deleted_at is null \
            ) as homes \
        where {IS_VISIBLE}"
    );
    Prepared(diesel::sql_query(sql).bind::<Array<SqlUuid>, _>(ids)).load(&mut conn).await
}
