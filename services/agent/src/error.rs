//! The error codes of the service.

use values::Code;

pub use service::Error;
pub use web::FORBIDDEN;

pub const ACCRUAL_NOT_FOUND: Code = Code::new(404, "AGENT_ACCRUAL_NOT_FOUND");
pub const ACCRUAL_NOT_ADJUSTABLE: Code = Code::new(409, "AGENT_ACCRUAL_NOT_ADJUSTABLE");
pub const ACCRUAL_NOT_REJECTABLE: Code = Code::new(409, "AGENT_ACCRUAL_NOT_REJECTABLE");
pub const ACCRUAL_NOT_REVERSIBLE: Code = Code::new(409, "AGENT_ACCRUAL_NOT_REVERSIBLE");
/// The accrual does not await a release (INV-AGT-9).
pub const ACCRUAL_NOT_RELEASABLE: Code = Code::new(409, "AGENT_ACCRUAL_NOT_RELEASABLE");
/// A caller must not decide about the caller's own accrual.
pub const ACCRUAL_OWN: Code = Code::new(403, "AGENT_ACCRUAL_OWN");
/// An accrual has at most one open request (INV-AGT-3).
pub const ADJUSTMENT_ALREADY_OPEN: Code = Code::new(409, "AGENT_ADJUSTMENT_ALREADY_OPEN");
pub const ADJUSTMENT_AMOUNT_INVALID: Code = Code::new(422, "AGENT_ADJUSTMENT_AMOUNT_INVALID");
pub const ADJUSTMENT_NOT_FOUND: Code = Code::new(404, "AGENT_ADJUSTMENT_NOT_FOUND");
/// A caller must not decide the caller's own request.
pub const ADJUSTMENT_OWN: Code = Code::new(403, "AGENT_ADJUSTMENT_OWN");
pub const ADJUSTMENT_ALREADY_DECIDED: Code = Code::new(409, "AGENT_ADJUSTMENT_ALREADY_DECIDED");
/// The agent of an assigned sale has no active agency.
pub const ASSIGNEE_INVALID: Code = Code::new(422, "AGENT_ASSIGNEE_INVALID");
pub const DEAL_NOT_FOUND: Code = Code::new(404, "AGENT_DEAL_NOT_FOUND");
pub const BONUS_NOT_FOUND: Code = Code::new(404, "AGENT_BONUS_NOT_FOUND");
/// The accrual is not the effective Base of a completed sale.
pub const BONUS_NOT_ALLOWED: Code = Code::new(409, "AGENT_BONUS_NOT_ALLOWED");
pub const BONUS_AMOUNT_INVALID: Code = Code::new(422, "AGENT_BONUS_AMOUNT_INVALID");
/// A caller must not propose or decide the caller's own bonus.
pub const BONUS_OWN: Code = Code::new(403, "AGENT_BONUS_OWN");
/// The caller proposed the bonus, so another employee has to decide it.
pub const BONUS_SECOND_PERSON: Code = Code::new(403, "AGENT_BONUS_SECOND_PERSON");
pub const BONUS_ALREADY_DECIDED: Code = Code::new(409, "AGENT_BONUS_ALREADY_DECIDED");
pub const PAYOUT_NOT_FOUND: Code = Code::new(404, "AGENT_PAYOUT_NOT_FOUND");
/// A caller must not change the status of the caller's own payout.
pub const PAYOUT_OWN: Code = Code::new(403, "AGENT_PAYOUT_OWN");
pub const PAYOUT_INVALID_TRANSITION: Code = Code::new(409, "AGENT_PAYOUT_INVALID_TRANSITION");
pub const PAYOUT_RUN_NOT_FOUND: Code = Code::new(404, "AGENT_PAYOUT_RUN_NOT_FOUND");
pub const PAYOUT_RUN_KEY_REUSED: Code = Code::new(409, "AGENT_PAYOUT_RUN_KEY_REUSED");
/// No card has a rate for the sale, and the request names none.
pub const RATE_MISSING: Code = Code::new(422, "AGENT_RATE_MISSING");
/// The sale is not active, has another agent, or has an accrual at another rate.
pub const SALE_NOT_ASSIGNABLE: Code = Code::new(409, "AGENT_SALE_NOT_ASSIGNABLE");
/// A caller must not set the caller's own rates or agency, or assign a sale to the caller.
pub const TERMS_OWN: Code = Code::new(403, "AGENT_TERMS_OWN");
/// The request lost a race, or its version is not the current one.
pub const CONCURRENCY_CONFLICT: Code = Code::conflict("AGENT_CONCURRENCY_CONFLICT");
