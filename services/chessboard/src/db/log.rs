//! The logs of profiles.

use ::db::{Conn, Tx};
use ::web::{CursorPage, CursorPaging};
use auth::CompanyId;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde::{Deserialize, Serialize};

use crate::domain::{LogEntry, LogEntryId};
use crate::schema::developer_log;

/// The sort key of a log. A profile's versions grow in the order of commits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogKey {
    pub version: i64,
    pub id: LogEntryId,
}

/// Adds entries in their order.
pub async fn append(tx: &mut Tx, entries: &[LogEntry]) -> Result<(), ::db::Error> {
    diesel::insert_into(developer_log::table).values(entries).execute(tx.conn()).await?;
    Ok(())
}

/// Returns true if the log contains the entry of a cursor.
pub async fn contains(mut conn: &Conn, developer: CompanyId, key: &LogKey) -> Result<bool, ::db::Error> {
    let entry = developer_log::table
        .find(key.id)
        .filter(developer_log::developer_id.eq(developer))
        .filter(developer_log::version.eq(key.version));
    Ok(diesel::select(diesel::dsl::exists(entry)).get_result(&mut conn).await?)
}

/// Returns one page, newest first.
pub async fn list(
    mut conn: &Conn,
    developer: CompanyId,
    paging: &CursorPaging<LogKey>,
) -> Result<CursorPage<LogEntry>, ::db::Error> {
    let mut entries = developer_log::table
        .filter(developer_log::developer_id.eq(developer))
        .select(LogEntry::as_select())
        .into_boxed();
    if let Some(&LogKey { version, id }) = paging.after.as_ref() {
        // The first condition can use the index.
        let is_older = developer_log::version.lt(version).or(developer_log::id.lt(id));
        entries = entries.filter(developer_log::version.le(version)).filter(is_older);
    }
    let newest_first = (developer_log::version.desc(), developer_log::id.desc());
    let found = entries.order(newest_first).limit(paging.limit()).load(&mut conn).await?;
    Ok(paging.page(found, |last: &LogEntry| LogKey { version: last.version, id: last.id }))
}
