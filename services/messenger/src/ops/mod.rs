//! What is done: read, decide, write, tell, in the transaction that was handed in.

pub mod chat;
pub mod conference;
pub mod deal;
pub mod media;
pub mod member;
pub mod message;
pub mod stream;
