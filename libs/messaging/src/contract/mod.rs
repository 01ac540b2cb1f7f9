//! Messages, topics and the documents about them.

pub mod asyncapi;
pub mod message;
pub mod topics;
