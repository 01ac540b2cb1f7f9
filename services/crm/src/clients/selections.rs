//! The client of the internal API of selections. It returns responses unchanged.

use ::web::Problem;
use auth::UserId;
use http_client::{Call, CallError, ServiceClient};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::domain::SelectionId;
use crate::error::Error;

const GET_SELECTION: Call = Call::get("selections", "/api/v1/internal/selections/{selection_id}");
const LIST_BY_OWNER: Call = Call::get("selections", "/api/v1/internal/selections/by-owner/{owner_user_id}");

pub const CALLS: &[Call] = &[GET_SELECTION, LIST_BY_OWNER];

pub struct Selections {
    service: ServiceClient,
}

/// An unchanged response of selections.
#[derive(Debug, Deserialize, Serialize)]
#[serde(transparent)]
pub struct SelectionsResponse(Box<RawValue>);

/// Describes no members, since the OpenAPI document of selections does. The operations name them.
impl PartialSchema for SelectionsResponse {
    fn schema() -> RefOr<Schema> {
        let object = ObjectBuilder::new().schema_type(Type::Object);
        object.additional_properties(Some(AdditionalProperties::FreeForm(true))).into()
    }
}

impl ToSchema for SelectionsResponse {}

/// The fields of a selection that this service reads.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SelectionFields {
    owner_user_id: UserId,
    deleted_at: Option<IgnoredAny>,
}

/// A selection with its unchanged response.
pub struct FoundSelection {
    pub owner_user_id: UserId,
    is_deleted: bool,
    pub response: SelectionsResponse,
}

impl Selections {
    /// # Errors
    /// The HTTP client cannot be built.
    pub fn new(config: &http_client::Config) -> anyhow::Result<Self> {
        Ok(Self { service: ServiceClient::new(config)? })
    }

    /// Finds a selection, deleted or not. A deleted selection has its last content.
    ///
    /// # Errors
    /// `SERVICE_UNAVAILABLE` if selections returns neither a selection nor
    /// `SELECTIONS_NOT_FOUND` after all retries.
    pub async fn find(&self, id: SelectionId) -> Result<Option<FoundSelection>, Error> {
        self.read(&GET_SELECTION.path_with(id)).await
    }

    /// Finds a selection to which a new deal may refer: one that is not deleted and that never had
    /// a collaborator.
    ///
    /// # Errors
    /// The errors of [`find`](Self::find).
    pub async fn find_for_new_deal(&self, id: SelectionId) -> Result<Option<FoundSelection>, Error> {
        let found = self.read(&format!("{}?ForNewDeal=true", GET_SELECTION.path_with(id))).await?;
        // An older release of selections ignores the parameter.
        Ok(found.filter(|found| !found.is_deleted))
    }

    async fn read(&self, path: &str) -> Result<Option<FoundSelection>, Error> {
        let response: SelectionsResponse = match self.service.get(path).await {
            Ok(response) => response,
            Err(CallError::Refused { code, .. }) if code == "SELECTIONS_NOT_FOUND" => return Ok(None),
            Err(error) => return Err(Problem::unavailable(&error).into()),
        };
        let SelectionFields { owner_user_id, deleted_at } =
            serde_json::from_str(response.0.get()).map_err(|error| Problem::unavailable(&error))?;
        Ok(Some(FoundSelection { owner_user_id, is_deleted: deleted_at.is_some(), response }))
    }

    /// Returns all selections of an owner without the deleted ones. One page has all of them, since
    /// an owner has at most 100.
    ///
    /// # Errors
    /// `SERVICE_UNAVAILABLE` if selections does not return a page after all retries.
    pub async fn list_by_owner(&self, owner: UserId) -> Result<SelectionsResponse, Error> {
        let path = format!("{}?PageSize=100", LIST_BY_OWNER.path_with(owner));
        self.service.get(&path).await.map_err(|error| Problem::unavailable(&error).into())
    }
}
