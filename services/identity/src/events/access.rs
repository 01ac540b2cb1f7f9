//! Events of revoked access, for every service that verifies tokens.

use ::db::Tx;
use messaging::{Aggregate, Event, Republish, outbox};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::db;
use crate::domain::{AccessRevocation, SubjectKind};

const ACCESS_REVOCATION: Aggregate =
    Aggregate { name: "AccessRevocation", table: "access_revocation", key: "subject_id" };

/// A user or a company lost rights. A token of the subject whose `iat` is not after `NotBefore`, in
/// whole seconds, is invalid.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.identity.access-revoked.v1", version = 1, aggregate = ACCESS_REVOCATION, key = subject_id)]
pub struct AccessRevoked {
    subject_kind: SubjectKind,
    /// Id of the user, or of the company that tokens name.
    subject_id: Uuid,
    #[serde(with = "time::serde::rfc3339")]
    not_before: OffsetDateTime,
}

impl AccessRevoked {
    pub fn of(revocation: &AccessRevocation) -> Self {
        let AccessRevocation { subject_id, subject_kind, not_before } = *revocation;
        Self { subject_kind, subject_id, not_before }
    }
}

/// Republishes the last revocation of each user and company.
pub enum AccessRevocations {}

impl Republish for AccessRevocations {
    const AGGREGATE: Aggregate = ACCESS_REVOCATION;

    async fn republish(tx: &mut Tx, keys: &[Uuid]) -> Result<(), ::db::Error> {
        let revocations = db::access::list_by_ids(tx.conn(), keys).await?;
        let events: Vec<_> = revocations.iter().map(AccessRevoked::of).collect();
        outbox::append_all(tx, &events).await
    }
}
