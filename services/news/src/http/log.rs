//! The log of a post.

use ::web::{CursorPage, CursorPaging, unknown_cursor};
use actix_web::web::{Data, Path};
use actix_web::{Responder, get, web};
use auth::Actor;

use crate::app::App;
use crate::db;
use crate::db::log::{LogKey, PostLogEntry};
use crate::domain::{PostId, may_edit, may_see};
use crate::error::{Error, FORBIDDEN, POST_NOT_FOUND};

/// Read the log of a post.
///
/// Changes of the content with their authors, newest first. Only users who may edit the post may
/// read it.
#[utoipa::path(
    tag = "Posts", params(("post_id" = PostId, Path), CursorPaging<LogKey>),
    responses((status = 200, description = "One page", body = CursorPage<PostLogEntry>))
)]
#[get("/api/v1/posts/{post_id}/events")]
pub async fn list_post_log(
    app: Data<App>,
    actor: Actor,
    id: Path<PostId>,
    paging: CursorPaging<LogKey>,
) -> Result<impl Responder, Error> {
    let conn = app.db.conn().await?;
    let post = db::post::look_up_for_edit(&conn, *id).await?.ok_or(POST_NOT_FOUND)?.post;
    if !may_see(Some(&actor), &post) {
        return Err(POST_NOT_FOUND.into());
    }
    if !may_edit(&actor, &post) {
        return Err(FORBIDDEN.into());
    }
    if let Some(after) = &paging.after
        && !db::log::contains(&conn, *id, after).await?
    {
        return Err(unknown_cursor().into());
    }
    Ok(web::Json(db::log::list(&conn, *id, &paging).await?))
}
