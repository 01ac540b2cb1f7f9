//! Events of a property object. They never say which deal holds it.

use ::db::Tx;
use auth::CompanyId;
use messaging::{Aggregate, Event, Republish, outbox};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::PROPERTY_OBJECT;
use crate::db;
use crate::domain::{
    Area, BuildingId, BuildingName, FileId, Finishing, Floor, ObjectKind, ObjectNumber, ObjectStatus, Price,
    ProjectId, ProjectName, PropertyObject, PropertyObjectId, Rooms,
};

/// A property object as it is shown, told when anything of it has changed but its version. One that is gone is Unavailable
/// and not public.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct PropertyObjectUpserted {
    id: PropertyObjectId,
    building_id: BuildingId,
    project_id: ProjectId,
    tenant_id: CompanyId,
    project_name: ProjectName,
    building_name: BuildingName,
    number: ObjectNumber,
    kind: ObjectKind,
    rooms: Option<Rooms>,
    is_studio: bool,
    floor: Floor,
    area_total: Area,
    finishing: Finishing,
    price: Price,
    status: ObjectStatus,
    layout_file_id: Option<FileId>,
    /// Its developer and its project are Published, and it is there.
    is_public: bool,
    #[schema(minimum = 1)]
    version: i64,
}

impl PropertyObjectUpserted {
    pub fn of(object: &PropertyObject) -> Self {
        let (facts, told) = (&object.facts, &object.told);
        Self {
            id: object.id,
            building_id: object.building_id,
            project_id: object.project_id,
            tenant_id: object.tenant_id,
            project_name: told.project_name.clone(),
            building_name: told.building_name.clone(),
            number: facts.number.clone(),
            kind: facts.kind,
            rooms: facts.rooms,
            is_studio: facts.is_studio,
            floor: facts.floor,
            area_total: facts.area_total,
            finishing: facts.finishing,
            price: facts.price,
            status: object.told_status(),
            layout_file_id: facts.layout_file_id,
            is_public: told.is_public,
            version: object.version,
        }
    }
}

impl Event for PropertyObjectUpserted {
    const TOPIC: &'static str = "platform.chessboard.property-object-upserted.v1";
    const CONTRACT_VERSION: u32 = 1;
    const AGGREGATE: Aggregate = PROPERTY_OBJECT;

    fn key(&self) -> Uuid {
        self.id.into()
    }
}

/// Tells anew what each object was told to be.
pub enum PropertyObjects {}

impl Republish for PropertyObjects {
    const AGGREGATE: Aggregate = PROPERTY_OBJECT;

    async fn tell(tx: &mut Tx, keys: &[Uuid]) -> Result<(), ::db::Error> {
        let objects = db::property_object::all_of(tx.conn(), keys).await?;
        let told: Vec<_> = objects.iter().map(PropertyObjectUpserted::of).collect();
        outbox::append_all(tx, &told).await
    }
}
