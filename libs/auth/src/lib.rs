//! Authentication and authorization: tokens verified with the issuer's keys, and extractors that
//! declare who may call an operation.

mod extract;
mod grant;
mod id;
mod keys;
#[doc(hidden)]
pub mod parsers;
mod permission;
mod revocations;
mod verification_error;
mod verifier;

pub use extract::{
    Actor, AnyCaller, Caller, Client, Crm, Issuer, News, OptionalActor, authenticate, expensive,
};
pub use grant::{Grant, Scope};
pub use id::{CompanyId, UserId};
pub use keys::{Config, Keys};
pub use permission::{Permission, Permitted, Reach};
pub use revocations::Revocations;
pub use verifier::{INTERNAL_AUDIENCE, USER_AUDIENCE, Verifier};
