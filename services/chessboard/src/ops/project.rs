//! Use cases of projects.

use ::db::Tx;
use auth::{CompanyId, UserId};
use messaging::outbox;
use time::OffsetDateTime;

use crate::db;
use crate::db::propagation::Scope;
use crate::domain::{
    Developer, Edited, ExternalId, Project, ProjectFacts, ProjectId, ProjectStatus, Upserted,
};
use crate::error::{
    CONFLICT, DEVELOPER_NOT_FOUND, EXTERNAL_ID_TAKEN, Error, PROJECT_NOT_FOUND, PROPERTY_OBJECT_HELD,
};
use crate::events::ProjectStatusChanged;

/// Creates a project in Draft.
///
/// # Errors
/// - [`DEVELOPER_NOT_FOUND`] if the developer is missing or deleted.
/// - [`EXTERNAL_ID_TAKEN`] if another project of the developer has the external id.
pub async fn create_project(
    tx: &mut Tx,
    tenant: CompanyId,
    by: UserId,
    fields: Edited<ProjectFacts>,
    now: OffsetDateTime,
) -> Result<Project, Error> {
    lock_developer(tx, tenant).await?.ok_or(DEVELOPER_NOT_FOUND)?;
    insert(tx, tenant, by, fields, now).await?.ok_or_else(|| EXTERNAL_ID_TAKEN.into())
}

/// Creates the project of an external id in Draft, or replaces its fields. Identical fields change
/// nothing.
///
/// `version` is 0 if the caller expects no such project.
///
/// # Errors
/// - [`DEVELOPER_NOT_FOUND`] if the developer is missing or deleted.
/// - [`CONFLICT`] if `version` is outdated.
pub async fn upsert_project(
    tx: &mut Tx,
    tenant: CompanyId,
    by: UserId,
    id: ExternalId,
    version: Option<i64>,
    facts: ProjectFacts,
    now: OffsetDateTime,
) -> Result<Upserted<Project>, Error> {
    lock_developer(tx, tenant).await?.ok_or(DEVELOPER_NOT_FOUND)?;
    let seen = db::project::look_up_by_external_id(tx.conn(), tenant, &id).await?;
    let expected = version.or(Some(seen.map_or(0, |seen| seen.version)));
    let fields = Edited::with_external_id(id.clone(), facts);
    let mut found = db::project::lock_by_external_id(tx, tenant, &id).await?;
    if found.is_none() {
        check_version(expected, 0)?;
        if let Some(created) = insert(tx, tenant, by, fields.clone(), now).await? {
            return Ok(Upserted::Created(created));
        }
        // A concurrent request has taken the external id.
        found = db::project::lock_by_external_id(tx, tenant, &id).await?;
    }
    update(tx, found.ok_or(CONFLICT)?, by, expected, fields, now).await
}

/// Inserts and publishes a project, unless another project of the developer has its external id.
async fn insert(
    tx: &mut Tx,
    tenant: CompanyId,
    by: UserId,
    fields: Edited<ProjectFacts>,
    now: OffsetDateTime,
) -> Result<Option<Project>, Error> {
    let project = Project::new(tenant, fields, by, now);
    if !db::project::insert(tx, &project).await? {
        return Ok(None);
    }
    outbox::append(tx, &ProjectStatusChanged::new(&project, None)).await?;
    Ok(Some(project))
}

/// Replaces the fields of a project. Identical fields change nothing.
///
/// # Errors
/// - [`PROJECT_NOT_FOUND`] if the developer has no such live project.
/// - [`CONFLICT`] if `version` is outdated.
/// - [`EXTERNAL_ID_TAKEN`] if another project of the developer has the external id.
pub async fn update_project(
    tx: &mut Tx,
    tenant: CompanyId,
    by: UserId,
    id: ProjectId,
    version: Option<i64>,
    fields: Edited<ProjectFacts>,
    now: OffsetDateTime,
) -> Result<Project, Error> {
    let expected = version.or(db::project::find_version(tx.conn(), tenant, id).await?);
    let project = db::project::lock(tx, tenant, id).await?.ok_or(PROJECT_NOT_FOUND)?;
    Ok(update(tx, project, by, expected, fields, now).await?.into_inner())
}

/// Replaces the fields of a locked project.
async fn update(
    tx: &mut Tx,
    mut project: Project,
    by: UserId,
    expected: Option<i64>,
    fields: Edited<ProjectFacts>,
    now: OffsetDateTime,
) -> Result<Upserted<Project>, Error> {
    let is_renamed = project.facts.name != fields.facts.name;
    if !project.update(fields, by, now) {
        return Ok(Upserted::Unchanged(project));
    }
    check_version(expected, project.version)?;
    db::project::save(tx, &mut project).await?;
    if is_renamed {
        db::propagation::request(tx, Scope::Project, project.id.into(), project.tenant_id, false).await?;
    }
    Ok(Upserted::Updated(project))
}

/// Publishes a project.
///
/// # Errors
/// - [`PROJECT_NOT_FOUND`] if the developer has no such live project.
/// - [`CONFLICT`] if `version` is outdated.
/// - [`PROJECT_INVALID_TRANSITION`](crate::error::PROJECT_INVALID_TRANSITION) if the project is
///   Published already.
/// - [`PROJECT_DEVELOPER_NOT_PUBLISHED`](crate::error::PROJECT_DEVELOPER_NOT_PUBLISHED) if the
///   developer is not Published.
pub async fn publish_project(
    tx: &mut Tx,
    tenant: CompanyId,
    by: UserId,
    id: ProjectId,
    version: Option<i64>,
    now: OffsetDateTime,
) -> Result<Project, Error> {
    // INV-PRJ-1: the lock keeps the developer's status until the project is Published.
    let is_published = lock_developer(tx, tenant).await?.is_some_and(|developer| developer.is_published());
    let mut project = db::project::lock(tx, tenant, id).await?.ok_or(PROJECT_NOT_FOUND)?;
    check_version(version, project.version)?;
    let from = project.status;
    project.publish(is_published, by, now)?;
    save_and_publish(tx, &mut project, from).await?;
    Ok(project)
}

/// Hides a Published project.
///
/// # Errors
/// - [`PROJECT_NOT_FOUND`] if the developer has no such live project.
/// - [`CONFLICT`] if `version` is outdated.
/// - [`PROJECT_INVALID_TRANSITION`](crate::error::PROJECT_INVALID_TRANSITION) if the project is not
///   Published.
pub async fn hide_project(
    tx: &mut Tx,
    tenant: CompanyId,
    by: UserId,
    id: ProjectId,
    version: Option<i64>,
    now: OffsetDateTime,
) -> Result<Project, Error> {
    let mut project = db::project::lock(tx, tenant, id).await?.ok_or(PROJECT_NOT_FOUND)?;
    check_version(version, project.version)?;
    let from = project.status;
    project.hide(by, now)?;
    save_and_publish(tx, &mut project, from).await?;
    Ok(project)
}

/// Deletes a project with its buildings and objects.
///
/// # Errors
/// - [`PROJECT_NOT_FOUND`] if the developer has no such live project.
/// - [`CONFLICT`] if `expected` is outdated.
/// - [`PROPERTY_OBJECT_HELD`] if a deal holds an object of the project.
pub async fn delete_project(
    tx: &mut Tx,
    tenant: CompanyId,
    by: UserId,
    id: ProjectId,
    expected: Option<i64>,
    now: OffsetDateTime,
) -> Result<(), Error> {
    let mut project = db::project::lock(tx, tenant, id).await?.ok_or(PROJECT_NOT_FOUND)?;
    check_version(expected, project.version)?;
    if db::project::has_held_object(tx, id).await? {
        return Err(PROPERTY_OBJECT_HELD.into());
    }
    let from = project.status;
    project.delete(by, now);
    db::project::delete_buildings(tx, id, now).await?;
    save_and_publish(tx, &mut project, from).await
}

/// Deletes a project of any developer, for an administrator.
///
/// # Errors
/// [`DEVELOPER_NOT_FOUND`] if the developer is missing or deleted, and those of [`delete_project`].
pub async fn delete_developers_project(
    tx: &mut Tx,
    developer: CompanyId,
    by: UserId,
    id: ProjectId,
    expected: Option<i64>,
    now: OffsetDateTime,
) -> Result<(), Error> {
    lock_developer(tx, developer).await?.ok_or(DEVELOPER_NOT_FOUND)?;
    delete_project(tx, developer, by, id, expected, now).await
}

/// Locks a live developer for reading until the transaction ends.
pub async fn lock_developer(tx: &mut Tx, id: CompanyId) -> Result<Option<Developer>, Error> {
    let developer = db::developer::lock_for_reading(tx, id).await?;
    Ok(developer.filter(|developer| !developer.is_deleted()))
}

/// Saves a project with a new status or a deletion, and publishes the change.
async fn save_and_publish(tx: &mut Tx, project: &mut Project, from: ProjectStatus) -> Result<(), Error> {
    db::project::save(tx, project).await?;
    let hides = project.deleted_at.is_some() || project.status != ProjectStatus::Published;
    db::propagation::request(tx, Scope::Project, project.id.into(), project.tenant_id, hides).await?;
    outbox::append(tx, &ProjectStatusChanged::new(project, Some(from))).await?;
    Ok(())
}

/// Compares the version that the caller has seen, if any, with the stored one.
///
/// # Errors
/// [`CONFLICT`] if they differ.
pub fn check_version(expected: Option<i64>, version: i64) -> Result<(), Error> {
    if expected.is_some_and(|expected| expected != version) { Err(CONFLICT.into()) } else { Ok(()) }
}
