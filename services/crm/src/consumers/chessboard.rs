//! Developers and property objects, as chessboard tells of them.

use ::db::Tx;
use auth::CompanyId;
use messaging::{Failure, Handler, Message};
use serde::Deserialize;
use values::{Money, Whole};

use crate::db;
use crate::domain::{ObjectStatus, PropertyObject, PropertyObjectId, ToldName};
use crate::ops;

const DEVELOPER: &str = "platform.chessboard.developer-upserted.v1";
const OBJECT: &str = "platform.chessboard.property-object-upserted.v1";

pub struct Chessboard;

type Version = Whole<0, { i64::MAX }>;

/// The fields that are read here.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DeveloperTold {
    id: CompanyId,
    name: ToldName,
    version: Version,
}

/// The fields that are read here.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ObjectTold {
    id: PropertyObjectId,
    tenant_id: CompanyId,
    project_name: ToldName,
    building_name: ToldName,
    number: ToldName,
    price: Money,
    status: String,
    version: Version,
}

impl From<ObjectTold> for PropertyObject {
    fn from(told: ObjectTold) -> Self {
        Self {
            id: told.id,
            tenant_id: told.tenant_id,
            project_name: told.project_name,
            building_name: told.building_name,
            number: told.number,
            price: told.price.amount_minor,
            currency: told.price.currency,
            status: told.status.parse().unwrap_or(ObjectStatus::Other),
            version: told.version.get(),
        }
    }
}

impl Handler for Chessboard {
    const GROUP: &'static str = "crm.chessboard";
    const TOPICS: &'static [&'static str] = &[DEVELOPER, OBJECT];

    async fn handle(tx: &mut Tx, message: &Message) -> Result<(), Failure> {
        if message.topic == OBJECT {
            let told: ObjectTold = message.decode()?;
            db::property_object::upsert(tx, &told.into()).await?;
        } else {
            let DeveloperTold { id, name, version } = message.decode()?;
            ops::pipeline::hear(tx, id, &name, version.get()).await?;
        }
        Ok(())
    }
}
