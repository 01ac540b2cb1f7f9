//! Pages of the timeline of a deal, newest first.

use ::db::Conn;
use ::web::{CursorPage, CursorPaging};
use auth::Reach;
use diesel::dsl::not;
use diesel::prelude::*;
use diesel::result::Error::DeserializationError;
use diesel_async::RunQueryDsl;
use serde::{Deserialize, Serialize};

use crate::domain::{DealId, NoteAudience, TimelineKind, TimelineRow};
use crate::schema::timeline;

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

/// Reads one page. For a company, hides the notes and reasons whose audience is the platform.
pub async fn list(
    mut conn: &Conn,
    deal_id: DealId,
    reach: Reach,
    paging: &CursorPaging<TimelineKey>,
) -> QueryResult<CursorPage<TimelineRow>> {
    let mut rows = timeline::table
        .filter(timeline::deal_id.eq(deal_id))
        .select((timeline::position, TimelineRow::as_select()))
        .into_boxed();
    if let Some(after) = paging.after {
        rows = rows.filter(timeline::position.lt(after.position));
    }
    let is_company = matches!(reach, Reach::Company(_));
    if is_company {
        let is_note = timeline::kind.eq(TimelineKind::ManualNote);
        rows = rows.filter(not(is_note.and(timeline::audience.eq(NoteAudience::Platform))));
    }
    let rows = rows.order(timeline::position.desc()).limit(paging.limit());
    let found: Vec<(i64, TimelineRow)> = rows.load(&mut conn).await?;
    let page = paging.page(found, |(position, _)| TimelineKey { deal_id, position: *position });
    let rows = page.items.into_iter().map(|(_, row)| row);
    let items = rows.map(|row| if is_company { row.hide_reason() } else { Ok(row) });
    let items = items.collect::<Result<_, _>>().map_err(|error| DeserializationError(Box::new(error)))?;
    Ok(CursorPage { items, next_cursor: page.next_cursor })
}
