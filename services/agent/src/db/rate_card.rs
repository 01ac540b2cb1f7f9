//! Rate cards.

use ::db::{Conn, Prepared, Tx};
use ::web::{Page, Paging, SortKey};
use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use service::list;
use strum::{EnumString, VariantNames};

use crate::domain::{CardKey, Rate, RateCard, RateCardId, RateCardView};
use crate::schema::{rate, rate_card};

/// Returns the card of exactly this key, with its rates sorted by `ValidFrom`.
///
/// One statement reads both, so that card and rates are from the same version.
pub async fn find(tx: &mut Tx, key: CardKey) -> Result<Option<(RateCard, Vec<Rate>)>, ::db::Error> {
    let card = rate_card::table
        .left_join(rate::table)
        .filter(rate_card::developer_company_id.is_not_distinct_from(key.developer_company_id))
        .filter(rate_card::agency_company_id.is_not_distinct_from(key.agency_company_id))
        .filter(rate_card::agent_user_id.is_not_distinct_from(key.agent_user_id));
    let rows = card.select((RateCard::as_select(), Option::<Rate>::as_select())).order(rate::valid_from);
    let rows: Vec<(RateCard, Option<Rate>)> = Prepared(rows).load(tx.conn()).await?;
    let (mut cards, rates): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
    Ok(cards.pop().map(|card| (card, rates.into_iter().flatten().collect())))
}

/// Stores a card and its rates by compare and swap. Returns false if another change won the race.
pub async fn save(tx: &mut Tx, new: &RateCard, rates: &[Rate]) -> Result<bool, ::db::Error> {
    let written = if new.version == 1 {
        let insert = diesel::insert_into(rate_card::table).values(new).on_conflict_do_nothing();
        Prepared(insert).execute(tx.conn()).await?
    } else {
        let read = rate_card::table.find(new.id).filter(rate_card::version.eq(new.version - 1));
        let update = diesel::update(read).set((
            rate_card::updated_at.eq(new.updated_at),
            rate_card::updated_by_user_id.eq(new.updated_by_user_id),
            rate_card::version.eq(new.version),
        ));
        Prepared(update).execute(tx.conn()).await?
    };
    if written == 0 {
        return Ok(false);
    }
    Prepared(diesel::delete(rate::table.filter(rate::card_id.eq(new.id)))).execute(tx.conn()).await?;
    let rates: Vec<_> = rates
        .iter()
        .map(|new_rate| {
            let from = rate::valid_from.eq(new_rate.valid_from);
            let to = rate::valid_to.eq(new_rate.valid_to);
            (rate::card_id.eq(new.id), from, to, rate::rate_bps.eq(new_rate.rate_bps))
        })
        .collect();
    diesel::insert_into(rate::table).values(rates).execute(tx.conn()).await?;
    Ok(true)
}

/// The sort keys of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
pub enum RateCardSort {
    UpdatedAt,
}

impl SortKey for RateCardSort {
    const DEFAULT: &'static str = "-UpdatedAt";
}

/// The filter of a list. A card must name all given ids.
#[derive(Debug, Default)]
pub struct RateCardFilter {
    pub developer_company_id: Option<CompanyId>,
    pub agency_company_id: Option<CompanyId>,
    pub agent_user_id: Option<UserId>,
}

/// Returns one page of the cards that match the filter.
///
/// One statement reads the cards with their rates, so that each card and its rates are from the
/// same version.
pub async fn list(
    mut conn: &Conn,
    filter: &RateCardFilter,
    paging: &Paging<RateCardSort>,
) -> QueryResult<Page<RateCardView>> {
    let RateCardSort::UpdatedAt = paging.sort;
    let order = (list::order_by(paging, rate_card::updated_at), list::order_by(paging, rate_card::id));
    let sorted = filtered(filter).select(rate_card::id).order(order);
    let counted = filtered(filter).select(rate_card::id);
    let Page { items, page, page_size, total_count } =
        list::page::<_, RateCardId, _, _>(conn, paging, sorted, counted).await?;
    let rows = rate_card::table.left_join(rate::table).filter(rate_card::id.eq_any(items));
    let rows = rows.select((RateCard::as_select(), Option::<Rate>::as_select())).order((
        list::order_by(paging, rate_card::updated_at),
        list::order_by(paging, rate_card::id),
        rate::valid_from,
    ));
    let rows: Vec<(RateCard, Option<Rate>)> = rows.load(&mut conn).await?;
    let cards = rows.chunk_by(|(one, _), (next, _)| one.id == next.id);
    let items = cards.filter_map(|rows| {
        let rates = rows.iter().filter_map(|(_, rate)| rate.clone()).collect();
        rows.first().map(|(card, _)| RateCardView::of(card, rates))
    });
    Ok(Page { items: items.collect(), page, page_size, total_count })
}

fn filtered(filter: &RateCardFilter) -> rate_card::BoxedQuery<'static, Pg> {
    let mut query = rate_card::table.filter(list::custom_plan()).into_boxed();
    if let Some(developer) = filter.developer_company_id {
        query = query.filter(rate_card::developer_company_id.eq(developer));
    }
    if let Some(agency) = filter.agency_company_id {
        query = query.filter(rate_card::agency_company_id.eq(agency));
    }
    if let Some(agent) = filter.agent_user_id {
        query = query.filter(rate_card::agent_user_id.eq(agent));
    }
    query
}
