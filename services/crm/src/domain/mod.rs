//! What deals, bookings and pipelines are and may do. No clock, no I/O.

mod access;
mod booking;
mod change;
mod deal;
mod pipeline;
mod replica;
mod rules;
mod timeline;

pub use access::{
    CareForDeals, ChangeOwnDeals, ManageDeals, ManageOwnPipeline, ReadDeals, ReadOwnDeals, ReadOwnPipeline,
    Role,
};
pub use booking::{Booking, BookingStatus, check_expiry};
pub use change::{Author, Change, Told};
pub use deal::{
    Amount, Contract, ContractType, Deal, DealCard, DealStatus, EscrowAccountNumber, FixationData,
    PaymentMethod, RegistryRecordNumber, SeenVersion, StepGroup, Words,
};
pub use pipeline::{
    DEFAULT_PIPELINE, PipelineRefusal, Replacement, Step, StepName, Wanted, receiving_step, replace,
};
pub use replica::{Company, CompanyStatus, ObjectStatus, PropertyObject, ToldName};
pub use rules::{Application, ContractChange, ObjectState, Operation, Prospect, Request, Situation};
pub use timeline::{ContractField, Entry, TimelineKind, TimelineRow};

ids::typed_id!(
    /// A deal.
    DealId
);
ids::typed_id!(
    /// A step of a developer's pipeline.
    StepId
);
ids::typed_id!(
    /// A booking of a property object by a deal.
    BookingId
);
ids::typed_id!(
    /// A row of a deal's timeline.
    TimelineRowId
);
ids::typed_id!(
    /// A property object, of chessboard.
    PropertyObjectId
);
ids::typed_id!(
    /// A selection, of selections.
    SelectionId
);
ids::typed_id!(
    /// What a caller calls a creation, so that it can be repeated.
    RequestId
);
