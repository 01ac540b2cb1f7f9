//! Queries of access revocations.

use ::db::{Conn, Prepared, Tx};
use diesel::prelude::*;
use diesel::sql_types::{Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use crate::domain::{AccessRevocation, RevokedSubject, SubjectKind};
use crate::schema::access_revocation;

const UPSERT: &str = "\
    insert into access_revocation (subject_id, subject_kind, not_before) values ($1, $2, clock_timestamp()) \
    on conflict (subject_id) do update \
        set not_before = greatest(access_revocation.not_before, excluded.not_before) \
    returning subject_id, subject_kind, not_before";

/// Revokes the tokens of the subject that were issued up to now, by the clock of the database. The
/// stored time never decreases.
pub async fn revoke(tx: &mut Tx, subject: RevokedSubject) -> Result<AccessRevocation, ::db::Error> {
    let (id, kind): (Uuid, _) = match subject {
        RevokedSubject::User(user) => (user.into(), SubjectKind::User),
        RevokedSubject::Company(company) => (company.into(), SubjectKind::Company),
    };
    let upsert = diesel::sql_query(UPSERT).bind::<SqlUuid, _>(id).bind::<Text, _>(kind);
    Ok(Prepared(upsert).get_result(tx.conn()).await?)
}

/// Returns the revocations of these subjects, sorted by id.
pub async fn list_by_ids(conn: &mut Conn, subjects: &[Uuid]) -> Result<Vec<AccessRevocation>, ::db::Error> {
    let revocations = access_revocation::table.filter(access_revocation::subject_id.eq_any(subjects));
    let sorted = revocations.order(access_revocation::subject_id).select(AccessRevocation::as_select());
    Ok(sorted.load(conn).await?)
}
