//! Errors of the unique indexes of external ids.

use crate::error::{EXTERNAL_ID_TAKEN, Error};

/// Maps a violated index of external ids to its code.
pub fn map_taken_external_id(error: ::db::Error) -> Error {
    match error.violated_constraint() {
        Some("project_external_id" | "building_external_id" | "property_object_external_id") => {
            EXTERNAL_ID_TAKEN.into()
        }
        _ => error.into(),
    }
}
