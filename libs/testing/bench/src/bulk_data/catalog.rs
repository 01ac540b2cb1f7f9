//! Chessboard's catalog, which is a function of its numbers and so the same on every machine.

use anyhow::Context;
use tokio_postgres::Client;

use super::{drop_indexes, share};
use devkit::progress::Step;

/// Buildings of a project, except in catalogs of many projects.
pub(crate) const BUILDINGS: u64 = 20;
/// Projects of a batch.
const BATCH: u64 = 10;
/// Projects whose figures are added up at once.
const RENEWED_PROJECTS: i64 = 2_000;

const TABLES: [&str; 8] = [
    "developer",
    "project",
    "building",
    "property_object",
    "price_history",
    "building_figures",
    "project_figures",
    "project_figures_change",
];

/// SQL function: the id of a number in a table.
const ID: &str = "create or replace function pg_temp.seeded(kind text, number bigint) returns uuid language sql immutable as \
    $$ select ('5eed' || kind || '-0000-4000-8000-' || lpad(to_hex(number), 12, '0'))::uuid $$";

/// Inserts a developer for every ten projects, with its company.
const DEVELOPERS: &str = "\
    with of_company as (insert into company (id, type, status, name, version) \
        select pg_temp.seeded('0010', n), 'Developer', 'Active', 'Developer ' || n, 1 \
        from generate_series(($1::bigint + 9) / 10, ($2::bigint + 9) / 10) as n on conflict do nothing) \
    insert into developer (id, name, description, logo_file_id, highlights, status, sync_source, projects_published_count, \
        created_at, created_by_user_id, updated_at, updated_by_user_id, version, folded_name, search_text) \
    select pg_temp.seeded('0010', n), 'Developer ' || n, 'Builds houses', pg_temp.seeded('0018', n), \
        '{\"ContractVersion\":1,\"ObjectsDeliveredCount\":null,\"ObjectsInProgressCount\":null,\"YearsOnMarket\":null,\
        \"ReliabilityValue\":null,\"ReliabilityMax\":10,\"AwardTitles\":[]}', 'Published', 'Platform', 10, \
        '2026-01-01', pg_temp.seeded('0019', 1), '2026-01-01', pg_temp.seeded('0019', 1), 1, 'developer ' || n, 'developer ' || n \
    from generate_series(($1::bigint + 9) / 10, ($2::bigint + 9) / 10) as n on conflict do nothing";

const PROJECTS: &str = "\
    insert into project (id, tenant_id, name, description, class, city, address, latitude, longitude, status, published_at, \
        created_at, created_by_user_id, updated_at, updated_by_user_id, version, folded_name, folded_city) \
    select pg_temp.seeded('0011', n), pg_temp.seeded('0010', (n + 9) / 10), 'Project ' || n, 'Among pines', \
        (array['Economy', 'Comfort', 'Business', 'Elite'])[n % 4 + 1], 'City ' || n % 50, n || ' Main Street', \
        55 + n % 100 / 100.0, 37 + n % 70 / 100.0, 'Published', '2026-01-01'::timestamptz + n * interval '1 minute', \
        '2026-01-01', pg_temp.seeded('0019', 1), '2026-01-01', pg_temp.seeded('0019', 1), 1, 'project ' || n, 'city ' || n % 50 \
    from generate_series($1::bigint, $2::bigint) as n on conflict do nothing";

const BUILDINGS_OF: &str = "\
    insert into building (id, project_id, tenant_id, name, sections_count, floors_total, state, ready_year, ready_quarter, \
        created_at, updated_at, version) \
    select pg_temp.seeded('0012', p * 100 + b), pg_temp.seeded('0011', p), pg_temp.seeded('0010', (p + 9) / 10), \
        'Building ' || b, 4, 25, (array['Planned', 'UnderConstruction', 'Commissioned'])[(p + b) % 3 + 1], \
        2026 + (p * 7 + b) % 4, 1 + b % 4, '2026-01-01', '2026-01-01', 1 \
    from generate_series($1::bigint, $2::bigint) as p, generate_series(1, $3::bigint) as b on conflict do nothing";

/// Inserts the objects: `$3` buildings of each project with `$4` objects each. Half of them are
/// Available; seven of ten are flats or apartments.
const OBJECTS: &str = "\
    with made as (insert into property_object (id, building_id, project_id, tenant_id, number, kind, section, floor, position_on_floor, \
        rooms, is_studio, area_total, finishing, price, currency, status, own_status, created_at, updated_at, version, \
        published_project_name, published_building_name, published_is_live, published_is_public) \
    select pg_temp.seeded('0013', (p * 100 + b) * 10000 + n), pg_temp.seeded('0012', p * 100 + b), \
        pg_temp.seeded('0011', p), pg_temp.seeded('0010', (p + 9) / 10), n::text, kind, 1 + n % 4, 1 + n / 4 % 25, 1 + n / 100, \
        case when n % 10 < 7 then nullif(n % 5, 0) end, n % 10 = 0, 2000 + (n * 37 + b * 11) % 9000, \
        (array['None', 'PreFinish', 'Finished', 'Furnished'])[(p + n) % 4 + 1], \
        (3000000 + (p * 7919 + b * 104729 + n * 1299709) % 20000000) * 100, 'RUB', status, status, \
        '2026-01-01', '2026-01-01', 1, 'Project ' || p, 'Building ' || b, true, true \
    from generate_series($1::bigint, $2::bigint) as p, generate_series(1, $3::bigint) as b, generate_series(1, $4::bigint) as n, \
        lateral (select (array['Flat', 'Flat', 'Flat', 'Flat', 'Flat', 'Flat', 'Apartment', 'Parking', 'Storage', \
            'Commercial'])[n % 10 + 1] as kind, \
            case when (p * 31 + b * 17 + n * 13) % 20 < 10 then 'Available' when n % 9 < 8 then 'Sold' else 'Reserved' end as status \
        ) as drawn \
    on conflict do nothing returning id, price, currency) \
    insert into price_history (property_object_id, version, price, currency, changed_at) \
    select id, 1, price, currency, '2026-01-01' from made";

const FIGURES: &str = "\
    select count(renew_building_figures(pg_temp.seeded('0012', p * 100 + b))) \
    from generate_series($1::bigint, $2::bigint) as p, generate_series(1, $3::bigint) as b";

/// The size of a catalog.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) projects: u64,
    /// Buildings of each project.
    pub(crate) buildings: u64,
    /// Minimum number of objects in all projects.
    pub(crate) objects: u64,
}

/// Adds the missing rows in one transaction. `client` sees the tables of chessboard.
pub(crate) async fn fill(client: &Client, size: Size, step: &Step) -> anyhow::Result<()> {
    let begin = "begin; set local maintenance_work_mem = '512MB'; set local statement_timeout = 0;";
    client.batch_execute(begin).await?;
    let filled = fill_within(client, size, step).await;
    client.batch_execute(if filled.is_ok() { "commit" } else { "rollback" }).await?;
    filled?;
    step.note("vacuuming");
    client.batch_execute(&format!("vacuum analyze {}", TABLES.join(", "))).await?;
    Ok(())
}

/// Removes all rows of [`fill`] and of managers. A running service does not notice it.
pub(crate) async fn clear(client: &Client) -> anyhow::Result<()> {
    // The triggers of append-only tables would refuse it.
    client.batch_execute("begin; set local session_replication_role = replica").await?;
    client.batch_execute(&format!("truncate {}, company cascade; commit", TABLES.join(", "))).await?;
    Ok(())
}

/// Number of the first project of [`fill_developer`], beyond those of [`fill`].
const FIRST_OF_DEVELOPER: u64 = 1_000_001;

/// The id of the developer of [`fill_developer`]. Its number is 100,001, since each developer has
/// ten projects.
pub(crate) const DEVELOPER: &str = "5eed0010-0000-4000-8000-0000000186a1";

/// Returns the names of the buildings of [`fill_developer`], each with its project.
pub(crate) fn buildings() -> impl Iterator<Item = (String, String)> {
    let projects = FIRST_OF_DEVELOPER..FIRST_OF_DEVELOPER + BATCH;
    projects.flat_map(|p| (1..=BUILDINGS).map(move |b| (format!("Project {p}"), format!("Building {b}"))))
}

/// Returns the public path of the first building of [`fill_developer`], with its objects.
pub(crate) fn first_building() -> String {
    let seeded = |kind: &str, number: u64| format!("5eed{kind}-0000-4000-8000-{number:012x}");
    let (project, building) =
        (seeded("0011", FIRST_OF_DEVELOPER), seeded("0012", FIRST_OF_DEVELOPER * 100 + 1));
    format!("/api/v1/public/projects/{project}/buildings/{building}")
}

/// Adds a developer of ten projects with `in_building` objects in each of its 200 buildings.
pub(crate) async fn fill_developer(client: &Client, in_building: u32) -> anyhow::Result<()> {
    client.batch_execute(ID).await?;
    client.batch_execute("set statement_timeout = 0").await?;
    let first = i64::try_from(FIRST_OF_DEVELOPER)?;
    let range = (first, first + i64::try_from(BATCH)? - 1);
    fill_projects(client, range, i64::try_from(BUILDINGS)?, in_building.into()).await?;
    client.execute("select renew_project_figures($1)", &[&i64::MAX]).await?;
    client.batch_execute(&format!("vacuum analyze {}", TABLES.join(", "))).await?;
    client.batch_execute("checkpoint").await?;
    Ok(())
}

/// Adds the projects of a range of numbers with their developers, buildings and objects.
async fn fill_projects(
    client: &Client,
    (first, last): (i64, i64),
    buildings: i64,
    in_building: i64,
) -> anyhow::Result<()> {
    for statement in [DEVELOPERS, PROJECTS] {
        client.execute(statement, &[&first, &last]).await?;
    }
    client.execute(BUILDINGS_OF, &[&first, &last, &buildings]).await?;
    client.execute(OBJECTS, &[&first, &last, &buildings, &in_building]).await.context("objects")?;
    client.execute(FIGURES, &[&first, &last, &buildings]).await?;
    Ok(())
}

async fn fill_within(client: &Client, size: Size, step: &Step) -> anyhow::Result<()> {
    let Size { projects, buildings, objects } = size;
    let indexes = drop_indexes(client, &TABLES).await?;
    client.batch_execute(ID).await?;
    let in_building = i64::try_from(objects.div_ceil(projects * buildings))?;
    let mut first = 1;
    while first <= projects {
        step.note(format!("projects: {}", share(first, projects)));
        let last = (first + BATCH - 1).min(projects);
        let range = (i64::try_from(first)?, i64::try_from(last)?);
        fill_projects(client, range, i64::try_from(buildings)?, in_building).await?;
        first = last + 1;
    }
    for (number, definition) in indexes.iter().enumerate() {
        step.note(format!("index {} of {}", number + 1, indexes.len()));
        client.batch_execute(definition).await?;
    }
    loop {
        let renewed = "select renew_project_figures($1)";
        let renewed: i64 = client.query_one(renewed, &[&RENEWED_PROJECTS]).await?.get(0);
        if renewed < RENEWED_PROJECTS {
            return Ok(());
        }
        // The function keeps its plans, and those for an empty table would scan the filled one.
        client.batch_execute("analyze project_figures").await?;
    }
}
