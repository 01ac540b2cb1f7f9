//! Assignments of sales that lack an agent or a rate.

use auth::{CompanyId, UserId};
use time::OffsetDateTime;

use super::{Comment, DealId};

values::text_enum! {
    /// A term that a sale lacks for an accrual.
    pub enum MissingTerm {
        /// The sale began without an agent.
        Agent,
        /// No card has a rate for the sale.
        Rate,
    }
}

/// The assignment of a sale to an agent and a rate. It never changes.
#[derive(Clone, Debug)]
pub struct SaleAssignment {
    pub deal_id: DealId,
    pub sale_row_version: i64,
    pub agent_user_id: UserId,
    /// The agency of the agent when the sale was assigned.
    pub agency_company_id: CompanyId,
    pub rate_bps: i32,
    pub comment: Comment,
    pub assigned_by_user_id: UserId,
    pub assigned_at: OffsetDateTime,
}
