//! The ids that tokens name.

ids::typed_id!(
    /// A user, by the token's `sub`.
    UserId
);

ids::typed_id!(
    /// A company, which is also a tenant.
    CompanyId
);
