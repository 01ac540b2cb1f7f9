//! Operations on all deal chats of one user, for supervisors.

use ::web::{Fields, Json, Page, Paging};
use actix_web::web::{Data, Path};
use actix_web::{Responder, get, post, web};
use auth::{Permitted, UserId};
use ids::Reference;
use serde::Deserialize;
use utoipa::ToSchema;
use values::Invalid;

use crate::app::App;
use crate::db;
use crate::db::chat_view::{ChatSort, ChatView};
use crate::domain::SuperviseChats;
use crate::error::Error;
use crate::ops;
use crate::ops::supervision::{HandOver, HandOverRequest};

/// List the deal chats of a user.
///
/// Lists the supervised deal chats in which the user is a Manager or Member.
/// A user who left because the employment ended keeps the chat in this list, until another user
/// takes it over.
#[utoipa::path(
    tag = "Supervision", params(("user_id" = UserId, Path), Paging<ChatSort>),
    responses((status = 200, description = "One page", body = Page<ChatView>))
)]
#[get("/api/messenger/supervision/members/{user_id}/chats")]
pub async fn list_member_chats(
    app: Data<App>,
    supervisor: Permitted<SuperviseChats>,
    user: Path<UserId>,
    paging: Paging<ChatSort>,
) -> Result<impl Responder, Error> {
    let Permitted { actor, granted: reach } = supervisor;
    let conn = app.db.conn().await?;
    Ok(web::Json(db::chat_view::list_of_member(&conn, actor.user_id, reach, *user, &paging).await?))
}

type UserReference = Reference<UserId>;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct HandOverChats {
    /// The user who takes over the chats.
    to_user_id: UserReference,
}

/// Hand over the deal chats of a user.
///
/// The other user becomes a Member of each chat, and the user leaves it.
/// One request hands over all chats of the list, one after the other.
/// A chat without a free seat does not change and stays in the list.
#[utoipa::path(
    tag = "Supervision", params(("user_id" = UserId, Path)),
    request_body = HandOverChats,
    responses((status = 200, description = "The chats of this request", body = HandOver))
)]
#[post("/api/messenger/supervision/members/{user_id}/hand-over")]
pub async fn hand_over_chats(
    app: Data<App>,
    supervisor: Permitted<SuperviseChats>,
    user: Path<UserId>,
    Json(HandOverChats { to_user_id: Reference(to) }): Json<HandOverChats>,
) -> Result<impl Responder, Error> {
    let mut fields = Fields::default();
    fields.check("/ToUserId", if to == *user { Err(Invalid::new("same_user")) } else { Ok(()) });
    fields.finish(Some(()))?;
    let Permitted { actor, granted: reach } = supervisor;
    let request = HandOverRequest { by: actor.user_id, reach, from: *user, to };
    Ok(web::Json(ops::supervision::hand_over_chats(&app.db, request).await?))
}
