//! Queries on messages.

use ::db::{Conn, Prepared, Tx};
use auth::UserId;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Json as SqlJson, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use values::Private;

use crate::domain::{ChatId, ClientMessageId, Message, MessageId};
use crate::schema::message;

/// The part of a chat that a page lists.
#[derive(Clone, Copy, Debug)]
pub enum MessageRange {
    /// Messages before this sequence, newest first.
    Before(i64),
    /// Messages after this sequence, oldest first.
    After(i64),
}

/// Stores the next message of a locked chat.
///
/// The message counts as read for its sender, and for those `readers` who have read all earlier
/// ones.
pub async fn insert(mut conn: &Conn, new: &Message, readers: &[UserId]) -> Result<(), ::db::Error> {
    let text = new.text.as_ref().map(|text| text.expose().as_str());
    let insert = diesel::sql_query(
        "with inserted as (\
             insert into message (id, chat_id, sequence, kind, sender_user_id, client_message_id, text, card, \
                                  created_at, version) \
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, 1)\
         ), updated as (\
             update chat set last_sequence = $3, last_activity_at = $9 where id = $2\
         ) \
         update member set read_sequence = $3 \
         where chat_id = $2 and (user_id = $5 or user_id = any($10) and read_sequence = $3 - 1)",
    )
    .bind::<SqlUuid, _>(new.id)
    .bind::<SqlUuid, _>(new.chat_id)
    .bind::<BigInt, _>(new.sequence)
    .bind::<Text, _>(new.kind)
    .bind::<Nullable<SqlUuid>, _>(new.sender_user_id)
    .bind::<Nullable<SqlUuid>, _>(new.client_message_id)
    .bind::<Nullable<Text>, _>(text)
    .bind::<Nullable<SqlJson>, _>(new.card.as_ref())
    .bind::<Timestamptz, _>(new.created_at)
    .bind::<Array<SqlUuid>, _>(readers);
    Prepared(insert).execute(&mut conn).await?;
    Ok(())
}

/// Returns the message that this sender sent with this client id in this chat.
pub async fn find_by_client_id(
    tx: &mut Tx,
    chat: ChatId,
    sender: UserId,
    id: ClientMessageId,
) -> Result<Option<Message>, ::db::Error> {
    let repeated = message::table
        .filter(message::chat_id.eq(chat))
        .filter(message::sender_user_id.eq(sender))
        .filter(message::client_message_id.eq(id));
    Ok(repeated.select(Message::as_select()).first(tx.conn()).await.optional()?)
}

/// Returns a message of a locked chat.
pub async fn find(tx: &mut Tx, chat: ChatId, id: MessageId) -> Result<Option<Message>, ::db::Error> {
    let row = message::table.find(id).filter(message::chat_id.eq(chat));
    Ok(row.select(Message::as_select()).first(tx.conn()).await.optional()?)
}

/// Stores the text, the times and the version of a changed message.
pub async fn save(tx: &mut Tx, changed: &Message) -> Result<(), ::db::Error> {
    let save = diesel::update(message::table.find(changed.id)).set((
        message::text.eq(changed.text.as_ref().map(Private::expose)),
        message::edited_at.eq(changed.edited_at),
        message::deleted_at.eq(changed.deleted_at),
        message::version.eq(changed.version),
    ));
    Prepared(save).execute(tx.conn()).await?;
    Ok(())
}

/// Returns up to `limit` messages of a chat.
pub async fn list(
    mut conn: &Conn,
    chat: ChatId,
    range: MessageRange,
    limit: i64,
) -> QueryResult<Vec<Message>> {
    let in_chat = message::table.filter(message::chat_id.eq(chat)).select(Message::as_select());
    match range {
        MessageRange::Before(sequence) => {
            let older = in_chat.filter(message::sequence.lt(sequence)).order(message::sequence.desc());
            older.limit(limit).load(&mut conn).await
        }
        MessageRange::After(sequence) => {
            let newer = in_chat.filter(message::sequence.gt(sequence)).order(message::sequence);
            newer.limit(limit).load(&mut conn).await
        }
    }
}

/// Returns the messages with these ids, in any order.
pub async fn list_by_ids(mut conn: &Conn, ids: &[MessageId]) -> QueryResult<Vec<Message>> {
    message::table.filter(message::id.eq_any(ids)).select(Message::as_select()).load(&mut conn).await
}
