//! The SQL statements of the service.

pub mod account;
pub mod accrual;
pub mod accrual_view;
pub mod adjustment;
pub mod agency;
pub mod agent;
pub mod assignment;
pub mod audit;
pub mod bonus;
pub mod deal;
pub mod deal_list;
pub mod developer;
pub mod money_log;
pub mod payout;
pub mod payout_list;
pub mod payout_preview;
pub mod payout_run;
pub mod payout_run_part;
pub mod performance;
pub mod rate;
pub mod rate_card;
mod rows;
pub mod sale;
