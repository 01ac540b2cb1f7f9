//! Who is in a chat, for those who supervise it and for those who leave.

use ::web::{Fields, Problem};
use actix_web::web::{Data, Path};
use actix_web::{HttpResponse, delete, put};
use auth::{Actor, UserId};
use uuid::Uuid;
use values::Invalid;

use crate::app::App;
use crate::domain::{ChatId, Viewer};
use crate::error::Error;
use crate::ops;

/// Add somebody to the chat of a deal.
///
/// They see the whole history, as read. One who is in it already stays as they are.
#[utoipa::path(
    tag = "Chats", params(("chat_id" = ChatId, Path), ("user_id" = UserId, Path)),
    responses((status = 204, description = "In it now"))
)]
#[put("/api/messenger/chats/{chat_id}/members/{user_id}")]
pub async fn add_member(
    app: Data<App>,
    actor: Actor,
    ids: Path<(ChatId, UserId)>,
) -> Result<HttpResponse, Error> {
    let ((chat, user), viewer) = (named(ids)?, Viewer::of(&actor));
    app.db.tx(async |tx| ops::member::add_member(tx, &viewer, chat, user).await).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Remove somebody from the chat of a deal, or leave it.
///
/// Who goes leaves its live conference, too; if it is theirs, it ends.
#[utoipa::path(
    tag = "Chats", params(("chat_id" = ChatId, Path), ("user_id" = UserId, Path)),
    responses((status = 204, description = "No longer in it"))
)]
#[delete("/api/messenger/chats/{chat_id}/members/{user_id}")]
pub async fn remove_member(
    app: Data<App>,
    actor: Actor,
    ids: Path<(ChatId, UserId)>,
) -> Result<HttpResponse, Error> {
    let ((chat, user), viewer) = (named(ids)?, Viewer::of(&actor));
    app.db.tx(async |tx| ops::member::remove_member(tx, &viewer, chat, user).await).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// What the path names; the empty id is refused.
///
/// # Errors
/// `400 VALIDATION_FAILED`
fn named(ids: Path<(ChatId, UserId)>) -> Result<(ChatId, UserId), Problem> {
    let (chat, user) = ids.into_inner();
    let mut fields = Fields::default();
    for (member, id) in [("/ChatId", Uuid::from(chat)), ("/UserId", user.into())] {
        fields.check(member, if id.is_nil() { Err(Invalid::new("empty_id")) } else { Ok(()) });
    }
    fields.finish(Some((chat, user)))
}
