//! What is done: read, decide, write, tell, in the transaction that was handed in.

pub mod chat;
pub mod deal;
pub mod member;
pub mod message;
pub mod stream;
