//! Messages as they are stored and found.

use ::db::{Cached, Lookup, Tx};
use auth::UserId;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Json as SqlJson, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use values::Private;

use super::schema::message;
use crate::domain::{ChatId, ClientMessageId, Message, MessageId};

/// Which messages of a chat are asked for.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// Newest first.
    Before(i64),
    /// Oldest first.
    After(i64),
}

/// Puts the message that comes next into its chat, which is locked. Its sender has read it, and so have those of
/// `readers` who had read all before it.
pub async fn insert(tx: &mut Tx, new: &Message, readers: &[UserId]) -> Result<(), ::db::Error> {
    let text = new.text.as_ref().map(|text| text.expose().as_str());
    let insert = diesel::sql_query(
        "with said as (\
             insert into message (id, chat_id, sequence, kind, sender_user_id, client_message_id, text, card, \
                                  created_at, version) \
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, 1)\
         ), moved as (\
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
    Cached(insert).execute(tx.conn()).await?;
    Ok(())
}

/// What this sender called so in this chat.
pub async fn find_repeated(
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

/// A message of this chat, which is locked.
pub async fn find(tx: &mut Tx, chat: ChatId, id: MessageId) -> Result<Option<Message>, ::db::Error> {
    let row = message::table.find(id).filter(message::chat_id.eq(chat));
    Ok(row.select(Message::as_select()).first(tx.conn()).await.optional()?)
}

/// Writes what can be changed.
pub async fn save(tx: &mut Tx, changed: &Message) -> Result<(), ::db::Error> {
    let save = diesel::update(message::table.find(changed.id)).set((
        message::text.eq(changed.text.as_ref().map(Private::expose)),
        message::edited_at.eq(changed.edited_at),
        message::deleted_at.eq(changed.deleted_at),
        message::version.eq(changed.version),
    ));
    Cached(save).execute(tx.conn()).await?;
    Ok(())
}

/// So many messages of a chat.
pub async fn list(mut conn: Lookup<'_>, chat: ChatId, part: Part, limit: i64) -> QueryResult<Vec<Message>> {
    let of_chat = message::table.filter(message::chat_id.eq(chat)).select(Message::as_select());
    match part {
        Part::Before(sequence) => {
            let older = of_chat.filter(message::sequence.lt(sequence)).order(message::sequence.desc());
            older.limit(limit).load(&mut conn).await
        }
        Part::After(sequence) => {
            let newer = of_chat.filter(message::sequence.gt(sequence)).order(message::sequence);
            newer.limit(limit).load(&mut conn).await
        }
    }
}

/// These messages, in whatever order.
pub async fn of_ids(mut conn: Lookup<'_>, ids: &[MessageId]) -> QueryResult<Vec<Message>> {
    message::table.filter(message::id.eq_any(ids)).select(Message::as_select()).load(&mut conn).await
}
