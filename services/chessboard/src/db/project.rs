//! Queries on projects for managers, with writes and locks.

use ::db::{Conn, Prepared, Tx};
use ::web::{Page, Paging, SortKey};
use auth::CompanyId;
use diesel::dsl::exists;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel_async::RunQueryDsl;
use service::list;
use strum::{EnumString, VariantNames};
use time::OffsetDateTime;
use values::{fold, like_containing};

use super::external_id::map_taken_external_id;
use crate::domain::{ExternalId, Project, ProjectId, ProjectStatus};
use crate::error::{CONFLICT, Error};
use crate::schema::{building, project, property_object};

#[diesel::declare_sql_function]
extern "SQL" {
    fn renew_project_figures(max_projects: BigInt) -> BigInt;
}

/// The sort keys of the manager's list.
#[derive(Clone, Copy, Debug, EnumString, VariantNames)]
pub enum ProjectSort {
    CreatedAt,
    Name,
    UpdatedAt,
}

impl SortKey for ProjectSort {
    const DEFAULT: &'static str = "-CreatedAt";
}

/// The filters of the manager's list.
pub struct ProjectFilter {
    /// The text as the caller sent it. `filtered` folds it.
    pub query: Option<String>,
    pub statuses: Option<Vec<ProjectStatus>>,
    pub external_id: Option<ExternalId>,
}

/// Inserts a project unless a live project of the developer has its external id. Waits for
/// transactions that are writing this external id.
///
/// Returns false if the project is not inserted.
pub async fn insert(tx: &mut Tx, new: &Project) -> Result<bool, ::db::Error> {
    let folded = (project::folded_name.eq(new.folded_name()), project::folded_city.eq(new.folded_city()));
    let insert = diesel::insert_into(project::table).values((new, folded)).on_conflict_do_nothing();
    Ok(Prepared(insert).execute(tx.conn()).await? == 1)
}

pub async fn look_up(mut conn: &Conn, tenant: CompanyId, id: ProjectId) -> QueryResult<Option<Project>> {
    live(tenant, id).select(Project::as_select()).first(&mut conn).await.optional()
}

/// Returns the committed version without waiting for concurrent writers.
///
/// An update without a version expects this one. It therefore conflicts with a writer that changes
/// the project while the update waits for the lock.
pub async fn find_version(
    conn: &mut Conn,
    tenant: CompanyId,
    id: ProjectId,
) -> Result<Option<i64>, ::db::Error> {
    Ok(live(tenant, id).select(project::version).first(conn).await.optional()?)
}

/// Returns the live project of a developer with an external id.
pub async fn look_up_by_external_id(
    mut conn: &Conn,
    tenant: CompanyId,
    id: &ExternalId,
) -> QueryResult<Option<Project>> {
    with_external_id(tenant, id.clone()).select(Project::as_select()).first(&mut conn).await.optional()
}

/// Locks the live project of a developer with an external id for writing until the transaction
/// ends.
pub async fn lock_by_external_id(
    tx: &mut Tx,
    tenant: CompanyId,
    id: &ExternalId,
) -> Result<Option<Project>, ::db::Error> {
    let row = with_external_id(tenant, id.clone()).select(Project::as_select()).for_no_key_update();
    Ok(row.first(tx.conn()).await.optional()?)
}

/// Locks the project for reading until the transaction ends.
pub async fn lock_for_reading(
    tx: &mut Tx,
    tenant: CompanyId,
    id: ProjectId,
) -> Result<Option<Project>, ::db::Error> {
    Ok(live(tenant, id).select(Project::as_select()).for_share().first(tx.conn()).await.optional()?)
}

/// Locks the project for writing until the transaction ends.
pub async fn lock(tx: &mut Tx, tenant: CompanyId, id: ProjectId) -> Result<Option<Project>, ::db::Error> {
    Ok(live(tenant, id).select(Project::as_select()).for_no_key_update().first(tx.conn()).await.optional()?)
}

/// Writes the mutable columns and raises the version of the row and of `changed`.
///
/// # Errors
/// - [`CONFLICT`] if the row no longer has the version that was read.
/// - [`EXTERNAL_ID_TAKEN`](crate::error::EXTERNAL_ID_TAKEN) if another project has the external id.
pub async fn save(tx: &mut Tx, changed: &mut Project) -> Result<(), Error> {
    let row = project::table.find(changed.id).filter(project::version.eq(changed.version));
    let save = diesel::update(row).set((
        &changed.facts,
        project::external_id.eq(&changed.external_id),
        project::status.eq(changed.status),
        project::published_at.eq(changed.published_at),
        project::updated_at.eq(changed.updated_at),
        project::updated_by_user_id.eq(changed.updated_by_user_id),
        project::deleted_at.eq(changed.deleted_at),
        project::version.eq(changed.version + 1),
        project::folded_name.eq(changed.folded_name()),
        project::folded_city.eq(changed.folded_city()),
    ));
    let saved = Prepared(save).execute(tx.conn()).await;
    if saved.map_err(::db::Error::from).map_err(map_taken_external_id)? == 0 {
        return Err(CONFLICT.into());
    }
    changed.version += 1;
    Ok(())
}

/// Recomputes the figures of up to `limit` projects whose buildings have changed. Returns the
/// number of these projects.
pub async fn renew_figures(tx: &mut Tx, limit: i64) -> Result<i64, ::db::Error> {
    let renew = diesel::select(renew_project_figures(limit));
    Ok(Prepared(renew).get_result(tx.conn()).await?)
}

/// Returns true if a deal holds an object of the project.
pub async fn has_held_object(tx: &mut Tx, id: ProjectId) -> Result<bool, ::db::Error> {
    let held = property_object::table
        .filter(property_object::project_id.eq(id))
        .filter(property_object::hold_deal_id.is_not_null());
    Ok(diesel::select(exists(held)).get_result(tx.conn()).await?)
}

/// Deletes the buildings of a deleted project.
pub async fn delete_buildings(tx: &mut Tx, id: ProjectId, now: OffsetDateTime) -> Result<(), ::db::Error> {
    let rows = building::table.filter(building::project_id.eq(id)).filter(building::deleted_at.is_null());
    let delete = diesel::update(rows).set((
        building::deleted_at.eq(now),
        building::updated_at.eq(now),
        building::version.eq(building::version + 1),
    ));
    Prepared(delete).execute(tx.conn()).await?;
    Ok(())
}

/// Returns one page of a developer's live projects.
pub async fn list(
    conn: &Conn,
    tenant: CompanyId,
    filter: &ProjectFilter,
    paging: &Paging<ProjectSort>,
) -> QueryResult<Page<Project>> {
    let order = match paging.sort {
        ProjectSort::CreatedAt => list::order_by(paging, project::created_at),
        ProjectSort::Name => list::order_by(paging, project::folded_name),
        ProjectSort::UpdatedAt => list::order_by(paging, project::updated_at),
    };
    let sorted = filtered(tenant, filter).select(Project::as_select()).order((order, project::id));
    list::page(conn, paging, sorted, filtered(tenant, filter).select(project::id)).await
}

fn filtered(tenant: CompanyId, filter: &ProjectFilter) -> project::BoxedQuery<'static, Pg> {
    let own = project::table.filter(project::tenant_id.eq(tenant)).filter(project::deleted_at.is_null());
    let mut found = own.into_boxed();
    if let Some(query) = &filter.query {
        found = found.filter(project::folded_name.like(like_containing(&fold(query))));
    }
    if let Some(statuses) = &filter.statuses {
        found = found.filter(project::status.eq_any(statuses.clone()));
    }
    if let Some(external_id) = &filter.external_id {
        found = found.filter(project::external_id.eq(external_id.clone()));
    }
    found
}

#[diesel::dsl::auto_type(no_type_alias)]
fn live(tenant: CompanyId, id: ProjectId) -> _ {
    project::table.find(id).filter(project::tenant_id.eq(tenant)).filter(project::deleted_at.is_null())
}

#[diesel::dsl::auto_type(no_type_alias)]
fn with_external_id(tenant: CompanyId, id: ExternalId) -> _ {
    project::table
        .filter(project::tenant_id.eq(tenant))
        .filter(project::external_id.eq(id))
        .filter(project::deleted_at.is_null())
}
