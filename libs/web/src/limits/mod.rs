//! Limits per listener, per caller and per process.

pub(crate) mod admission;
pub(crate) mod byte_budget;
pub(crate) mod caller;
pub(crate) mod rate_limit;
pub(crate) mod shares;
pub(crate) mod unread;
