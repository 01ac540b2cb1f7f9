//! What deals, bookings and pipelines are and may do. No clock, no I/O.

mod access;

use values::Text;

pub use access::{
    CareForDeals, ChangeOwnDeals, ManageDeals, ManageOwnPipeline, ReadDeals, ReadOwnDeals, ReadOwnPipeline,
    Role,
};

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

values::text_enum! {
    /// How far a deal has come; its step's group decides.
    pub enum DealStatus {
        Application,
        Booking,
        Sale,
        Cancelled,
        Completed,
    }
}

values::text_enum! {
    /// What a step of a pipeline stands for. Sale is in Contract.
    pub enum StepGroup {
        Application,
        Booking,
        Contract,
        Completed,
        Cancelled,
    }
}

impl StepGroup {
    /// INV-DEAL-2
    pub const fn status(self) -> DealStatus {
        match self {
            Self::Application => DealStatus::Application,
            Self::Booking => DealStatus::Booking,
            Self::Contract => DealStatus::Sale,
            Self::Completed => DealStatus::Completed,
            Self::Cancelled => DealStatus::Cancelled,
        }
    }
}

impl DealStatus {
    /// The group of the steps that give it.
    pub const fn group(self) -> StepGroup {
        match self {
            Self::Application => StepGroup::Application,
            Self::Booking => StepGroup::Booking,
            Self::Sale => StepGroup::Contract,
            Self::Completed => StepGroup::Completed,
            Self::Cancelled => StepGroup::Cancelled,
        }
    }
}

/// Why a deal was cancelled, trimmed.
pub type CancelReason = Text<1, 2000>;
