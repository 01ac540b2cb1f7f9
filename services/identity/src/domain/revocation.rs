//! Access revocations.

use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::schema::access_revocation;

values::text_enum! {
    /// Kind of the subject of a revocation.
    pub enum SubjectKind {
        User,
        Company,
    }
}

/// The user or the company that loses rights.
#[derive(Clone, Copy)]
pub enum RevokedSubject {
    /// A user or a machine account.
    User(UserId),
    /// All users whose tokens name the company.
    Company(CompanyId),
}

/// A loss of rights. Tokens of the subject that were issued up to `not_before` are invalid in every
/// other service.
#[derive(Clone, Debug, Queryable, QueryableByName, Selectable)]
#[diesel(table_name = access_revocation, check_for_backend(Pg))]
pub struct AccessRevocation {
    pub subject_id: Uuid,
    pub subject_kind: SubjectKind,
    pub not_before: OffsetDateTime,
}
