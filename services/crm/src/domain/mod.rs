//! Deals, bookings and pipelines with their rules. No clock and no I/O.

mod access;
mod booking;
mod change;
mod copies;
mod deal;
mod deal_state;
mod limits;
mod pipeline;
mod rules;
mod saved_view;
mod status_override;
mod terms;
mod timeline;

pub use access::{
    CareForDeals, ChangeOwnDeals, ManageDeals, ManageOwnPipeline, ReadDeals, ReadOwnDeals, ReadOwnPipeline,
    Role, may_read_contracts,
};
pub use booking::{Booking, BookingStatus, check_expiry};
pub use change::{Author, Change, DealEventType};
pub use copies::{Company, CompanyKind, CompanyStatus, ObjectStatus, PropertyObject, PublishedName};
pub use deal::{
    Amount, Contract, ContractNumber, ContractType, Deal, DealCard, DealStatus, EscrowAccountNumber,
    FixationData, FreeText, PaymentMethod, RegistryRecordNumber, SeenVersion, StepGroup,
};
pub use deal_state::{DealState, ObjectAvailability, ObjectState};
pub use limits::{
    AdditionKind, AdditionLimits, Additions, CHART_MAX_DEALS, CHART_MAX_DEALS_OF_CLIENT, CHART_MAX_NOTES,
};
pub use pipeline::{
    DEFAULT_PIPELINE, DesiredStep, PipelineEditor, PipelineRefusal, Replacement, Step, StepName,
    receiving_step, replace,
};
pub use rules::{ContractChange, CreationRequest, NewDeal, OfferedObject, Operation};
pub use saved_view::{MAX_SAVED_VIEWS, SavedView, ViewContent, ViewName, ViewOwner, ViewQuery};
pub use status_override::StatusOverride;
pub use timeline::{ContractField, NoteAudience, TimelineEntry, TimelineKind, TimelineRow};

ids::typed_id!(
    /// The id of a deal.
    DealId
);
ids::typed_id!(
    /// The id of a step of a developer's pipeline.
    StepId
);
ids::typed_id!(
    /// The id of a booking.
    BookingId
);
ids::typed_id!(
    /// The id of a row of a timeline.
    TimelineRowId
);
ids::typed_id!(
    /// The id of an override in the register.
    OverrideId
);
ids::typed_id!(
    /// The id of a saved view.
    SavedViewId
);
ids::typed_id!(
    /// The id of a property object, which chessboard owns.
    PropertyObjectId
);
ids::typed_id!(
    /// The id of a selection, which the service selections owns.
    SelectionId
);
ids::typed_id!(
    /// An id that a caller chooses for a creation, so that a repeat finds the same deal.
    RequestId
);
