//! The board: a column for each step, with its newest deals and the totals of all its deals.

use ::db::{Conn, Prepared, Tx};
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

use super::deal_view::{DealFilter, DealSummary, FILTER, JOINS, SUMMARY_COLUMNS};
use crate::domain::{DealId, StepGroup, StepId, StepName};

/// The content of a column's cursor: the step, and the last deal of the previous page.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ColumnKey {
    step_id: StepId,
    #[serde(with = "::web::utc")]
    entered_at: OffsetDateTime,
    id: DealId,
}

impl ColumnKey {
    /// Returns true if the cursor belongs to this column.
    pub fn is_in(&self, step: StepId) -> bool {
        self.step_id == step
    }
}

/// The requested page of a column.
pub type ColumnPaging = CursorPaging<ColumnKey>;

/// The sum of a column's deals in one currency.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Total {
    /// The exact sum in minor units. It may exceed 64 bits, and JavaScript rounds it above 2^53.
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
    /// Time at which the step was archived, in UTC. `null` for a live step.
    #[serde(with = "time::serde::rfc3339::option")]
    archived_at: Option<OffsetDateTime>,
    /// Exact number of deals in the whole column that match the filters.
    total_count: i64,
    /// Exact sum of these deals for each currency, sorted by the currency's code.
    totals: Vec<Total>,
    /// Sorted by `StepEnteredAt`, newest first.
    items: Vec<DealSummary>,
    /// Send it as `Cursor` of the next page. `null` at the end.
    next_cursor: Option<String>,
}

/// The deals of a developer by step.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Board {
    pub tenant_id: CompanyId,
    /// Version of the pipeline, which grows with each change.
    pub pipeline_version: i64,
    /// The live steps in order. Archived steps that still hold a deal are last in their group.
    pub columns: Vec<Column>,
}

/// A column joined with one of its deals, or with none.
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
    deal: ColumnDeal,
}

#[derive(QueryableByName)]
struct ChangeCount {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

/// The deal of a row, or `None` if the page of the column is empty.
struct ColumnDeal(Option<DealSummary>);

impl QueryableByName<Pg> for ColumnDeal {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> deserialize::Result<Self> {
        let id: Option<DealId> = NamedRow::get::<Nullable<SqlUuid>, _>(row, "id")?;
        Ok(Self(id.map(|_| DealSummary::build(row)).transpose()?))
    }
}

/// Selects the stored sums of the columns plus the changes that are not folded in yet.
const STORED_SUMS: &str = "\
    select step_id, currency, sum(count) as count, sum(sum) as sum from ( \
        select step_id, currency, count, sum from step_total where step_id in (select id from columns) \
        union all \
        select step_id, currency, count, sum from step_total_change where step_id in (select id from columns) \
    ) as stored group by step_id, currency having sum(count) > 0";

/// Builds one statement for the whole board, since one statement sees one snapshot.
///
/// Without a filter the statement reads the stored sums. With a filter it counts the matching
/// deals. The parameters `$1` to `$8` are those of [`DealFilter::bind`], and [`read`] binds the
/// other three.
fn build_statement(filter: &DealFilter) -> String {
    let filtered_sums = format!(
        "select step_id, currency, count(*) as count, sum(amount) as sum from deal \
        where deal.tenant_id = $1 and ($3::uuid is null or deal.step_id = $3) and {FILTER} group by step_id, currency"
    );
    let sums = if filter.is_empty() { STORED_SUMS } else { &filtered_sums };
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
            coalesce(totals.currencies, '{{}}') as currencies, coalesce(totals.sums, '{{}}') as sums, {SUMMARY_COLUMNS} \
        from columns left join totals on totals.step_id = columns.id left join lateral ( \
            select * from deal where deal.tenant_id = $1 and deal.step_id = columns.id and {FILTER} \
                and ($9::timestamptz is null or (deal.step_entered_at, deal.id) < ($9, $10::uuid)) \
            order by deal.step_entered_at desc, deal.id desc limit $11 \
        ) as deal on true {JOINS} \
        where $2::text[] is null or columns.\"group\" = any($2) \
        order by array_position(array['Application', 'Booking', 'Contract', 'Completed', 'Cancelled'], columns.\"group\"), \
            columns.archived_at desc nulls first, columns.sort_order, columns.id desc, \
            deal.step_entered_at desc, deal.id desc"
    )
}

/// The columns that a caller requests.
pub enum RequestedColumns {
    /// The columns of these groups, or all columns.
    Board(Option<Vec<StepGroup>>),
    /// One column, live or archived.
    Column(StepId),
}

/// Reads the columns of a pipeline with its version. Returns `None` if there are no columns.
///
/// `paging` applies to each column.
pub async fn read(
    mut conn: &Conn,
    tenant: CompanyId,
    selected: RequestedColumns,
    filter: &DealFilter,
    paging: &ColumnPaging,
) -> QueryResult<Option<Board>> {
    let names = |groups: Vec<StepGroup>| groups.into_iter().map(<&'static str>::from).collect();
    let (groups, step) = match selected {
        RequestedColumns::Board(groups) => (groups.map(names), None),
        RequestedColumns::Column(step) => (None, Some(step)),
    };
    let statement = filter
        .bind(build_statement(filter), Some(tenant), groups, step)
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
                totals: parse_totals(row.currencies, &row.sums)?,
                items: Vec::new(),
                next_cursor: None,
            });
        }
        if let (Some(column), Some(deal)) = (columns.last_mut(), row.deal.0) {
            column.items.push(deal);
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

/// Folds at most `limit` recorded changes into the stored totals. Returns their number.
pub async fn fold_total_changes(tx: &mut Tx, limit: i64) -> Result<i64, ::db::Error> {
    let fold = diesel::sql_query(
        "with removed as ( \
            delete from step_total_change where id in (select id from step_total_change order by id limit $1) \
            returning step_id, currency, count, sum \
        ), \
        added as ( \
            insert into step_total select step_id, currency, sum(count), sum(sum) from removed \
                group by step_id, currency \
            on conflict (step_id, currency) do update \
            set count = step_total.count + excluded.count, sum = step_total.sum + excluded.sum \
        ) \
        select count(*) as count from removed",
    );
    let ChangeCount { count } = Prepared(fold.bind::<BigInt, _>(limit)).get_result(tx.conn()).await?;
    Ok(count)
}

fn parse_totals(currencies: Vec<Currency>, sums: &[String]) -> QueryResult<Vec<Total>> {
    let total = |(currency, sum): (Currency, &String)| {
        let amount_minor =
            sum.parse().map_err(|error| diesel::result::Error::DeserializationError(Box::new(error)))?;
        Ok(Total { amount_minor, currency })
    };
    currencies.into_iter().zip(sums).map(total).collect()
}
