//! The body of a status change, with the version that the caller has seen.

use serde::Deserialize;
use utoipa::ToSchema;

/// The optional body of a status change.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ExpectedVersion {
    /// The version that the caller has seen. If it is not the current one, the response is 409.
    #[serde(default, deserialize_with = "::web::read_version")]
    pub version: Option<i64>,
}
