//! What is above objects, locked: developers, then projects, then buildings, each by id, and objects after them. All who
//! tell of objects lock in this order, so none of two waits for the other.

use std::collections::HashMap;

use ::db::{Lookup, Tx};
use auth::CompanyId;
use diesel::dsl::exists;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::schema::{building, developer, project};
use crate::domain::{Above, BuildingId, BuildingName, ProjectId, ProjectName, PropertyObjectId};

/// Where an object stands.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub tenant_id: CompanyId,
    pub project_id: ProjectId,
    pub building_id: BuildingId,
    pub id: PropertyObjectId,
}

/// What the transaction is going to do with the objects of a building.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To tell of them.
    Telling,
    /// To change them: of those who do one at a time goes on in a building.
    Changing,
}

/// Whether a developer is there.
pub async fn has_developer(mut conn: Lookup<'_>, id: CompanyId) -> QueryResult<bool> {
    let row = developer::table.find(id).filter(developer::deleted_at.is_null());
    diesel::select(exists(row)).get_result(&mut conn).await
}

/// What is above objects that stand there, by building.
pub async fn lock(
    tx: &mut Tx,
    places: &[Place],
    purpose: Purpose,
) -> Result<HashMap<BuildingId, Above>, ::db::Error> {
    let developers = places.iter().map(|place| place.tenant_id).collect::<Vec<_>>();
    let developers = lock_developers(tx, &developers).await?;
    let projects = places.iter().map(|place| place.project_id).collect::<Vec<_>>();
    let projects = lock_projects(tx, &projects).await?;
    let buildings = places.iter().map(|place| place.building_id).collect::<Vec<_>>();
    let buildings = lock_buildings(tx, &buildings, purpose).await?;
    let above = buildings.into_iter().filter_map(|(building_id, project_id, building_name, is_live)| {
        let (tenant_id, project_name, project_is_live, project_is_published) = projects.get(&project_id)?;
        let developer = developers.get(tenant_id).copied();
        let above = Above {
            tenant_id: *tenant_id,
            project_id,
            project_name: project_name.clone(),
            building_id,
            building_name,
            is_live: is_live && *project_is_live && developer.is_some(),
            is_published: *project_is_published && developer == Some(true),
        };
        Some((building_id, above))
    });
    Ok(above.collect())
}

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
    purpose: Purpose,
) -> Result<Vec<(BuildingId, ProjectId, BuildingName, bool)>, ::db::Error> {
    let rows = building::table
        .filter(building::id.eq_any(ids))
        .select((building::id, building::project_id, building::name, building::deleted_at.is_null()))
        .order(building::id);
    Ok(match purpose {
        Purpose::Telling => rows.for_share().load(tx.conn()).await?,
        Purpose::Changing => rows.for_no_key_update().load(tx.conn()).await?,
    })
}
