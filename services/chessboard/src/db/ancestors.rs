//! Locks of the ancestors of property objects.
//!
//! Every transaction that publishes objects locks developers, projects, buildings and objects in
//! this order, each by id. Two such transactions therefore cannot deadlock.

use std::collections::HashMap;

use ::db::{Conn, Tx};
use auth::CompanyId;
use diesel::dsl::exists;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use crate::domain::{Ancestors, BuildingId, BuildingName, ProjectId, ProjectName, PropertyObjectId};
use crate::schema::{building, developer, project};

/// The ids of an object and of its ancestors.
#[derive(Clone, Copy, Debug)]
pub struct ObjectLocation {
    pub tenant_id: CompanyId,
    pub project_id: ProjectId,
    pub building_id: BuildingId,
    pub id: PropertyObjectId,
}

/// The reason for locking the ancestors of objects, which decides how buildings are locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockPurpose {
    /// The transaction publishes objects that it does not change itself.
    Publish,
    /// The transaction changes objects. Such transactions run one at a time in a building.
    Change,
}

/// Returns true if the developer exists and is not deleted.
pub async fn has_developer(mut conn: &Conn, id: CompanyId) -> QueryResult<bool> {
    let row = developer::table.find(id).filter(developer::deleted_at.is_null());
    diesel::select(exists(row)).get_result(&mut conn).await
}

/// Locks the ancestors of objects and returns them by building.
pub async fn lock(
    tx: &mut Tx,
    locations: &[ObjectLocation],
    purpose: LockPurpose,
) -> Result<HashMap<BuildingId, Ancestors>, ::db::Error> {
    let developers = locations.iter().map(|location| location.tenant_id).collect::<Vec<_>>();
    let developers = lock_developers(tx, &developers).await?;
    let projects = locations.iter().map(|location| location.project_id).collect::<Vec<_>>();
    let projects = lock_projects(tx, &projects).await?;
    let buildings = locations.iter().map(|location| location.building_id).collect::<Vec<_>>();
    let buildings = lock_buildings(tx, &buildings, purpose).await?;
    let ancestors = buildings.into_iter().filter_map(|(building_id, project_id, building_name, is_live)| {
        let (tenant_id, project_name, project_is_live, project_is_published) = projects.get(&project_id)?;
        let developer_is_published = developers.get(tenant_id).copied();
        let ancestors = Ancestors {
            tenant_id: *tenant_id,
            project_id,
            project_name: project_name.clone(),
            building_id,
            building_name,
            is_live: is_live && *project_is_live && developer_is_published.is_some(),
            is_published: *project_is_published && developer_is_published == Some(true),
        };
        Some((building_id, ancestors))
    });
    Ok(ancestors.collect())
}

/// Locks the live developers. The value of each is true if the developer is Published.
async fn lock_developers(tx: &mut Tx, ids: &[CompanyId]) -> Result<HashMap<CompanyId, bool>, ::db::Error> {
    let rows = developer::table
        .filter(developer::id.eq_any(ids))
        .filter(developer::deleted_at.is_null())
        .select((developer::id, developer::status.eq("Published")))
        .order(developer::id)
        .for_share();
    Ok(rows.load(tx.conn()).await?.into_iter().collect())
}

async fn lock_projects(
    tx: &mut Tx,
    ids: &[ProjectId],
) -> Result<HashMap<ProjectId, (CompanyId, ProjectName, bool, bool)>, ::db::Error> {
    let rows = project::table
        .filter(project::id.eq_any(ids))
        .select((
            project::id,
            (
                project::tenant_id,
                project::name,
                project::deleted_at.is_null(),
                project::status.eq("Published"),
            ),
        ))
        .order(project::id)
        .for_share();
    Ok(rows.load(tx.conn()).await?.into_iter().collect())
}

async fn lock_buildings(
    tx: &mut Tx,
    ids: &[BuildingId],
    purpose: LockPurpose,
) -> Result<Vec<(BuildingId, ProjectId, BuildingName, bool)>, ::db::Error> {
    let rows = building::table
        .filter(building::id.eq_any(ids))
        .select((building::id, building::project_id, building::name, building::deleted_at.is_null()))
        .order(building::id);
    Ok(match purpose {
        LockPurpose::Publish => rows.for_share().load(tx.conn()).await?,
        LockPurpose::Change => rows.for_no_key_update().load(tx.conn()).await?,
    })
}
