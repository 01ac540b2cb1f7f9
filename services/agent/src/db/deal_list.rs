//! Lists of unrated deals and of held deals.

use ::db::Conn;
use ::web::{Page, Paging, SortKey};
use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use service::list;
use strum::{EnumString, VariantNames};
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::{Currency, Money};

use crate::domain::DealId;
use crate::schema::{deal, developer};

/// A sold deal for which no card has a rate.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct UnratedDeal {
    deal_id: DealId,
    agent_user_id: UserId,
    developer_company_id: CompanyId,
    /// Null until the name is known.
    developer_name: Option<String>,
    /// Amount of the deal when the sale began.
    amount: Money,
    /// Time at which the sale began, in UTC.
    #[serde(with = "time::serde::rfc3339")]
    sold_at: OffsetDateTime,
}

/// The sort key of unrated deals and of unassigned sales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
pub enum UnratedSort {
    SoldAt,
}

impl SortKey for UnratedSort {
    const DEFAULT: &'static str = "SoldAt";
}

/// The filter of unrated deals.
#[derive(Debug, Default)]
pub struct UnratedFilter {
    pub agent_user_id: Option<UserId>,
    pub developer_company_id: Option<CompanyId>,
}

type UnratedRow = (DealId, UserId, CompanyId, Option<String>, i64, Currency, OffsetDateTime);

/// Returns one page of unrated deals.
pub async fn list_unrated(
    conn: &Conn,
    filter: &UnratedFilter,
    paging: &Paging<UnratedSort>,
) -> QueryResult<Page<UnratedDeal>> {
    let UnratedSort::SoldAt = paging.sort;
    let sorted = filtered_unrated(filter)
        .select((
            deal::id,
            deal::sale_agent_user_id.assume_not_null(),
            deal::developer_company_id,
            developer::name.nullable(),
            deal::sale_amount.assume_not_null(),
            deal::sale_currency.assume_not_null(),
            deal::sold_at.assume_not_null(),
        ))
        .order((list::order_by(paging, deal::sold_at), list::order_by(paging, deal::id)));
    let counted = filtered_unrated(filter).select(deal::id);
    let Page { items, page, page_size, total_count } =
        list::page::<_, UnratedRow, _, _>(conn, paging, sorted, counted).await?;
    let view = |(deal_id, agent, developer, developer_name, amount_minor, currency, sold_at): UnratedRow| {
        let (agent_user_id, developer_company_id) = (agent, developer);
        let amount = Money { amount_minor, currency };
        UnratedDeal { deal_id, agent_user_id, developer_company_id, developer_name, amount, sold_at }
    };
    Ok(Page { items: items.into_iter().map(view).collect(), page, page_size, total_count })
}

type WithName = diesel::dsl::IntoBoxed<
    'static,
    diesel::dsl::LeftJoinOn<
        deal::table,
        developer::table,
        diesel::dsl::Eq<developer::id, deal::developer_company_id>,
    >,
    Pg,
>;

fn filtered_unrated(filter: &UnratedFilter) -> WithName {
    let named = deal::table.left_join(developer::table.on(developer::id.eq(deal::developer_company_id)));
    let mut query = named.into_boxed().filter(deal::is_unrated).filter(list::custom_plan());
    if let Some(agent) = filter.agent_user_id {
        query = query.filter(deal::sale_agent_user_id.eq(agent));
    }
    if let Some(developer) = filter.developer_company_id {
        query = query.filter(deal::developer_company_id.eq(developer));
    }
    query
}

/// A deal with a newer version than the ledger has applied. Its accruals enter no payout.
#[derive(Debug, Serialize, Queryable, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct HeldDeal {
    deal_id: DealId,
    /// Agent of the deal.
    agent_user_id: Option<UserId>,
    /// Agent of the active sale, who earns its commission.
    commission_agent_user_id: Option<UserId>,
    /// Version that the ledger has applied; 0 for none.
    applied_row_version: i64,
    /// Highest version that any topic has sent.
    known_row_version: i64,
    /// Time when the ledger fell behind.
    #[serde(with = "time::serde::rfc3339")]
    since: OffsetDateTime,
}

/// The sort key of held deals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
pub enum HeldSort {
    Since,
}

impl SortKey for HeldSort {
    const DEFAULT: &'static str = "Since";
}

/// Returns one page of the held deals of all agents, or of one.
pub async fn list_held(
    conn: &Conn,
    agent: Option<UserId>,
    paging: &Paging<HeldSort>,
) -> QueryResult<Page<HeldDeal>> {
    let HeldSort::Since = paging.sort;
    let sorted = filtered_held(agent)
        .select((
            deal::id,
            deal::counted_agent_user_id,
            deal::commission_agent_user_id,
            deal::applied_row_version,
            deal::known_row_version,
            deal::held_since.assume_not_null(),
        ))
        .order((list::order_by(paging, deal::held_since), list::order_by(paging, deal::id)));
    list::page(conn, paging, sorted, filtered_held(agent).select(deal::id)).await
}

fn filtered_held(agent: Option<UserId>) -> deal::BoxedQuery<'static, Pg> {
    let held = deal::table.filter(deal::held_since.is_not_null()).filter(list::custom_plan());
    match agent {
        Some(agent) => {
            let is_counted = deal::counted_agent_user_id.eq(agent);
            held.filter(is_counted.or(deal::commission_agent_user_id.eq(agent))).into_boxed()
        }
        None => held.into_boxed(),
    }
}
