//! Cards of rates.

use ::db::{Cached, Lookup, Tx};
use ::web::{Page, Paging, SortKey};
use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use service::list;
use strum::{EnumString, VariantNames};

use super::schema::{rate, rate_card};
use crate::domain::{CardKey, Rate, RateCard, RateCardId, RateCardShown};

/// The card of exactly these three, with its rates by `ValidFrom`: in one statement, so that both are of one version.
pub async fn find(tx: &mut Tx, key: CardKey) -> Result<Option<(RateCard, Vec<Rate>)>, ::db::Error> {
    let of_these = rate_card::table
        .left_join(rate::table)
        .filter(rate_card::developer_company_id.is_not_distinct_from(key.developer_company_id))
        .filter(rate_card::agency_company_id.is_not_distinct_from(key.agency_company_id))
        .filter(rate_card::agent_user_id.is_not_distinct_from(key.agent_user_id));
    let lines = of_these.select((RateCard::as_select(), Option::<Rate>::as_select())).order(rate::valid_from);
    let lines: Vec<(RateCard, Option<Rate>)> = Cached(lines).load(tx.conn()).await?;
    let (mut cards, rates): (Vec<_>, Vec<_>) = lines.into_iter().unzip();
    Ok(cards.pop().map(|card| (card, rates.into_iter().flatten().collect())))
}

/// Writes a card, of which the version before was read, and its rates. `false`: somebody else was first.
pub async fn save(tx: &mut Tx, new: &RateCard, rates: &[Rate]) -> Result<bool, ::db::Error> {
    let written = if new.version == 1 {
        let insert = diesel::insert_into(rate_card::table).values(new).on_conflict_do_nothing();
        Cached(insert).execute(tx.conn()).await?
    } else {
        let read = rate_card::table.find(new.id).filter(rate_card::version.eq(new.version - 1));
        let update = diesel::update(read).set((
            rate_card::updated_at.eq(new.updated_at),
            rate_card::updated_by_user_id.eq(new.updated_by_user_id),
            rate_card::version.eq(new.version),
        ));
        Cached(update).execute(tx.conn()).await?
    };
    if written == 0 {
        return Ok(false);
    }
    Cached(diesel::delete(rate::table.filter(rate::card_id.eq(new.id)))).execute(tx.conn()).await?;
    let rates: Vec<_> = rates
        .iter()
        .map(|of| {
            let (from, to) = (rate::valid_from.eq(of.valid_from), rate::valid_to.eq(of.valid_to));
            (rate::card_id.eq(new.id), from, to, rate::rate_bps.eq(of.rate_bps))
        })
        .collect();
    diesel::insert_into(rate::table).values(rates).execute(tx.conn()).await?;
    Ok(true)
}

/// What a list may be sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
pub enum RateCardSort {
    UpdatedAt,
}

impl SortKey for RateCardSort {
    const DEFAULT: &'static str = "-UpdatedAt";
}

/// Which cards are listed: those that name these.
#[derive(Debug, Default)]
pub struct RateCardFilter {
    pub developer_company_id: Option<CompanyId>,
    pub agency_company_id: Option<CompanyId>,
    pub agent_user_id: Option<UserId>,
}

/// One page. Of cards that are shown each is read with its rates in one statement, so that both are of one version.
pub async fn list(
    mut conn: Lookup<'_>,
    filter: &RateCardFilter,
    paging: &Paging<RateCardSort>,
) -> QueryResult<Page<RateCardShown>> {
    let RateCardSort::UpdatedAt = paging.sort;
    let order = (list::by(paging, rate_card::updated_at), list::by(paging, rate_card::id));
    let sorted = found(filter).select(rate_card::id).order(order);
    let counted = found(filter).select(rate_card::id);
    let Page { items, page, page_size, total_count } =
        list::page::<_, RateCardId, _, _>(conn, paging, sorted, counted).await?;
    let shown = rate_card::table.left_join(rate::table).filter(rate_card::id.eq_any(items));
    let shown = shown.select((RateCard::as_select(), Option::<Rate>::as_select())).order((
        list::by(paging, rate_card::updated_at),
        list::by(paging, rate_card::id),
        rate::valid_from,
    ));
    let lines: Vec<(RateCard, Option<Rate>)> = shown.load(&mut conn).await?;
    let cards = lines.chunk_by(|(one, _), (next, _)| one.id == next.id);
    let items = cards.filter_map(|lines| {
        let rates = lines.iter().filter_map(|(_, rate)| rate.clone()).collect();
        lines.first().map(|(card, _)| RateCardShown::of(card, rates))
    });
    Ok(Page { items: items.collect(), page, page_size, total_count })
}

fn found(filter: &RateCardFilter) -> rate_card::BoxedQuery<'static, Pg> {
    let mut found = rate_card::table.filter(list::planned_anew()).into_boxed();
    if let Some(developer) = filter.developer_company_id {
        found = found.filter(rate_card::developer_company_id.eq(developer));
    }
    if let Some(agency) = filter.agency_company_id {
        found = found.filter(rate_card::agency_company_id.eq(agency));
    }
    if let Some(agent) = filter.agent_user_id {
        found = found.filter(rate_card::agent_user_id.eq(agent));
    }
    found
}
