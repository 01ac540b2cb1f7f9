//! The tables and their queries.

pub mod chat;
pub mod chat_view;
pub mod clock;
pub mod conference;
pub mod conference_log;
pub mod employment;
pub mod member;
pub mod message;
pub mod report;
pub mod sender;
pub mod stream;
pub mod webhook;
