//! What is stored, and how it is found.

pub mod chat;
pub mod chat_view;
pub mod conference;
pub mod member;
pub mod message;
pub mod schema;
pub mod stream;
pub mod webhook;
