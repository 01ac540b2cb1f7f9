//! Operations on messages, for members of the chat.

use ::db::Conn;
use ::web::{Check, CheckedQuery, Fields, Json};
use actix_web::web::{Data, Path};
use actix_web::{HttpResponse, Responder, delete, get, post, put, web};
use auth::Actor;
use ids::Reference;
use serde::{Deserialize, Serialize};
use service::{Idempotency, Reply};
use utoipa::{IntoParams, ToSchema};
use values::{Invalid, Whole};

use crate::app::App;
use crate::db;
use crate::db::message::MessageRange;
use crate::domain::{ChatId, ClientMessageId, Message, MessageId, PrivateText};
use crate::error::{CHAT_NOT_FOUND, Error};
use crate::ops;
use crate::ops::message::EditLimits;

type PageSize = Whole<1, 100>;
type Sequence = Whole<0, { i64::MAX }>;
type ClientMessageReference = Reference<ClientMessageId>;

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct ListMessages {
    /// Messages of the page.
    #[serde(default, deserialize_with = "::web::read_from_str")]
    #[param(value_type = Option<u8>, minimum = 1, maximum = 100, default = 50)]
    page_size: Option<PageSize>,
    /// Lists messages before this `Sequence`, newest first. Not allowed together with
    /// `AfterSequence`.
    #[serde(default, deserialize_with = "::web::read_from_str")]
    #[param(value_type = Option<Sequence>, inline)]
    before_sequence: Option<Sequence>,
    /// Lists messages after this `Sequence`, oldest first.
    #[serde(default, deserialize_with = "::web::read_from_str")]
    #[param(value_type = Option<Sequence>, inline)]
    after_sequence: Option<Sequence>,
}

impl Check for ListMessages {
    fn check(&self, fields: &mut Fields) {
        let are_both = self.before_sequence.is_some() && self.after_sequence.is_some();
        fields.check("/AfterSequence", if are_both { Err(Invalid::new("not_together")) } else { Ok(()) });
    }
}

/// One page of a chat's messages.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Messages {
    /// Newest first; with `AfterSequence` oldest first.
    #[schema(max_items = 100)]
    items: Vec<Message>,
    /// True if further messages follow in this direction.
    has_more: bool,
    /// `Sequence` of the chat's newest message.
    #[schema(minimum = 0)]
    last_sequence: i64,
}

/// List messages.
///
/// Lists the newest messages, or the messages before or after a `Sequence`.
/// A client that was offline continues with `AfterSequence` of its newest message.
#[utoipa::path(
    tag = "Messages", params(("chat_id" = ChatId, Path), ListMessages),
    responses((status = 200, description = "One page", body = Messages))
)]
#[get("/api/messenger/chats/{chat_id}/messages")]
pub async fn list_messages(
    app: Data<App>,
    actor: Actor,
    id: Path<ChatId>,
    CheckedQuery(query): CheckedQuery<ListMessages>,
) -> Result<impl Responder, Error> {
    let conn = app.db.conn().await?;
    let last_sequence =
        db::chat::look_up_last_sequence(&conn, *id, actor.user_id).await?.ok_or(CHAT_NOT_FOUND)?;
    Ok(web::Json(load_page(&conn, *id, &query, last_sequence).await?))
}

/// Returns one page of a chat's messages. The caller has read `last_sequence` before.
pub async fn load_page(
    conn: &Conn,
    chat: ChatId,
    query: &ListMessages,
    last_sequence: i64,
) -> Result<Messages, Error> {
    let page_size = query.page_size.map_or(50, PageSize::get);
    let range = match (query.after_sequence, query.before_sequence) {
        (Some(after), _) => MessageRange::After(after.get()),
        (None, before) => MessageRange::Before(before.map_or(i64::MAX, Sequence::get)),
    };
    let mut items = db::message::list(conn, chat, range, page_size + 1).await?;
    let limit = usize::try_from(page_size).unwrap_or(usize::MAX);
    let has_more = items.len() > limit;
    items.truncate(limit);
    // A message may have been sent between the two queries.
    let newest = items.iter().map(|message| message.sequence).max();
    let last_sequence = last_sequence.max(newest.unwrap_or(0));
    Ok(Messages { items, has_more, last_sequence })
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct SendMessage {
    text: PrivateText,
    /// The sender's own id for the message. A repeat with the same id sends nothing and returns the
    /// stored message.
    client_message_id: Option<ClientMessageReference>,
}

/// Send a message.
///
/// Sending moves the sender's read marker to the new message.
#[utoipa::path(
    tag = "Messages", params(("chat_id" = ChatId, Path)),
    request_body = SendMessage,
    responses(
        (status = 200, description = "The message that was sent before", body = Message),
        (status = 201, description = "The new message", body = Message),
    )
)]
#[post("/api/messenger/chats/{chat_id}/messages")]
pub async fn send_message(
    app: Data<App>,
    actor: Actor,
    id: Path<ChatId>,
    idempotency: Idempotency,
    Json(SendMessage { text, client_message_id }): Json<SendMessage>,
) -> Result<HttpResponse, Error> {
    let (sender, client_id) = (actor.user_id, client_message_id.map(|id| id.0));
    let max_per_hour = app.settings.max_messages_per_hour;
    let send = async |tx: &mut _| {
        let (message, is_new) =
            ops::message::send_message(tx, sender, *id, text, client_id, max_per_hour).await?;
        let id = message.id;
        Ok(if is_new { Reply::created(message).of_erasable(id) } else { Reply::existing(message) })
    };
    idempotency.run(&app.db, send).await
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct EditMessage {
    text: PrivateText,
}

/// Edit an own message.
///
/// The sender edits within 24 h by default. The same text changes nothing. An edit counts as a
/// message of the hour.
#[utoipa::path(
    tag = "Messages", params(("chat_id" = ChatId, Path), ("message_id" = MessageId, Path)),
    request_body = EditMessage,
    responses((status = 200, description = "The message after the request", body = Message))
)]
#[put("/api/messenger/chats/{chat_id}/messages/{message_id}")]
pub async fn edit_message(
    app: Data<App>,
    actor: Actor,
    ids: Path<(ChatId, MessageId)>,
    Json(EditMessage { text }): Json<EditMessage>,
) -> Result<impl Responder, Error> {
    let ((chat, id), by) = (ids.into_inner(), actor.user_id);
    let limits =
        EditLimits { window: app.settings.edit_window, max_per_hour: app.settings.max_messages_per_hour };
    let edit = async |tx: &mut _| ops::message::edit_message(tx, by, chat, id, text, limits).await;
    Ok(web::Json(app.db.tx(edit).await?))
}

/// Delete an own message.
///
/// The sender deletes within 24 h by default. A deleted message keeps its `Sequence` and loses its
/// text. A repeat changes nothing and returns 204.
#[utoipa::path(
    tag = "Messages", params(("chat_id" = ChatId, Path), ("message_id" = MessageId, Path)),
    responses((status = 204, description = "Deleted"))
)]
#[delete("/api/messenger/chats/{chat_id}/messages/{message_id}")]
pub async fn delete_message(
    app: Data<App>,
    actor: Actor,
    ids: Path<(ChatId, MessageId)>,
) -> Result<HttpResponse, Error> {
    let ((chat, id), by) = (ids.into_inner(), actor.user_id);
    let window = app.settings.edit_window;
    app.db.tx(async |tx| ops::message::delete_message(tx, by, chat, id, window).await).await?;
    Ok(HttpResponse::NoContent().finish())
}
