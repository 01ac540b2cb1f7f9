//! Byte budgets: the bytes of bodies and responses that a process may hold at once.

pub(crate) mod budget;
pub(crate) mod response;
