//! Queries on companies and employments, and on the chats that former employees left.

use ::db::{Conn, Prepared, Tx};
use auth::{CompanyId, UserId};
use diesel::dsl::exists;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Text, Timestamptz, Uuid};
use diesel_async::RunQueryDsl;
use messaging::EntityLock;
use time::{Duration, OffsetDateTime};

use crate::domain::{ChatId, Employments, Role};
use crate::schema::{chat, company, departure, employment, member};

/// The consumer group that follows identity's employments and companies. The lock of a user's
/// employments has its name.
pub const CONSUMER_GROUP: &str = "messenger.identity";

/// The greatest difference between the clocks of two services that a comparison of their times
/// tolerates.
const CLOCK_TOLERANCE: Duration = Duration::minutes(2);

/// Locks the employments of a user until the end of the transaction.
///
/// A use case that adds a user to a deal chat locks before it reads, so that a concurrent end of
/// the employment waits for the addition and then removes the user. The order of locks is the chat,
/// this lock, the streams.
pub async fn lock(tx: &mut Tx, user: UserId) -> Result<(), ::db::Error> {
    EntityLock::acquire(tx, CONSUMER_GROUP, user).await.map(drop)
}

/// Locks the employments of a user and the states of their companies, and returns them.
pub async fn load_locked(tx: &mut Tx, user: UserId) -> Result<Employments, ::db::Error> {
    lock(tx, user).await?;
    // A suspension of a company waits for this transaction. Its jobs then find the new memberships.
    let known = employment::table
        .inner_join(company::table)
        .filter(employment::user_id.eq(user))
        .select((employment::company_id, employment::ended_at, company::ended_at))
        .for_share();
    Ok(Employments(known.load(tx.conn()).await?))
}

/// Returns the employments of a user without a lock.
pub async fn load(mut conn: &Conn, user: UserId) -> QueryResult<Employments> {
    let known = employment::table.inner_join(company::table).filter(employment::user_id.eq(user)).select((
        employment::company_id,
        employment::ended_at,
        company::ended_at,
    ));
    Ok(Employments(known.load(&mut conn).await?))
}

/// Returns true if a change of the user's employments at `at` is older than a stored one.
///
/// The clocks of identity's replicas may differ by two minutes, so the order of changes within this
/// time is unknown. The caller has locked the user.
pub async fn is_outdated(tx: &mut Tx, user: UserId, at: OffsetDateTime) -> Result<bool, ::db::Error> {
    let newer = employment::table
        .filter(employment::user_id.eq(user))
        .filter(employment::changed_at.gt(at.saturating_add(CLOCK_TOLERANCE)));
    Ok(diesel::select(exists(newer)).get_result(tx.conn()).await?)
}

/// Stores that an employment is active since `at`, and that all others of its user have ended by
/// then. The caller has locked the user.
pub async fn begin(
    tx: &mut Tx,
    user: UserId,
    company: CompanyId,
    at: OffsetDateTime,
) -> Result<(), ::db::Error> {
    lock_company_for_share(tx, company).await?;
    let begin = diesel::sql_query(
        "insert into employment (user_id, company_id, changed_at) \
         values ($1, $2, least(clock_timestamp(), $3)) \
         on conflict (user_id, company_id) do update set ended_at = null, changed_at = excluded.changed_at",
    );
    let begin = begin.bind::<Uuid, _>(user).bind::<Uuid, _>(company).bind::<Timestamptz, _>(at);
    Prepared(begin).execute(tx.conn()).await?;
    let end_others = diesel::sql_query(
        "update employment set ended_at = least(clock_timestamp(), $3 + interval '2 minutes'), \
             changed_at = least(clock_timestamp(), $3) \
         where user_id = $1 and company_id <> $2 and ended_at is null",
    );
    let end_others = end_others.bind::<Uuid, _>(user).bind::<Uuid, _>(company).bind::<Timestamptz, _>(at);
    Prepared(end_others).execute(tx.conn()).await?;
    Ok(())
}

/// Stores the end of an employment at `at`. A repeat keeps the earliest end. The caller has locked
/// the user.
///
/// The stored end is two minutes later than `at`, because the clock of identity may be slow. An
/// end in the future is stored as the present time.
pub async fn end(
    tx: &mut Tx,
    user: UserId,
    company: CompanyId,
    at: OffsetDateTime,
) -> Result<(), ::db::Error> {
    lock_company_for_share(tx, company).await?;
    let end = diesel::sql_query(
        "insert into employment (user_id, company_id, ended_at, changed_at) values \
             ($1, $2, least(clock_timestamp(), $3 + interval '2 minutes'), least(clock_timestamp(), $3)) \
         on conflict (user_id, company_id) do update set \
             ended_at = least(employment.ended_at, excluded.ended_at), changed_at = excluded.changed_at",
    );
    let end = end.bind::<Uuid, _>(user).bind::<Uuid, _>(company).bind::<Timestamptz, _>(at);
    Prepared(end).execute(tx.conn()).await?;
    Ok(())
}

/// Locks the row of a company against changes of its state. Stores an unknown company as active.
async fn lock_company_for_share(tx: &mut Tx, id: CompanyId) -> Result<(), ::db::Error> {
    let insert = diesel::insert_into(company::table).values(company::id.eq(id)).on_conflict_do_nothing();
    Prepared(insert).execute(tx.conn()).await?;
    company::table.find(id).select(company::id).for_share().execute(tx.conn()).await?;
    Ok(())
}

/// Stores whether a company is active. A repeat keeps the time of the first end.
pub async fn set_company_active(tx: &mut Tx, id: CompanyId, is_active: bool) -> Result<(), ::db::Error> {
    // The clock is read after the wait for the lock of the row.
    let upsert = diesel::sql_query(
        "insert into company (id, ended_at) values ($1, case when $2 then null else clock_timestamp() end) \
         on conflict (id) do update set ended_at = \
             case when $2 then null else coalesce(company.ended_at, clock_timestamp()) end",
    );
    Prepared(upsert.bind::<Uuid, _>(id).bind::<Bool, _>(is_active)).execute(tx.conn()).await?;
    Ok(())
}

/// Returns the users whose employment in the company has not ended.
pub async fn list_employees(tx: &mut Tx, id: CompanyId) -> Result<Vec<UserId>, ::db::Error> {
    let employees = employment::table
        .filter(employment::company_id.eq(id))
        .filter(employment::ended_at.is_null())
        .select(employment::user_id);
    Ok(employees.load(tx.conn()).await?)
}

/// The membership of a user in a deal chat.
#[derive(Clone, Copy, Debug, Queryable)]
pub struct Membership {
    pub chat_id: ChatId,
    pub tenant_id: CompanyId,
    pub role: Role,
    pub joined_at: OffsetDateTime,
}

/// Returns the next memberships of the user in deal chats after `after`, by id of the chat.
pub async fn list_memberships_after(
    mut conn: &Conn,
    user: UserId,
    after: Option<ChatId>,
    limit: i64,
) -> QueryResult<Vec<Membership>> {
    let mut memberships = member::table
        .inner_join(chat::table)
        .filter(member::user_id.eq(user))
        .filter(chat::tenant_id.is_not_null())
        .select((member::chat_id, chat::tenant_id.assume_not_null(), member::role, member::joined_at))
        .into_boxed();
    if let Some(after) = after {
        memberships = memberships.filter(member::chat_id.gt(after));
    }
    memberships.order(member::chat_id).limit(limit).load(&mut conn).await
}

/// Records that a user left a chat because the employment ended.
pub async fn insert_departure(tx: &mut Tx, chat: ChatId, user: UserId) -> Result<(), ::db::Error> {
    let left = (departure::user_id.eq(user), departure::chat_id.eq(chat));
    let insert = diesel::insert_into(departure::table).values(left).on_conflict_do_nothing();
    Prepared(insert).execute(tx.conn()).await?;
    Ok(())
}

/// Deletes the departure of a user from a chat. Returns false if there is none.
pub async fn delete_departure(tx: &mut Tx, chat: ChatId, user: UserId) -> Result<bool, ::db::Error> {
    let delete = diesel::delete(departure::table.find((user, chat)));
    Ok(Prepared(delete).execute(tx.conn()).await? == 1)
}

/// Records that a deal named a user who did not enter its chat because of an ended employment.
///
/// The first role is kept, so a user whom the deal named as the Manager, and later as the agent,
/// can still enter as the Manager.
pub async fn insert_barred_entry(
    tx: &mut Tx,
    chat: ChatId,
    user: UserId,
    role: Role,
) -> Result<(), ::db::Error> {
    let insert = diesel::sql_query(
        "insert into departure (user_id, chat_id, barred_role, barred_at) \
         values ($1, $2, $3, clock_timestamp()) on conflict (user_id, chat_id) do update set \
             barred_role = coalesce(departure.barred_role, excluded.barred_role), \
             barred_at = excluded.barred_at",
    );
    let insert = insert.bind::<Uuid, _>(user).bind::<Uuid, _>(chat).bind::<Text, _>(role);
    Prepared(insert).execute(tx.conn()).await?;
    Ok(())
}

/// Selects departures whose user already had the present employment when the deal named the user.
/// The event of the employment arrived after that of the deal. Clocks may differ by two minutes.
const OVERTAKEN: &str = "exists (select from employment where employment.user_id = departure.user_id \
     and ended_at is null and changed_at <= departure.barred_at + interval '2 minutes')";

/// Returns the next chats after `after` with a departure of the user that `OVERTAKEN` selects.
pub async fn list_overtaken_after(
    mut conn: &Conn,
    user: UserId,
    after: Option<ChatId>,
    limit: i64,
) -> QueryResult<Vec<ChatId>> {
    let mut chats = departure::table
        .filter(departure::user_id.eq(user))
        .filter(diesel::dsl::sql::<Bool>(OVERTAKEN))
        .select(departure::chat_id)
        .into_boxed();
    if let Some(after) = after {
        chats = chats.filter(departure::chat_id.gt(after));
    }
    chats.order(departure::chat_id).limit(limit).load(&mut conn).await
}

/// Returns the role that the deal of a chat gave to the user, if `OVERTAKEN` selects the departure.
pub async fn find_overtaken_role(
    tx: &mut Tx,
    chat: ChatId,
    user: UserId,
) -> Result<Option<Role>, ::db::Error> {
    let role = departure::table
        .find((user, chat))
        .filter(diesel::dsl::sql::<Bool>(OVERTAKEN))
        .select(departure::barred_role.assume_not_null());
    Ok(role.first(tx.conn()).await.optional()?)
}
