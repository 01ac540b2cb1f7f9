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
    Ancestors, Building, BuildingFacts, BuildingId, Edited, ExternalId, MAX_BUILDINGS, Parent, ProjectId,
    ProjectStatus, Upserted,
};
use crate::error::{
    BUILDING_NOT_FOUND, BUILDINGS_LIMIT_EXCEEDED, CONFLICT, EXTERNAL_ID_TAKEN, Error, PROJECT_NOT_FOUND,
    PROPERTY_OBJECT_HELD,
};

/// Adds a building to a project.
///
/// # Errors
/// - [`PROJECT_NOT_FOUND`] if the developer has no such live project.
/// - [`BUILDINGS_LIMIT_EXCEEDED`] if the project has [`MAX_BUILDINGS`] live buildings.
/// - [`EXTERNAL_ID_TAKEN`] if another building of the developer has the external id.
pub async fn create_building(
    tx: &mut Tx,
    tenant: CompanyId,
    project: ProjectId,
    fields: Edited<BuildingFacts>,
    now: OffsetDateTime,
) -> Result<Building, Error> {
    // The lock serializes creations in one project, so `insert` counts the buildings exactly.
    db::project::lock(tx, tenant, project).await?.ok_or(PROJECT_NOT_FOUND)?;
    insert(tx, tenant, project, fields, now).await
}

/// Inserts a building into a locked project.
async fn insert(
    tx: &mut Tx,
    tenant: CompanyId,
    project: ProjectId,
    fields: Edited<BuildingFacts>,
    now: OffsetDateTime,
) -> Result<Building, Error> {
    if db::building::count(tx, project).await? >= i64::from(MAX_BUILDINGS) {
        return Err(BUILDINGS_LIMIT_EXCEEDED.into());
    }
    let building = Building::new(tenant, project, fields, now);
    db::building::insert(tx, &building).await?;
    Ok(building)
}

/// Creates the building of an external id, or replaces its fields. Identical fields change nothing.
///
/// `version` is 0 if the caller expects no such building.
///
/// # Errors
/// - [`PROJECT_NOT_FOUND`] if the developer has no such live project.
/// - [`EXTERNAL_ID_TAKEN`] if a building of another project has the external id.
/// - `VALIDATION_FAILED` if the new size would cut off a live object.
/// - [`CONFLICT`] if `version` is outdated.
/// - [`BUILDINGS_LIMIT_EXCEEDED`] if the project has [`MAX_BUILDINGS`] live buildings.
pub async fn upsert_building(
    tx: &mut Tx,
    tenant: CompanyId,
    project: Parent<ProjectId>,
    id: ExternalId,
    version: Option<i64>,
    facts: BuildingFacts,
    now: OffsetDateTime,
) -> Result<Upserted<Building>, Error> {
    let project = find_project(tx, tenant, project).await?;
    let seen = db::building::look_up_by_external_id(tx.conn(), tenant, &id).await?;
    let locked = if seen.is_some() {
        db::project::lock_for_reading(tx, tenant, project).await?
    } else {
        db::project::lock(tx, tenant, project).await?
    };
    locked.ok_or(PROJECT_NOT_FOUND)?;
    let expected = version.or(Some(seen.as_ref().map_or(0, |seen| seen.version)));
    let fields = Edited::with_external_id(id.clone(), facts);
    match db::building::lock_by_external_id(tx, tenant, &id).await? {
        Some(found) if found.project_id == project => update(tx, found, expected, fields, now).await,
        Some(_) => Err(EXTERNAL_ID_TAKEN.into()),
        // The building was deleted after it was read. A new one needs a lock of the project for
        // writing, so the caller must retry.
        None if seen.is_some() => Err(CONFLICT.into()),
        None => {
            check_version(expected, 0)?;
            insert(tx, tenant, project, fields, now).await.map(Upserted::Created)
        }
    }
}

async fn find_project(
    tx: &mut Tx,
    tenant: CompanyId,
    project: Parent<ProjectId>,
) -> Result<ProjectId, Error> {
    match project {
        Parent::Id(id) => Ok(id),
        Parent::ExternalId(id) => {
            let found = db::project::look_up_by_external_id(tx.conn(), tenant, &id).await?;
            Ok(found.ok_or(PROJECT_NOT_FOUND)?.id)
        }
    }
}

/// Replaces the fields of a building. Identical fields change nothing.
///
/// # Errors
/// - [`PROJECT_NOT_FOUND`] or [`BUILDING_NOT_FOUND`] if a resource of the path is missing or
///   deleted.
/// - `VALIDATION_FAILED` if the new size would cut off a live object.
/// - [`CONFLICT`] if `version` is outdated.
/// - [`EXTERNAL_ID_TAKEN`] if another building of the developer has the external id.
pub async fn update_building(
    tx: &mut Tx,
    tenant: CompanyId,
    project: ProjectId,
    id: BuildingId,
    version: Option<i64>,
    fields: Edited<BuildingFacts>,
    now: OffsetDateTime,
) -> Result<Building, Error> {
    let expected = version.or(db::building::find_version(tx.conn(), project, id).await?);
    let building = lock(tx, tenant, project, id).await?;
    Ok(update(tx, building, expected, fields, now).await?.into_inner())
}

/// Replaces the fields of a locked building.
async fn update(
    tx: &mut Tx,
    mut building: Building,
    expected: Option<i64>,
    fields: Edited<BuildingFacts>,
    now: OffsetDateTime,
) -> Result<Upserted<Building>, Error> {
    reject_invalid("", fields.facts.extent_errors(db::building::find_extent(tx, building.id).await?))?;
    let is_renamed = building.facts.name != fields.facts.name;
    if !building.update(fields, now) {
        return Ok(Upserted::Unchanged(building));
    }
    check_version(expected, building.version)?;
    db::building::save(tx, &mut building).await?;
    if is_renamed {
        db::propagation::request(tx, Scope::Building, building.id.into(), building.tenant_id, false).await?;
    }
    Ok(Upserted::Updated(building))
}

/// Deletes a building with its objects.
///
/// # Errors
/// - [`PROJECT_NOT_FOUND`] or [`BUILDING_NOT_FOUND`] if a resource of the path is missing or
///   deleted.
/// - [`CONFLICT`] if `expected` is outdated.
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
pub async fn lock_for_object_changes(
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
        // Both rows are live, and a developer with a live project cannot be deleted.
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
    if errors.is_empty() { Ok(()) } else { Err(invalid(prefix, errors)) }
}

/// Returns `VALIDATION_FAILED` for invalid fields below `prefix`.
pub fn invalid(prefix: &str, errors: Vec<(&'static str, Invalid)>) -> Error {
    let error = |(member, invalid)| FieldError { field: format!("{prefix}/{member}"), invalid };
    Problem::validation_failed(errors.into_iter().map(error).collect()).into()
}
