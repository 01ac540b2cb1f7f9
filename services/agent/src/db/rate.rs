//! The rates of sales.

use std::collections::HashMap;

use ::db::{Prepared, Tx};
use auth::{CompanyId, UserId};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Integer, Nullable, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;
use time::macros::datetime;
use uuid::Uuid;
use values::BasisPoints;

use crate::domain::{DealId, SaleRate};

/// Selects the rate of the first card in the order of precedence (RULE-AGT-008).
///
/// The enclosing statement provides `sale` (agent, developer, at) and `terms`, the agent's row in
/// `agent`.
const BEST_RATE_SQL: &str = "\
    select rate.rate_bps, card.updated_by_user_id = sale.agent as is_set_by_agent \
    from rate_card as card join rate on rate.card_id = card.id \
    where rate.valid_from <= sale.at and (rate.valid_to > sale.at or rate.valid_to is null) \
        and (card.developer_company_id = sale.developer or card.developer_company_id is null) \
        and (card.agent_user_id = sale.agent or card.agency_company_id = terms.agency_company_id \
            or card.developer_company_id = sale.developer \
                and card.agent_user_id is null and card.agency_company_id is null) \
    order by card.agent_user_id is null, card.agency_company_id is null, card.developer_company_id is null \
    limit 1";

/// A time before any sale.
const BEFORE_ANY_SALE: OffsetDateTime = datetime!(-1000-01-01 00:00 UTC);

#[derive(QueryableByName)]
struct BestRate {
    #[diesel(sql_type = Integer)]
    rate_bps: i32,
    #[diesel(sql_type = Bool)]
    is_set_by_agent: bool,
}

impl From<BestRate> for SaleRate {
    fn from(BestRate { rate_bps, is_set_by_agent }: BestRate) -> Self {
        Self { share: BasisPoints(rate_bps.unsigned_abs()), is_set_by_agent }
    }
}

/// Returns the rate of a sale that began at `at`.
pub async fn find(
    tx: &Tx,
    agent: UserId,
    developer: CompanyId,
    at: OffsetDateTime,
) -> Result<Option<SaleRate>, ::db::Error> {
    let find = diesel::sql_query(format!(
        "select best.rate_bps, best.is_set_by_agent from (select $1 as agent, $2 as developer, $3 as at) as sale \
         left join agent as terms on terms.user_id = sale.agent cross join lateral ({BEST_RATE_SQL}) as best"
    ));
    let find = find.bind::<SqlUuid, _>(agent).bind::<SqlUuid, _>(developer).bind::<Timestamptz, _>(at);
    let best: Option<BestRate> = Prepared(find).get_result(&mut tx.pipeline()).await.optional()?;
    Ok(best.map(SaleRate::from))
}

/// The beginning of a sale: its agent, its developer and its time.
pub type SaleBeginning = (UserId, CompanyId, OffsetDateTime);

#[derive(QueryableByName)]
struct NumberedRate {
    #[diesel(sql_type = BigInt)]
    number: i64,
    #[diesel(embed)]
    best: BestRate,
}

/// Returns the rates of sales by their beginnings. A sale without a rate is absent.
pub async fn find_all(
    tx: &Tx,
    sales: &[SaleBeginning],
) -> Result<HashMap<SaleBeginning, SaleRate>, ::db::Error> {
    if sales.is_empty() {
        return Ok(HashMap::new());
    }
    let find = diesel::sql_query(format!(
        "select sale.number, best.rate_bps, best.is_set_by_agent \
         from unnest($1, $2, $3) with ordinality as sale (agent, developer, at, number) \
         left join agent as terms on terms.user_id = sale.agent cross join lateral ({BEST_RATE_SQL}) as best"
    ))
    .bind::<Array<SqlUuid>, _>(sales.iter().map(|(agent, _, _)| *agent).collect::<Vec<_>>())
    .bind::<Array<SqlUuid>, _>(sales.iter().map(|(_, developer, _)| *developer).collect::<Vec<_>>())
    .bind::<Array<Timestamptz>, _>(sales.iter().map(|(_, _, at)| *at).collect::<Vec<_>>());
    let found: Vec<NumberedRate> = Prepared(find).load(&mut tx.pipeline()).await?;
    let rate_of = |NumberedRate { number, best }| {
        let sale = usize::try_from(number - 1).ok().and_then(|place| sales.get(place))?;
        Some((*sale, best.into()))
    };
    Ok(found.into_iter().filter_map(rate_of).collect())
}

/// An unrated sale, and the rate that a card has for it now.
#[derive(Clone, Copy, Debug, QueryableByName)]
pub struct UnratedSale {
    #[diesel(sql_type = SqlUuid)]
    pub deal_id: DealId,
    #[diesel(sql_type = BigInt)]
    pub sale_row_version: i64,
    #[diesel(sql_type = Timestamptz)]
    sold_at: OffsetDateTime,
    #[diesel(sql_type = Nullable<Integer>)]
    rate_bps: Option<i32>,
    #[diesel(sql_type = Nullable<Bool>)]
    is_set_by_agent: Option<bool>,
}

impl UnratedSale {
    pub fn rate(&self) -> Option<SaleRate> {
        let (rate, is_set_by_agent) = self.rate_bps.zip(self.is_set_by_agent)?;
        Some(SaleRate { share: BasisPoints(rate.unsigned_abs()), is_set_by_agent })
    }
}

/// Returns up to `limit` unrated sales, oldest first. The page begins behind `after` or, if it is
/// `None`, with the first sale.
pub async fn list_unrated(
    tx: &mut Tx,
    after: Option<&UnratedSale>,
    limit: i64,
) -> Result<Vec<UnratedSale>, ::db::Error> {
    let (sold_at, id) =
        after.map_or((BEFORE_ANY_SALE, Uuid::nil()), |last| (last.sold_at, last.deal_id.into()));
    let unrated = diesel::sql_query(format!(
        "with sale as materialized ( \
            select id, sale_row_version, sold_at as at, sale_agent_user_id as agent, \
                developer_company_id as developer \
            from deal where is_unrated and (sold_at, id) > ($1, $2) order by sold_at, id limit $3 \
         ) \
         select sale.id as deal_id, sale.sale_row_version, sale.at as sold_at, best.rate_bps, best.is_set_by_agent \
         from sale \
         left join agent as terms on terms.user_id = sale.agent \
         left join lateral ({BEST_RATE_SQL}) as best on true order by sale.at, sale.id"
    ));
    let unrated = unrated.bind::<Timestamptz, _>(sold_at).bind::<SqlUuid, _>(id).bind::<BigInt, _>(limit);
    Ok(Prepared(unrated).load(tx.conn()).await?)
}
