//! The internal API of selections. What it answers is passed on as it is.

use ::web::Problem;
use auth::UserId;
use http_client::{Call, CallError, Service};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::domain::SelectionId;
use crate::error::Error;

const FIND: Call = Call::get("selections", "/api/v1/internal/selections/{selection_id}");
const OF_OWNER: Call = Call::get("selections", "/api/v1/internal/selections/by-owner/{owner_user_id}");

/// Every call.
pub const CALLS: &[Call] = &[FIND, OF_OWNER];

pub struct Selections {
    service: Service,
}

/// What selections answers, as it came.
#[derive(Debug, Deserialize, Serialize)]
#[serde(transparent)]
pub struct PassedOn(Box<RawValue>);

/// Its members are for selections' document to describe.
impl PartialSchema for PassedOn {
    fn schema() -> RefOr<Schema> {
        let object = ObjectBuilder::new().schema_type(Type::Object);
        object.additional_properties(Some(AdditionalProperties::FreeForm(true))).into()
    }
}

impl ToSchema for PassedOn {}

/// The field that is read here.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Owned {
    owner_user_id: UserId,
}

impl Selections {
    /// # Errors
    /// When no HTTP client can be made.
    pub fn new(config: &http_client::Config) -> anyhow::Result<Self> {
        Ok(Self { service: Service::new(config)? })
    }

    /// A selection and its owner, deleted or not; `None` where there is none.
    ///
    /// # Errors
    /// `SERVICE_UNAVAILABLE`
    pub async fn find(&self, id: SelectionId) -> Result<Option<(UserId, PassedOn)>, Error> {
        let selection: PassedOn = match self.service.get(&FIND.at(id)).await {
            Ok(selection) => selection,
            Err(CallError::Refused { code, .. }) if code == "SELECTIONS_NOT_FOUND" => return Ok(None),
            Err(error) => return Err(Problem::unavailable(&error).into()),
        };
        let owned: Owned =
            serde_json::from_str(selection.0.get()).map_err(|error| Problem::unavailable(&error))?;
        Ok(Some((owned.owner_user_id, selection)))
    }

    /// All that an owner has: a page holds as many as one may have.
    ///
    /// # Errors
    /// `SERVICE_UNAVAILABLE`
    pub async fn of_owner(&self, owner: UserId) -> Result<PassedOn, Error> {
        let path = format!("{}?PageSize=100", OF_OWNER.at(owner));
        self.service.get(&path).await.map_err(|error| Problem::unavailable(&error).into())
    }
}
