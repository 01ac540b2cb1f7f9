//! The version that a status change or a deletion expects.

use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

/// The optional body of a status change.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ExpectedVersion {
    /// The version that the caller has read. Another stored version returns 409.
    #[serde(default, deserialize_with = "::web::read_version")]
    pub version: Option<i64>,
}

/// The optional query of a deletion.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct ExpectedVersionQuery {
    /// The version that the caller has read. Another stored version returns 409.
    pub version: Option<i64>,
}
