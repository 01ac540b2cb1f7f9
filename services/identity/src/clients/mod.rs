//! Clients of other programs.

mod issuer;

pub use issuer::{CALLS, IssuerClients};
