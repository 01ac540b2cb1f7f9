//! Replacing a building's grid.

use std::collections::HashMap;

use ::db::Tx;
use auth::CompanyId;
use time::OffsetDateTime;
use values::Invalid;
use web::{FieldError, Problem};

use super::building::lock_with_objects;
use super::project::refuse_unseen;
use super::property_object::save;
use crate::db;
use crate::domain::{
    Building, BuildingId, Entry, ObjectNumber, ProjectId, PropertyObject, Replacement, replace,
};
use crate::error::Error;

/// Answers the building as it is afterwards, and what was done.
///
/// # Errors
/// [`PROJECT_NOT_FOUND`](crate::error::PROJECT_NOT_FOUND), [`BUILDING_NOT_FOUND`](crate::error::BUILDING_NOT_FOUND),
/// `VALIDATION_FAILED` of what the building must know, [`CONFLICT`](crate::error::CONFLICT)
pub async fn replace_property_objects(
    tx: &mut Tx,
    tenant: CompanyId,
    project: ProjectId,
    id: BuildingId,
    version: Option<i64>,
    entries: Vec<Entry>,
    now: OffsetDateTime,
) -> Result<(Building, Replacement), Error> {
    let seen = version.or(db::building::version(tx.conn(), project, id).await?);
    let (mut building, above) = lock_with_objects(tx, tenant, project, id).await?;
    let numbers: Vec<_> = entries.iter().map(|entry| entry.facts.number.clone()).collect();
    let standing = db::property_object::standing(tx, id, &numbers).await?;
    refuse_misplaced(&building, &standing, &entries)?;
    let gone: Vec<_> = standing.iter().filter(|object| !object.is_live()).map(|object| object.id).collect();
    let holds = if gone.is_empty() { HashMap::new() } else { db::claim::holds(tx, &gone).await? };
    let mut replaced = replace(standing, entries, &holds, &above, now);
    if replaced.changes.is_empty() {
        return Ok((building, replaced));
    }
    refuse_unseen(seen, building.version)?;
    save(tx, std::mem::take(&mut replaced.changes), now).await?;
    building.updated_at = now;
    db::building::save(tx, &mut building).await?;
    Ok((building, replaced))
}

/// # Errors
/// `VALIDATION_FAILED` of what only the stored building and its objects show.
fn refuse_misplaced(
    building: &Building,
    standing: &[PropertyObject],
    entries: &[Entry],
) -> Result<(), Error> {
    let by_number: HashMap<&ObjectNumber, &PropertyObject> =
        standing.iter().map(|object| (&object.facts.number, object)).collect();
    let errors = entries.iter().enumerate().flat_map(|(at, Entry { facts, status })| {
        let mut wrong = building.facts.misplaces(facts.section, facts.floor);
        if !PropertyObject::may_be_sent(by_number.get(&facts.number).copied(), *status) {
            wrong.push(("Status", Invalid::new("given_by_deals")));
        }
        wrong
            .into_iter()
            .map(move |(member, invalid)| FieldError { field: format!("/Objects/{at}/{member}"), invalid })
    });
    // More than that nobody reads.
    let errors: Vec<_> = errors.take(16).collect();
    if errors.is_empty() { Ok(()) } else { Err(Problem::validation_failed(errors).into()) }
}
