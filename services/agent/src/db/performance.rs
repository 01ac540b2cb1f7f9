//! What an agent has done in a period: three statements, each through its index.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ::db::Lookup;
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

use crate::domain::{CycleDays, Period, Sum, conversion, mean_days};

/// Of the deals that were created in the period, by what they are in now.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct DealsByStatus {
    application: i64,
    booking: i64,
    sale: i64,
    completed: i64,
    cancelled: i64,
}

/// A month, as far as the period covers it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Month {
    #[schema(pattern = r"^\d{4}-\d{2}$", examples("2026-05"))]
    month: String,
    deals_created: i64,
    sales_count: i64,
    /// By currency.
    sales_volume: Vec<Sum>,
    /// In Cancelled now, and cancelled then.
    deals_cancelled: i64,
}

/// The sales of one developer's objects.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct SoldOfDeveloper {
    developer_company_id: CompanyId,
    /// Null until it is known.
    name: Option<String>,
    sales_count: i64,
    /// By currency.
    sales_volume: Vec<Sum>,
}

/// What an agent has done in a period.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Performance {
    #[serde(with = "time::serde::rfc3339")]
    from: OffsetDateTime,
    /// Exclusive.
    #[serde(with = "time::serde::rfc3339")]
    to: OffsetDateTime,
    /// Deals that were created in the period.
    deals_total: i64,
    deals_by_status: DealsByStatus,
    /// The share of them that is in Sale or Completed now.
    #[schema(minimum = 0, maximum = 10000)]
    conversion_bps: Option<i64>,
    /// Deals in Sale or Completed now whose sale began in the period.
    sales_count: i64,
    /// By currency.
    sales_volume: Vec<Sum>,
    /// From creation to sale, in days of 86,400 s.
    #[schema(value_type = Option<f64>)]
    mean_cycle_days: Option<CycleDays>,
    /// Oldest first.
    monthly: Vec<Month>,
    /// Most sales first; fifty of them at most.
    #[schema(max_items = 50)]
    developers: Vec<SoldOfDeveloper>,
}

#[derive(QueryableByName)]
struct Created {
    #[diesel(sql_type = Integer)]
    month: i32,
    #[diesel(sql_type = Text)]
    status: String,
    #[diesel(sql_type = BigInt)]
    deals: i64,
}

#[derive(QueryableByName)]
struct Cancelled {
    #[diesel(sql_type = Integer)]
    month: i32,
    #[diesel(sql_type = BigInt)]
    deals: i64,
}

/// Sales of a month, or of a developer, in one currency.
#[derive(QueryableByName)]
struct Sold {
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
    cycles: i64,
    #[diesel(sql_type = Nullable<Text>)]
    cycle: Option<String>,
}

/// Month by month, each a range of an index: which costs half of what finding the month of each deal does.
const CREATED: &str = "\
    select number::integer as month, status, deals \
    from unnest($2::timestamptz[], $3::timestamptz[]) with ordinality as month (since, until, number), \
    lateral ( \
        select status, count(*) as deals from deal \
        where agent_user_id = $1 and created_at >= since and created_at < until group by status \
    ) as created";

const CANCELLED: &str = "\
    select number::integer as month, deals \
    from unnest($2::timestamptz[], $3::timestamptz[]) with ordinality as month (since, until, number), \
    lateral ( \
        select count(*) as deals from deal \
        where agent_user_id = $1 and cancelled_at >= since and cancelled_at < until \
    ) as cancelled";

/// Sales are read once, and summed up twice.
const SOLD: &str = "\
    with in_month as materialized ( \
        select number::integer as month, sale.* \
        from unnest($2::timestamptz[], $3::timestamptz[]) with ordinality as month (since, until, number), \
        lateral ( \
            select developer_company_id, currency, count(*) as deals, sum(amount) as volume, count(cycle) as cycles, \
                sum(cycle) as cycle \
            from deal where agent_user_id = $1 and sold_at >= since and sold_at < until and status in ('Sale', 'Completed') \
            group by developer_company_id, currency \
        ) as sale \
    ), sold as materialized ( \
        select month, developer_company_id, currency, grouping(month) = 0 as is_of_month, sum(deals)::bigint as deals, \
            sum(volume)::text as volume, sum(cycles)::bigint as cycles, sum(cycle)::text as cycle \
        from in_month group by grouping sets ((month, currency), (developer_company_id, currency)) \
    ), first as ( \
        select developer_company_id from sold where not is_of_month group by developer_company_id \
        order by sum(deals) desc, developer_company_id limit 50 \
    ) \
    select month, developer_company_id, null as name, currency, deals, volume, cycles, cycle \
    from sold where is_of_month \
    union all \
    select null, first.developer_company_id, developer.name, currency, deals, volume, cycles, cycle \
    from first join sold on sold.developer_company_id = first.developer_company_id and not is_of_month \
    left join developer on developer.id = first.developer_company_id";

/// What is asked for is planned for the agent and the period that it is asked for.
pub async fn read(conn: Lookup<'_>, agent: UserId, period: Period) -> QueryResult<Performance> {
    let months = period.months();
    let ask = |sql: &str| ask(sql, agent, period, &months);
    let (mut first, mut second, mut third) = (conn, conn, conn);
    let (created, sold, cancelled) = try_join3(
        ask(CREATED).load::<Created>(&mut first),
        ask(SOLD).load::<Sold>(&mut second),
        ask(CANCELLED).load::<Cancelled>(&mut third),
    )
    .await?;
    let mut told = Told::new(&months);
    for created in &created {
        told.created(created);
    }
    for sold in &sold {
        told.sold(sold)?;
    }
    for cancelled in &cancelled {
        told.cancelled(cancelled);
    }
    Ok(told.finish(period))
}

fn ask(
    sql: &str,
    agent: UserId,
    period: Period,
    months: &[OffsetDateTime],
) -> BoxedSqlQuery<'static, Pg, SqlQuery> {
    let since: Vec<_> = months.iter().map(|start| period.from.max(*start)).collect();
    let until: Vec<_> = months.iter().skip(1).copied().chain([period.to]).collect();
    diesel::sql_query(sql)
        .into_boxed()
        .bind::<SqlUuid, _>(agent)
        .bind::<Array<Timestamptz>, _>(since)
        .bind::<Array<Timestamptz>, _>(until)
}

/// Sales and what they come to.
#[derive(Default)]
struct Sales {
    deals: i64,
    volume: BTreeMap<Currency, i128>,
}

impl Sales {
    fn count(&mut self, sold: &Sold, volume: i128) {
        self.deals += sold.deals;
        *self.volume.entry(sold.currency).or_default() += volume;
    }

    fn into_volume(self) -> Vec<Sum> {
        let sum = |(currency, amount_minor)| Sum { amount_minor, currency };
        self.volume.into_iter().map(sum).collect()
    }
}

#[derive(Default)]
struct InMonth {
    name: String,
    created: i64,
    sales: Sales,
    cancelled: i64,
}

struct Told {
    by_status: DealsByStatus,
    deals: i64,
    months: Vec<InMonth>,
    sales: Sales,
    cycles: i64,
    cycle: i128,
    developers: BTreeMap<CompanyId, (Option<String>, Sales)>,
}

impl Told {
    fn new(months: &[OffsetDateTime]) -> Self {
        let named = |month: &OffsetDateTime| InMonth {
            name: format!("{:04}-{:02}", month.year(), u8::from(month.month())),
            ..InMonth::default()
        };
        Self {
            by_status: DealsByStatus::default(),
            deals: 0,
            months: months.iter().map(named).collect(),
            sales: Sales::default(),
            cycles: 0,
            cycle: 0,
            developers: BTreeMap::new(),
        }
    }

    /// Months are counted from one.
    fn month(&mut self, month: i32) -> Option<&mut InMonth> {
        usize::try_from(month - 1).ok().and_then(|at| self.months.get_mut(at))
    }

    fn created(&mut self, created: &Created) {
        self.deals += created.deals;
        match created.status.as_str() {
            "Application" => self.by_status.application += created.deals,
            "Booking" => self.by_status.booking += created.deals,
            "Sale" => self.by_status.sale += created.deals,
            "Completed" => self.by_status.completed += created.deals,
            "Cancelled" => self.by_status.cancelled += created.deals,
            // One that is not known here.
            _ => {}
        }
        if let Some(month) = self.month(created.month) {
            month.created += created.deals;
        }
    }

    fn sold(&mut self, sold: &Sold) -> QueryResult<()> {
        let volume = number(&sold.volume)?;
        if let Some(month) = sold.month.and_then(|month| self.month(month)) {
            month.sales.count(sold, volume);
            self.sales.count(sold, volume);
            self.cycles += sold.cycles;
            self.cycle += sold.cycle.as_deref().map_or(Ok(0), number)?;
        } else if let Some(id) = sold.developer_company_id {
            let (name, sales) = self.developers.entry(id).or_default();
            name.clone_from(&sold.name);
            sales.count(sold, volume);
        }
        Ok(())
    }

    fn cancelled(&mut self, cancelled: &Cancelled) {
        if let Some(month) = self.month(cancelled.month) {
            month.cancelled += cancelled.deals;
        }
    }

    fn finish(self, period: Period) -> Performance {
        let month = |month: InMonth| Month {
            month: month.name,
            deals_created: month.created,
            sales_count: month.sales.deals,
            sales_volume: month.sales.into_volume(),
            deals_cancelled: month.cancelled,
        };
        let developer = |(developer_company_id, (name, sales)): (CompanyId, (Option<String>, Sales))| {
            let sales_count = sales.deals;
            SoldOfDeveloper { developer_company_id, name, sales_count, sales_volume: sales.into_volume() }
        };
        let mut developers: Vec<_> = self.developers.into_iter().map(developer).collect();
        // They are in order of their ids, and stay so where they have sold as much.
        developers.sort_by_key(|developer| Reverse(developer.sales_count));
        Performance {
            from: period.from,
            to: period.to,
            deals_total: self.deals,
            conversion_bps: conversion(self.by_status.sale + self.by_status.completed, self.deals),
            deals_by_status: self.by_status,
            sales_count: self.sales.deals,
            sales_volume: self.sales.into_volume(),
            mean_cycle_days: mean_days(self.cycle, self.cycles),
            monthly: self.months.into_iter().map(month).collect(),
            developers,
        }
    }
}

/// A sum that may be more than 64 bits hold.
fn number(text: &str) -> QueryResult<i128> {
    text.parse().map_err(|error| diesel::result::Error::DeserializationError(Box::new(error)))
}
