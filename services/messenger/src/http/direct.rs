//! Operations on Direct chats, for their two users.

use ::web::Json;
use actix_web::web::{Data, Path};
use actix_web::{HttpResponse, delete, post, put};
use auth::Actor;
use serde::Deserialize;
use service::{Idempotency, Reply};
use utoipa::ToSchema;

use crate::app::App;
use crate::domain::{ChatId, Report, ReportComment, ReportReason};
use crate::error::Error;
use crate::ops;

/// Leave a Direct chat.
///
/// The other user keeps the chat, and cannot write until the caller opens the chat again.
#[utoipa::path(
    tag = "Chats", params(("chat_id" = ChatId, Path)),
    responses((status = 204, description = "The caller is no longer a member"))
)]
#[post("/api/messenger/chats/{chat_id}/leave")]
pub async fn leave_chat(app: Data<App>, actor: Actor, id: Path<ChatId>) -> Result<HttpResponse, Error> {
    app.db.tx(async |tx| ops::direct::leave_direct(tx, *id, actor.user_id).await).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Block the other user of a Direct chat.
///
/// The chat accepts no text, and the other user cannot open it again. A repeat changes nothing.
/// A user who left the chat may block too.
#[utoipa::path(
    tag = "Chats", params(("chat_id" = ChatId, Path)),
    responses((status = 204, description = "The caller blocks the other user"))
)]
#[put("/api/messenger/chats/{chat_id}/block")]
pub async fn block_chat(app: Data<App>, actor: Actor, id: Path<ChatId>) -> Result<HttpResponse, Error> {
    app.db.tx(async |tx| ops::direct::set_blocked(tx, *id, actor.user_id, true).await).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Unblock the other user of a Direct chat.
///
/// Ends the caller's own block, also for a user who left the chat. A repeat changes nothing.
#[utoipa::path(
    tag = "Chats", params(("chat_id" = ChatId, Path)),
    responses((status = 204, description = "The caller does not block the other user"))
)]
#[delete("/api/messenger/chats/{chat_id}/block")]
pub async fn unblock_chat(app: Data<App>, actor: Actor, id: Path<ChatId>) -> Result<HttpResponse, Error> {
    app.db.tx(async |tx| ops::direct::set_blocked(tx, *id, actor.user_id, false).await).await?;
    Ok(HttpResponse::NoContent().finish())
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ReportChat {
    /// The reason of the report.
    reason: ReportReason,
    comment: Option<ReportComment>,
}

/// Report a Direct chat.
///
/// A moderator may then read the chat and close it. A user who left the chat may report it.
/// A reporter has one open report of a chat, and a repeat returns it unchanged.
#[utoipa::path(
    tag = "Reports", params(("chat_id" = ChatId, Path)),
    request_body = ReportChat,
    responses(
        (status = 200, description = "The open report of the caller", body = Report),
        (status = 201, description = "The new report", body = Report),
    )
)]
#[post("/api/messenger/chats/{chat_id}/reports")]
pub async fn report_chat(
    app: Data<App>,
    actor: Actor,
    id: Path<ChatId>,
    idempotency: Idempotency,
    Json(ReportChat { reason, comment }): Json<ReportChat>,
) -> Result<HttpResponse, Error> {
    let reporter = actor.user_id;
    let report = async |tx: &mut _| {
        let (report, is_new) = ops::report::report_chat(tx, *id, reporter, reason, comment).await?;
        Ok(if is_new { Reply::created(report) } else { Reply::existing(report) })
    };
    idempotency.run(&app.db, report).await
}
