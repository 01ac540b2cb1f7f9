//! The consumer of developers and property objects from chessboard.

use ::db::Tx;
use auth::CompanyId;
use messaging::{Failure, Handler, Message};
use serde::Deserialize;
use values::{Money, Whole};

use crate::db;
use crate::domain::{ObjectStatus, PropertyObject, PropertyObjectId, PublishedName};
use crate::ops;

const DEVELOPER: &str = "platform.chessboard.developer-upserted.v1";
const OBJECT: &str = "platform.chessboard.property-object-upserted.v1";

pub struct Chessboard;

type Version = Whole<0, { i64::MAX }>;

/// The fields of a developer event that this service uses.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DeveloperEvent {
    id: CompanyId,
    name: PublishedName,
    version: Version,
}

/// The fields of an object event that this service uses.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PropertyObjectEvent {
    id: PropertyObjectId,
    tenant_id: CompanyId,
    project_name: PublishedName,
    building_name: PublishedName,
    number: PublishedName,
    price: Money,
    status: String,
    version: Version,
}

impl From<PropertyObjectEvent> for PropertyObject {
    fn from(event: PropertyObjectEvent) -> Self {
        Self {
            id: event.id,
            tenant_id: event.tenant_id,
            project_name: event.project_name,
            building_name: event.building_name,
            number: event.number,
            price: event.price.amount_minor,
            currency: event.price.currency,
            status: event.status.parse().unwrap_or(ObjectStatus::Other),
            version: event.version.get(),
        }
    }
}

impl Handler for Chessboard {
    const GROUP: &'static str = "crm.chessboard";
    const TOPICS: &'static [&'static str] = &[DEVELOPER, OBJECT];
    const STATE_TOPICS: &'static [&'static str] = Self::TOPICS;

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        if message.topic == OBJECT {
            let event: PropertyObjectEvent = message.decode()?;
            db::property_object::upsert(tx, &event.into()).await?;
        } else {
            let DeveloperEvent { id, name, version } = message.decode()?;
            ops::pipeline::upsert_developer(tx, id, &name, version.get()).await?;
        }
        Ok(())
    }
}
