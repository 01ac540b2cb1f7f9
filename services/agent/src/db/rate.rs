//! Which rate a sale has.

use ::db::{Cached, Tx};
use auth::{CompanyId, UserId};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Integer, Nullable, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use time::OffsetDateTime;
use time::macros::datetime;
use uuid::Uuid;
use values::BasisPoints;

use crate::domain::DealId;

/// The first card that has a rate then, for what is `asked`: `agent` and `developer` by name, `agency` by whose terms
/// that agent is paid, and when.
const BEST: &str = "\
    select rate.rate_bps from rate_card as card join rate on rate.card_id = card.id \
    where rate.valid_from <= asked.at and (rate.valid_to > asked.at or rate.valid_to is null) \
        and (card.developer_company_id = asked.developer or card.developer_company_id is null) \
        and (card.agent_user_id = asked.agent or card.agency_company_id = terms.agency_company_id \
            or card.developer_company_id = asked.developer \
                and card.agent_user_id is null and card.agency_company_id is null) \
    order by card.agent_user_id is null, card.agency_company_id is null, card.developer_company_id is null \
    limit 1";

/// Before any sale.
const BEFORE_ALL: OffsetDateTime = datetime!(-1000-01-01 00:00 UTC);

#[derive(QueryableByName)]
struct Best {
    #[diesel(sql_type = Integer)]
    rate_bps: i32,
}

/// That of a sale which began `at`.
pub async fn find(
    tx: &Tx,
    agent: UserId,
    developer: CompanyId,
    at: OffsetDateTime,
) -> Result<Option<BasisPoints>, ::db::Error> {
    let find = diesel::sql_query(format!(
        "select best.rate_bps from (select $1 as agent, $2 as developer, $3 as at) as asked \
         left join agent as terms on terms.user_id = asked.agent cross join lateral ({BEST}) as best"
    ));
    let find = find.bind::<SqlUuid, _>(agent).bind::<SqlUuid, _>(developer).bind::<Timestamptz, _>(at);
    let best: Option<Best> = Cached(find).get_result(&mut tx.pipeline()).await.optional()?;
    Ok(best.map(|best| BasisPoints(best.rate_bps.unsigned_abs())))
}

/// A sale without a rate, and that which it has now.
#[derive(Clone, Copy, Debug, QueryableByName)]
pub struct Unrated {
    #[diesel(sql_type = SqlUuid)]
    pub deal_id: DealId,
    #[diesel(sql_type = BigInt)]
    pub sale_row_version: i64,
    #[diesel(sql_type = Timestamptz)]
    sold_at: OffsetDateTime,
    #[diesel(sql_type = Nullable<Integer>)]
    rate_bps: Option<i32>,
}

impl Unrated {
    pub fn rate(&self) -> Option<BasisPoints> {
        self.rate_bps.map(|rate| BasisPoints(rate.unsigned_abs()))
    }
}

/// Those behind this one, by when they began; from the first.
pub async fn unrated(tx: &mut Tx, behind: Option<&Unrated>, most: i64) -> Result<Vec<Unrated>, ::db::Error> {
    let (sold_at, id) = behind.map_or((BEFORE_ALL, Uuid::nil()), |last| (last.sold_at, last.deal_id.into()));
    let unrated = diesel::sql_query(format!(
        "with asked as materialized ( \
            select id, sale_row_version, sold_at as at, sale_agent_user_id as agent, \
                developer_company_id as developer \
            from deal where is_unrated and (sold_at, id) > ($1, $2) order by sold_at, id limit $3 \
         ) \
         select asked.id as deal_id, asked.sale_row_version, asked.at as sold_at, best.rate_bps from asked \
         left join agent as terms on terms.user_id = asked.agent left join lateral ({BEST}) as best on true \
         order by asked.at, asked.id"
    ));
    let unrated = unrated.bind::<Timestamptz, _>(sold_at).bind::<SqlUuid, _>(id).bind::<BigInt, _>(most);
    Ok(Cached(unrated).load(tx.conn()).await?)
}
