//! The kanban: steps as columns, each with its newest cards and what all of its deals come to.

use ::db::{Cached, Lookup, Tx};
use ::web::CursorPaging;
use auth::CompanyId;
use diesel::deserialize;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::row::NamedRow;
use diesel::sql_types::{Array, BigInt, Bool, Nullable, SmallInt, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::Currency;

use super::deal_view::{BESIDE, DealFilter, DealSummary, FILTERED, SUMMARY};
use crate::domain::{DealId, StepGroup, StepId, StepName};

/// Where a walk through a column stands: at the card that was shown last.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ColumnKey {
    step_id: StepId,
    #[serde(with = "::web::utc")]
    entered_at: OffsetDateTime,
    id: DealId,
}

impl ColumnKey {
    /// Whether it is of this column.
    pub fn is_of(&self, step: StepId) -> bool {
        self.step_id == step
    }
}

/// The cards of a page.
pub type ColumnPaging = CursorPaging<ColumnKey>;

/// What the deals of a column come to in one currency.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Total {
    /// In minor units; of many deals it may be more than 64 bits hold.
    #[schema(value_type = u64)]
    amount_minor: i128,
    #[schema(value_type = String, pattern = "^[A-Z]{3}$", examples("RUB"))]
    currency: Currency,
}

/// A step with its deals.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Column {
    step_id: StepId,
    name: StepName,
    group: StepGroup,
    sort_order: i16,
    is_default: bool,
    #[serde(with = "time::serde::rfc3339::option")]
    archived_at: Option<OffsetDateTime>,
    /// Of the whole column, under the filters.
    total_count: i64,
    /// Of the whole column, under the filters: one for each currency, by its code.
    totals: Vec<Total>,
    /// By when they came into the step, newest first.
    items: Vec<DealSummary>,
    /// For `Cursor` of the next page; `null` at the end.
    next_cursor: Option<String>,
}

/// A developer's deals by their steps.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Board {
    pub tenant_id: CompanyId,
    pub pipeline_version: i64,
    /// The live steps in order; at the end of a group its archived steps while deals stand in them.
    pub columns: Vec<Column>,
}

/// A column, beside one of its cards or none.
#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = BigInt)]
    pipeline_version: i64,
    #[diesel(sql_type = SqlUuid)]
    column_id: StepId,
    #[diesel(sql_type = Text)]
    column_name: StepName,
    #[diesel(sql_type = Text)]
    column_group: StepGroup,
    #[diesel(sql_type = SmallInt)]
    sort_order: i16,
    #[diesel(sql_type = Bool)]
    is_default: bool,
    #[diesel(sql_type = Nullable<Timestamptz>)]
    archived_at: Option<OffsetDateTime>,
    #[diesel(sql_type = BigInt)]
    total_count: i64,
    #[diesel(sql_type = Array<Text>)]
    currencies: Vec<Currency>,
    #[diesel(sql_type = Array<Text>)]
    sums: Vec<String>,
    #[diesel(embed)]
    card: Card,
}

#[derive(QueryableByName)]
struct Changes {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

struct Card(Option<DealSummary>);

impl QueryableByName<Pg> for Card {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> deserialize::Result<Self> {
        let id: Option<DealId> = NamedRow::get::<Nullable<SqlUuid>, _>(row, "id")?;
        Ok(Self(id.map(|_| DealSummary::build(row)).transpose()?))
    }
}

/// What all deals of a column come to.
const KEPT: &str = "\
    select step_id, currency, sum(count) as count, sum(sum) as sum from ( \
        select step_id, currency, count, sum from step_total where step_id in (select id from columns) \
        union all \
        select step_id, currency, count, sum from step_total_change where step_id in (select id from columns) \
    ) as kept group by step_id, currency having sum(count) > 0";

/// One statement, so that all of it is of one moment. Only the deals that pass a filter are counted.
fn statement(filter: &DealFilter) -> String {
    let counted = format!(
        "select step_id, currency, count(*) as count, sum(amount) as sum from deal \
        where deal.tenant_id = $1 and ($3::uuid is null or deal.step_id = $3) and {FILTERED} group by step_id, currency"
    );
    let sums = if filter.is_empty() { KEPT } else { &counted };
    format!(
        "with columns as ( \
            select * from step where tenant_id = $1 and archived_at is null and $3::uuid is null \
            union all \
            select * from step where tenant_id = $1 and archived_at is not null and $3::uuid is null \
                and exists (select from deal where deal.tenant_id = $1 and deal.step_id = step.id) \
            union all \
            select * from step where id = $3 \
        ), \
        sums as ({sums}), \
        totals as ( \
            select step_id, sum(count)::bigint as total_count, array_agg(currency order by currency) as currencies, \
                array_agg(sum::text order by currency) as sums \
            from sums group by step_id \
        ) \
        select (select pipeline_version from developer where id = $1) as pipeline_version, columns.id as column_id, \
            columns.name as column_name, columns.\"group\" as column_group, columns.sort_order, columns.is_default, \
            columns.archived_at, coalesce(totals.total_count, 0) as total_count, \
            coalesce(totals.currencies, '{{}}') as currencies, coalesce(totals.sums, '{{}}') as sums, {SUMMARY} \
        from columns left join totals on totals.step_id = columns.id left join lateral ( \
            select * from deal where deal.tenant_id = $1 and deal.step_id = columns.id and {FILTERED} \
                and ($9::timestamptz is null or (deal.step_entered_at, deal.id) < ($9, $10::uuid)) \
            order by deal.step_entered_at desc, deal.id desc limit $11 \
        ) as deal on true {BESIDE} \
        where $2::text[] is null or columns.\"group\" = any($2) \
        order by array_position(array['Application', 'Booking', 'Contract', 'Completed', 'Cancelled'], columns.\"group\"), \
            columns.archived_at desc nulls first, columns.sort_order, columns.id desc, \
            deal.step_entered_at desc, deal.id desc"
    )
}

/// Which columns are shown.
pub enum Shown {
    /// Of these groups, or all.
    Board(Option<Vec<StepGroup>>),
    One(StepId),
}

/// The columns of a pipeline, with its version: `None` where there are none. `paging` is of each column.
pub async fn columns(
    mut conn: Lookup<'_>,
    tenant: CompanyId,
    shown: Shown,
    filter: &DealFilter,
    paging: &ColumnPaging,
) -> QueryResult<Option<Board>> {
    let words = |groups: Vec<StepGroup>| groups.into_iter().map(<&'static str>::from).collect();
    let (groups, step) = match shown {
        Shown::Board(groups) => (groups.map(words), None),
        Shown::One(step) => (None, Some(step)),
    };
    let statement = filter
        .bind(statement(filter), Some(tenant), groups, step)
        .bind::<Nullable<Timestamptz>, _>(paging.after.map(|after| after.entered_at))
        .bind::<Nullable<SqlUuid>, _>(paging.after.map(|after| after.id))
        .bind::<BigInt, _>(paging.limit());
    let rows: Vec<Row> = statement.load(&mut conn).await?;
    let Some(pipeline_version) = rows.as_slice().first().map(|row| row.pipeline_version) else {
        return Ok(None);
    };
    let mut columns: Vec<Column> = Vec::new();
    for row in rows {
        if columns.last().is_none_or(|column| column.step_id != row.column_id) {
            columns.push(Column {
                step_id: row.column_id,
                name: row.column_name,
                group: row.column_group,
                sort_order: row.sort_order,
                is_default: row.is_default,
                archived_at: row.archived_at,
                total_count: row.total_count,
                totals: totals(row.currencies, &row.sums)?,
                items: Vec::new(),
                next_cursor: None,
            });
        }
        if let (Some(column), Some(card)) = (columns.last_mut(), row.card.0) {
            column.items.push(card);
        }
    }
    for column in &mut columns {
        let step_id = column.step_id;
        let key = |last: &DealSummary| ColumnKey {
            step_id,
            entered_at: last.step_entered_at,
            id: last.card.deal_id,
        };
        let page = paging.page(std::mem::take(&mut column.items), key);
        (column.items, column.next_cursor) = (page.items, page.next_cursor);
    }
    Ok(Some(Board { tenant_id: tenant, pipeline_version, columns }))
}

/// Adds what has changed since to what the deals of steps come to, of so many changes at most. Answers how many there were.
pub async fn add_up(tx: &mut Tx, most: i64) -> Result<i64, ::db::Error> {
    let add_up = diesel::sql_query(
        "with gone as ( \
            delete from step_total_change where id in (select id from step_total_change order by id limit $1) \
            returning step_id, currency, count, sum \
        ), \
        added as ( \
            insert into step_total select step_id, currency, sum(count), sum(sum) from gone group by step_id, currency \
            on conflict (step_id, currency) do update \
            set count = step_total.count + excluded.count, sum = step_total.sum + excluded.sum \
        ) \
        select count(*) as count from gone",
    );
    let Changes { count } = Cached(add_up.bind::<BigInt, _>(most)).get_result(tx.conn()).await?;
    Ok(count)
}

fn totals(currencies: Vec<Currency>, sums: &[String]) -> QueryResult<Vec<Total>> {
    let total = |(currency, sum): (Currency, &String)| {
        let amount_minor =
            sum.parse().map_err(|error| diesel::result::Error::DeserializationError(Box::new(error)))?;
        Ok(Total { amount_minor, currency })
    };
    currencies.into_iter().zip(sums).map(total).collect()
}
