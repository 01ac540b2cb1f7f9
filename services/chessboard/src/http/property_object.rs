//! Property objects of a building, for managers of the developer: the whole grid or one object.

use std::collections::HashSet;

use ::db::PipelinedConn;
use ::web::{CursorPage, CursorPaging, Fields, Json};
use actix_web::web::{Data, Path};
use actix_web::{Responder, get, put, web};
use auth::{CompanyId, Permitted};
use runtime::clock;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use values::{Currency, Invalid, List};

use crate::app::App;
use crate::db;
use crate::db::object_history::{HistoryKey, ObjectHistoryEntry};
use crate::domain::{
    Area, BuildingId, Edit, ExternalId, ExternalIdEdit, FileReference, Finishing, Floor, GridEntry,
    MAX_GRID_OBJECTS, ManageDevelopers, ManageOwnDeveloper, ObjectFacts, ObjectKind, ObjectNumber,
    ObjectStatus, Position, Price, ProjectId, PropertyObject, PropertyObjectId, Rooms, Section,
};
use crate::error::{
    BUILDING_NOT_FOUND, DEVELOPER_NOT_FOUND, Error, PROJECT_NOT_FOUND, PROPERTY_OBJECT_NOT_FOUND,
};
use crate::ops;
use crate::ops::property_object::ObjectPath;

/// Maximum size of the body of a grid, in bytes.
pub const MAX_GRID_BYTES: usize = 8 * 1024 * 1024;

/// An object as a grid lists it.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ListedObject {
    /// Id in another system of the company, unique in the grid. An absent member keeps it, and
    /// `null` removes it.
    #[serde(default)]
    #[schema(value_type = Option<ExternalId>)]
    pub(super) external_id: ExternalIdEdit,
    /// Identifies the object in its building.
    pub(super) number: ObjectNumber,
    pub(super) kind: ObjectKind,
    /// A section of the building.
    pub(super) section: Section,
    /// A floor of the building.
    pub(super) floor: Floor,
    pub(super) position_on_floor: Position,
    pub(super) rooms: Option<Rooms>,
    /// True only for flats and apartments.
    #[serde(default)]
    pub(super) is_studio: bool,
    pub(super) area_total: Area,
    /// At most `AreaTotal`.
    pub(super) area_living: Option<Area>,
    /// At most `AreaTotal`.
    pub(super) area_kitchen: Option<Area>,
    pub(super) finishing: Finishing,
    /// The price in the currency of the catalog.
    pub(super) price: Price,
    pub(super) layout_file_id: Option<FileReference>,
    /// The default is the current status, or `Available` for a new object. Only deals set `Booked`.
    pub(super) status: Option<ObjectStatus>,
}

impl ListedObject {
    /// Converts the object into an entry, with errors below `prefix` for contradicting fields.
    pub(super) fn into_entry(self, fields: &mut Fields, prefix: &str, currency: Currency) -> GridEntry {
        let Self {
            external_id,
            number,
            kind,
            section,
            floor,
            position_on_floor,
            rooms,
            is_studio,
            area_total,
            area_living,
            area_kitchen,
            finishing,
            price,
            layout_file_id,
            status,
        } = self;
        let layout_file_id = layout_file_id.map(|file| file.0);
        let facts = ObjectFacts {
            number,
            kind,
            section,
            floor,
            position_on_floor,
            rooms,
            is_studio,
            area_total,
            area_living,
            area_kitchen,
            finishing,
            price,
            layout_file_id,
        };
        for (member, invalid) in facts.contradictions(currency) {
            fields.check::<()>(&format!("{prefix}/{member}"), Err(invalid));
        }
        GridEntry { facts, status, external_id }
    }
}

type ListedObjects = List<ListedObject, 0, MAX_GRID_OBJECTS>;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ReplaceGrid {
    /// Objects with unique numbers.
    objects: ListedObjects,
    /// The version of the building that the caller has read. Another stored version returns 409,
    /// unless the grid is already the same.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

/// The result of replacing a grid.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct GridReplaced {
    building_id: BuildingId,
    /// The version of the building.
    version: i64,
    /// Number of new and restored objects.
    created: usize,
    /// Number of changed objects.
    updated: usize,
    /// Number of objects that stayed as they were.
    unchanged: usize,
    /// Number of objects that the grid does not list.
    removed: usize,
    /// Numbers of the objects that deals hold. They stay as they are, listed or not.
    kept: Vec<ObjectNumber>,
}

/// Replace a building's grid.
///
/// Replaces all objects atomically. The number identifies an object. Listed objects are created,
/// updated or restored, and other objects are removed. An object that a deal holds stays as it is,
/// listed or not, and `Kept` names it. An optional member of an object that is absent or `null` is
/// cleared, except `Status` and an absent `ExternalId`. An identical grid changes nothing.
#[utoipa::path(
    tag = "Projects", params(("project_id" = ProjectId, Path), ("building_id" = BuildingId, Path)),
    request_body(content = ReplaceGrid, description = "At most 8 MiB."),
    responses((status = 200, description = "The result", body = GridReplaced))
)]
#[put("/api/v1/developers/projects/{project_id}/buildings/{building_id}/property-objects")]
pub async fn replace_property_objects(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    ids: Path<(ProjectId, BuildingId)>,
    body: Json<ReplaceGrid, MAX_GRID_BYTES>,
) -> Result<impl Responder, Error> {
    let Json(ReplaceGrid { objects, version }) = body;
    let (mut fields, mut numbers, mut external_ids) = (Fields::default(), HashSet::new(), HashSet::new());
    let listed = objects.into_inner().into_iter().enumerate();
    let entries: Vec<GridEntry> = listed
        .map(|(at, object)| {
            if !numbers.insert(object.number.clone()) {
                fields.check::<()>(&format!("/Objects/{at}/Number"), Err(Invalid::new("duplicate")));
            }
            if let ExternalIdEdit::Set(Some(id)) = &object.external_id
                && !external_ids.insert(id.clone())
            {
                fields.check::<()>(&format!("/Objects/{at}/ExternalId"), Err(Invalid::new("duplicate")));
            }
            object.into_entry(&mut fields, &format!("/Objects/{at}"), app.settings.currency)
        })
        .collect();
    let entries = fields.finish(Some(entries))?;
    let (project, building) = ids.into_inner();
    let edit = Edit::by_user(permitted.actor.user_id, clock::now());
    let replace = async |tx: &mut _| {
        let tenant = permitted.granted;
        ops::grid::replace_property_objects(tx, tenant, project, building, version, entries, edit).await
    };
    let (building, replaced) = app.db.tx(replace).await?;
    Ok(web::Json(GridReplaced {
        building_id: building.id,
        version: building.version,
        created: replaced.created,
        updated: replaced.updated,
        unchanged: replaced.unchanged,
        removed: replaced.removed,
        kept: replaced.kept,
    }))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct UpdatePropertyObject {
    /// Id in another system of the company. An absent member keeps it, and `null` removes it.
    #[serde(default)]
    #[schema(value_type = Option<ExternalId>)]
    external_id: ExternalIdEdit,
    /// Unique in the building.
    number: ObjectNumber,
    kind: ObjectKind,
    /// A section of the building.
    section: Section,
    /// A floor of the building.
    floor: Floor,
    position_on_floor: Position,
    rooms: Option<Rooms>,
    /// True only for flats and apartments.
    #[serde(default)]
    is_studio: bool,
    area_total: Area,
    /// At most `AreaTotal`.
    area_living: Option<Area>,
    /// At most `AreaTotal`.
    area_kitchen: Option<Area>,
    finishing: Finishing,
    /// The price in the currency of the catalog.
    price: Price,
    layout_file_id: Option<FileReference>,
    /// The default is the current status. The status cannot change while a deal holds the object.
    status: Option<ObjectStatus>,
    /// The version that the caller has read. Another stored version returns 409, unless the content
    /// is already the same.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

/// Replace a property object.
///
/// An optional member that is absent or `null` is cleared, except `Status` and an absent
/// `ExternalId`. An identical body changes nothing, not even the version.
#[utoipa::path(
    tag = "Projects",
    params(
        ("project_id" = ProjectId, Path),
        ("building_id" = BuildingId, Path),
        ("property_object_id" = PropertyObjectId, Path),
    ),
    request_body = UpdatePropertyObject,
    responses((status = 200, description = "The object after the change", body = PropertyObject))
)]
#[put(
    "/api/v1/developers/projects/{project_id}/buildings/{building_id}/property-objects/{property_object_id}"
)]
pub async fn update_property_object(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    ids: Path<(ProjectId, BuildingId, PropertyObjectId)>,
    body: Json<UpdatePropertyObject>,
) -> Result<impl Responder, Error> {
    let Json(sent) = body;
    let version = sent.version;
    let listed = ListedObject {
        external_id: sent.external_id,
        number: sent.number,
        kind: sent.kind,
        section: sent.section,
        floor: sent.floor,
        position_on_floor: sent.position_on_floor,
        rooms: sent.rooms,
        is_studio: sent.is_studio,
        area_total: sent.area_total,
        area_living: sent.area_living,
        area_kitchen: sent.area_kitchen,
        finishing: sent.finishing,
        price: sent.price,
        layout_file_id: sent.layout_file_id,
        status: sent.status,
    };
    let mut fields = Fields::default();
    let entry = listed.into_entry(&mut fields, "", app.settings.currency);
    let entry = fields.finish(Some(entry))?;
    let (project, building, object) = ids.into_inner();
    let edit = Edit::by_user(permitted.actor.user_id, clock::now());
    let path = ObjectPath { tenant: permitted.granted, project, building, object };
    let update =
        async |tx: &mut _| ops::property_object::update_property_object(tx, path, version, entry, edit).await;
    Ok(web::Json(app.db.tx(update).await?))
}

/// Read the history of a property object.
///
/// Returns the changes of the price and the status with their authors, newest first. The object may
/// be removed.
#[utoipa::path(
    tag = "Projects",
    params(
        ("project_id" = ProjectId, Path),
        ("building_id" = BuildingId, Path),
        ("property_object_id" = PropertyObjectId, Path),
        CursorPaging<HistoryKey>,
    ),
    responses((status = 200, description = "One page of changes", body = CursorPage<ObjectHistoryEntry>))
)]
#[get(
    "/api/v1/developers/projects/{project_id}/buildings/{building_id}/property-objects/{property_object_id}/events"
)]
pub async fn list_property_object_events(
    permitted: Permitted<ManageOwnDeveloper>,
    ids: Path<(ProjectId, BuildingId, PropertyObjectId)>,
    paging: CursorPaging<HistoryKey>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    let ((project, building, id), tenant) = (*ids, permitted.granted);
    let found = lookups.run(async |conn| {
        let project_found = db::project::look_up(conn, tenant, project).await?;
        let building_found = db::building::look_up(conn, project, building).await?;
        let location = db::property_object::look_up_location(conn, tenant, id).await?;
        Ok((project_found, building_found, location, db::object_history::list(conn, id, &paging).await?))
    });
    let (project, found_building, location, history) = found.await?;
    project.ok_or(PROJECT_NOT_FOUND)?;
    found_building.ok_or(BUILDING_NOT_FOUND)?;
    location.filter(|location| location.building_id == building).ok_or(PROPERTY_OBJECT_NOT_FOUND)?;
    Ok(web::Json(history))
}

/// Read the history of a developer's property object.
///
/// Returns the changes of the price and the status with their authors, newest first. The object may
/// be removed.
#[utoipa::path(
    tag = "Administration",
    params(
        ("developer_id" = CompanyId, Path),
        ("property_object_id" = PropertyObjectId, Path),
        CursorPaging<HistoryKey>,
    ),
    responses((status = 200, description = "One page of changes", body = CursorPage<ObjectHistoryEntry>))
)]
#[get("/api/v1/admin/developers/{developer_id}/property-objects/{property_object_id}/events")]
pub async fn list_developers_property_object_events(
    _: Permitted<ManageDevelopers>,
    ids: Path<(CompanyId, PropertyObjectId)>,
    paging: CursorPaging<HistoryKey>,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    let (developer, id) = *ids;
    let found = lookups.run(async |conn| {
        let developer_found = db::developer::look_up(conn, developer).await?;
        let location = db::property_object::look_up_location(conn, developer, id).await?;
        Ok((developer_found, location, db::object_history::list(conn, id, &paging).await?))
    });
    let (developer, location, history) = found.await?;
    developer.ok_or(DEVELOPER_NOT_FOUND)?;
    location.ok_or(PROPERTY_OBJECT_NOT_FOUND)?;
    Ok(web::Json(history))
}
