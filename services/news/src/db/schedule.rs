//! Data that scheduled moves read in addition to their posts: the time of the database and
//! revocations of access.

use ::db::{Prepared, Tx};
use diesel::sql_types::{Array, Bool, Nullable, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;
use uuid::Uuid;

#[derive(diesel::QueryableByName)]
struct Now {
    #[diesel(sql_type = Timestamptz)]
    now: OffsetDateTime,
}

#[derive(diesel::QueryableByName)]
struct Revoked {
    #[diesel(sql_type = Bool)]
    is_revoked: bool,
}

/// Returns the time of the database, whose clock is the same for all replicas.
pub async fn now(tx: &mut Tx) -> Result<OffsetDateTime, ::db::Error> {
    let now = Prepared(diesel::sql_query("select clock_timestamp() as now"));
    Ok(now.get_result::<Now>(tx.conn()).await?.now)
}

/// Returns true if a revocation of a user or a company of `subjects` applies to a token of this
/// issue time.
///
/// Issue times are whole seconds, so a token of the same second may precede the revocation.
/// The table belongs to `libs/service`, which keeps the last revocation of each user and company.
pub async fn is_access_revoked(
    tx: &mut Tx,
    subjects: [Option<Uuid>; 2],
    token_issued_at: OffsetDateTime,
) -> Result<bool, ::db::Error> {
    let found = diesel::sql_query(
        "select exists(select from access_revocation where subject_id = any($1) \
         and date_trunc('second', not_before) >= $2) as is_revoked",
    )
    .bind::<Array<Nullable<SqlUuid>>, _>(subjects.to_vec())
    .bind::<Timestamptz, _>(token_issued_at);
    Ok(Prepared(found).get_result::<Revoked>(tx.conn()).await?.is_revoked)
}
