//! What deals earn, and how that is paid. No clock, no I/O.

mod access;
mod account;
mod accrual;
mod adjustment;
mod deal;
mod ledger;
mod payout;
mod payout_run;
mod performance;
mod rate;
mod sale;

pub use access::{ManageCommissions, ManagePayouts, UseCabinet};
pub use account::{Account, Overflow};
pub use accrual::{Accrual, AccrualKind, AccrualStatus};
pub use adjustment::{AdjustmentReason, AdjustmentRequest, AdjustmentRequestShown, AdjustmentStatus, Words};
pub use deal::{Deal, DealStatus, DealTold, DealTopic, StageChange};
pub use ledger::{Entry, Step};
pub use payout::{FailureReason, Move, PaymentReference, Payout, PayoutShown, PayoutStatus};
pub use payout_run::{PayoutRun, PayoutRunShown, PayoutRunStatus, RunKey, RunTotal, Sum};
pub use performance::{CycleDays, Period, conversion, mean_days};
pub use rate::{Agent, AgentShown, CardKey, Rate, RateCard, RateCardShown};
pub use sale::{Sale, Undone};

ids::typed_id!(
    /// An accrual.
    AccrualId
);
ids::typed_id!(
    /// A request to adjust an accrual.
    AdjustmentRequestId
);
ids::typed_id!(
    /// A payout to an agent, in one currency.
    PayoutId
);
ids::typed_id!(
    /// A run that makes payouts.
    PayoutRunId
);
ids::typed_id!(
    /// A card of rates.
    RateCardId
);
ids::typed_id!(
    /// A deal, of crm.
    DealId
);
ids::typed_id!(
    /// A property object, of chessboard.
    PropertyObjectId
);
