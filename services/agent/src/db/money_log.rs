//! The money log.

use ::db::{Conn, Prepared, Tx};
use ::web::{CursorPage, CursorPaging};
use auth::UserId;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use service::list;

use super::schema::money_log;
use crate::domain::{MoneyEntry, MoneyEntryId, MoneyEntryView, SubjectId};

/// The greatest number of rows per insert. PostgreSQL accepts 65,535 parameters.
const INSERT_BATCH_SIZE: usize = 5_000;

/// Appends entries with the trace of the current request or message.
pub async fn append(tx: &Tx, mut entries: Vec<MoneyEntry>) -> Result<(), ::db::Error> {
    let trace_id = runtime::telemetry::trace_id();
    for entry in &mut entries {
        entry.trace_id.clone_from(&trace_id);
    }
    let mut conn = tx.pipeline();
    if let [entry] = &entries[..] {
        Prepared(diesel::insert_into(money_log::table).values(entry)).execute(&mut conn).await?;
        return Ok(());
    }
    for batch in entries.chunks(INSERT_BATCH_SIZE) {
        diesel::insert_into(money_log::table).values(batch).execute(&mut conn).await?;
    }
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
