//! The number of messages that each user has sent or edited in an hour.

use ::db::{Conn, Prepared};
use auth::UserId;
use diesel::prelude::*;
use diesel::sql_types::{Integer, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;

/// The number of messages that a user has sent or edited since `hour_began_at`.
#[derive(Clone, Copy, Debug, QueryableByName)]
pub struct SentInHour {
    #[diesel(sql_type = Integer)]
    pub messages: i32,
    #[diesel(sql_type = Timestamptz)]
    pub hour_began_at: OffsetDateTime,
}

/// Counts one more message or edit of a user at this time, and locks the count until the
/// transaction ends.
///
/// A transaction locks the chat first, then this row, then the streams of the members.
pub async fn count_message(
    mut conn: &Conn,
    user: UserId,
    now: OffsetDateTime,
) -> Result<SentInHour, ::db::Error> {
    let count = diesel::sql_query(
        "insert into sender (user_id, hour_began_at, messages) values ($1, $2, 1) \
         on conflict (user_id) do update set \
             hour_began_at = case when sender.hour_began_at <= $2 - interval '1 hour' then $2 \
                                  else sender.hour_began_at end, \
             messages = case when sender.hour_began_at <= $2 - interval '1 hour' then 1 \
                             else sender.messages + 1 end \
         returning messages, hour_began_at",
    );
    let count = count.bind::<SqlUuid, _>(user).bind::<Timestamptz, _>(now);
    Ok(Prepared(count).get_result(&mut conn).await?)
}
