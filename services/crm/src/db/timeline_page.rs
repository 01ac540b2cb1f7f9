//! Pages of the timeline of a deal, newest first.

use ::db::Conn;
use ::web::{CursorPage, CursorPaging};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde::{Deserialize, Serialize};

use super::schema::timeline;
use crate::domain::{DealId, TimelineRow};

/// The content of a cursor: the deal, and the position of the last row of the page.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct TimelineKey {
    deal_id: DealId,
    position: i64,
}

impl TimelineKey {
    /// Returns true if the cursor belongs to this deal.
    pub fn is_in(&self, deal: DealId) -> bool {
        self.deal_id == deal
    }
}

/// Reads one page.
pub async fn list(
    mut conn: &Conn,
    deal_id: DealId,
    paging: &CursorPaging<TimelineKey>,
) -> QueryResult<CursorPage<TimelineRow>> {
    let mut rows = timeline::table
        .filter(timeline::deal_id.eq(deal_id))
        .select((timeline::position, TimelineRow::as_select()))
        .into_boxed();
    if let Some(after) = paging.after {
        rows = rows.filter(timeline::position.lt(after.position));
    }
    let rows = rows.order(timeline::position.desc()).limit(paging.limit());
    let found: Vec<(i64, TimelineRow)> = rows.load(&mut conn).await?;
    let page = paging.page(found, |(position, _)| TimelineKey { deal_id, position: *position });
    let items = page.items.into_iter().map(|(_, row)| row).collect();
    Ok(CursorPage { items, next_cursor: page.next_cursor })
}
