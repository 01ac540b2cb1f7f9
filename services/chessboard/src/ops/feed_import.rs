//! Use cases of imports of feeds.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::num::NonZeroU32;

use ::db::Tx;
use auth::{CompanyId, UserId};
use jobs::schedule;
use serde_json::Value;
use time::OffsetDateTime;
use values::Currency;

use super::building::lock_for_object_changes;
use super::project::{check_version, lock_developer};
use super::property_object::save;
use crate::db;
use crate::db::feed_change::{FeedBuilding, FeedChangeKind, FieldChange, NewChange};
use crate::db::feed_import::UploadsInHour;
use crate::db::feed_offer::NewProblem;
use crate::domain::feed::{BuildingPlan, PlanContext, plan_building};
use crate::domain::{
    Building, BuildingId, Edit, FeedBuildingState, FeedImport, FeedImportId, FeedUploadId, ObjectChange,
    ObjectFacts, PropertyObject, PropertyObjectId, check_uploads,
};
use crate::error::{
    BUILDING_NOT_FOUND, DEVELOPER_NOT_FOUND, Error, FEED_IMPORT_NOT_FOUND, PROJECT_NOT_FOUND,
};

/// The kind of the jobs that validate files. The key is the id of the import.
pub const VALIDATION: &str = "feed-validation";
/// The kind of the jobs that apply imports. The key is the id of the import.
pub const APPLICATION: &str = "feed-application";
/// The kind of the job that deletes the rows of deleted imports.
pub const CLEANUP: &str = "feed-cleanup";

/// Maximum number of stored parts of one file: 64 MiB in parts of 256 KiB, and a remainder.
const MAX_STORED_PARTS: i64 = 257;

/// Creates an import that waits for its file.
///
/// # Errors
/// - [`DEVELOPER_NOT_FOUND`] if the developer is missing or deleted.
/// - [`BUILDING_NOT_FOUND`] if the developer has no such live building.
/// - [`FEED_IMPORT_IN_PROGRESS`](crate::error::FEED_IMPORT_IN_PROGRESS) if the developer has an
///   import that is not finished.
pub async fn create_import(
    tx: &mut Tx,
    tenant: CompanyId,
    building: Option<BuildingId>,
    by: UserId,
    now: OffsetDateTime,
) -> Result<FeedImport, Error> {
    lock_developer(tx, tenant).await?.ok_or(DEVELOPER_NOT_FOUND)?;
    if let Some(building) = building {
        db::building::find(tx.conn(), tenant, building).await?.ok_or(BUILDING_NOT_FOUND)?;
    }
    let import = FeedImport::new(tenant, building, by, now);
    db::feed_import::insert(tx, &import).await?;
    Ok(import)
}

/// Locks an import of a developer.
///
/// # Errors
/// [`FEED_IMPORT_NOT_FOUND`] if the developer has no such import.
async fn lock(tx: &mut Tx, tenant: CompanyId, id: FeedImportId) -> Result<FeedImport, Error> {
    let import = db::feed_import::lock(tx, id).await?;
    Ok(import.filter(|import| import.tenant_id == tenant).ok_or(FEED_IMPORT_NOT_FOUND)?)
}

/// Begins the upload of a file. Another upload that has not ended loses its file.
///
/// # Errors
/// As [`lock`] and [`FeedImport::begin_upload`], and
/// [`FEED_UPLOADS_LIMIT_EXCEEDED`](crate::error::FEED_UPLOADS_LIMIT_EXCEEDED) if the developer has
/// begun `max_per_hour` uploads in this hour.
pub async fn begin_upload(
    tx: &mut Tx,
    tenant: CompanyId,
    id: FeedImportId,
    max_per_hour: Option<NonZeroU32>,
    now: OffsetDateTime,
) -> Result<FeedUploadId, Error> {
    let mut import = lock(tx, tenant, id).await?;
    let upload = import.begin_upload(now)?;
    if let Some(max) = max_per_hour {
        // An import can be deleted and created again, so the developer is counted.
        let UploadsInHour { uploads, hour_began_at } = db::feed_import::count_upload(tx, tenant, now).await?;
        check_uploads(uploads, hour_began_at, max, now)?;
    }
    db::feed_import::save(tx, &mut import).await?;
    // Repeated uploads would otherwise fill the database. Another upload waits for the import's
    // lock before it begins, so this statement never deletes the parts of a later one.
    db::feed_import::delete_chunks(tx, id, Some(upload), MAX_STORED_PARTS).await?;
    Ok(upload)
}

/// Ends the upload of a file and schedules its validation.
///
/// # Errors
/// As [`lock`] and [`FeedImport::finish_upload`].
pub async fn finish_upload(
    tx: &mut Tx,
    tenant: CompanyId,
    id: FeedImportId,
    upload: FeedUploadId,
    bytes: i64,
    now: OffsetDateTime,
) -> Result<FeedImport, Error> {
    let mut import = lock(tx, tenant, id).await?;
    import.finish_upload(upload, bytes, now)?;
    db::feed_import::save(tx, &mut import).await?;
    schedule(tx, VALIDATION, [id], now).await?;
    Ok(import)
}

/// Begins to apply an import.
///
/// # Errors
/// - [`FEED_IMPORT_NOT_FOUND`] if the developer has no such import.
/// - [`CONFLICT`](crate::error::CONFLICT) if `version` is outdated.
/// - [`FEED_IMPORT_INVALID_TRANSITION`](crate::error::FEED_IMPORT_INVALID_TRANSITION) if the import
///   is not Validated.
pub async fn apply_import(
    tx: &mut Tx,
    tenant: CompanyId,
    id: FeedImportId,
    version: Option<i64>,
    skip_rejected: bool,
    by: UserId,
    now: OffsetDateTime,
) -> Result<FeedImport, Error> {
    let mut import = lock(tx, tenant, id).await?;
    check_version(version, import.version)?;
    import.apply(skip_rejected, by, now)?;
    db::feed_import::save(tx, &mut import).await?;
    schedule(tx, APPLICATION, [id], now).await?;
    Ok(import)
}

/// Deletes an import in any state. Buildings that are applied stay applied.
///
/// # Errors
/// - [`FEED_IMPORT_NOT_FOUND`] if the developer has no such import.
/// - [`CONFLICT`](crate::error::CONFLICT) if `version` is outdated.
pub async fn delete_import(
    tx: &mut Tx,
    tenant: CompanyId,
    id: FeedImportId,
    version: Option<i64>,
    now: OffsetDateTime,
) -> Result<(), Error> {
    let import = lock(tx, tenant, id).await?;
    check_version(version, import.version)?;
    db::feed_import::delete(tx, id, now).await?;
    schedule(tx, CLEANUP, [""], now).await?;
    Ok(())
}

/// A locked building with the plan of its changes.
struct Planned {
    building: Building,
    plan: BuildingPlan,
    /// Number of offers that were rejected before the plan.
    rejected_count: usize,
    offers_count: usize,
}

/// Locks a building of an import and plans its changes. Returns `None` for a deleted building.
/// Objects of `kept` stay unchanged.
async fn plan(
    tx: &mut Tx,
    import: &FeedImport,
    id: BuildingId,
    kept: &HashSet<PropertyObjectId>,
    currency: Currency,
    edit: Edit,
) -> Result<Option<Planned>, Error> {
    let tenant = import.tenant_id;
    let Some(found) = db::building::find(tx.conn(), tenant, id).await? else { return Ok(None) };
    let (building, ancestors) = match lock_for_object_changes(tx, tenant, found.project_id, id).await {
        // The building was deleted after it was found.
        Err(error) if error.is(PROJECT_NOT_FOUND) || error.is(BUILDING_NOT_FOUND) => return Ok(None),
        locked => locked?,
    };
    let offers = db::feed_offer::list_offers(tx, import.id, id).await?;
    let rejected = db::feed_offer::list_rejected(tx, import.id, id).await?;
    let numbers: Vec<_> = offers.iter().filter_map(|offer| offer.offer.number.clone()).collect();
    let external_ids: Vec<_> = offers.iter().map(|offer| offer.external_id.clone()).collect();
    let mut objects = db::property_object::find_for_grid(tx, id, &numbers).await?;
    let named = db::property_object::find_for_upsert(tx.conn(), tenant, id, &external_ids, &numbers).await?;
    let known: HashSet<_> = objects.iter().map(|object| object.id).collect();
    objects.extend(named.into_iter().filter(|object| !known.contains(&object.id)));
    let removed: Vec<_> = objects.iter().filter(|object| !object.is_live()).map(|object| object.id).collect();
    let holds = if removed.is_empty() { HashMap::new() } else { db::claim::find_holds(tx, &removed).await? };
    let (offers_count, rejected_count) = (offers.len() + rejected.len(), rejected.len());
    let rejected: HashSet<_> = rejected.into_iter().filter_map(|(_, external_id)| external_id).collect();
    let (ancestors, holds, rejected) = (&ancestors, &holds, &rejected);
    let context =
        PlanContext { building: &building, ancestors, objects, holds, kept, rejected, currency, edit };
    let plan = plan_building(context, offers);
    Ok(Some(Planned { building, plan, rejected_count, offers_count }))
}

/// Stores the preview of a building. Returns the number of offers that do not fit the building.
///
/// # Errors
/// [`Error::Database`]
pub async fn preview_building(
    tx: &mut Tx,
    import: &FeedImport,
    id: BuildingId,
    currency: Currency,
    edit: Edit,
) -> Result<usize, Error> {
    let Some(planned) = plan(tx, import, id, &HashSet::new(), currency, edit).await? else {
        db::feed_change::insert_building(tx, &outdated_building(import.id, id)).await?;
        return Ok(0);
    };
    let Planned { building, plan, rejected_count, offers_count } = planned;
    let rejected_by_plan = plan.problems.len();
    let state = match (rejected_count + rejected_by_plan, plan.changes.is_empty()) {
        (0, true) => FeedBuildingState::Unchanged,
        (0, false) => FeedBuildingState::Ready,
        _ => FeedBuildingState::Blocked,
    };
    let preview = FeedBuilding {
        import_id: import.id,
        building_id: id,
        building_version: building.version,
        state,
        offers_count: count(offers_count),
        rejected_count: count(rejected_count + rejected_by_plan),
        created_count: count(plan.created),
        updated_count: count(plan.updated),
        unchanged_count: count(plan.unchanged),
        kept_count: count(plan.kept.len()),
        missing_count: count(plan.missing.len()),
    };
    db::feed_change::insert_building(tx, &preview).await?;
    let problems = plan.problems.iter().map(|problem| NewProblem {
        import_id: import.id,
        building_id: Some(id),
        offer_position: problem.position,
        line: problem.line,
        internal_id: Some(problem.external_id.clone()),
        element: problem.element,
        code: problem.code,
        value: None,
    });
    db::feed_offer::insert_problems(tx, problems.collect()).await?;
    db::feed_change::insert_changes(tx, change_rows(import.id, id, &plan)).await?;
    Ok(rejected_by_plan)
}

/// Applies the plan of one building, all of it or nothing.
///
/// # Errors
/// [`Error::Database`], and [`CONFLICT`](crate::error::CONFLICT) after a race.
pub async fn apply_building(
    tx: &mut Tx,
    import: &FeedImport,
    preview: &FeedBuilding,
    currency: Currency,
    edit: Edit,
) -> Result<(), Error> {
    let id = preview.building_id;
    // A deal may have ended since the preview. Its object stays unchanged, because the preview did
    // not show the manager a change of it.
    let kept = db::feed_change::list_kept(tx, import.id, id).await?;
    let planned = plan(tx, import, id, &kept, currency, edit).await?;
    // An object of another building may have taken an external id since the preview.
    let matches_preview = |planned: &Planned| {
        planned.building.version == preview.building_version
            && (import.skip_rejected || planned.plan.problems.is_empty())
    };
    let current = planned.filter(matches_preview);
    let state = match current {
        None => FeedBuildingState::Outdated,
        Some(Planned { mut building, plan, .. }) => {
            if !plan.changes.is_empty() {
                save(tx, plan.changes).await?;
                building.updated_at = edit.at;
                db::building::save(tx, &mut building).await?;
            }
            FeedBuildingState::Applied
        }
    };
    Ok(db::feed_change::set_state(tx, import.id, id, state).await?)
}

/// Returns the preview of a building that was deleted after its offers were read.
fn outdated_building(import_id: FeedImportId, building_id: BuildingId) -> FeedBuilding {
    FeedBuilding {
        import_id,
        building_id,
        building_version: 0,
        state: FeedBuildingState::Outdated,
        offers_count: 0,
        rejected_count: 0,
        created_count: 0,
        updated_count: 0,
        unchanged_count: 0,
        kept_count: 0,
        missing_count: 0,
    }
}

fn count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Returns the rows of a preview.
fn change_rows(import_id: FeedImportId, building_id: BuildingId, plan: &BuildingPlan) -> Vec<NewChange> {
    let new = |kind, object: &PropertyObject, fields| NewChange {
        import_id,
        building_id,
        position: 0,
        kind,
        property_object_id: object.id,
        number: object.facts.number.clone(),
        external_id: object.external_id.as_ref().map(|id| id.as_str().to_owned()),
        fields,
    };
    let changed = plan.changes.iter().map(|change| {
        let kind = if change.is_addition() { FeedChangeKind::Created } else { FeedChangeKind::Updated };
        new(kind, &change.after, field_changes(change))
    });
    let kept = plan.kept.iter().map(|object| new(FeedChangeKind::Kept, object, Vec::new()));
    let missing = plan.missing.iter().map(|object| new(FeedChangeKind::Missing, object, Vec::new()));
    let mut rows: Vec<_> = changed.chain(kept).chain(missing).collect();
    rows.sort_by(|one, other| one.number.as_str().cmp(other.number.as_str()));
    for (position, row) in rows.iter_mut().enumerate() {
        row.position = position;
    }
    rows
}

/// Returns the fields that differ, with their values as texts.
fn field_changes(change: &ObjectChange) -> Vec<FieldChange> {
    let before = change.before().map(|before| field_texts(&before.facts)).unwrap_or_default();
    let after = field_texts(&change.after.facts);
    let mut fields: Vec<_> = after
        .into_iter()
        .map(|(field, to)| {
            let from = before.get(&field).cloned().flatten();
            FieldChange { field, from, to }
        })
        .collect();
    let external_id = |object: &PropertyObject| object.external_id.as_ref().map(|id| id.as_str().to_owned());
    fields.push(FieldChange {
        field: "ExternalId".to_owned(),
        from: change.before().and_then(external_id),
        to: external_id(&change.after),
    });
    fields.retain(|field| field.from != field.to);
    fields
}

/// Returns the fields of an object as texts, by their names in responses.
fn field_texts(facts: &ObjectFacts) -> BTreeMap<String, Option<String>> {
    let Ok(Value::Object(members)) = serde_json::to_value(facts) else { return BTreeMap::new() };
    let text = |value: Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        // A price has one currency, that of the catalog.
        Value::Object(price) => price.get("AmountMinor").map(ToString::to_string),
        value => Some(value.to_string()),
    };
    members.into_iter().map(|(name, value)| (name, text(value))).collect()
}
