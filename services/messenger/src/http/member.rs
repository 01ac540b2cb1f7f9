//! Operations on members, for supervisors and for members who leave.

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

/// Add a member to a deal chat.
///
/// A new member sees the whole history, as read. A repeat changes nothing.
#[utoipa::path(
    tag = "Chats", params(("chat_id" = ChatId, Path), ("user_id" = UserId, Path)),
    responses((status = 204, description = "The user is a member"))
)]
#[put("/api/messenger/chats/{chat_id}/members/{user_id}")]
pub async fn add_member(
    app: Data<App>,
    actor: Actor,
    ids: Path<(ChatId, UserId)>,
) -> Result<HttpResponse, Error> {
    let ((chat, user), viewer) = (check_ids(ids)?, Viewer::of(&actor));
    app.db.tx(async |tx| ops::member::add_member(tx, &viewer, chat, user).await).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Remove a member from a deal chat, or leave it.
///
/// The user also becomes Removed in the live conference. If the user is its host, the conference
/// ends.
#[utoipa::path(
    tag = "Chats", params(("chat_id" = ChatId, Path), ("user_id" = UserId, Path)),
    responses((status = 204, description = "The user is no longer a member"))
)]
#[delete("/api/messenger/chats/{chat_id}/members/{user_id}")]
pub async fn remove_member(
    app: Data<App>,
    actor: Actor,
    ids: Path<(ChatId, UserId)>,
) -> Result<HttpResponse, Error> {
    let ((chat, user), viewer) = (check_ids(ids)?, Viewer::of(&actor));
    app.db.tx(async |tx| ops::member::remove_member(tx, &viewer, chat, user).await).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Returns the ids of the path.
///
/// # Errors
/// `400 VALIDATION_FAILED`: an id is the empty Guid.
fn check_ids(ids: Path<(ChatId, UserId)>) -> Result<(ChatId, UserId), Problem> {
    let (chat, user) = ids.into_inner();
    let mut fields = Fields::default();
    for (member, id) in [("/ChatId", Uuid::from(chat)), ("/UserId", user.into())] {
        fields.check(member, if id.is_nil() { Err(Invalid::new("empty_id")) } else { Ok(()) });
    }
    fields.finish(Some((chat, user)))
}
