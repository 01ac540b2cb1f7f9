//! Who is calling: tokens verified against the issuer's keys, and extractors that say who may come in.

mod extract;
mod keys;
mod permission;
mod verifier;

pub use extract::{Actor, Caller, Client, Crm, Guest, Issuer, News, authenticate};
pub use keys::{Config, Keys};
pub use permission::{Grant, Permission, Permitted, Reach, Scope};
pub use verifier::Verifier;

ids::typed_id!(
    /// A person, by the token's `sub`.
    UserId
);

ids::typed_id!(
    /// A company, which is also a tenant.
    CompanyId
);

/// `aud` of the tokens of people.
pub const PLATFORM: &str = "platform";
/// `aud` of the tokens of services.
pub const PLATFORM_INTERNAL: &str = "platform-internal";
