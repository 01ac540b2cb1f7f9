//! The number of deals and notes that each user has added in the present period.

use ::db::{Conn, Prepared};
use auth::{CompanyId, UserId};
use diesel::prelude::*;
use diesel::sql_types::{Integer, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;

use crate::domain::{AdditionKind, Additions};

#[derive(QueryableByName)]
struct CountedRow {
    #[diesel(sql_type = Integer)]
    count: i32,
    #[diesel(sql_type = Timestamptz)]
    period_began_at: OffsetDateTime,
}

/// Counts one more addition of a user at this time, and locks the count until the transaction ends.
///
/// A transaction that counts several kinds counts them in the order of [`AdditionKind`].
pub async fn count(
    mut conn: &Conn,
    kind: AdditionKind,
    user: UserId,
    tenant: CompanyId,
    now: OffsetDateTime,
) -> Result<Additions, ::db::Error> {
    let count = diesel::sql_query(
        "insert into addition (user_id, tenant_id, kind, period_began_at, count) values ($1, $2, $3, $4, 1) \
         on conflict (user_id, tenant_id, kind) do update set \
             period_began_at = case when addition.period_began_at <= $5 then $4 \
                                    else addition.period_began_at end, \
             count = case when addition.period_began_at <= $5 then 1 else addition.count + 1 end \
         returning count, period_began_at",
    )
    .bind::<SqlUuid, _>(user)
    .bind::<SqlUuid, _>(tenant)
    .bind::<Text, _>(kind)
    .bind::<Timestamptz, _>(now)
    .bind::<Timestamptz, _>(now - kind.period());
    let CountedRow { count, period_began_at } = Prepared(count).get_result(&mut conn).await?;
    Ok(Additions { count, period_began_at })
}
