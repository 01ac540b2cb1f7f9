//! Deals that wait: for a rate, or for the ledger.

use ::db::Lookup;
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

use super::schema::{deal, developer};
use crate::domain::DealId;

/// A deal that is sold, and for which no card has a rate.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct UnratedDeal {
    deal_id: DealId,
    agent_user_id: UserId,
    developer_company_id: CompanyId,
    /// Null until it is known.
    developer_name: Option<String>,
    /// What the deal came to when the sale began.
    amount: Money,
    #[serde(with = "time::serde::rfc3339")]
    sold_at: OffsetDateTime,
}

/// What a list of unrated deals may be sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
pub enum UnratedSort {
    SoldAt,
}

impl SortKey for UnratedSort {
    const DEFAULT: &'static str = "SoldAt";
}

/// Which are listed.
#[derive(Debug, Default)]
pub struct UnratedFilter {
    pub agent_user_id: Option<UserId>,
    pub developer_company_id: Option<CompanyId>,
}

type UnratedRow = (DealId, UserId, CompanyId, Option<String>, i64, Currency, OffsetDateTime);

/// One page.
pub async fn unrated(
    conn: Lookup<'_>,
    filter: &UnratedFilter,
    paging: &Paging<UnratedSort>,
) -> QueryResult<Page<UnratedDeal>> {
    let UnratedSort::SoldAt = paging.sort;
    let sorted = found_unrated(filter)
        .select((
            deal::id,
            deal::sale_agent_user_id.assume_not_null(),
            deal::developer_company_id,
            developer::name.nullable(),
            deal::sale_amount.assume_not_null(),
            deal::sale_currency.assume_not_null(),
            deal::sold_at.assume_not_null(),
        ))
        .order((list::by(paging, deal::sold_at), list::by(paging, deal::id)));
    let counted = found_unrated(filter).select(deal::id);
    let Page { items, page, page_size, total_count } =
        list::page::<_, UnratedRow, _, _>(conn, paging, sorted, counted).await?;
    let show = |(deal_id, agent, developer, developer_name, amount_minor, currency, sold_at): UnratedRow| {
        let (agent_user_id, developer_company_id) = (agent, developer);
        let amount = Money { amount_minor, currency };
        UnratedDeal { deal_id, agent_user_id, developer_company_id, developer_name, amount, sold_at }
    };
    Ok(Page { items: items.into_iter().map(show).collect(), page, page_size, total_count })
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

fn found_unrated(filter: &UnratedFilter) -> WithName {
    let named = deal::table.left_join(developer::table.on(developer::id.eq(deal::developer_company_id)));
    let mut found = named.into_boxed().filter(deal::is_unrated).filter(list::planned_anew());
    if let Some(agent) = filter.agent_user_id {
        found = found.filter(deal::sale_agent_user_id.eq(agent));
    }
    if let Some(developer) = filter.developer_company_id {
        found = found.filter(deal::developer_company_id.eq(developer));
    }
    found
}

/// INV-AGT-8: a deal of which nothing is paid, since more is known of it than the ledger has applied.
#[derive(Debug, Serialize, Queryable, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct HeldDeal {
    deal_id: DealId,
    agent_user_id: Option<UserId>,
    /// What the ledger has applied; 0 for nothing.
    applied_row_version: i64,
    /// What another topic has told.
    known_row_version: i64,
    #[serde(with = "time::serde::rfc3339")]
    since: OffsetDateTime,
}

/// What a list of held deals may be sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
pub enum HeldSort {
    Since,
}

impl SortKey for HeldSort {
    const DEFAULT: &'static str = "Since";
}

/// One page, of one agent's or of all.
pub async fn held(
    conn: Lookup<'_>,
    agent: Option<UserId>,
    paging: &Paging<HeldSort>,
) -> QueryResult<Page<HeldDeal>> {
    let HeldSort::Since = paging.sort;
    let sorted = found_held(agent)
        .select((
            deal::id,
            deal::agent_user_id,
            deal::applied_row_version,
            deal::known_row_version,
            deal::held_since.assume_not_null(),
        ))
        .order((list::by(paging, deal::held_since), list::by(paging, deal::id)));
    list::page(conn, paging, sorted, found_held(agent).select(deal::id)).await
}

fn found_held(agent: Option<UserId>) -> deal::BoxedQuery<'static, Pg> {
    let found = deal::table.filter(deal::held_since.is_not_null()).filter(list::planned_anew());
    match agent {
        Some(agent) => found.filter(deal::agent_user_id.eq(agent)).into_boxed(),
        None => found.into_boxed(),
    }
}
