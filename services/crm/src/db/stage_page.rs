//! Pages of the stages of a deal, newest first.

use ::db::Conn;
use ::web::{CursorPage, CursorPaging};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::{DealId, DealStatus, StepGroup, StepId, StepName};
use crate::schema::{stage, step};

/// The content of a cursor: the deal, and the version that opened the last stage of the page.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct StageKey {
    deal_id: DealId,
    row_version: i64,
}

impl StageKey {
    /// Returns true if the cursor belongs to this deal.
    pub fn is_in(&self, deal: DealId) -> bool {
        self.deal_id == deal
    }
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = stage, check_for_backend(Pg))]
struct Row {
    row_version: i64,
    step_id: StepId,
    status: DealStatus,
    entered_at: OffsetDateTime,
    left_at: Option<OffsetDateTime>,
}

/// The time of a deal in a step.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Stage {
    step_id: StepId,
    step_name: StepName,
    step_group: StepGroup,
    status: DealStatus,
    /// Time at which the deal entered the step, in UTC.
    #[serde(with = "time::serde::rfc3339")]
    entered_at: OffsetDateTime,
    /// `null` for the current step.
    #[serde(with = "time::serde::rfc3339::option")]
    left_at: Option<OffsetDateTime>,
    /// Duration in seconds. The duration of the current stage ends now.
    #[schema(minimum = 0)]
    seconds: i64,
}

/// Reads one page. The duration of the current stage ends at `now`.
pub async fn list(
    mut conn: &Conn,
    deal_id: DealId,
    paging: &CursorPaging<StageKey>,
    now: OffsetDateTime,
) -> QueryResult<CursorPage<Stage>> {
    let mut rows = stage::table
        .inner_join(step::table)
        .filter(stage::deal_id.eq(deal_id))
        .select((Row::as_select(), step::name, step::group))
        .into_boxed();
    if let Some(after) = paging.after {
        rows = rows.filter(stage::row_version.lt(after.row_version));
    }
    let rows = rows.order(stage::row_version.desc()).limit(paging.limit());
    let found: Vec<(Row, StepName, StepGroup)> = rows.load(&mut conn).await?;
    let page = paging.page(found, |(row, ..)| StageKey { deal_id, row_version: row.row_version });
    let shown = page.items.into_iter().map(|(row, step_name, step_group)| Stage {
        step_id: row.step_id,
        step_name,
        step_group,
        status: row.status,
        entered_at: row.entered_at,
        left_at: row.left_at,
        seconds: (row.left_at.unwrap_or(now) - row.entered_at).whole_seconds().max(0),
    });
    Ok(CursorPage { items: shown.collect(), next_cursor: page.next_cursor })
}
