//! What managers do with projects.

use ::db::Tx;
use auth::{CompanyId, UserId};
use messaging::outbox;
use time::OffsetDateTime;

use crate::db;
use crate::db::propagation::Scope;
use crate::domain::{Developer, Project, ProjectFacts, ProjectId, ProjectStatus};
use crate::error::{CONFLICT, DEVELOPER_NOT_FOUND, Error, PROJECT_NOT_FOUND, PROPERTY_OBJECT_HELD};
use crate::events::ProjectStatusChanged;

/// # Errors
/// [`DEVELOPER_NOT_FOUND`]
pub async fn create_project(
    tx: &mut Tx,
    tenant: CompanyId,
    by: UserId,
    facts: ProjectFacts,
    now: OffsetDateTime,
) -> Result<Project, Error> {
    lock_developer(tx, tenant).await?.ok_or(DEVELOPER_NOT_FOUND)?;
    let project = Project::new(tenant, facts, by, now);
    db::project::insert(tx, &project).await?;
    outbox::append(tx, &ProjectStatusChanged::of(&project, None)).await?;
    Ok(project)
}

/// # Errors
/// [`PROJECT_NOT_FOUND`], [`CONFLICT`]
pub async fn update_project(
    tx: &mut Tx,
    tenant: CompanyId,
    by: UserId,
    id: ProjectId,
    version: Option<i64>,
    facts: ProjectFacts,
    now: OffsetDateTime,
) -> Result<Project, Error> {
    let seen = version.or(db::project::version(tx.conn(), tenant, id).await?);
    let mut project = db::project::lock(tx, tenant, id).await?.ok_or(PROJECT_NOT_FOUND)?;
    if project.facts == facts {
        return Ok(project);
    }
    refuse_unseen(seen, project.version)?;
    let is_renamed = project.facts.name != facts.name;
    project.facts = facts;
    project.touch(by, now);
    db::project::save(tx, &mut project).await?;
    if is_renamed {
        db::propagation::ask(tx, Scope::Project, id.into(), tenant, false).await?;
    }
    Ok(project)
}

/// # Errors
/// [`PROJECT_NOT_FOUND`], [`CONFLICT`], [`PROJECT_INVALID_TRANSITION`](crate::error::PROJECT_INVALID_TRANSITION),
/// [`PROJECT_DEVELOPER_NOT_PUBLISHED`](crate::error::PROJECT_DEVELOPER_NOT_PUBLISHED)
pub async fn publish_project(
    tx: &mut Tx,
    tenant: CompanyId,
    by: UserId,
    id: ProjectId,
    version: Option<i64>,
    now: OffsetDateTime,
) -> Result<Project, Error> {
    // INV-PRJ-1: the developer stays as it is until the project is Published.
    let is_published = lock_developer(tx, tenant).await?.is_some_and(|developer| developer.is_published());
    let mut project = db::project::lock(tx, tenant, id).await?.ok_or(PROJECT_NOT_FOUND)?;
    refuse_unseen(version, project.version)?;
    let from = project.status;
    project.publish(is_published, by, now)?;
    save_moved(tx, &mut project, from).await?;
    Ok(project)
}

/// # Errors
/// [`PROJECT_NOT_FOUND`], [`CONFLICT`], [`PROJECT_INVALID_TRANSITION`](crate::error::PROJECT_INVALID_TRANSITION)
pub async fn hide_project(
    tx: &mut Tx,
    tenant: CompanyId,
    by: UserId,
    id: ProjectId,
    version: Option<i64>,
    now: OffsetDateTime,
) -> Result<Project, Error> {
    let mut project = db::project::lock(tx, tenant, id).await?.ok_or(PROJECT_NOT_FOUND)?;
    refuse_unseen(version, project.version)?;
    let from = project.status;
    project.hide(by, now)?;
    save_moved(tx, &mut project, from).await?;
    Ok(project)
}

/// Takes its buildings and objects along.
///
/// # Errors
/// [`PROJECT_NOT_FOUND`], [`PROPERTY_OBJECT_HELD`]
pub async fn delete_project(
    tx: &mut Tx,
    tenant: CompanyId,
    by: UserId,
    id: ProjectId,
    now: OffsetDateTime,
) -> Result<(), Error> {
    let mut project = db::project::lock(tx, tenant, id).await?.ok_or(PROJECT_NOT_FOUND)?;
    if db::project::has_held(tx, id).await? {
        return Err(PROPERTY_OBJECT_HELD.into());
    }
    let from = project.status;
    project.delete(by, now);
    db::project::delete_buildings(tx, id, now).await?;
    save_moved(tx, &mut project, from).await
}

/// The same by the platform, for a developer who is there.
///
/// # Errors
/// [`DEVELOPER_NOT_FOUND`], [`PROJECT_NOT_FOUND`], [`PROPERTY_OBJECT_HELD`]
pub async fn delete_developers_project(
    tx: &mut Tx,
    developer: CompanyId,
    by: UserId,
    id: ProjectId,
    now: OffsetDateTime,
) -> Result<(), Error> {
    lock_developer(tx, developer).await?.ok_or(DEVELOPER_NOT_FOUND)?;
    delete_project(tx, developer, by, id, now).await
}

/// A developer who is there, and whom nobody changes until the transaction ends.
pub async fn lock_developer(tx: &mut Tx, id: CompanyId) -> Result<Option<Developer>, Error> {
    let developer = db::developer::lock_for_reading(tx, id).await?;
    Ok(developer.filter(|developer| !developer.is_deleted()))
}

/// Writes a project that was moved or deleted, and tells of it.
async fn save_moved(tx: &mut Tx, project: &mut Project, from: ProjectStatus) -> Result<(), Error> {
    db::project::save(tx, project).await?;
    let hides = project.deleted_at.is_some() || project.status != ProjectStatus::Published;
    db::propagation::ask(tx, Scope::Project, project.id.into(), project.tenant_id, hides).await?;
    outbox::append(tx, &ProjectStatusChanged::of(project, Some(from))).await?;
    Ok(())
}

/// # Errors
/// [`CONFLICT`] unless a caller has seen this version, or named none.
pub fn refuse_unseen(seen: Option<i64>, version: i64) -> Result<(), Error> {
    if seen.is_some_and(|seen| seen != version) { Err(CONFLICT.into()) } else { Ok(()) }
}
