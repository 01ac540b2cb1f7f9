//! What managers do with buildings.

use ::db::Tx;
use auth::CompanyId;
use time::OffsetDateTime;
use values::Invalid;
use web::{FieldError, Problem};

use super::project::{lock_developer, refuse_unseen};
use crate::db;
use crate::db::propagation::Scope;
use crate::domain::{Above, Building, BuildingFacts, BuildingId, ProjectId, ProjectStatus};
use crate::error::{
    BUILDING_NOT_FOUND, BUILDINGS_LIMIT_EXCEEDED, Error, MOST_BUILDINGS, PROJECT_NOT_FOUND,
    PROPERTY_OBJECT_HELD,
};

/// # Errors
/// [`PROJECT_NOT_FOUND`], [`BUILDINGS_LIMIT_EXCEEDED`]
pub async fn create_building(
    tx: &mut Tx,
    tenant: CompanyId,
    project: ProjectId,
    facts: BuildingFacts,
    now: OffsetDateTime,
) -> Result<Building, Error> {
    // Those who add buildings to one project take turns.
    db::project::lock(tx, tenant, project).await?.ok_or(PROJECT_NOT_FOUND)?;
    if db::building::count(tx, project).await? >= i64::from(MOST_BUILDINGS) {
        return Err(BUILDINGS_LIMIT_EXCEEDED.into());
    }
    let building = Building::new(tenant, project, facts, now);
    db::building::insert(tx, &building).await?;
    Ok(building)
}

/// # Errors
/// [`PROJECT_NOT_FOUND`], [`BUILDING_NOT_FOUND`], `VALIDATION_FAILED` where it would cut off objects,
/// [`CONFLICT`](crate::error::CONFLICT)
pub async fn update_building(
    tx: &mut Tx,
    tenant: CompanyId,
    project: ProjectId,
    id: BuildingId,
    version: Option<i64>,
    facts: BuildingFacts,
    now: OffsetDateTime,
) -> Result<Building, Error> {
    let seen = version.or(db::building::version(tx.conn(), project, id).await?);
    let mut building = lock(tx, tenant, project, id).await?;
    blame("", facts.cuts_off(db::building::top(tx, id).await?))?;
    if building.facts == facts {
        return Ok(building);
    }
    refuse_unseen(seen, building.version)?;
    let is_renamed = building.facts.name != facts.name;
    building.facts = facts;
    building.updated_at = now;
    db::building::save(tx, &mut building).await?;
    if is_renamed {
        db::propagation::ask(tx, Scope::Building, id.into(), tenant, false).await?;
    }
    Ok(building)
}

/// Takes its objects along.
///
/// # Errors
/// [`PROJECT_NOT_FOUND`], [`BUILDING_NOT_FOUND`], [`PROPERTY_OBJECT_HELD`]
pub async fn delete_building(
    tx: &mut Tx,
    tenant: CompanyId,
    project: ProjectId,
    id: BuildingId,
    now: OffsetDateTime,
) -> Result<(), Error> {
    let mut building = lock(tx, tenant, project, id).await?;
    if db::building::has_held(tx, id).await? {
        return Err(PROPERTY_OBJECT_HELD.into());
    }
    building.deleted_at = Some(now);
    building.updated_at = now;
    db::building::save(tx, &mut building).await?;
    Ok(db::propagation::ask(tx, Scope::Building, id.into(), tenant, true).await?)
}

/// A building that is this transaction's to change, of a project that is locked for reading.
async fn lock(tx: &mut Tx, tenant: CompanyId, project: ProjectId, id: BuildingId) -> Result<Building, Error> {
    db::project::lock_for_reading(tx, tenant, project).await?.ok_or(PROJECT_NOT_FOUND)?;
    Ok(db::building::lock(tx, project, id).await?.ok_or(BUILDING_NOT_FOUND)?)
}

/// The same, with what is above its objects: whoever has it may change them, and tell of them.
///
/// # Errors
/// [`PROJECT_NOT_FOUND`], [`BUILDING_NOT_FOUND`]
pub async fn lock_with_objects(
    tx: &mut Tx,
    tenant: CompanyId,
    project: ProjectId,
    id: BuildingId,
) -> Result<(Building, Above), Error> {
    let developer = lock_developer(tx, tenant).await?;
    let project = db::project::lock_for_reading(tx, tenant, project).await?.ok_or(PROJECT_NOT_FOUND)?;
    let building = db::building::lock(tx, project.id, id).await?.ok_or(BUILDING_NOT_FOUND)?;
    let above = Above {
        tenant_id: tenant,
        project_id: project.id,
        project_name: project.facts.name,
        building_id: id,
        building_name: building.facts.name.clone(),
        is_live: true,
        is_published: developer.is_some_and(|developer| developer.is_published())
            && project.status == ProjectStatus::Published,
    };
    Ok((building, above))
}

/// # Errors
/// `VALIDATION_FAILED` where something is wrong with members below `prefix`.
pub fn blame(prefix: &str, wrong: Vec<(&'static str, Invalid)>) -> Result<(), Error> {
    if wrong.is_empty() {
        return Ok(());
    }
    let error = |(member, invalid)| FieldError { field: format!("{prefix}/{member}"), invalid };
    Err(Problem::validation_failed(wrong.into_iter().map(error).collect()).into())
}
