//! Queries on stream events, which each user's stream numbers in commit order.

use std::time::Duration;

use ::db::{CommitSignal, Conn, Prepared, Tx};
use auth::UserId;
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Double, Integer, Nullable, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use crate::domain::{ChatId, StreamEvent, StreamEventKind};
use crate::schema::member;

/// Wakes the streams of users after a commit that appended events for them. The keys of the signal
/// are the ids of the users.
pub const STREAM_APPENDED: CommitSignal = CommitSignal("stream");

/// The channel of PostgreSQL for wake-ups between replicas.
pub const WAKE_CHANNEL: &str = "messenger_stream";
/// Maximum number of users in one notification. A payload must be shorter than 8,000 bytes.
const USERS_PER_WAKE: usize = 200;

/// A stored event of a user's stream.
#[derive(Clone, Copy, Debug, QueryableByName)]
pub struct EventReference {
    #[diesel(sql_type = SqlUuid)]
    pub user_id: UserId,
    #[diesel(sql_type = BigInt)]
    pub event: i64,
    #[diesel(sql_type = Text)]
    pub kind: StreamEventKind,
    #[diesel(sql_type = SqlUuid)]
    pub chat_id: ChatId,
    /// The message, the reader or the conference.
    #[diesel(sql_type = Nullable<SqlUuid>)]
    pub subject_id: Option<Uuid>,
}

/// The position of a user's stream.
#[derive(Clone, Copy, Debug, QueryableByName)]
pub struct Position {
    #[diesel(sql_type = BigInt)]
    pub last_event: i64,
    /// True if every event after the requested position is stored.
    #[diesel(sql_type = Bool)]
    pub is_resumable: bool,
}

/// Locks the streams of these users until the end of the transaction.
pub async fn lock_streams(tx: &mut Tx, users: &[UserId]) -> Result<(), ::db::Error> {
    // Every transaction locks in the order of user ids, and rows that do not exist yet are created.
    // Therefore two transactions that share users never deadlock.
    let lock = diesel::sql_query(
        "insert into stream (user_id, last_event) \
         select distinct user_id, 0 from unnest($1) as users (user_id) order by user_id \
         on conflict (user_id) do update set last_event = stream.last_event",
    );
    Prepared(lock.bind::<Array<SqlUuid>, _>(users)).execute(tx.conn()).await?;
    Ok(())
}

/// Appends an event to the streams of these users. Each stream stores its last 1,000 events.
pub async fn append(
    tx: &mut Tx,
    users: &[UserId],
    chat: ChatId,
    event: StreamEvent,
) -> Result<(), ::db::Error> {
    let subject: Option<Uuid> = match event {
        StreamEvent::Chat | StreamEvent::ChatRemoved => None,
        StreamEvent::Message(id) => Some(id.into()),
        StreamEvent::Read(id) => Some(id.into()),
        StreamEvent::Conference(id) => Some(id.into()),
    };
    let append = diesel::sql_query(
        "with numbered as (\
             insert into stream (user_id, last_event) \
             select distinct user_id, 1 from unnest($1) as users (user_id) order by user_id \
             on conflict (user_id) do update set last_event = stream.last_event + 1 \
             returning user_id, last_event\
         ), trimmed as (\
             delete from stream_event using numbered \
             where stream_event.user_id = numbered.user_id and stream_event.event = numbered.last_event - 1000\
         ) \
         insert into stream_event (user_id, event, kind, chat_id, subject_id, at) \
         select user_id, last_event, $2, $3, $4, clock_timestamp() from numbered",
    )
    .bind::<Array<SqlUuid>, _>(users)
    .bind::<Text, _>(event.kind())
    .bind::<SqlUuid, _>(chat)
    .bind::<Nullable<SqlUuid>, _>(subject);
    Prepared(append).execute(tx.conn()).await?;
    tx.notify_keys_on_commit(STREAM_APPENDED, users.iter().map(|user| (*user).into()));
    Ok(())
}

/// Sends a wake-up for these users to every replica.
///
/// The caller has committed the events before. A notification in the same transaction would make
/// its commit take a lock of the whole database cluster, so that concurrent commits could not share
/// one flush of the log.
pub async fn wake(mut conn: &Conn, users: &[Uuid]) -> QueryResult<()> {
    let list = |users: &[Uuid]| users.iter().map(|user| user.simple().to_string()).collect::<Vec<_>>();
    let payloads: Vec<_> = users.chunks(USERS_PER_WAKE).map(|users| list(users).join(",")).collect();
    let wake = diesel::sql_query("select pg_notify($1, payload) from unnest($2) as payload");
    let wake = wake.bind::<Text, _>(WAKE_CHANNEL).bind::<Array<Text>, _>(payloads);
    Prepared(wake).execute(&mut conn).await?;
    Ok(())
}

/// Returns the id of the server process of a connection, which its notifications carry.
pub async fn process_id(mut conn: &Conn) -> QueryResult<i32> {
    diesel::select(sql::<Integer>("pg_backend_pid()")).get_result(&mut conn).await
}

/// Returns the users of a wake-up.
pub fn parse_wake(payload: &str) -> impl Iterator<Item = UserId> {
    payload.split(',').filter_map(|user| user.parse().ok())
}

/// Returns the position of a user's stream, and whether it can resume after `requested`.
/// Events older than `retention` count as deleted.
pub async fn find_position(
    mut conn: &Conn,
    user: UserId,
    requested: i64,
    retention: Duration,
) -> QueryResult<Position> {
    // Events of a user have no gaps: if the next one is stored, so are all later ones.
    let position = diesel::sql_query(
        "select coalesce(stream.last_event, 0) as last_event, \
             coalesce(stream.last_event, 0) = $2 or exists (\
                 select from stream_event where stream_event.user_id = $1 and event = $2 + 1 \
                     and at >= clock_timestamp() - make_interval(secs => $3)) as is_resumable \
         from (select $1 as user_id) as requested left join stream on stream.user_id = requested.user_id",
    );
    let position = position.bind::<SqlUuid, _>(user).bind::<BigInt, _>(requested);
    let position = position.bind::<Double, _>(retention.as_secs_f64());
    Prepared(position).get_result(&mut conn).await
}

/// Returns up to `limit` events of each user after the event at the same position of `events`,
/// sorted by user and number.
pub async fn list_after(
    mut conn: &Conn,
    users: &[UserId],
    events: &[i64],
    limit: i64,
) -> QueryResult<Vec<EventReference>> {
    let after = diesel::sql_query(
        "select found.user_id, found.event, found.kind, found.chat_id, found.subject_id \
         from unnest($1, $2) as requested (user_id, event) \
         join stream on stream.user_id = requested.user_id and stream.last_event > requested.event \
         cross join lateral (\
             select * from stream_event \
             where stream_event.user_id = requested.user_id and stream_event.event > requested.event \
             order by stream_event.event limit $3) as found \
         order by found.user_id, found.event",
    );
    let after =
        after.bind::<Array<SqlUuid>, _>(users).bind::<Array<BigInt>, _>(events).bind::<BigInt, _>(limit);
    Prepared(after).load(&mut conn).await
}

/// Returns the read markers of these users in these chats. A user who is not a member has none.
pub async fn list_read_markers(
    mut conn: &Conn,
    users: &[UserId],
    chats: &[ChatId],
) -> QueryResult<Vec<(UserId, ChatId, i64)>> {
    let members = member::table.filter(member::user_id.eq_any(users)).filter(member::chat_id.eq_any(chats));
    members.select((member::user_id, member::chat_id, member::read_sequence)).load(&mut conn).await
}

/// Deletes up to `limit` events older than `retention`, and returns their number.
/// Rows that another replica is deleting are skipped.
pub async fn delete_older_than(tx: &mut Tx, retention: Duration, limit: u32) -> Result<usize, ::db::Error> {
    let delete = diesel::sql_query(
        "delete from stream_event where (user_id, event) in (\
             select user_id, event from stream_event where at < clock_timestamp() - make_interval(secs => $1) \
             order by at limit $2 for update skip locked)",
    );
    let delete = delete.bind::<Double, _>(retention.as_secs_f64()).bind::<BigInt, _>(i64::from(limit));
    Ok(Prepared(delete).execute(tx.conn()).await?)
}
