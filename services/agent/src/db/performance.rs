//! An agent's performance in a period, read by three statements that each use an index.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ::db::Conn;
use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::sql_types::{Array, BigInt, Integer, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use futures_util::future::try_join3;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::Currency;

use crate::domain::{CalendarMonth, CountBy, CycleDays, Period, Sum, conversion_bps, mean_cycle_days};

/// Deals that were created in the period, by their current status.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct DealsByStatus {
    /// Number of applications.
    application: i64,
    /// Number of booked deals.
    booking: i64,
    /// Number of sales that are not completed.
    sale: i64,
    /// Number of completed deals.
    completed: i64,
    /// Number of cancelled deals.
    cancelled: i64,
}

/// The figures of the part of a month that lies in the period.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Month {
    /// The month, such as `2026-05`.
    #[schema(pattern = r"^\d{4}-\d{2}$", examples("2026-05"))]
    month: String,
    /// Number of deals that the agent created.
    deals_created: i64,
    sales_count: i64,
    /// Sums by currency.
    sales_volume: Vec<Sum>,
    /// Deals that are Cancelled now and were cancelled in this month.
    deals_cancelled: i64,
}

/// The sales of one developer's objects.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
#[schema(as = SoldOfDeveloper)]
pub struct DeveloperSales {
    developer_company_id: CompanyId,
    /// Null until the name is known.
    name: Option<String>,
    sales_count: i64,
    /// Sums by currency.
    sales_volume: Vec<Sum>,
}

/// The statistics of an agent in a period.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Performance {
    /// Start of the period, which is included.
    #[serde(with = "time::serde::rfc3339")]
    from: OffsetDateTime,
    /// Exclusive.
    #[serde(with = "time::serde::rfc3339")]
    to: OffsetDateTime,
    /// Deals that were created in the period.
    deals_total: i64,
    /// Number of deals by their current status.
    deals_by_status: DealsByStatus,
    /// Share of the created deals that are in Sale or Completed now, in basis points; null without
    /// deals.
    #[schema(minimum = 0, maximum = 10000)]
    conversion_bps: Option<i64>,
    /// Deals in Sale or Completed now whose sale began in the period.
    sales_count: i64,
    /// Sums by currency.
    sales_volume: Vec<Sum>,
    /// Mean time from creation to sale of these sales, in days of 86,400 s; null if it is unknown.
    #[schema(value_type = Option<f64>)]
    mean_cycle_days: Option<CycleDays>,
    /// Months that the period touches, oldest first.
    monthly: Vec<Month>,
    /// Developers with the most sales first, at most 50.
    #[schema(max_items = 50)]
    developers: Vec<DeveloperSales>,
}

#[derive(QueryableByName)]
struct CreatedRow {
    #[diesel(sql_type = Integer)]
    month: i32,
    #[diesel(sql_type = Text)]
    status: String,
    #[diesel(sql_type = BigInt)]
    deals: i64,
}

#[derive(QueryableByName)]
struct CancelledRow {
    #[diesel(sql_type = Integer)]
    month: i32,
    #[diesel(sql_type = BigInt)]
    deals: i64,
}

/// Sales of a month, or of a developer, in one currency.
#[derive(QueryableByName)]
struct SalesRow {
    #[diesel(sql_type = Nullable<Integer>)]
    month: Option<i32>,
    #[diesel(sql_type = Nullable<SqlUuid>)]
    developer_company_id: Option<CompanyId>,
    #[diesel(sql_type = Nullable<Text>)]
    name: Option<String>,
    #[diesel(sql_type = Text)]
    currency: Currency,
    #[diesel(sql_type = BigInt)]
    deals: i64,
    #[diesel(sql_type = Text)]
    volume: String,
    #[diesel(sql_type = BigInt)]
    cycle_count: i64,
    #[diesel(sql_type = Nullable<Text>)]
    cycle_sum: Option<String>,
}

/// Counts created deals by month and status. `{agent}` is the column of the agent.
///
/// Each month is a range of an index, which costs less than computing the month of each deal.
const CREATED_SQL: &str = "\
    select number::integer as month, status, deals \
    from unnest($2::timestamptz[], $3::timestamptz[]) with ordinality as month (since, until, number), \
    lateral ( \
        select status, count(*) as deals from deal \
        where {agent} = $1 and created_at >= since and created_at < until group by status \
    ) as created";

const CANCELLED_SQL: &str = "\
    select number::integer as month, deals \
    from unnest($2::timestamptz[], $3::timestamptz[]) with ordinality as month (since, until, number), \
    lateral ( \
        select count(*) as deals from deal \
        where {agent} = $1 and cancelled_at >= since and cancelled_at < until \
    ) as cancelled";

/// Sums sales by month and by developer.
///
/// Both sums use one scan, so that they always agree.
const SALES_SQL: &str = "\
    with in_month as materialized ( \
        select number::integer as month, sale.* \
        from unnest($2::timestamptz[], $3::timestamptz[]) with ordinality as month (since, until, number), \
        lateral ( \
            select developer_company_id, currency, count(*) as deals, sum(amount) as volume, count(cycle) as cycle_count, \
                sum(cycle) as cycle_sum \
            from deal where {agent} = $1 and sold_at >= since and sold_at < until and status in ('Sale', 'Completed') \
            group by developer_company_id, currency \
        ) as sale \
    ), sold as materialized ( \
        select month, developer_company_id, currency, grouping(month) = 0 as is_of_month, sum(deals)::bigint as deals, \
            sum(volume)::text as volume, sum(cycle_count)::bigint as cycle_count, sum(cycle_sum)::text as cycle_sum \
        from in_month group by grouping sets ((month, currency), (developer_company_id, currency)) \
    ), first as ( \
        select developer_company_id from sold where not is_of_month group by developer_company_id \
        order by sum(deals) desc, developer_company_id limit 50 \
    ) \
    select month, developer_company_id, null as name, currency, deals, volume, cycle_count, cycle_sum \
    from sold where is_of_month \
    union all \
    select null, first.developer_company_id, developer.name, currency, deals, volume, cycle_count, cycle_sum \
    from first join sold on sold.developer_company_id = first.developer_company_id and not is_of_month \
    left join developer on developer.id = first.developer_company_id";

/// Reads the performance of an agent. `count_by` selects the column that names the agent of a deal.
///
/// The statements are not cached, because their plans depend on the agent and the period.
pub async fn read(
    conn: &Conn,
    agent: UserId,
    count_by: CountBy,
    period: &Period,
) -> QueryResult<Performance> {
    let months = period.months();
    let column = match count_by {
        CountBy::DealAgent => "counted_agent_user_id",
        CountBy::CommissionAgent => "commission_agent_user_id",
    };
    let query = |sql: &str| query(&sql.replace("{agent}", column), agent, period, &months);
    let (mut first, mut second, mut third) = (conn, conn, conn);
    let (created, sales, cancelled) = try_join3(
        query(CREATED_SQL).load::<CreatedRow>(&mut first),
        query(SALES_SQL).load::<SalesRow>(&mut second),
        query(CANCELLED_SQL).load::<CancelledRow>(&mut third),
    )
    .await?;
    let mut builder = PerformanceBuilder::new(&months);
    for row in &created {
        builder.add_created(row);
    }
    for row in &sales {
        builder.add_sales(row)?;
    }
    for row in &cancelled {
        builder.add_cancelled(row);
    }
    Ok(builder.build(period))
}

fn query(
    sql: &str,
    agent: UserId,
    period: &Period,
    months: &[CalendarMonth],
) -> BoxedSqlQuery<'static, Pg, SqlQuery> {
    let since: Vec<_> = months.iter().map(|month| period.from.max(month.start)).collect();
    let until: Vec<_> = months.iter().skip(1).map(|month| month.start).chain([period.to]).collect();
    diesel::sql_query(sql)
        .into_boxed()
        .bind::<SqlUuid, _>(agent)
        .bind::<Array<Timestamptz>, _>(since)
        .bind::<Array<Timestamptz>, _>(until)
}

/// The number of sales, and their sums by currency.
#[derive(Default)]
struct Sales {
    deals: i64,
    volume: BTreeMap<Currency, i128>,
}

impl Sales {
    fn add(&mut self, row: &SalesRow, volume: i128) {
        self.deals += row.deals;
        *self.volume.entry(row.currency).or_default() += volume;
    }

    fn into_volume(self) -> Vec<Sum> {
        let sum = |(currency, amount_minor)| Sum { amount_minor, currency };
        self.volume.into_iter().map(sum).collect()
    }
}

#[derive(Default)]
struct MonthBuilder {
    name: String,
    created: i64,
    sales: Sales,
    cancelled: i64,
}

struct PerformanceBuilder {
    by_status: DealsByStatus,
    deals: i64,
    months: Vec<MonthBuilder>,
    sales: Sales,
    cycle_count: i64,
    /// In microseconds.
    cycle_sum: i128,
    developers: BTreeMap<CompanyId, (Option<String>, Sales)>,
}

impl PerformanceBuilder {
    fn new(months: &[CalendarMonth]) -> Self {
        let named =
            |month: &CalendarMonth| MonthBuilder { name: month.name.clone(), ..MonthBuilder::default() };
        Self {
            by_status: DealsByStatus::default(),
            deals: 0,
            months: months.iter().map(named).collect(),
            sales: Sales::default(),
            cycle_count: 0,
            cycle_sum: 0,
            developers: BTreeMap::new(),
        }
    }

    /// Returns a month by its number, which starts at 1.
    fn month(&mut self, month: i32) -> Option<&mut MonthBuilder> {
        usize::try_from(month - 1).ok().and_then(|at| self.months.get_mut(at))
    }

    fn add_created(&mut self, row: &CreatedRow) {
        self.deals += row.deals;
        match row.status.as_str() {
            "Application" => self.by_status.application += row.deals,
            "Booking" => self.by_status.booking += row.deals,
            "Sale" => self.by_status.sale += row.deals,
            "Completed" => self.by_status.completed += row.deals,
            "Cancelled" => self.by_status.cancelled += row.deals,
            // An unknown status counts in the total alone.
            _ => {}
        }
        if let Some(month) = self.month(row.month) {
            month.created += row.deals;
        }
    }

    fn add_sales(&mut self, row: &SalesRow) -> QueryResult<()> {
        let volume = parse_sum(&row.volume)?;
        if let Some(month) = row.month.and_then(|month| self.month(month)) {
            month.sales.add(row, volume);
            self.sales.add(row, volume);
            self.cycle_count += row.cycle_count;
            self.cycle_sum += row.cycle_sum.as_deref().map_or(Ok(0), parse_sum)?;
        } else if let Some(id) = row.developer_company_id {
            let (name, sales) = self.developers.entry(id).or_default();
            name.clone_from(&row.name);
            sales.add(row, volume);
        }
        Ok(())
    }

    fn add_cancelled(&mut self, row: &CancelledRow) {
        if let Some(month) = self.month(row.month) {
            month.cancelled += row.deals;
        }
    }

    fn build(self, period: &Period) -> Performance {
        let month = |month: MonthBuilder| Month {
            month: month.name,
            deals_created: month.created,
            sales_count: month.sales.deals,
            sales_volume: month.sales.into_volume(),
            deals_cancelled: month.cancelled,
        };
        let developer = |(developer_company_id, (name, sales)): (CompanyId, (Option<String>, Sales))| {
            let sales_count = sales.deals;
            DeveloperSales { developer_company_id, name, sales_count, sales_volume: sales.into_volume() }
        };
        let mut developers: Vec<_> = self.developers.into_iter().map(developer).collect();
        // The sort is stable, so developers with equal sales stay in the order of their ids.
        developers.sort_by_key(|developer| Reverse(developer.sales_count));
        Performance {
            from: period.from,
            to: period.to,
            deals_total: self.deals,
            conversion_bps: conversion_bps(self.by_status.sale + self.by_status.completed, self.deals),
            deals_by_status: self.by_status,
            sales_count: self.sales.deals,
            sales_volume: self.sales.into_volume(),
            mean_cycle_days: mean_cycle_days(self.cycle_sum, self.cycle_count),
            monthly: self.months.into_iter().map(month).collect(),
            developers,
        }
    }
}

/// Parses a sum that may exceed 64 bits.
fn parse_sum(text: &str) -> QueryResult<i128> {
    text.parse().map_err(|error| diesel::result::Error::DeserializationError(Box::new(error)))
}
