//! Use cases of buildings.

use ::db::Tx;
use auth::CompanyId;
use time::OffsetDateTime;
use values::Invalid;
use web::{FieldError, Problem};

use super::project::{check_version, lock_developer};
use crate::db;
use crate::db::propagation::Scope;
use crate::domain::{
    Ancestors, Building, BuildingFacts, BuildingId, MAX_BUILDINGS, ProjectId, ProjectStatus,
};
use crate::error::{
    BUILDING_NOT_FOUND, BUILDINGS_LIMIT_EXCEEDED, Error, PROJECT_NOT_FOUND, PROPERTY_OBJECT_HELD,
};

/// Adds a building to a project.
///
/// # Errors
/// - [`PROJECT_NOT_FOUND`] if the developer has no such live project.
/// - [`BUILDINGS_LIMIT_EXCEEDED`] if the project has [`MAX_BUILDINGS`] live buildings.
pub async fn create_building(
    tx: &mut Tx,
    tenant: CompanyId,
    project: ProjectId,
    facts: BuildingFacts,
    now: OffsetDateTime,
) -> Result<Building, Error> {
    // The lock serializes creations in one project, so the count below is exact.
    db::project::lock(tx, tenant, project).await?.ok_or(PROJECT_NOT_FOUND)?;
    if db::building::count(tx, project).await? >= i64::from(MAX_BUILDINGS) {
        return Err(BUILDINGS_LIMIT_EXCEEDED.into());
    }
    let building = Building::new(tenant, project, facts, now);
    db::building::insert(tx, &building).await?;
    Ok(building)
}

/// Replaces the fields of a building. Identical fields change nothing.
///
/// # Errors
/// - [`PROJECT_NOT_FOUND`] or [`BUILDING_NOT_FOUND`] if a resource of the path is missing or
///   deleted.
/// - `VALIDATION_FAILED` if the new size would cut off a live object.
/// - [`CONFLICT`](crate::error::CONFLICT) if `version` is outdated.
pub async fn update_building(
    tx: &mut Tx,
    tenant: CompanyId,
    project: ProjectId,
    id: BuildingId,
    version: Option<i64>,
    facts: BuildingFacts,
    now: OffsetDateTime,
) -> Result<Building, Error> {
    let expected = version.or(db::building::find_version(tx.conn(), project, id).await?);
    let mut building = lock(tx, tenant, project, id).await?;
    reject_invalid("", facts.extent_errors(db::building::find_extent(tx, id).await?))?;
    if building.facts == facts {
        return Ok(building);
    }
    check_version(expected, building.version)?;
    let is_renamed = building.facts.name != facts.name;
    building.facts = facts;
    building.updated_at = now;
    db::building::save(tx, &mut building).await?;
    if is_renamed {
        db::propagation::request(tx, Scope::Building, id.into(), tenant, false).await?;
    }
    Ok(building)
}

/// Deletes a building with its objects.
///
/// # Errors
/// - [`PROJECT_NOT_FOUND`] or [`BUILDING_NOT_FOUND`] if a resource of the path is missing or
///   deleted.
/// - [`CONFLICT`](crate::error::CONFLICT) if `expected` is outdated.
/// - [`PROPERTY_OBJECT_HELD`] if a deal holds an object of the building.
pub async fn delete_building(
    tx: &mut Tx,
    tenant: CompanyId,
    project: ProjectId,
    id: BuildingId,
    expected: Option<i64>,
    now: OffsetDateTime,
) -> Result<(), Error> {
    let mut building = lock(tx, tenant, project, id).await?;
    check_version(expected, building.version)?;
    if db::building::has_held_object(tx, id).await? {
        return Err(PROPERTY_OBJECT_HELD.into());
    }
    building.deleted_at = Some(now);
    building.updated_at = now;
    db::building::save(tx, &mut building).await?;
    Ok(db::propagation::request(tx, Scope::Building, id.into(), tenant, true).await?)
}

/// Locks a building for writing and its project for reading.
async fn lock(tx: &mut Tx, tenant: CompanyId, project: ProjectId, id: BuildingId) -> Result<Building, Error> {
    db::project::lock_for_reading(tx, tenant, project).await?.ok_or(PROJECT_NOT_FOUND)?;
    Ok(db::building::lock(tx, project, id).await?.ok_or(BUILDING_NOT_FOUND)?)
}

/// Locks a building for writing and its ancestors for reading, to change and publish its objects.
///
/// # Errors
/// [`PROJECT_NOT_FOUND`] or [`BUILDING_NOT_FOUND`] if a resource of the path is missing or deleted.
pub async fn lock_with_objects(
    tx: &mut Tx,
    tenant: CompanyId,
    project: ProjectId,
    id: BuildingId,
) -> Result<(Building, Ancestors), Error> {
    let developer = lock_developer(tx, tenant).await?;
    let project = db::project::lock_for_reading(tx, tenant, project).await?.ok_or(PROJECT_NOT_FOUND)?;
    let building = db::building::lock(tx, project.id, id).await?.ok_or(BUILDING_NOT_FOUND)?;
    let ancestors = Ancestors {
        tenant_id: tenant,
        project_id: project.id,
        project_name: project.facts.name,
        building_id: id,
        building_name: building.facts.name.clone(),
        is_live: true,
        is_published: developer.is_some_and(|developer| developer.is_published())
            && project.status == ProjectStatus::Published,
    };
    Ok((building, ancestors))
}

/// Rejects a request with invalid fields below `prefix`.
///
/// # Errors
/// `VALIDATION_FAILED` if `errors` is not empty.
pub fn reject_invalid(prefix: &str, errors: Vec<(&'static str, Invalid)>) -> Result<(), Error> {
    if errors.is_empty() {
        return Ok(());
    }
    let error = |(member, invalid)| FieldError { field: format!("{prefix}/{member}"), invalid };
    Err(Problem::validation_failed(errors.into_iter().map(error).collect()).into())
}
