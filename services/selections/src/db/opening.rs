//! Counts of openings by code.

use ::db::{Conn, Prepared, Tx};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::SelectionId;
use crate::schema::opening;

/// Number and last time of the openings of a selection by its code.
#[derive(Clone, Copy, Debug, Default, Queryable, Selectable, Serialize, ToSchema)]
#[diesel(table_name = opening, check_for_backend(diesel::pg::Pg))]
#[serde(rename_all = "PascalCase")]
pub struct OpeningsView {
    /// Number of openings by people other than the owner.
    #[diesel(column_name = openings_count)]
    pub count: i64,
    /// Time of the last opening, in UTC. Null before the first one.
    #[serde(with = "time::serde::rfc3339::option")]
    #[diesel(column_name = last_opened_at, deserialize_as = OffsetDateTime)]
    pub last_opened_at: Option<OffsetDateTime>,
}

/// Openings of one selection that are not stored yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOpenings {
    pub selection_id: SelectionId,
    pub count: i64,
    pub last_opened_at: OffsetDateTime,
}

const ADD: &str = "\
    insert into opening (selection_id, openings_count, last_opened_at) \
    select * from unnest($1, $2, $3) \
    on conflict (selection_id) do update set \
        openings_count = opening.openings_count + excluded.openings_count, \
        last_opened_at = greatest(opening.last_opened_at, excluded.last_opened_at)";

/// Adds openings to the counts. The rows are locked in the given order.
pub async fn add(tx: &mut Tx, openings: &[NewOpenings]) -> Result<(), ::db::Error> {
    let ids: Vec<SelectionId> = openings.iter().map(|of| of.selection_id).collect();
    let counts: Vec<i64> = openings.iter().map(|of| of.count).collect();
    let times: Vec<OffsetDateTime> = openings.iter().map(|of| of.last_opened_at).collect();
    let add = diesel::sql_query(ADD)
        .bind::<Array<SqlUuid>, _>(ids)
        .bind::<Array<BigInt>, _>(counts)
        .bind::<Array<Timestamptz>, _>(times);
    Prepared(add).execute(tx.conn()).await?;
    Ok(())
}

/// Returns the stored openings of a selection.
pub async fn find(mut conn: &Conn, selection: SelectionId) -> QueryResult<OpeningsView> {
    let of_selection = opening::table.find(selection).select(OpeningsView::as_select());
    Ok(of_selection.first(&mut conn).await.optional()?.unwrap_or_default())
}
