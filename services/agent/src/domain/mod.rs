//! The rules of commissions and payouts. Domain types have no clock and no I/O.

mod access;
mod account;
mod accrual;
mod adjustment;
mod assignment;
mod bonus;
mod deal;
mod entry;
mod ledger;
mod money_log;
mod payout;
mod payout_preview;
mod payout_run;
mod performance;
mod rate;
mod sale;
#[cfg(test)]
mod samples;

pub use access::{ManageCommissions, ManagePayouts, ReadMoneyLog, UseCabinet};
pub use account::{Account, AccountKey, Overflow};
pub use accrual::{Accrual, AccrualKind, AccrualStatus, ApprovalLimit};
pub use adjustment::{
    AdjustmentReason, AdjustmentRequest, AdjustmentRequestView, AdjustmentStatus, Comment, OptionalComment,
    non_empty_comment,
};
pub use assignment::{MissingTerm, SaleAssignment};
pub use bonus::{BonusLimit, BonusProposal, BonusProposalView};
pub use deal::{Deal, DealEvent, DealStatus, DealTopic, StageChange};
pub use entry::Entry;
pub use ledger::SaleTransition;
pub use money_log::{MoneyEntry, MoneyEntryView};
pub use payout::{FailureReason, PaymentReference, Payout, PayoutStatus, PayoutTransition, PayoutView};
pub use payout_preview::{PayoutPreview, deviation_percent};
pub use payout_run::{
    MAX_RUN_AGENTS, MAX_RUN_PERIOD, PayoutRun, PayoutRunPart, PayoutRunStatus, PayoutRunView, RunKey,
    RunTotal, Sum,
};
pub use performance::{CalendarMonth, CountBy, CycleDays, Period, Zone, conversion_bps, mean_cycle_days};
pub use rate::{Agent, AgentView, CardKey, MAX_BPS, MAX_CARD_RATES, Rate, RateCard, RateCardView, SaleRate};
pub use sale::{Sale, Undo};

ids::typed_id!(
    /// The id of an accrual.
    AccrualId
);
ids::typed_id!(
    /// The id of an adjustment request.
    AdjustmentRequestId
);
ids::typed_id!(
    /// The id of a bonus proposal.
    BonusProposalId
);
ids::typed_id!(
    /// The id of an entry of the money log.
    MoneyEntryId
);
ids::typed_id!(
    /// The id of the entity that an entry of the money log is about.
    SubjectId
);
ids::typed_id!(
    /// The id of a payout.
    PayoutId
);
ids::typed_id!(
    /// The id of a payout run.
    PayoutRunId
);
ids::typed_id!(
    /// The id of a rate card.
    RateCardId
);
ids::typed_id!(
    /// The id of a deal, which CRM owns.
    DealId
);
ids::typed_id!(
    /// The id of a property object, which chessboard owns.
    PropertyObjectId
);
