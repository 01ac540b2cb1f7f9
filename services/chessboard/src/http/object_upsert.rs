//! Property objects by their external ids, for integrations of the developer's own systems.

use ::db::PipelinedConn;
use ::web::{Fields, Json};
use actix_web::web::Data;
use actix_web::{HttpRequest, HttpResponse, Responder, get, put, web};
use auth::Permitted;
use runtime::clock;
use serde::Deserialize;
use utoipa::ToSchema;

use super::external_id::{PathExternalId, parent, respond};
use super::property_object::ListedObject;
use crate::app::App;
use crate::db;
use crate::domain::{
    Area, BuildingReference, Edit, ExternalId, ExternalIdEdit, ExternalObject, FileReference, Finishing,
    Floor, ManageOwnDeveloper, ObjectKind, ObjectNumber, ObjectStatus, Position, Price, PropertyObject,
    Rooms, Section,
};
use crate::error::{Error, PROPERTY_OBJECT_NOT_FOUND};
use crate::ops;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct UpsertPropertyObject {
    /// Exactly one of `BuildingId` and `BuildingExternalId` is required.
    building_id: Option<BuildingReference>,
    /// External id of the building.
    building_external_id: Option<ExternalId>,
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
    /// The default is the current status, or `Available` for a new object. The status cannot change
    /// while a deal holds the object.
    status: Option<ObjectStatus>,
    /// The version that the caller has read, 0 for a new object. Another stored version returns
    /// 409, unless the content is already the same.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

/// Create or replace a property object by its external id.
///
/// If the developer has no object with this external id, the object of the building with this
/// number takes the external id, unless it has one. Without such an object a new one is created. An
/// object stays in its building. An optional member that is absent or `null` is cleared, except
/// `Status`. An identical body changes nothing, not even the version.
#[utoipa::path(
    tag = "Projects",
    params(("external_id" = ExternalId, Path, description = "Id of the object in another system of the company.")),
    request_body = UpsertPropertyObject,
    responses(
        (status = 200, description = "The object after the change", body = PropertyObject),
        (status = 201, description = "The new or restored object", body = PropertyObject,
            headers(("Location" = String, description = "The object"))),
    )
)]
#[put("/api/v1/developers/by-external-id/property-objects/{external_id}")]
pub async fn upsert_property_object(
    app: Data<App>,
    permitted: Permitted<ManageOwnDeveloper>,
    id: PathExternalId,
    body: Json<UpsertPropertyObject>,
    request: HttpRequest,
) -> Result<HttpResponse, Error> {
    let Json(sent) = body;
    let listed = ListedObject {
        external_id: ExternalIdEdit::Keep,
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
    let building = fields.check("/BuildingId", parent(sent.building_id, sent.building_external_id));
    let entry = listed.into_entry(&mut fields, "", app.settings.currency);
    let (building, entry) = fields.finish(building.zip(Some(entry)))?;
    let object = ExternalObject {
        external_id: id.0,
        facts: entry.facts,
        status: entry.status,
        expected: sent.version,
    };
    let edit = Edit::by_user(permitted.actor.user_id, clock::now());
    let upsert = async |tx: &mut _| {
        ops::object_upsert::upsert_property_object(tx, permitted.granted, building, object, edit).await
    };
    Ok(respond(&request, app.db.tx(upsert).await?))
}

/// Read a property object by its external id.
///
/// Finds only objects of the own company.
#[utoipa::path(
    tag = "Projects",
    params(("external_id" = ExternalId, Path, description = "Id of the object in another system of the company.")),
    responses((status = 200, description = "The object", body = PropertyObject))
)]
#[get("/api/v1/developers/by-external-id/property-objects/{external_id}")]
pub async fn get_property_object_by_external_id(
    permitted: Permitted<ManageOwnDeveloper>,
    id: PathExternalId,
    lookups: Data<PipelinedConn>,
) -> Result<impl Responder, Error> {
    let found = lookups
        .run(async |conn| db::property_object::look_up_by_external_id(conn, permitted.granted, &id.0).await);
    Ok(web::Json(found.await?.ok_or(PROPERTY_OBJECT_NOT_FOUND)?))
}
