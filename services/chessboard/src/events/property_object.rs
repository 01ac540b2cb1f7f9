//! The event of a property object. It never names the deal that holds the object.

use ::db::Tx;
use auth::{CompanyId, UserId};
use messaging::outbox::{self, RowlessOutbox};
use messaging::{Aggregate, Event, PublishedState, Republish, Restore, VersionNames};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::db;
use crate::domain::{
    Area, BuildingId, BuildingName, FileId, Finishing, Floor, ObjectKind, ObjectNumber, ObjectStatus, Price,
    ProjectId, ProjectName, PropertyObject, PropertyObjectId, Rooms,
};

const PROPERTY_OBJECT: Aggregate = Aggregate { name: "PropertyObject", table: "property_object", key: "id" };

/// A property object. Published when any member except `UpdatedByUserId` and `Version` changes. A
/// removed object has the status `Unavailable` and is not public.
#[derive(Debug, Serialize, Deserialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.chessboard.property-object-upserted.v1", version = 1, aggregate = PROPERTY_OBJECT, key = id)]
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
    /// True if the developer and the project are Published and the object is not removed.
    is_public: bool,
    /// The user who changed the object last. Null after a change by a deal.
    updated_by_user_id: Option<UserId>,
    #[schema(minimum = 1)]
    version: i64,
}

impl PropertyObjectUpserted {
    pub fn new(object: &PropertyObject) -> Self {
        let (facts, published) = (&object.facts, &object.published);
        Self {
            id: object.id,
            building_id: object.building_id,
            project_id: object.project_id,
            tenant_id: object.tenant_id,
            project_name: published.project_name.clone(),
            building_name: published.building_name.clone(),
            number: facts.number.clone(),
            kind: facts.kind,
            rooms: facts.rooms,
            is_studio: facts.is_studio,
            floor: facts.floor,
            area_total: facts.area_total,
            finishing: facts.finishing,
            price: facts.price,
            status: object.published_status(),
            layout_file_id: facts.layout_file_id,
            is_public: published.is_public,
            updated_by_user_id: object.updated_by_user_id,
            version: object.version,
        }
    }
}

/// Publishes the last published state of each object again.
pub enum PropertyObjects {}

impl Republish for PropertyObjects {
    const AGGREGATE: Aggregate = PROPERTY_OBJECT;

    async fn republish(tx: &mut Tx, keys: &[Uuid]) -> Result<(), ::db::Error> {
        let objects = db::property_object::list_by_ids(tx.conn(), keys).await?;
        let events: Vec<_> = objects.iter().map(PropertyObjectUpserted::new).collect();
        outbox::append_all(tx, &events).await
    }
}

/// An object that no longer exists is published like a removed one.
impl Restore for PropertyObjects {
    const VERSION: Option<VersionNames> = Some(VersionNames { column: "version", member: "Version" });
    const TOPICS: &'static [&'static str] = &[PropertyObjectUpserted::TOPIC];

    async fn end(outbox: &mut RowlessOutbox<'_>, lost: &[PublishedState]) -> Result<Vec<Uuid>, ::db::Error> {
        let remove = |state: &PublishedState| {
            let newest: PropertyObjectUpserted = state.newest(PropertyObjectUpserted::TOPIC)?;
            Some(PropertyObjectUpserted {
                status: ObjectStatus::Unavailable,
                is_public: false,
                updated_by_user_id: None,
                version: state.next_version(),
                ..newest
            })
        };
        let removed: Vec<_> = lost.iter().filter_map(remove).collect();
        outbox.append_all(&removed).await?;
        Ok(removed.iter().map(Event::key).collect())
    }
}
