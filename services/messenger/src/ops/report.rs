//! Reports of Direct chats, which moderators read and decide.

use ::db::Tx;
use auth::UserId;

use super::direct::lock_direct;
use super::message::post_card;
use super::stream::notify_members;
use crate::db;
use crate::domain::{
    Card, Chat, ChatId, Report, ReportComment, ReportId, ReportReason, ReportStatus, StreamEvent,
};
use crate::error::{Error, REPORT_DECIDED, REPORT_NOT_FOUND};

/// Reports a Direct chat, also for a user who left it. Returns the new report and true, or the open
/// report of this reporter and false.
///
/// # Errors
/// The errors of [`lock_direct`].
pub async fn report_chat(
    tx: &mut Tx,
    chat: ChatId,
    reporter: UserId,
    reason: ReportReason,
    comment: Option<ReportComment>,
) -> Result<(Report, bool), Error> {
    let chat = lock_direct(tx, chat, reporter).await?;
    let reported_user_id = chat.other_user(reporter)?;
    if let Some(open) = db::report::find_open(tx, chat.id, reporter).await? {
        return Ok((open, false));
    }
    let report = Report {
        id: ReportId::generate(),
        chat_id: chat.id,
        reporter_user_id: reporter,
        reported_user_id,
        reason,
        comment,
        status: ReportStatus::Open,
        created_at: chat.now,
        decided_at: None,
        decided_by_user_id: None,
    };
    db::report::insert(tx, &report).await?;
    Ok((report, true))
}

/// Records that a moderator reads the chat of an open report, and returns the report.
///
/// # Errors
/// - [`REPORT_NOT_FOUND`]: the report does not exist.
/// - The errors of [`Report::check_impartial`] and [`Report::check_open`].
pub async fn record_reading(tx: &mut Tx, id: ReportId, moderator: UserId) -> Result<Report, Error> {
    let report = db::report::find(tx, id).await?.ok_or(REPORT_NOT_FOUND)?;
    report.check_impartial(moderator)?;
    report.check_open()?;
    db::report::insert_reading(tx, &report, moderator).await?;
    Ok(report)
}

/// Closes the chat of a report, and decides all open reports of the chat. A repeat changes nothing.
///
/// # Errors
/// The errors of [`lock_for_outcome`].
pub async fn close_reported_chat(tx: &mut Tx, id: ReportId, moderator: UserId) -> Result<Report, Error> {
    let (mut chat, report) = lock_for_outcome(tx, id, moderator, ReportStatus::ChatClosed).await?;
    if report.status == ReportStatus::ChatClosed {
        return Ok(report);
    }
    db::report::decide(tx, chat.id, None, ReportStatus::ChatClosed, moderator, chat.now).await?;
    if chat.closed_at.is_none() {
        chat.closed_at = Some(chat.now);
        db::chat::save_direct_state(tx, &chat).await?;
        notify_members(tx, &chat, StreamEvent::Chat).await?;
        post_card(tx, &mut chat, Card::ChatClosed, &[]).await?;
    }
    Ok(decided(report, ReportStatus::ChatClosed, moderator, &chat))
}

/// Decides a report without a change of its chat. A repeat changes nothing.
///
/// # Errors
/// The errors of [`lock_for_outcome`].
pub async fn dismiss_report(tx: &mut Tx, id: ReportId, moderator: UserId) -> Result<Report, Error> {
    let (chat, report) = lock_for_outcome(tx, id, moderator, ReportStatus::Dismissed).await?;
    if report.status == ReportStatus::Dismissed {
        return Ok(report);
    }
    db::report::decide(tx, chat.id, Some(id), ReportStatus::Dismissed, moderator, chat.now).await?;
    Ok(decided(report, ReportStatus::Dismissed, moderator, &chat))
}

fn decided(report: Report, status: ReportStatus, by: UserId, chat: &Chat) -> Report {
    Report { status, decided_at: Some(chat.now), decided_by_user_id: Some(by), ..report }
}

/// Locks the chat of a report that is open or has this outcome already.
///
/// # Errors
/// - [`REPORT_NOT_FOUND`]: the report does not exist.
/// - [`FORBIDDEN`](crate::error::FORBIDDEN): the moderator is one of the two users.
/// - [`REPORT_DECIDED`]: the report has another outcome.
async fn lock_for_outcome(
    tx: &mut Tx,
    id: ReportId,
    moderator: UserId,
    outcome: ReportStatus,
) -> Result<(Chat, Report), Error> {
    let report = db::report::find(tx, id).await?.ok_or(REPORT_NOT_FOUND)?;
    report.check_impartial(moderator)?;
    let chat = db::chat::lock(tx, report.chat_id).await?.ok_or(REPORT_NOT_FOUND)?;
    // Another moderator may have decided during the wait for the lock.
    let report = db::report::find(tx, id).await?.ok_or(REPORT_NOT_FOUND)?;
    if [ReportStatus::Open, outcome].contains(&report.status) {
        Ok((chat, report))
    } else {
        Err(REPORT_DECIDED.into())
    }
}
