//! Bonus proposals.

use ::db::{Conn, Prepared, Tx};
use ::web::{Page, Paging};
use auth::UserId;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use service::list;
use time::OffsetDateTime;
use values::{Currency, Private};

use super::adjustment::{AdjustmentFilter, AdjustmentSort};
use crate::domain::{AccrualId, AdjustmentStatus, BonusProposal, BonusProposalId, BonusProposalView};
use crate::schema::{accrual, bonus_proposal};

/// Stores an open proposal.
pub async fn insert(tx: &mut Tx, new: &BonusProposal) -> Result<(), ::db::Error> {
    let insert = diesel::insert_into(bonus_proposal::table).values((
        bonus_proposal::id.eq(new.id),
        bonus_proposal::accrual_id.eq(new.accrual_id),
        bonus_proposal::agent_user_id.eq(new.agent_user_id),
        bonus_proposal::amount.eq(new.amount),
        bonus_proposal::reason.eq(new.reason.expose()),
        bonus_proposal::status.eq(new.status),
        bonus_proposal::created_at.eq(new.created_at),
        bonus_proposal::proposed_by_user_id.eq(new.proposed_by_user_id),
        bonus_proposal::version.eq(new.version),
    ));
    Prepared(insert).execute(tx.conn()).await?;
    Ok(())
}

pub async fn find(tx: &mut Tx, id: BonusProposalId) -> Result<Option<BonusProposal>, ::db::Error> {
    let find = bonus_proposal::table.find(id).select(BonusProposal::as_select());
    Ok(find.first(tx.conn()).await.optional()?)
}

/// Stores a decision. Returns false if the proposal is not open.
pub async fn save_decision(tx: &mut Tx, decided: &BonusProposal) -> Result<bool, ::db::Error> {
    let open = bonus_proposal::table
        .filter(bonus_proposal::id.eq(decided.id))
        .filter(bonus_proposal::status.eq(AdjustmentStatus::Open));
    let update = diesel::update(open).set((
        bonus_proposal::status.eq(decided.status),
        bonus_proposal::decision_comment.eq(decided.decision_comment.as_ref().map(Private::expose)),
        bonus_proposal::result_accrual_id.eq(decided.result_accrual_id),
        bonus_proposal::decided_at.eq(decided.decided_at),
        bonus_proposal::decided_by_user_id.eq(decided.decided_by_user_id),
        bonus_proposal::version.eq(decided.version),
    ));
    Ok(Prepared(update).execute(tx.conn()).await? == 1)
}

/// Sets the open proposals about accruals to Rejected. The transaction has locked their account.
pub async fn reject_open(
    tx: &mut Tx,
    accruals: &[AccrualId],
    by: Option<UserId>,
    now: OffsetDateTime,
) -> Result<(), ::db::Error> {
    let open = bonus_proposal::table
        .filter(bonus_proposal::accrual_id.eq_any(accruals))
        .filter(bonus_proposal::status.eq(AdjustmentStatus::Open));
    let update = diesel::update(open).set((
        bonus_proposal::status.eq(AdjustmentStatus::Rejected),
        bonus_proposal::decided_at.eq(now),
        bonus_proposal::decided_by_user_id.eq(by),
        bonus_proposal::version.eq(bonus_proposal::version + 1),
    ));
    Prepared(update).execute(tx.conn()).await?;
    Ok(())
}

/// Returns one page of the proposals that match the filter.
pub async fn list(
    conn: &Conn,
    filter: &AdjustmentFilter,
    paging: &Paging<AdjustmentSort>,
) -> QueryResult<Page<BonusProposalView>> {
    let AdjustmentSort::CreatedAt = paging.sort;
    let order =
        (list::order_by(paging, bonus_proposal::created_at), list::order_by(paging, bonus_proposal::id));
    let sorted = filtered(filter).select((BonusProposal::as_select(), accrual::currency)).order(order);
    let counted = filtered(filter).select(bonus_proposal::id);
    let page: Page<(BonusProposal, Currency)> = list::page(conn, paging, sorted, counted).await?;
    let Page { items, page, page_size, total_count } = page;
    let items = items.into_iter().map(|(proposal, currency)| BonusProposalView::of(proposal, currency));
    Ok(Page { items: items.collect(), page, page_size, total_count })
}

type Filtered =
    diesel::dsl::IntoBoxed<'static, diesel::dsl::InnerJoin<bonus_proposal::table, accrual::table>, Pg>;

fn filtered(filter: &AdjustmentFilter) -> Filtered {
    let mut query = bonus_proposal::table.inner_join(accrual::table).into_boxed();
    if let Some(statuses) = &filter.statuses {
        query = query.filter(bonus_proposal::status.eq_any(statuses.clone()));
    }
    if let Some(agent) = filter.agent_user_id {
        query = query.filter(bonus_proposal::agent_user_id.eq(agent));
    }
    if let Some(id) = filter.accrual_id {
        query = query.filter(bonus_proposal::accrual_id.eq(id));
    }
    query
}
