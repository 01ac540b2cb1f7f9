//! The money log.

use ::db::{Conn, Tx};
use ::web::{CursorPage, CursorPaging};
use auth::UserId;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Integer, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use runtime::telemetry;
use service::list;

use super::rows::execute_for_rows;
use crate::domain::{MoneyEntry, MoneyEntryId, MoneyEntryView, SubjectId};
use crate::schema::money_log;

/// Appends entries. Those without a trace get the trace of the current request.
pub async fn append(tx: &Tx, mut entries: Vec<MoneyEntry>) -> Result<(), ::db::Error> {
    if entries.is_empty() {
        return Ok(());
    }
    for entry in &mut entries {
        entry.trace_id = entry.trace_id.take().or_else(telemetry::trace_id);
    }
    let insert = |columns, relation| format!("insert into money_log ({columns}) select * from {relation}");
    execute_for_rows!(tx, entries, insert, {
        id: SqlUuid,
        at: Timestamptz,
        action: Text,
        subject_id: SqlUuid,
        agent_user_id: Nullable<SqlUuid>,
        actor_user_id: Nullable<SqlUuid>,
        amount: Nullable<BigInt>,
        currency: Nullable<Text>,
        rate_bps: Nullable<Integer>,
        trace_id: Nullable<Text>,
    })?;
    Ok(())
}

/// The filter of the log.
#[derive(Debug, Default)]
pub struct MoneyFilter {
    pub subject_id: Option<SubjectId>,
    pub agent_user_id: Option<UserId>,
    pub actor_user_id: Option<UserId>,
}

/// Returns one page, newest first.
pub async fn list(
    mut conn: &Conn,
    filter: &MoneyFilter,
    paging: &CursorPaging<MoneyEntryId>,
) -> QueryResult<CursorPage<MoneyEntryView>> {
    let mut entries =
        money_log::table.filter(list::custom_plan()).select(MoneyEntry::as_select()).into_boxed();
    if let Some(subject) = filter.subject_id {
        entries = entries.filter(money_log::subject_id.eq(subject));
    }
    if let Some(agent) = filter.agent_user_id {
        entries = entries.filter(money_log::agent_user_id.eq(agent));
    }
    if let Some(actor) = filter.actor_user_id {
        entries = entries.filter(money_log::actor_user_id.eq(actor));
    }
    if let Some(after) = paging.after {
        entries = entries.filter(money_log::id.lt(after));
    }
    let found: Vec<MoneyEntry> =
        entries.order(money_log::id.desc()).limit(paging.limit()).load(&mut conn).await?;
    let CursorPage { items, next_cursor } = paging.page(found, |last| last.id);
    Ok(CursorPage { items: items.into_iter().map(MoneyEntryView::from).collect(), next_cursor })
}
