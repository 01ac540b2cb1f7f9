//! Use cases: read, decide, write and publish.

pub mod deal;
pub mod deal_command;
pub mod pipeline;
pub mod saved_view;
