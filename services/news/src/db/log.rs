//! The logs of posts. A trigger writes an entry in the transaction of each change of the content.

use ::db::Conn;
use ::web::{CursorPage, CursorPaging};
use auth::UserId;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::{PostId, PostLogKind};
use crate::schema::post_log;

/// An immutable log entry.
#[derive(Debug, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = post_log, check_for_backend(Pg))]
#[serde(rename_all = "PascalCase")]
pub struct PostLogEntry {
    /// The domain event.
    pub kind: PostLogKind,
    pub actor_user_id: UserId,
    /// Number of blocks after the change.
    pub blocks_count: i32,
    /// The post's version with this change.
    pub version: i64,
    #[serde(with = "time::serde::rfc3339")]
    pub occurred_at: OffsetDateTime,
}

/// The sort key of a log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LogKey {
    pub version: i64,
}

/// Returns true if the log has the entry of a cursor.
pub async fn contains(mut conn: &Conn, post: PostId, key: &LogKey) -> Result<bool, ::db::Error> {
    let entry = post_log::table.find((post, key.version));
    Ok(diesel::select(diesel::dsl::exists(entry)).get_result(&mut conn).await?)
}

/// Returns one page of the log of a post, newest first.
pub async fn list(
    mut conn: &Conn,
    post: PostId,
    paging: &CursorPaging<LogKey>,
) -> Result<CursorPage<PostLogEntry>, ::db::Error> {
    let mut entries =
        post_log::table.filter(post_log::post_id.eq(post)).select(PostLogEntry::as_select()).into_boxed();
    if let Some(LogKey { version }) = paging.after {
        entries = entries.filter(post_log::version.lt(version));
    }
    let found = entries.order(post_log::version.desc()).limit(paging.limit()).load(&mut conn).await?;
    Ok(paging.page(found, |last: &PostLogEntry| LogKey { version: last.version }))
}
