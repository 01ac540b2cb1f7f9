//! Operations on reports of Direct chats, for moderators of the platform.

use ::web::{Both, CheckedQuery, CommaSeparated, Page, Paging, Query};
use actix_web::web::{Data, Path};
use actix_web::{Responder, get, post, web};
use auth::Permitted;
use serde::Deserialize;
use utoipa::IntoParams;

use super::message::{ListMessages, Messages, load_page};
use crate::app::App;
use crate::db;
use crate::db::report::ReportSort;
use crate::domain::{ModerateDirectChats, Report, ReportId, ReportStatus};
use crate::error::Error;
use crate::ops;

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct ListReports {
    /// Statuses, separated by commas.
    #[param(value_type = Option<Vec<ReportStatus>>, inline, min_items = 1, style = Form, explode = false)]
    status: Option<CommaSeparated<ReportStatus>>,
}

/// List reports.
///
/// The list leaves out reports that the caller made, and reports about the caller.
#[utoipa::path(
    tag = "Reports", params(ListReports, Paging<ReportSort>),
    responses((status = 200, description = "One page", body = Page<Report>))
)]
#[get("/api/messenger/reports")]
pub async fn list_reports(
    app: Data<App>,
    moderator: Permitted<ModerateDirectChats>,
    Both(Query(query), paging): Both<Query<ListReports>, Paging<ReportSort>>,
) -> Result<impl Responder, Error> {
    let statuses = query.status.map(|statuses| statuses.0);
    let conn = app.db.conn().await?;
    Ok(web::Json(db::report::list(&conn, moderator.actor.user_id, statuses.as_deref(), &paging).await?))
}

/// List the messages of a reported chat.
///
/// The report has to be open. The service records who read which chat for which report.
#[utoipa::path(
    tag = "Reports", params(("report_id" = ReportId, Path), ListMessages),
    responses((status = 200, description = "One page", body = Messages))
)]
#[get("/api/messenger/reports/{report_id}/messages")]
pub async fn list_reported_messages(
    app: Data<App>,
    moderator: Permitted<ModerateDirectChats>,
    id: Path<ReportId>,
    CheckedQuery(query): CheckedQuery<ListMessages>,
) -> Result<impl Responder, Error> {
    let user = moderator.actor.user_id;
    // The reading is recorded before any message leaves the service.
    let report = app.db.tx(async |tx| ops::report::record_reading(tx, *id, user).await).await?;
    tracing::info!(report = %report.id, chat = %report.chat_id, "reported chat read by a moderator");
    let conn = app.db.conn().await?;
    let last_sequence = db::chat::read_last_sequence(&conn, report.chat_id).await?;
    Ok(web::Json(load_page(&conn, report.chat_id, &query, last_sequence).await?))
}

/// Close a reported chat.
///
/// The chat accepts no text any more. All its open reports get the status `ChatClosed`.
/// A repeat changes nothing.
#[utoipa::path(
    tag = "Reports", params(("report_id" = ReportId, Path)),
    responses((status = 200, description = "The report after the request", body = Report))
)]
#[post("/api/messenger/reports/{report_id}/close-chat")]
pub async fn close_reported_chat(
    app: Data<App>,
    moderator: Permitted<ModerateDirectChats>,
    id: Path<ReportId>,
) -> Result<impl Responder, Error> {
    let user = moderator.actor.user_id;
    let close = async |tx: &mut _| ops::report::close_reported_chat(tx, *id, user).await;
    Ok(web::Json(app.db.tx(close).await?))
}

/// Dismiss a report.
///
/// The chat stays open. A repeat changes nothing.
#[utoipa::path(
    tag = "Reports", params(("report_id" = ReportId, Path)),
    responses((status = 200, description = "The report after the request", body = Report))
)]
#[post("/api/messenger/reports/{report_id}/dismiss")]
pub async fn dismiss_report(
    app: Data<App>,
    moderator: Permitted<ModerateDirectChats>,
    id: Path<ReportId>,
) -> Result<impl Responder, Error> {
    let user = moderator.actor.user_id;
    Ok(web::Json(app.db.tx(async |tx| ops::report::dismiss_report(tx, *id, user).await).await?))
}
