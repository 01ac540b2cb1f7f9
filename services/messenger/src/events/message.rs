//! Events of messages, without their texts.

use auth::UserId;
use messaging::{Aggregate, Event};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::{ChatId, DealId, MessageId};

const CHAT: Aggregate = Aggregate { name: "Chat", table: "chat", key: "id" };

/// A member sent a text to the other members of a chat.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.messenger.message-sent.v1", version = 1, aggregate = CHAT, key = chat_id)]
pub struct MessageSent {
    pub chat_id: ChatId,
    pub deal_id: Option<DealId>,
    pub message_id: MessageId,
    pub sequence: i64,
    pub sender_user_id: UserId,
    pub recipient_user_ids: Vec<UserId>,
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
}
