//! Adjustment requests.

use ::db::{Conn, Prepared, Tx};
use ::web::{Page, Paging, SortKey};
use auth::UserId;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use service::list;
use strum::{EnumString, VariantNames};
use time::OffsetDateTime;
use values::{Currency, Private};

use crate::domain::{
    AccrualId, AdjustmentRequest, AdjustmentRequestId, AdjustmentRequestView, AdjustmentStatus,
};
use crate::schema::{accrual, adjustment_request};

/// Stores a request. Returns false if its accrual has an open one (INV-AGT-3).
pub async fn insert(tx: &mut Tx, new: &AdjustmentRequest) -> Result<bool, ::db::Error> {
    let insert = diesel::insert_into(adjustment_request::table)
        .values((
            adjustment_request::id.eq(new.id),
            adjustment_request::accrual_id.eq(new.accrual_id),
            adjustment_request::agent_user_id.eq(new.agent_user_id),
            adjustment_request::reason.eq(new.reason),
            adjustment_request::requested_amount.eq(new.requested_amount),
            adjustment_request::comment.eq(new.comment.expose()),
            adjustment_request::status.eq(new.status),
            adjustment_request::created_at.eq(new.created_at),
            adjustment_request::version.eq(new.version),
        ))
        .on_conflict_do_nothing();
    Ok(Prepared(insert).execute(tx.conn()).await? == 1)
}

pub async fn find(tx: &mut Tx, id: AdjustmentRequestId) -> Result<Option<AdjustmentRequest>, ::db::Error> {
    let find = adjustment_request::table.find(id).select(AdjustmentRequest::as_select());
    Ok(find.first(tx.conn()).await.optional()?)
}

/// Stores a decision. Returns false if the request is not open.
pub async fn save_decision(tx: &mut Tx, decided: &AdjustmentRequest) -> Result<bool, ::db::Error> {
    let open = adjustment_request::table
        .filter(adjustment_request::id.eq(decided.id))
        .filter(adjustment_request::status.eq(AdjustmentStatus::Open));
    let update = diesel::update(open).set((
        adjustment_request::status.eq(decided.status),
        adjustment_request::granted_amount.eq(decided.granted_amount),
        adjustment_request::decision_comment.eq(decided.decision_comment.as_ref().map(Private::expose)),
        adjustment_request::result_accrual_id.eq(decided.result_accrual_id),
        adjustment_request::decided_at.eq(decided.decided_at),
        adjustment_request::decided_by_user_id.eq(decided.decided_by_user_id),
        adjustment_request::version.eq(decided.version),
    ));
    Ok(Prepared(update).execute(tx.conn()).await? == 1)
}

/// Sets the open requests about accruals to Rejected. The transaction has locked their account.
pub async fn reject_open(
    tx: &mut Tx,
    accruals: &[AccrualId],
    by: Option<UserId>,
    now: OffsetDateTime,
) -> Result<(), ::db::Error> {
    let open = adjustment_request::table
        .filter(adjustment_request::accrual_id.eq_any(accruals))
        .filter(adjustment_request::status.eq(AdjustmentStatus::Open));
    let update = diesel::update(open).set((
        adjustment_request::status.eq(AdjustmentStatus::Rejected),
        adjustment_request::decided_at.eq(now),
        adjustment_request::decided_by_user_id.eq(by),
        adjustment_request::version.eq(adjustment_request::version + 1),
    ));
    Prepared(update).execute(tx.conn()).await?;
    Ok(())
}

/// Returns the number of an agent's open requests.
pub async fn count_open(mut conn: &Conn, agent: UserId) -> QueryResult<i64> {
    let open = adjustment_request::table
        .filter(adjustment_request::agent_user_id.eq(agent))
        .filter(adjustment_request::status.eq(AdjustmentStatus::Open));
    open.count().get_result(&mut conn).await
}

/// The sort keys of a list of requests or of bonus proposals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
pub enum AdjustmentSort {
    CreatedAt,
}

impl SortKey for AdjustmentSort {
    const DEFAULT: &'static str = "CreatedAt";
}

/// The filter of a list.
#[derive(Debug, Default)]
pub struct AdjustmentFilter {
    pub statuses: Option<Vec<AdjustmentStatus>>,
    pub agent_user_id: Option<UserId>,
    pub accrual_id: Option<AccrualId>,
}

/// Returns one page of the requests that match the filter.
pub async fn list(
    conn: &Conn,
    filter: &AdjustmentFilter,
    paging: &Paging<AdjustmentSort>,
) -> QueryResult<Page<AdjustmentRequestView>> {
    let AdjustmentSort::CreatedAt = paging.sort;
    let order = (
        list::order_by(paging, adjustment_request::created_at),
        list::order_by(paging, adjustment_request::id),
    );
    let sorted = filtered(filter).select((AdjustmentRequest::as_select(), accrual::currency)).order(order);
    let counted = filtered(filter).select(adjustment_request::id);
    let page: Page<(AdjustmentRequest, Currency)> = list::page(conn, paging, sorted, counted).await?;
    let Page { items, page, page_size, total_count } = page;
    let items = items.into_iter().map(|(request, currency)| AdjustmentRequestView::of(request, currency));
    Ok(Page { items: items.collect(), page, page_size, total_count })
}

type Filtered =
    diesel::dsl::IntoBoxed<'static, diesel::dsl::InnerJoin<adjustment_request::table, accrual::table>, Pg>;

fn filtered(filter: &AdjustmentFilter) -> Filtered {
    let mut query = adjustment_request::table.inner_join(accrual::table).into_boxed();
    if let Some(statuses) = &filter.statuses {
        query = query.filter(adjustment_request::status.eq_any(statuses.clone()));
    }
    if let Some(agent) = filter.agent_user_id {
        query = query.filter(adjustment_request::agent_user_id.eq(agent));
    }
    if let Some(id) = filter.accrual_id {
        query = query.filter(adjustment_request::accrual_id.eq(id));
    }
    query
}
