//! What developers, projects, buildings and objects are and may do. No clock, no I/O.

mod access;
mod company;
mod developer;
mod highlights;
mod log;

use ids::Reference;

pub use access::{ManageDevelopers, ManageOwnDeveloper};
pub use company::{Company, CompanyStatus, CompanyType};
pub use developer::{
    Author, ContactEmail, ContactPhone, Description, Details, Developer, DeveloperField, DeveloperName,
    DeveloperStatus, FoundedYear, LegalName, Move, OutsideProfile, Profile, SyncSource, Website,
};
pub use highlights::Highlights;
pub use log::{ActorKind, LogEntry};

ids::typed_id!(
    /// A developer's profile in the outside system.
    OutsideId
);
/// Of a file, as a request names it.
pub type FileReference = Reference<FileId>;

ids::typed_id!(
    /// A file of the external file store.
    FileId
);
ids::typed_id!(
    /// An entry of a profile's log.
    LogEntryId
);
