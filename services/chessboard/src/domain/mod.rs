//! The rules of developers, projects, buildings and property objects, without clock and I/O.

mod access;
mod ancestors;
mod author;
mod building;
mod catalog;
mod catalog_grid;
mod claim;
mod company;
mod developer;
mod developer_change;
mod developer_field;
mod edit;
mod external_id;
pub mod feed;
mod feed_import;
mod highlights;
mod log;
mod names;
mod object_change;
mod object_status;
mod object_upsert;
mod parent;
mod placement;
mod project;
mod property_object;
mod replacement;
mod upserted;

use ids::Reference;

pub use access::{ManageDevelopers, ManageOwnDeveloper};
pub use ancestors::{Ancestors, PublishedState};
pub use author::Author;
pub use building::{Building, BuildingFacts, BuildingName, BuildingState, MAX_BUILDINGS};
pub use catalog::{AreaBound, BoundingBox, CatalogQuery, FloorBound, PriceBound, RoomCategory};
pub use catalog_grid::{GridItem, GridSection, build_grid};
pub use claim::{Claim, ClaimKind, Hold};
pub use company::{Company, CompanyStatus, CompanyType};
pub use developer::{
    ContactEmail, ContactPhone, Description, Developer, DeveloperStatus, ExternalProfile, FoundedYear,
    Profile, ProfileDetails, SyncSource, Transition, Website,
};
pub use developer_field::DeveloperField;
pub use edit::Edit;
pub use external_id::{Edited, ExternalId, ExternalIdEdit};
pub use feed_import::{CHART_MAX_UPLOADS, FeedBuildingState, FeedImport, FeedImportState, check_uploads};
pub use highlights::Highlights;
pub use log::LogEntry;
pub use names::{DeveloperName, LegalName};
pub use object_change::ObjectChange;
pub use object_status::ObjectStatus;
pub use object_upsert::{ExternalObject, KnownObjects, ObjectRefusal, upsert_object};
pub use parent::Parent;
pub use placement::{Floor, Position, Section};
pub use project::{
    Address, City, Latitude, Longitude, Project, ProjectClass, ProjectDescription, ProjectFacts, ProjectName,
    ProjectStatus,
};
pub use property_object::{
    Area, Finishing, ObjectFacts, ObjectKind, ObjectNumber, Price, PropertyObject, Rooms,
};
pub use replacement::{GridEntry, GridReplacement, MAX_GRID_OBJECTS, MAX_REPORTED_ERRORS, replace_grid};
pub use upserted::Upserted;

ids::typed_id!(
    /// The id of a developer's profile in the external chessboard system.
    ExternalDeveloperId
);
ids::typed_id!(
    /// A file in the external file store.
    FileId
);
ids::typed_id!(
    /// An entry in the log of a profile.
    LogEntryId
);
ids::typed_id!(
    /// An import of a feed.
    FeedImportId
);
ids::typed_id!(
    /// One upload of the file of an import.
    FeedUploadId
);
ids::typed_id!(
    /// A project.
    ProjectId
);
ids::typed_id!(
    /// A building.
    BuildingId
);
ids::typed_id!(
    /// A property object.
    PropertyObjectId
);
ids::typed_id!(
    /// A deal of crm.
    DealId
);

/// The id of a file in a request body.
pub type FileReference = Reference<FileId>;
/// The id of a project in a request body.
pub type ProjectReference = Reference<ProjectId>;

/// The id of a building in a request body.
pub type BuildingReference = Reference<BuildingId>;
