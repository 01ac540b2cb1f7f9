//! What is said in a chat, for its members.

use ::web::{Check, Fields, Filter, Json};
use actix_web::web::{Data, Path};
use actix_web::{HttpResponse, Responder, delete, get, post, put, web};
use auth::Actor;
use ids::Reference;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use values::{Invalid, Whole};

use crate::app::App;
use crate::db;
use crate::db::message::Part;
use crate::domain::{ChatId, ClientMessageId, Message, MessageId, PrivateText};
use crate::error::{CHAT_NOT_FOUND, Error};
use crate::ops;

/// Up to this many messages at once.
type PageSize = Whole<1, 100>;
type Sequence = Whole<0, { i64::MAX }>;
type ClientMessageReference = Reference<ClientMessageId>;

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct ListMessages {
    /// 50 by default.
    #[serde(default, deserialize_with = "::web::parsed")]
    #[param(value_type = Option<PageSize>, inline)]
    page_size: Option<PageSize>,
    /// Older ones, newest first. Not together with `AfterSequence`.
    #[serde(default, deserialize_with = "::web::parsed")]
    #[param(value_type = Option<Sequence>, inline)]
    before_sequence: Option<Sequence>,
    /// Newer ones, oldest first.
    #[serde(default, deserialize_with = "::web::parsed")]
    #[param(value_type = Option<Sequence>, inline)]
    after_sequence: Option<Sequence>,
}

impl Check for ListMessages {
    fn check(&self, fields: &mut Fields) {
        let are_both = self.before_sequence.is_some() && self.after_sequence.is_some();
        fields.check("/AfterSequence", if are_both { Err(Invalid::new("not_together")) } else { Ok(()) });
    }
}

/// A part of a chat.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Messages {
    /// Newest first; with `AfterSequence` oldest first.
    #[schema(max_items = 100)]
    items: Vec<Message>,
    /// Whether there are further ones in that direction.
    has_more: bool,
    /// Of the chat.
    #[schema(minimum = 0)]
    last_sequence: i64,
}

/// Read what is said in a chat.
///
/// The newest messages, or those before or after one: whoever was away reads on after the last that they have.
#[utoipa::path(
    tag = "Messages", params(("chat_id" = ChatId, Path), ListMessages),
    responses((status = 200, description = "One page", body = Messages))
)]
#[get("/api/messenger/chats/{chat_id}/messages")]
pub async fn list_messages(
    app: Data<App>,
    actor: Actor,
    id: Path<ChatId>,
    Filter(asked): Filter<ListMessages>,
) -> Result<impl Responder, Error> {
    let page_size = asked.page_size.map_or(50, PageSize::get);
    let part = match (asked.after_sequence, asked.before_sequence) {
        (Some(after), _) => Part::After(after.get()),
        (None, before) => Part::Before(before.map_or(i64::MAX, Sequence::get)),
    };
    let conn = app.db.conn().await?;
    let known = db::chat::look_up_own(&conn, *id, actor.user_id).await?.ok_or(CHAT_NOT_FOUND)?;
    let mut items = db::message::list(&conn, *id, part, page_size + 1).await?;
    let shown = usize::try_from(page_size).unwrap_or(usize::MAX);
    let has_more = items.len() > shown;
    items.truncate(shown);
    // Something may have been sent in between.
    let newest = items.iter().map(|message| message.sequence).max();
    let last_sequence = known.max(newest.unwrap_or(0));
    Ok(web::Json(Messages { items, has_more, last_sequence }))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct SendMessage {
    text: PrivateText,
    /// A repeat with the same one sends nothing, and is answered with what was sent.
    client_message_id: Option<ClientMessageReference>,
}

/// Send a message.
///
/// Who writes has read all before it.
#[utoipa::path(
    tag = "Messages", params(("chat_id" = ChatId, Path)),
    request_body(content = SendMessage, description = "At most 256 KiB."),
    responses(
        (status = 200, description = "It was sent before", body = Message),
        (status = 201, description = "Sent", body = Message),
    )
)]
#[post("/api/messenger/chats/{chat_id}/messages")]
pub async fn send_message(
    app: Data<App>,
    actor: Actor,
    id: Path<ChatId>,
    Json(SendMessage { text, client_message_id }): Json<SendMessage>,
) -> Result<HttpResponse, Error> {
    let (sender, repeated) = (actor.user_id, client_message_id.map(|id| id.0));
    let send = async |tx: &mut _| ops::message::send_message(tx, sender, *id, text, repeated).await;
    let (message, is_new) = app.db.tx(send).await?;
    let mut answer = if is_new { HttpResponse::Created() } else { HttpResponse::Ok() };
    Ok(answer.json(message))
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct EditMessage {
    text: PrivateText,
}

/// Edit what I wrote.
///
/// For a day; the same text again changes nothing.
#[utoipa::path(
    tag = "Messages", params(("chat_id" = ChatId, Path), ("message_id" = MessageId, Path)),
    request_body(content = EditMessage, description = "At most 256 KiB."),
    responses((status = 200, description = "As it is now", body = Message))
)]
#[put("/api/messenger/chats/{chat_id}/messages/{message_id}")]
pub async fn edit_message(
    app: Data<App>,
    actor: Actor,
    ids: Path<(ChatId, MessageId)>,
    Json(EditMessage { text }): Json<EditMessage>,
) -> Result<impl Responder, Error> {
    let ((chat, id), by) = (ids.into_inner(), actor.user_id);
    let window = app.settings.edit_window;
    let edit = async |tx: &mut _| ops::message::edit_message(tx, by, chat, id, text, window).await;
    Ok(web::Json(app.db.tx(edit).await?))
}

/// Delete what I wrote.
///
/// For a day. It keeps its place, without its text.
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
