//! The contract between services: events, messages, topics and the AsyncAPI document.

pub mod asyncapi;
pub mod event;
pub mod message;
pub mod topics;
