//! The client of the token issuer's admin API.

mod issuer;

pub use issuer::{CALLS, IssuerClients};
