//! Chats as users see them.

use std::collections::HashMap;

use ::db::Conn;
use ::web::{Page, Paging, SortKey};
use auth::{CompanyId, Reach, UserId};
use diesel::dsl::exists;
use diesel::helper_types::{InnerJoin, IntoBoxed};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use serde::Serialize;
use service::list;
use strum::{EnumString, VariantNames};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::{
    ChatId, ChatKind, ConferenceId, DealId, Member, Message, MessageId, PropertyObjectId, Role,
};
use crate::schema::{chat, conference, member};

/// A chat as one user sees it. A supervisor who is not a member sees no content.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ChatView {
    pub id: ChatId,
    pub kind: ChatKind,
    pub deal_id: Option<DealId>,
    pub tenant_id: Option<CompanyId>,
    pub property_object_id: Option<PropertyObjectId>,
    /// Members in the order of `JoinedAt`.
    #[schema(max_items = 50)]
    pub members: Vec<Member>,
    /// `Sequence` of the newest message.
    #[schema(minimum = 0)]
    pub last_sequence: i64,
    /// The newest message. Null for a caller who is not a member.
    pub last_message: Option<Message>,
    /// The caller's read marker. 0 for a caller who is not a member.
    #[schema(minimum = 0)]
    pub read_sequence: i64,
    /// Number of messages that the caller has not read. 0 for a caller who is not a member.
    #[schema(minimum = 0)]
    pub unread_count: i64,
    /// The live conference. Null for a caller who is not a member.
    pub live_conference_id: Option<ConferenceId>,
    /// True if the caller blocks the other user of a Direct chat.
    pub is_blocked: bool,
    /// Time when a moderator closed a Direct chat.
    #[serde(with = "time::serde::rfc3339::option")]
    pub closed_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// Time of the newest message, otherwise `CreatedAt`.
    #[serde(with = "time::serde::rfc3339")]
    pub last_activity_at: OffsetDateTime,
}

/// The sort keys of a list of chats.
#[derive(Clone, Copy, Debug, EnumString, VariantNames)]
pub enum ChatSort {
    LastActivityAt,
    CreatedAt,
}

impl SortKey for ChatSort {
    const DEFAULT: &'static str = "-LastActivityAt";
}

/// The filter of a list of chats.
#[derive(Debug)]
pub struct ChatFilter {
    pub kinds: Option<Vec<ChatKind>>,
    pub deal_id: Option<DealId>,
    /// Keeps only chats with unread messages.
    pub unread: bool,
    /// Keeps only chats with a live conference.
    pub live: bool,
}

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = SqlUuid)]
    user_id: UserId,
    #[diesel(sql_type = SqlUuid)]
    id: ChatId,
    #[diesel(sql_type = Text)]
    kind: ChatKind,
    #[diesel(sql_type = Nullable<SqlUuid>)]
    deal_id: Option<DealId>,
    #[diesel(sql_type = Nullable<SqlUuid>)]
    tenant_id: Option<CompanyId>,
    #[diesel(sql_type = Nullable<SqlUuid>)]
    property_object_id: Option<PropertyObjectId>,
    #[diesel(sql_type = BigInt)]
    last_sequence: i64,
    #[diesel(sql_type = Timestamptz)]
    created_at: OffsetDateTime,
    #[diesel(sql_type = Timestamptz)]
    last_activity_at: OffsetDateTime,
    #[diesel(sql_type = Array<SqlUuid>)]
    blocked_by: Vec<UserId>,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    closed_at: Option<OffsetDateTime>,
    #[diesel(sql_type = Nullable<SqlUuid>)]
    last_message_id: Option<MessageId>,
    #[diesel(sql_type = Nullable<SqlUuid>)]
    live_conference_id: Option<ConferenceId>,
    #[diesel(sql_type = Array<SqlUuid>)]
    user_ids: Vec<UserId>,
    #[diesel(sql_type = Array<Text>)]
    roles: Vec<Role>,
    #[diesel(sql_type = Array<Timestamptz>)]
    joined_at: Vec<OffsetDateTime>,
    #[diesel(sql_type = Array<BigInt>)]
    read_sequences: Vec<i64>,
}

impl Row {
    fn into_view(self, messages: &HashMap<MessageId, Message>) -> ChatView {
        let chat_id = self.id;
        let columns = self.user_ids.into_iter().zip(self.roles).zip(self.joined_at).zip(self.read_sequences);
        let members = columns.map(|(((user_id, role), joined_at), read_sequence)| Member {
            chat_id,
            user_id,
            role,
            // No response shows the fallback role.
            fallback_role: None,
            joined_at,
            read_sequence,
        });
        let members: Vec<_> = members.collect();
        let own = members.iter().find(|member| member.user_id == self.user_id);
        let read_sequence = own.map(|own| own.read_sequence);
        ChatView {
            id: self.id,
            kind: self.kind,
            deal_id: self.deal_id,
            tenant_id: self.tenant_id,
            property_object_id: self.property_object_id,
            last_sequence: self.last_sequence,
            last_message: own.and(self.last_message_id).and_then(|id| messages.get(&id).cloned()),
            read_sequence: read_sequence.unwrap_or(0),
            unread_count: read_sequence.map_or(0, |read| self.last_sequence - read),
            live_conference_id: own.and(self.live_conference_id),
            is_blocked: self.blocked_by.contains(&self.user_id),
            closed_at: self.closed_at,
            created_at: self.created_at,
            last_activity_at: self.last_activity_at,
            members,
        }
    }
}

/// Returns each of `chats` as the user at the same position of `users` sees it, in this order.
/// Unknown chats are left out.
pub async fn load_views(
    mut conn: &Conn,
    users: &[UserId],
    chats: &[ChatId],
) -> QueryResult<Vec<(UserId, ChatView)>> {
    if chats.is_empty() {
        return Ok(Vec::new());
    }
    // One statement reads markers and counts from one snapshot.
    let rows = diesel::sql_query(
        "select requested.user_id, chat.id, chat.kind, chat.deal_id, chat.tenant_id, chat.property_object_id, \
             chat.last_sequence, chat.created_at, chat.last_activity_at, chat.blocked_by, chat.closed_at, \
             message.id as last_message_id, \
             conference.id as live_conference_id, \
             members.user_ids, members.roles, members.joined_at, members.read_sequences \
         from unnest($1, $2) with ordinality as requested (user_id, chat_id, ordinal) \
         join chat on chat.id = requested.chat_id \
         left join message on message.chat_id = chat.id and message.sequence = chat.last_sequence \
         left join conference on conference.chat_id = chat.id and conference.status <> 'Ended' \
         cross join lateral (\
             select coalesce(array_agg(user_id order by joined_at, user_id), '{}') as user_ids, \
                 coalesce(array_agg(role order by joined_at, user_id), '{}') as roles, \
                 coalesce(array_agg(joined_at order by joined_at, user_id), '{}') as joined_at, \
                 coalesce(array_agg(read_sequence order by joined_at, user_id), '{}') as read_sequences \
             from member where member.chat_id = chat.id) as members \
         order by requested.ordinal",
    );
    let rows = rows.bind::<Array<SqlUuid>, _>(users).bind::<Array<SqlUuid>, _>(chats);
    let rows: Vec<Row> = ::db::Prepared(rows).load(&mut conn).await?;
    let last: Vec<_> = rows.iter().filter_map(|row| row.last_message_id).collect();
    let messages = super::message::list_by_ids(conn, &last).await?;
    let messages = messages.into_iter().map(|message| (message.id, message)).collect();
    Ok(rows.into_iter().map(|row| (row.user_id, row.into_view(&messages))).collect())
}

/// Returns a chat as the user sees it.
pub async fn load_view(conn: &Conn, user: UserId, id: ChatId) -> QueryResult<Option<ChatView>> {
    Ok(load_views(conn, &[user], &[id]).await?.pop().map(|(_, view)| view))
}

type OwnChats = InnerJoin<member::table, chat::table>;
type OwnSource = diesel::dsl::InnerJoinQuerySource<member::table, chat::table>;

/// Returns one page of the user's own chats.
pub async fn list_own(
    conn: &Conn,
    user: UserId,
    filter: &ChatFilter,
    paging: &Paging<ChatSort>,
) -> QueryResult<Page<ChatView>> {
    list_page(conn, user, paging, || own_chats(user, filter)).await
}

async fn list_page(
    conn: &Conn,
    user: UserId,
    paging: &Paging<ChatSort>,
    filtered: impl Fn() -> IntoBoxed<'static, OwnChats, Pg>,
) -> QueryResult<Page<ChatView>> {
    let order: list::OrderBy<OwnSource> = match paging.sort {
        ChatSort::LastActivityAt => list::order_by(paging, chat::last_activity_at),
        ChatSort::CreatedAt => list::order_by(paging, chat::created_at),
    };
    let sorted = filtered().select(chat::id).order((order, chat::id));
    let page: Page<ChatId> = list::page(conn, paging, sorted, filtered().select(chat::id)).await?;
    load_page_views(conn, user, page).await
}

fn own_chats(user: UserId, filter: &ChatFilter) -> IntoBoxed<'static, OwnChats, Pg> {
    let mut own = member::table.inner_join(chat::table).filter(member::user_id.eq(user)).into_boxed();
    // A condition on `kind` would let PostgreSQL use the indexes of all deal chats, which are slow
    // for the chats of one user. The deal id shows the kind as well.
    match &filter.kinds {
        Some(kinds) if !kinds.contains(&ChatKind::Direct) => own = own.filter(chat::deal_id.is_not_null()),
        Some(kinds) if !kinds.contains(&ChatKind::Deal) => own = own.filter(chat::deal_id.is_null()),
        _ => {}
    }
    if let Some(deal) = filter.deal_id {
        own = own.filter(chat::deal_id.eq(deal));
    }
    if filter.unread {
        own = own.filter(chat::last_sequence.gt(member::read_sequence));
    }
    if filter.live {
        own = own.filter(exists(live_conference()));
    }
    own
}

/// Returns one page of the deal chats that the user supervises.
pub async fn list_supervised(
    conn: &Conn,
    user: UserId,
    reach: Reach,
    filter: &ChatFilter,
    paging: &Paging<ChatSort>,
) -> QueryResult<Page<ChatView>> {
    if filter.kinds.as_ref().is_some_and(|kinds| !kinds.contains(&ChatKind::Deal)) {
        return Ok(paging.page(Vec::new(), 0));
    }
    // Only members see unread messages and live conferences, so these filters search the user's own
    // chats.
    if filter.unread || filter.live {
        let filtered = || {
            let own = own_chats(user, filter).filter(chat::deal_id.is_not_null());
            match reach {
                Reach::Company(tenant) => own.filter(chat::tenant_id.eq(tenant)),
                Reach::Platform => own,
            }
        };
        return list_page(conn, user, paging, filtered).await;
    }
    let order: list::OrderBy<chat::table> = match paging.sort {
        ChatSort::LastActivityAt => list::order_by(paging, chat::last_activity_at),
        ChatSort::CreatedAt => list::order_by(paging, chat::created_at),
    };
    let filtered = || supervised_chats(reach, filter.deal_id).select(chat::id);
    let page: Page<ChatId> =
        list::page(conn, paging, filtered().order((order, chat::id)), filtered()).await?;
    load_page_views(conn, user, page).await
}

/// Returns one page of the deal chats of the user `of` that the supervisor `by` may see.
pub async fn list_of_member(
    conn: &Conn,
    by: UserId,
    reach: Reach,
    of: UserId,
    paging: &Paging<ChatSort>,
) -> QueryResult<Page<ChatView>> {
    let order: list::OrderBy<chat::table> = match paging.sort {
        ChatSort::LastActivityAt => list::order_by(paging, chat::last_activity_at),
        ChatSort::CreatedAt => list::order_by(paging, chat::created_at),
    };
    let found = || chats_of_member(reach, of).select(chat::id);
    let page: Page<ChatId> = list::page(conn, paging, found().order((order, chat::id)), found()).await?;
    load_page_views(conn, by, page).await
}

/// Returns the next chats of [`list_of_member`] after `after`, by id.
pub async fn list_ids_of_member(
    mut conn: &Conn,
    reach: Reach,
    of: UserId,
    after: Option<ChatId>,
    limit: i64,
) -> QueryResult<Vec<ChatId>> {
    let mut chats = chats_of_member(reach, of);
    if let Some(after) = after {
        chats = chats.filter(chat::id.gt(after));
    }
    chats.select(chat::id).order(chat::id).limit(limit).load(&mut conn).await
}

/// Returns the deal chats in which the user is a Manager or Member, and those that the user left or
/// could not enter because the employment had ended.
fn chats_of_member(reach: Reach, of: UserId) -> chat::BoxedQuery<'static, Pg> {
    let theirs = diesel::dsl::sql::<diesel::sql_types::Bool>(
        "chat.id in (select chat_id from member where role in ('Manager', 'Member') and user_id = ",
    );
    let theirs = theirs.bind::<SqlUuid, _>(of).sql(" union select chat_id from departure where user_id = ");
    let theirs = theirs.bind::<SqlUuid, _>(of).sql(")");
    supervised_chats(reach, None).filter(theirs)
}

fn supervised_chats(reach: Reach, deal: Option<DealId>) -> chat::BoxedQuery<'static, Pg> {
    // A literal, because the partial indexes of deal chats match no bind parameter.
    let mut found =
        chat::table.filter(diesel::dsl::sql::<diesel::sql_types::Bool>("chat.kind = 'Deal'")).into_boxed();
    if let Reach::Company(tenant) = reach {
        found = found.filter(chat::tenant_id.eq(tenant));
    }
    if let Some(deal) = deal {
        found = found.filter(chat::deal_id.eq(deal));
    }
    found
}

#[diesel::dsl::auto_type(no_type_alias)]
fn live_conference() -> _ {
    let of_chat = conference::table.filter(conference::chat_id.eq(chat::id));
    // A literal, because the partial index of live conferences matches no bind parameter.
    let is_live: diesel::expression::SqlLiteral<diesel::sql_types::Bool> =
        diesel::dsl::sql("conference.status <> 'Ended'");
    of_chat.filter(is_live)
}

async fn load_page_views(conn: &Conn, user: UserId, page: Page<ChatId>) -> QueryResult<Page<ChatView>> {
    let Page { items, page, page_size, total_count } = page;
    let views = load_views(conn, &vec![user; items.len()], &items).await?;
    Ok(Page { items: views.into_iter().map(|(_, view)| view).collect(), page, page_size, total_count })
}

/// The number of unread messages of a user.
#[derive(Debug, QueryableByName, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Unread {
    /// Number of chats with unread messages.
    #[diesel(sql_type = BigInt)]
    #[schema(minimum = 0)]
    pub chats_count: i64,
    /// Number of unread messages in all chats.
    #[diesel(sql_type = BigInt)]
    #[schema(minimum = 0)]
    pub messages_count: i64,
}

/// Counts the unread messages of a user in all chats.
pub async fn count_unread(conn: &mut Conn, user: UserId) -> QueryResult<Unread> {
    let unread = diesel::sql_query(
        "select count(*) as chats_count, \
             coalesce(sum(chat.last_sequence - member.read_sequence), 0)::bigint as messages_count \
         from member join chat on chat.id = member.chat_id \
         where member.user_id = $1 and chat.last_sequence > member.read_sequence",
    );
    ::db::Prepared(unread.bind::<SqlUuid, _>(user)).get_result(conn).await
}
