//! Queries on reports of Direct chats, and the log of their readings.

use ::db::{Conn, Prepared, Tx};
use ::web::{Page, Paging, SortKey};
use auth::UserId;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use service::list;
use strum::{EnumString, VariantNames};
use time::OffsetDateTime;
use values::Private;

use crate::domain::{ChatId, Report, ReportId, ReportStatus};
use crate::schema::{report, report_reading};

/// The sort keys of a list of reports.
#[derive(Clone, Copy, Debug, EnumString, VariantNames)]
pub enum ReportSort {
    CreatedAt,
}

impl SortKey for ReportSort {
    const DEFAULT: &'static str = "CreatedAt";
}

/// Stores a new open report.
pub async fn insert(tx: &mut Tx, new: &Report) -> Result<(), ::db::Error> {
    let insert = diesel::insert_into(report::table).values((
        report::id.eq(new.id),
        report::chat_id.eq(new.chat_id),
        report::reporter_user_id.eq(new.reporter_user_id),
        report::reported_user_id.eq(new.reported_user_id),
        report::reason.eq(new.reason),
        report::comment.eq(new.comment.as_ref().map(Private::expose)),
        report::status.eq(new.status),
        report::created_at.eq(new.created_at),
    ));
    insert.execute(tx.conn()).await?;
    Ok(())
}

pub async fn find(tx: &mut Tx, id: ReportId) -> Result<Option<Report>, ::db::Error> {
    Ok(report::table.find(id).select(Report::as_select()).first(tx.conn()).await.optional()?)
}

/// Returns the open report of a reporter about a locked chat.
pub async fn find_open(tx: &mut Tx, chat: ChatId, reporter: UserId) -> Result<Option<Report>, ::db::Error> {
    let own = report::table.filter(report::chat_id.eq(chat)).filter(report::reporter_user_id.eq(reporter));
    let open = own.filter(is_open()).select(Report::as_select());
    Ok(open.first(tx.conn()).await.optional()?)
}

/// Decides one open report of a locked chat, or all of them.
pub async fn decide(
    tx: &mut Tx,
    chat: ChatId,
    only: Option<ReportId>,
    status: ReportStatus,
    by: UserId,
    at: OffsetDateTime,
) -> Result<(), ::db::Error> {
    let mut open = diesel::update(report::table)
        .filter(report::chat_id.eq(chat))
        .filter(is_open())
        .set((report::status.eq(status), report::decided_at.eq(at), report::decided_by_user_id.eq(by)))
        .into_boxed();
    if let Some(id) = only {
        open = open.filter(report::id.eq(id));
    }
    open.execute(tx.conn()).await?;
    Ok(())
}

/// Adds a reading to the log.
pub async fn insert_reading(tx: &mut Tx, read: &Report, moderator: UserId) -> Result<(), ::db::Error> {
    let reading = (
        report_reading::report_id.eq(read.id),
        report_reading::chat_id.eq(read.chat_id),
        report_reading::moderator_user_id.eq(moderator),
    );
    Prepared(diesel::insert_into(report_reading::table).values(reading)).execute(tx.conn()).await?;
    Ok(())
}

/// Returns one page of the reports whose users do not include the moderator.
pub async fn list(
    conn: &Conn,
    moderator: UserId,
    statuses: Option<&[ReportStatus]>,
    paging: &Paging<ReportSort>,
) -> QueryResult<Page<Report>> {
    let ReportSort::CreatedAt = paging.sort;
    let order = list::order_by(paging, report::created_at);
    let tie = list::order_by(paging, report::id);
    let filtered = || filtered(moderator, statuses);
    let sorted = filtered().order((order, tie)).select(Report::as_select());
    list::page(conn, paging, sorted, filtered().select(report::id)).await
}

fn filtered(moderator: UserId, statuses: Option<&[ReportStatus]>) -> report::BoxedQuery<'static, Pg> {
    let impartial = report::reporter_user_id.ne(moderator).and(report::reported_user_id.ne(moderator));
    let mut found = report::table.filter(impartial).into_boxed();
    if let Some(statuses) = statuses {
        found = found.filter(report::status.eq_any(statuses.to_vec()));
    }
    found
}

/// Returns the condition of the partial index of open reports.
fn is_open() -> diesel::expression::SqlLiteral<diesel::sql_types::Bool> {
    diesel::dsl::sql("report.status = 'Open'")
}
