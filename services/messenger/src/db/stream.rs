//! What people are to be told, in the order in which it was committed.

use std::time::Duration;

use ::db::{Cached, Lookup, Tx, Work};
use auth::UserId;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Double, Nullable, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use super::schema::member;
use crate::domain::{ChatId, Told, ToldKind};

/// A reference, as it is kept.
#[derive(Clone, Copy, Debug, QueryableByName)]
pub struct Reference {
    #[diesel(sql_type = SqlUuid)]
    pub user_id: UserId,
    #[diesel(sql_type = BigInt)]
    pub event: i64,
    #[diesel(sql_type = Text)]
    pub kind: ToldKind,
    #[diesel(sql_type = SqlUuid)]
    pub chat_id: ChatId,
    /// The message, the reader, or the conference.
    #[diesel(sql_type = Nullable<SqlUuid>)]
    pub subject_id: Option<Uuid>,
}

/// Where a person's stream is.
#[derive(Clone, Copy, Debug, QueryableByName)]
pub struct Position {
    #[diesel(sql_type = BigInt)]
    pub last_event: i64,
    /// Whether all is kept that came after the position that was asked about.
    #[diesel(sql_type = Bool)]
    pub is_kept: bool,
}

/// Has whoever else tells these people something wait until the transaction ends.
pub async fn lock(tx: &mut Tx, people: &[UserId]) -> Result<(), ::db::Error> {
    // In order of id, and rows that are not there yet, too: so two that tell the same people never wait for each other.
    let lock = diesel::sql_query(
        "insert into stream (user_id, last_event) \
         select distinct user_id, 0 from unnest($1) as people (user_id) order by user_id \
         on conflict (user_id) do update set last_event = stream.last_event",
    );
    Cached(lock.bind::<Array<SqlUuid>, _>(people)).execute(tx.conn()).await?;
    Ok(())
}

/// Tells each of these people something of a chat. Of what a person is told the last thousand are kept.
pub async fn append(tx: &mut Tx, people: &[UserId], chat: ChatId, told: Told) -> Result<(), ::db::Error> {
    let subject: Option<Uuid> = match told {
        Told::Chat | Told::ChatRemoved => None,
        Told::Message(id) => Some(id.into()),
        Told::Read(id) => Some(id.into()),
        Told::Conference(id) => Some(id.into()),
    };
    let append = diesel::sql_query(
        "with told as (\
             insert into stream (user_id, last_event) \
             select distinct user_id, 1 from unnest($1) as people (user_id) order by user_id \
             on conflict (user_id) do update set last_event = stream.last_event + 1 \
             returning user_id, last_event\
         ), forgotten as (\
             delete from stream_event using told \
             where stream_event.user_id = told.user_id and stream_event.event = told.last_event - 1000\
         ) \
         insert into stream_event (user_id, event, kind, chat_id, subject_id, at) \
         select user_id, last_event, $2, $3, $4, clock_timestamp() from told",
    )
    .bind::<Array<SqlUuid>, _>(people)
    .bind::<Text, _>(told.kind())
    .bind::<SqlUuid, _>(chat)
    .bind::<Nullable<SqlUuid>, _>(subject);
    Cached(append).execute(tx.conn()).await?;
    tx.announce(Work::Stream);
    Ok(())
}

/// Where a person's stream is, and whether it can go on after the event `asked`, of which nothing is kept for longer than
/// `retention`.
pub async fn position(
    mut conn: Lookup<'_>,
    user: UserId,
    asked: i64,
    retention: Duration,
) -> QueryResult<Position> {
    // Events of a person have no gaps: if the next one is kept, so are all that follow.
    let position = diesel::sql_query(
        "select coalesce(stream.last_event, 0) as last_event, \
             coalesce(stream.last_event, 0) = $2 or exists (\
                 select from stream_event where stream_event.user_id = $1 and event = $2 + 1 \
                     and at >= clock_timestamp() - make_interval(secs => $3)) as is_kept \
         from (select $1 as user_id) as asked left join stream on stream.user_id = asked.user_id",
    );
    let position = position.bind::<SqlUuid, _>(user).bind::<BigInt, _>(asked);
    let position = position.bind::<Double, _>(retention.as_secs_f64());
    Cached(position).get_result(&mut conn).await
}

/// What came for each of these people after the event that stands beside them, in order, so many of each at most.
pub async fn after(
    mut conn: Lookup<'_>,
    people: &[UserId],
    events: &[i64],
    limit: i64,
) -> QueryResult<Vec<Reference>> {
    let after = diesel::sql_query(
        "select told.user_id, told.event, told.kind, told.chat_id, told.subject_id \
         from unnest($1, $2) as asked (user_id, event) \
         join stream on stream.user_id = asked.user_id and stream.last_event > asked.event \
         cross join lateral (\
             select * from stream_event where stream_event.user_id = asked.user_id and stream_event.event > asked.event \
             order by stream_event.event limit $3) as told \
         order by told.user_id, told.event",
    );
    let after =
        after.bind::<Array<SqlUuid>, _>(people).bind::<Array<BigInt>, _>(events).bind::<BigInt, _>(limit);
    Cached(after).load(&mut conn).await
}

/// Which of these are in their chats now, and how far they have read.
pub async fn readers(
    mut conn: Lookup<'_>,
    users: &[UserId],
    chats: &[ChatId],
) -> QueryResult<Vec<(UserId, ChatId, i64)>> {
    let members = member::table.filter(member::user_id.eq_any(users)).filter(member::chat_id.eq_any(chats));
    members.select((member::user_id, member::chat_id, member::read_sequence)).load(&mut conn).await
}

/// Forgets what was told longer ago than `retention`, some thousands at a time; how many those were. What somebody else is
/// forgetting is left to them.
pub async fn forget(tx: &mut Tx, retention: Duration, limit: u32) -> Result<usize, ::db::Error> {
    let forget = diesel::sql_query(
        "delete from stream_event where (user_id, event) in (\
             select user_id, event from stream_event where at < clock_timestamp() - make_interval(secs => $1) \
             order by at limit $2 for update skip locked)",
    );
    let forget = forget.bind::<Double, _>(retention.as_secs_f64()).bind::<BigInt, _>(i64::from(limit));
    Ok(Cached(forget).execute(tx.conn()).await?)
}
