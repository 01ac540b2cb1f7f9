//! The error codes of the service.

use values::Code;

use crate::domain::{CHART_MAX_UPLOADS, MAX_BUILDINGS, MAX_GRID_OBJECTS};

pub use service::Error;
pub use web::FORBIDDEN;

pub const DEVELOPER_NOT_FOUND: Code = Code::new(404, "CHESSBOARD_DEVELOPER_NOT_FOUND");
pub const PROJECT_NOT_FOUND: Code = Code::new(404, "CHESSBOARD_PROJECT_NOT_FOUND");
pub const BUILDING_NOT_FOUND: Code = Code::new(404, "CHESSBOARD_BUILDING_NOT_FOUND");
pub const PROPERTY_OBJECT_NOT_FOUND: Code = Code::new(404, "CHESSBOARD_PROPERTY_OBJECT_NOT_FOUND");
/// The company is unknown or not of type Developer (INV-DEV-1).
pub const DEVELOPER_COMPANY_NOT_FOUND: Code = Code::new(422, "CHESSBOARD_DEVELOPER_COMPANY_NOT_FOUND");
pub const DEVELOPER_ALREADY_EXISTS: Code = Code::new(409, "CHESSBOARD_DEVELOPER_ALREADY_EXISTS");
/// The external id belongs to another profile (INV-DEV-2).
pub const DEVELOPER_TALENT_DUPLICATE: Code = Code::new(409, "CHESSBOARD_DEVELOPER_TALENT_DUPLICATE");
/// A field is owned by the external system (INV-DEV-3).
pub const DEVELOPER_FIELD_SYNC_MANAGED: Code =
    Code::new(422, "CHESSBOARD_DEVELOPER_FIELD_SYNC_MANAGED").at("/Name", "read_only");
pub const DEVELOPER_INVALID_TRANSITION: Code = Code::new(409, "CHESSBOARD_DEVELOPER_INVALID_TRANSITION");
pub const DEVELOPER_COMPANY_NOT_ACTIVE: Code = Code::new(409, "CHESSBOARD_DEVELOPER_COMPANY_NOT_ACTIVE");
/// A field that a publication requires is not filled (INV-DEV-5).
pub const DEVELOPER_PUBLISH_INCOMPLETE: Code =
    Code::new(409, "CHESSBOARD_DEVELOPER_PUBLISH_INCOMPLETE").at("/LogoFileId", "required");
pub const DEVELOPER_HAS_LIVE_PROJECTS: Code = Code::new(409, "CHESSBOARD_DEVELOPER_HAS_LIVE_PROJECTS");
pub const PROJECT_INVALID_TRANSITION: Code = Code::new(409, "CHESSBOARD_PROJECT_INVALID_TRANSITION");
/// The developer of the project is not Published (INV-PRJ-1).
pub const PROJECT_DEVELOPER_NOT_PUBLISHED: Code =
    Code::new(409, "CHESSBOARD_PROJECT_DEVELOPER_NOT_PUBLISHED");
pub const BUILDINGS_LIMIT_EXCEEDED: Code =
    Code::new(409, "CHESSBOARD_BUILDINGS_LIMIT_EXCEEDED").with_arg("max", MAX_BUILDINGS as u64);
pub const PROPERTY_OBJECTS_LIMIT_EXCEEDED: Code =
    Code::new(409, "CHESSBOARD_PROPERTY_OBJECTS_LIMIT_EXCEEDED").with_arg("max", MAX_GRID_OBJECTS as u64);
/// A deal holds the object (INV-OBJ-2).
pub const PROPERTY_OBJECT_HELD: Code = Code::new(409, "CHESSBOARD_PROPERTY_OBJECT_HELD");
/// Another object of the building has the number (INV-OBJ-1).
pub const PROPERTY_OBJECT_NUMBER_TAKEN: Code = Code::new(409, "CHESSBOARD_PROPERTY_OBJECT_NUMBER_TAKEN");
/// Another project, building or object of the company has the external id.
pub const EXTERNAL_ID_TAKEN: Code = Code::new(409, "CHESSBOARD_EXTERNAL_ID_TAKEN");
pub const FEED_IMPORT_NOT_FOUND: Code = Code::new(404, "CHESSBOARD_FEED_IMPORT_NOT_FOUND");
/// The developer has an import that is not finished.
pub const FEED_IMPORT_IN_PROGRESS: Code = Code::new(409, "CHESSBOARD_FEED_IMPORT_IN_PROGRESS");
pub const FEED_IMPORT_INVALID_TRANSITION: Code = Code::new(409, "CHESSBOARD_FEED_IMPORT_INVALID_TRANSITION");
/// The developer has uploaded the maximum number of files in this hour.
pub const FEED_UPLOADS_LIMIT_EXCEEDED: Code = Code::new(429, "CHESSBOARD_FEED_UPLOADS_LIMIT_EXCEEDED")
    .with_arg("max", CHART_MAX_UPLOADS as u64)
    .retry_after(3_600);
/// The caller's version is outdated, or the caller lost a race.
pub const CONFLICT: Code = Code::conflict("CHESSBOARD_CONCURRENCY_CONFLICT");
