//! Use cases: each reads, decides, writes and publishes in the transaction of its caller.

pub mod chat;
pub mod conference;
pub mod deal;
pub mod direct;
pub mod employment;
pub mod media;
pub mod member;
pub mod message;
pub mod report;
pub mod room;
pub mod stream;
pub mod supervision;
