//! The use case that replaces a building's grid.

use std::collections::HashMap;

use ::db::Tx;
use auth::CompanyId;
use values::Invalid;
use web::{FieldError, Problem};

use super::building::lock_for_object_changes;
use super::project::check_version;
use super::property_object::save;
use crate::db;
use crate::domain::{
    Building, BuildingId, Edit, GridEntry, GridReplacement, MAX_REPORTED_ERRORS, ObjectNumber, ProjectId,
    PropertyObject, replace_grid,
};
use crate::error::Error;

/// Replaces the grid of a building and returns the building with the result.
///
/// An identical grid changes nothing.
///
/// # Errors
/// - [`PROJECT_NOT_FOUND`](crate::error::PROJECT_NOT_FOUND) or
///   [`BUILDING_NOT_FOUND`](crate::error::BUILDING_NOT_FOUND) if a resource of the path is
///   missing or deleted.
/// - `VALIDATION_FAILED` if an entry is outside the building, or has status Booked and its object
///   is not Booked.
/// - [`CONFLICT`](crate::error::CONFLICT) if `version` is outdated.
/// - [`EXTERNAL_ID_TAKEN`](crate::error::EXTERNAL_ID_TAKEN) if another object of the developer has
///   the external id of an entry.
pub async fn replace_property_objects(
    tx: &mut Tx,
    tenant: CompanyId,
    project: ProjectId,
    id: BuildingId,
    version: Option<i64>,
    entries: Vec<GridEntry>,
    edit: Edit,
) -> Result<(Building, GridReplacement), Error> {
    let expected = version.or(db::building::find_version(tx.conn(), project, id).await?);
    let (mut building, ancestors) = lock_for_object_changes(tx, tenant, project, id).await?;
    let numbers: Vec<_> = entries.iter().map(|entry| entry.facts.number.clone()).collect();
    let existing = db::property_object::find_for_grid(tx, id, &numbers).await?;
    check_entries(&building, &existing, &entries)?;
    let removed: Vec<_> =
        existing.iter().filter(|object| !object.is_live()).map(|object| object.id).collect();
    let holds = if removed.is_empty() { HashMap::new() } else { db::claim::find_holds(tx, &removed).await? };
    let mut replaced = replace_grid(existing, entries, &holds, &ancestors, edit);
    if replaced.changes.is_empty() {
        return Ok((building, replaced));
    }
    check_version(expected, building.version)?;
    save(tx, std::mem::take(&mut replaced.changes)).await?;
    building.updated_at = edit.at;
    db::building::save(tx, &mut building).await?;
    Ok((building, replaced))
}

/// Checks entries against the stored building and its objects.
///
/// # Errors
/// `VALIDATION_FAILED` with up to [`MAX_REPORTED_ERRORS`] errors.
fn check_entries(
    building: &Building,
    existing: &[PropertyObject],
    entries: &[GridEntry],
) -> Result<(), Error> {
    let by_number: HashMap<&ObjectNumber, &PropertyObject> =
        existing.iter().map(|object| (&object.facts.number, object)).collect();
    let errors = entries.iter().enumerate().flat_map(|(at, GridEntry { facts, status, .. })| {
        let mut errors = building.facts.placement_errors(facts.section, facts.floor);
        if !PropertyObject::is_status_allowed(by_number.get(&facts.number).copied(), *status) {
            errors.push(("Status", Invalid::new("given_by_deals")));
        }
        errors
            .into_iter()
            .map(move |(member, invalid)| FieldError { field: format!("/Objects/{at}/{member}"), invalid })
    });
    let errors: Vec<_> = errors.take(MAX_REPORTED_ERRORS).collect();
    if errors.is_empty() { Ok(()) } else { Err(Problem::validation_failed(errors).into()) }
}
