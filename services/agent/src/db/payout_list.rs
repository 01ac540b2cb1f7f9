//! Lists of payouts.

use ::db::Conn;
use ::web::{Page, Paging, SortKey};
use auth::UserId;
use diesel::pg::Pg;
use diesel::prelude::*;
use service::list::{self, OrderBy};
use strum::{EnumString, VariantNames};
use time::OffsetDateTime;
use values::Currency;

use crate::domain::{Payout, PayoutRunId, PayoutStatus, PayoutView};
use crate::schema::payout;

/// The sort keys of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
pub enum PayoutSort {
    CreatedAt,
    PeriodTo,
    Net,
}

impl SortKey for PayoutSort {
    const DEFAULT: &'static str = "-CreatedAt";
}

/// The filter of a list.
#[derive(Debug, Default)]
pub struct PayoutFilter {
    pub agent_user_id: Option<UserId>,
    pub run_id: Option<PayoutRunId>,
    pub statuses: Option<Vec<PayoutStatus>>,
    /// Only `Scheduled` and `InTransit` payouts.
    pub is_owed: bool,
    pub currency: Option<Currency>,
    pub created_from: Option<OffsetDateTime>,
    /// Exclusive upper bound of `created_at`.
    pub created_to: Option<OffsetDateTime>,
}

/// Returns one page of the payouts that match the filter.
pub async fn list(
    conn: &Conn,
    filter: &PayoutFilter,
    paging: &Paging<PayoutSort>,
) -> QueryResult<Page<PayoutView>> {
    let order: OrderBy<payout::table> = match paging.sort {
        PayoutSort::CreatedAt => list::order_by(paging, payout::created_at),
        PayoutSort::PeriodTo => list::order_by(paging, payout::period_to),
        PayoutSort::Net => list::order_by(paging, payout::net),
    };
    let sorted =
        filtered(filter).select(Payout::as_select()).order((order, list::order_by(paging, payout::id)));
    let counted = filtered(filter).select(payout::id);
    let Page { items, page, page_size, total_count } =
        list::page::<_, Payout, _, _>(conn, paging, sorted, counted).await?;
    let items = items.into_iter().map(PayoutView::from).collect();
    Ok(Page { items, page, page_size, total_count })
}

fn filtered(filter: &PayoutFilter) -> payout::BoxedQuery<'static, Pg> {
    let mut query = payout::table.filter(list::custom_plan()).into_boxed();
    if let Some(agent) = filter.agent_user_id {
        query = query.filter(payout::agent_user_id.eq(agent));
    }
    if let Some(run) = filter.run_id {
        query = query.filter(payout::run_id.eq(run));
    }
    if let Some(statuses) = &filter.statuses {
        query = query.filter(payout::status.eq_any(statuses.clone()));
    }
    if filter.is_owed {
        query = query.filter(payout::status.eq_any([PayoutStatus::Scheduled, PayoutStatus::InTransit]));
    }
    if let Some(currency) = filter.currency {
        query = query.filter(payout::currency.eq(currency));
    }
    if let Some(from) = filter.created_from {
        query = query.filter(payout::created_at.ge(from));
    }
    if let Some(to) = filter.created_to {
        query = query.filter(payout::created_at.lt(to));
    }
    query
}
