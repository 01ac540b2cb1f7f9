//! Unassigned sales, and their assignments.

use ::db::{Conn, Prepared, Tx};
use ::web::{Page, Paging};
use auth::{CompanyId, UserId};
use diesel::dsl;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde::Serialize;
use service::list;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::{Currency, Money};

use super::deal_list::UnratedSort;
use crate::domain::{DealId, MissingTerm, PropertyObjectId, SaleAssignment};
use crate::schema::{deal, developer, sale_assignment};

/// Stores the assignment of a sale.
pub async fn insert(tx: &mut Tx, new: &SaleAssignment) -> Result<(), ::db::Error> {
    let insert = diesel::insert_into(sale_assignment::table).values((
        sale_assignment::deal_id.eq(new.deal_id),
        sale_assignment::sale_row_version.eq(new.sale_row_version),
        sale_assignment::agent_user_id.eq(new.agent_user_id),
        sale_assignment::agency_company_id.eq(new.agency_company_id),
        sale_assignment::rate_bps.eq(new.rate_bps),
        sale_assignment::comment.eq(new.comment.expose()),
        sale_assignment::assigned_by_user_id.eq(new.assigned_by_user_id),
        sale_assignment::assigned_at.eq(new.assigned_at),
    ));
    Prepared(insert).execute(tx.conn()).await?;
    Ok(())
}

/// An active sale without an accrual, because it has no agent or no rate.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct UnassignedSale {
    deal_id: DealId,
    /// `RowVersion` of the deal when the sale began.
    sale_row_version: i64,
    missing: MissingTerm,
    /// Agent of the sale; null if `Missing` is `Agent`.
    agent_user_id: Option<UserId>,
    /// Agent whom the deal names now.
    deal_agent_user_id: Option<UserId>,
    property_object_id: PropertyObjectId,
    developer_company_id: CompanyId,
    /// Null until the name is known.
    developer_name: Option<String>,
    /// Amount of the deal when the sale began.
    amount: Money,
    /// Time at which the sale began, in UTC.
    #[serde(with = "time::serde::rfc3339")]
    sold_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    completed_at: Option<OffsetDateTime>,
}

/// The columns of an unassigned sale.
#[derive(Queryable)]
struct Row {
    deal_id: DealId,
    sale_row_version: i64,
    agent_user_id: Option<UserId>,
    deal_agent_user_id: Option<UserId>,
    property_object_id: PropertyObjectId,
    developer_company_id: CompanyId,
    developer_name: Option<String>,
    amount_minor: i64,
    currency: Currency,
    sold_at: OffsetDateTime,
    completed_at: Option<OffsetDateTime>,
}

impl From<Row> for UnassignedSale {
    fn from(row: Row) -> Self {
        Self {
            deal_id: row.deal_id,
            sale_row_version: row.sale_row_version,
            missing: if row.agent_user_id.is_none() { MissingTerm::Agent } else { MissingTerm::Rate },
            agent_user_id: row.agent_user_id,
            deal_agent_user_id: row.deal_agent_user_id,
            property_object_id: row.property_object_id,
            developer_company_id: row.developer_company_id,
            developer_name: row.developer_name,
            amount: Money { amount_minor: row.amount_minor, currency: row.currency },
            sold_at: row.sold_at,
            completed_at: row.completed_at,
        }
    }
}

/// The filter of unassigned sales.
#[derive(Debug, Default)]
pub struct UnassignedFilter {
    pub missing: Option<MissingTerm>,
    /// The agent of the sale.
    pub agent_user_id: Option<UserId>,
    pub developer_company_id: Option<CompanyId>,
}

/// Returns one page of unassigned sales.
pub async fn list_unassigned(
    conn: &Conn,
    filter: &UnassignedFilter,
    paging: &Paging<UnratedSort>,
) -> QueryResult<Page<UnassignedSale>> {
    let UnratedSort::SoldAt = paging.sort;
    let sorted = filtered(filter)
        .select((
            deal::id,
            deal::sale_row_version.assume_not_null(),
            deal::sale_agent_user_id,
            deal::agent_user_id,
            deal::property_object_id,
            deal::developer_company_id,
            developer::name.nullable(),
            deal::sale_amount.assume_not_null(),
            deal::sale_currency.assume_not_null(),
            deal::sold_at.assume_not_null(),
            deal::completed_at,
        ))
        .order((list::order_by(paging, deal::sold_at), list::order_by(paging, deal::id)));
    let counted = filtered(filter).select(deal::id);
    let Page { items, page, page_size, total_count } =
        list::page::<_, Row, _, _>(conn, paging, sorted, counted).await?;
    let items = items.into_iter().map(UnassignedSale::from).collect();
    Ok(Page { items, page, page_size, total_count })
}

type WithName = dsl::IntoBoxed<
    'static,
    dsl::LeftJoinOn<deal::table, developer::table, dsl::Eq<developer::id, deal::developer_company_id>>,
    Pg,
>;

fn filtered(filter: &UnassignedFilter) -> WithName {
    let named = deal::table.left_join(developer::table.on(developer::id.eq(deal::developer_company_id)));
    let mut query = named.into_boxed().filter(list::custom_plan());
    let without_agent = deal::sold_at.is_not_null().and(deal::sale_agent_user_id.is_null());
    // Each condition implies the condition of a partial index, so the planner can use the index. An
    // unassigned sale that has an agent lacks a rate, so a filter by agent needs only `is_unrated`.
    query = match filter.missing {
        Some(MissingTerm::Agent) => query.filter(without_agent),
        Some(MissingTerm::Rate) => query.filter(deal::is_unrated),
        None if filter.agent_user_id.is_some() => query.filter(deal::is_unrated),
        None => query.filter(deal::is_unrated.or(without_agent)),
    };
    if let Some(agent) = filter.agent_user_id {
        query = query.filter(deal::sale_agent_user_id.eq(agent));
    }
    if let Some(developer) = filter.developer_company_id {
        query = query.filter(deal::developer_company_id.eq(developer));
    }
    query
}
