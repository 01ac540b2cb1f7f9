//! What developers, projects, buildings and objects are and may do. No clock, no I/O.

mod access;
mod building;
mod catalog;
mod catalog_grid;
mod change;
mod claim;
mod company;
mod developer;
mod developer_change;
mod highlights;
mod log;
mod project;
mod property_object;
mod replacement;

use ids::Reference;

pub use access::{ManageDevelopers, ManageOwnDeveloper};
pub use building::{Building, BuildingFacts, BuildingName, BuildingState};
pub use catalog::{AreaBound, BoundingBox, CatalogQuery, FloorBound, PriceBound, RoomsAsked};
pub use catalog_grid::{GridSection, Placed, grid};
pub use change::{Above, Change, Told};
pub use claim::{Claim, ClaimKind, Hold};
pub use company::{Company, CompanyStatus, CompanyType};
pub use developer::{
    ContactEmail, ContactPhone, Description, Details, Developer, DeveloperName, DeveloperStatus, FoundedYear,
    LegalName, Move, OutsideProfile, Profile, SEPARATOR, SyncSource, Website,
};
pub use developer_change::DeveloperField;
pub use highlights::Highlights;
pub use log::{Author, LogEntry};
pub use project::{
    Address, City, Latitude, Longitude, Project, ProjectClass, ProjectDescription, ProjectFacts, ProjectName,
    ProjectStatus,
};
pub use property_object::{
    Area, Finishing, Floor, ObjectFacts, ObjectKind, ObjectNumber, ObjectStatus, Position, Price,
    PropertyObject, Rooms, Section,
};
pub use replacement::{Entry, Replacement, replace};

ids::typed_id!(
    /// A developer's profile in the outside system.
    OutsideId
);
ids::typed_id!(
    /// A file of the external file store.
    FileId
);
ids::typed_id!(
    /// An entry of a profile's log.
    LogEntryId
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
    /// A deal, of CRM.
    DealId
);

/// Of a file, as a request names it.
pub type FileReference = Reference<FileId>;
