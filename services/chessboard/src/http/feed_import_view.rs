//! Imports of feeds as responses.

use ::web::Messages;
use actix_web::HttpRequest;
use auth::UserId;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::db::feed_change::FeedBuilding;
use crate::db::feed_import::{IgnoredElement, ImportRow};
use crate::db::feed_offer::StoredProblem;
use crate::domain::{BuildingId, FeedBuildingState, FeedImport, FeedImportId, FeedImportState, ProjectId};

/// An import of a feed.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct FeedImportView {
    id: FeedImportId,
    /// The building of all offers. Null if each offer names its building.
    building_id: Option<BuildingId>,
    state: FeedImportState,
    /// Size of the file as it was sent.
    file_bytes: i64,
    /// The reason why the file is rejected as a whole.
    refusal: Option<FileRefusalView>,
    /// Number of offers in the file.
    offers_count: i32,
    rejected_count: i32,
    /// Elements of offers that the service does not understand.
    ignored_elements: Vec<IgnoredElement>,
    /// True if rejected offers did not prevent the others of their buildings.
    skip_rejected: bool,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    created_by_user_id: UserId,
    #[serde(with = "time::serde::rfc3339")]
    updated_at: OffsetDateTime,
    /// The current version, for `Version` in a change.
    version: i64,
}

/// The reason why a file is rejected as a whole.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct FileRefusalView {
    line: i64,
    code: String,
    /// The reason in the caller's language.
    message: String,
}

/// Returns the text of a code in the caller's language.
fn message(messages: &Messages, request: &HttpRequest, code: &str) -> String {
    let text = messages.render(request, &format!("feed_{code}")).or_else(|| messages.render(request, code));
    text.unwrap_or_else(|| code.to_owned())
}

impl FeedImportView {
    pub fn new((import, ignored): ImportRow, messages: &Messages, request: &HttpRequest) -> Self {
        let FeedImport { refusal_code, refusal_line, .. } = import;
        let refusal = refusal_code.map(|code| FileRefusalView {
            line: refusal_line.unwrap_or_default(),
            message: message(messages, request, &code),
            code,
        });
        Self {
            id: import.id,
            building_id: import.building_id,
            state: import.state,
            file_bytes: import.file_bytes,
            refusal,
            offers_count: import.offers_count,
            rejected_count: import.rejected_count,
            ignored_elements: ignored.0,
            skip_rejected: import.skip_rejected,
            created_at: import.created_at,
            created_by_user_id: import.created_by_user_id,
            updated_at: import.updated_at,
            version: import.version,
        }
    }
}

/// A problem of an offer.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct FeedProblemView {
    /// The line of the element in the file.
    line: i64,
    /// The `internal-id` of the offer.
    internal_id: Option<String>,
    building_id: Option<BuildingId>,
    /// The path of the element below `offer`.
    element: String,
    code: String,
    /// The reason in the caller's language.
    message: String,
    /// The value in the file, at most 64 characters of it.
    value: Option<String>,
}

/// The offers of a building in an import.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct FeedBuildingView {
    project_id: ProjectId,
    building_id: BuildingId,
    state: FeedBuildingState,
    offers_count: i32,
    rejected_count: i32,
    /// Number of new and returned objects.
    created_count: i32,
    updated_count: i32,
    unchanged_count: i32,
    /// Number of objects that stay as they are, because they are held, Booked or Sold.
    kept_count: i32,
    /// Number of live objects that no offer names. They stay as they are.
    missing_count: i32,
}

impl FeedProblemView {
    pub fn new(problem: StoredProblem, messages: &Messages, request: &HttpRequest) -> Self {
        Self {
            line: problem.line,
            internal_id: problem.internal_id,
            building_id: problem.building_id,
            message: message(messages, request, &problem.code),
            element: problem.element,
            code: problem.code,
            value: problem.value,
        }
    }
}

impl FeedBuildingView {
    pub fn new(building: &FeedBuilding, project_id: ProjectId) -> Self {
        Self {
            project_id,
            building_id: building.building_id,
            state: building.state,
            offers_count: building.offers_count,
            rejected_count: building.rejected_count,
            created_count: building.created_count,
            updated_count: building.updated_count,
            unchanged_count: building.unchanged_count,
            kept_count: building.kept_count,
            missing_count: building.missing_count,
        }
    }
}
