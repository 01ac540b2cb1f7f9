//! Buildings of the catalog.

use ::db::Conn;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use futures_util::future::try_join;
use serde::Serialize;
use utoipa::ToSchema;
use values::{Currency, Money};

use crate::domain::{BuildingFacts, BuildingId, DeveloperStatus, ProjectId, ProjectStatus};
use crate::schema::{building, building_figures, developer, project, property_object};

/// A building in the catalog.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CatalogBuilding {
    pub id: BuildingId,
    #[serde(flatten)]
    pub facts: BuildingFacts,
    /// Lowest price of the Available flats and apartments.
    pub price_from: Option<Money>,
    /// Number of Available flats and apartments.
    pub free_count: i32,
}

/// A building with its figures. They are null if the building has no row in `building_figures`.
type Row = (BuildingId, BuildingFacts, Option<i64>, Option<i32>);

fn into_catalog_building((id, facts, price_from, free_count): Row, currency: Currency) -> CatalogBuilding {
    let price_from = price_from.map(|amount_minor| Money { amount_minor, currency });
    CatalogBuilding { id, facts, price_from, free_count: free_count.unwrap_or_default() }
}

/// Returns the live buildings of a project by name.
pub async fn list_by_project(
    mut conn: &Conn,
    project_id: ProjectId,
    currency: Currency,
) -> QueryResult<Vec<CatalogBuilding>> {
    let free = building_figures::free_flat + building_figures::free_apartment;
    let rows: Vec<Row> = building::table
        .left_join(building_figures::table.on(building_figures::building_id.eq(building::id)))
        .filter(building::project_id.eq(project_id))
        .filter(building::deleted_at.is_null())
        .select((
            building::id,
            BuildingFacts::as_select(),
            building_figures::price_from.nullable(),
            free.nullable(),
        ))
        .load(&mut conn)
        .await?;
    let mut buildings: Vec<_> = rows.into_iter().map(|row| into_catalog_building(row, currency)).collect();
    // Code-point order, as in the manager's list, which the database sorts.
    buildings.sort_by(|one, other| {
        let key = |building: &CatalogBuilding| (building.facts.name.as_str().to_owned(), building.id);
        key(one).cmp(&key(other))
    });
    Ok(buildings)
}

/// Returns a visible building of a project with the number of its live objects.
pub async fn look_up(
    conn: &Conn,
    project_id: ProjectId,
    id: BuildingId,
    currency: Currency,
) -> QueryResult<Option<(CatalogBuilding, i64)>> {
    let (mut first, mut second) = (conn, conn);
    let free = building_figures::free_flat + building_figures::free_apartment;
    let row = building::table
        .inner_join(project::table.on(project::id.eq(building::project_id)))
        .inner_join(developer::table.on(developer::id.eq(project::tenant_id)))
        .left_join(building_figures::table.on(building_figures::building_id.eq(building::id)))
        .filter(building::id.eq(id))
        .filter(building::project_id.eq(project_id))
        .filter(building::deleted_at.is_null())
        .filter(project::deleted_at.is_null())
        .filter(project::status.eq(ProjectStatus::Published))
        .filter(developer::deleted_at.is_null())
        .filter(developer::status.eq(DeveloperStatus::Published))
        .select((
            building::id,
            BuildingFacts::as_select(),
            building_figures::price_from.nullable(),
            free.nullable(),
        ))
        .first::<Row>(&mut first);
    let objects = property_object::table
        .filter(property_object::building_id.eq(id))
        .filter(property_object::removed_at.is_null())
        .count()
        .get_result::<i64>(&mut second);
    let row = async { row.await.optional() };
    let (row, objects) = try_join(row, objects).await?;
    Ok(row.map(|row| (into_catalog_building(row, currency), objects)))
}
