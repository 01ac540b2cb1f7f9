//! Republishes deals: their creation, changes of step, status or agent, and their current state.

use std::collections::HashMap;

use ::db::Tx;
use messaging::{Aggregate, Republish, outbox};
use uuid::Uuid;

use super::deal::DEAL;
use super::{BookingCreated, DealCancelled, DealCompleted, DealCreated, DealStageChanged};
use crate::db;
use crate::db::history::PastChange;
use crate::domain::{Deal, DealStatus, StepId};

/// The aggregate `Deal`, whose events are republished with their stored versions.
pub enum Deals {}

impl Republish for Deals {
    const AGGREGATE: Aggregate = DEAL;

    async fn republish(tx: &mut Tx, keys: &[Uuid]) -> Result<(), ::db::Error> {
        let changes = db::history::past_changes(tx.conn(), keys).await?;
        let current = db::history::current_deals(tx.conn(), keys).await?;
        let deals: HashMap<_, _> = current.iter().map(|(deal, _)| (deal.id, deal)).collect();
        let (mut created, mut stage_changes) = (Vec::new(), Vec::<DealStageChanged>::new());
        for change in &changes {
            let Some(deal) = deals.get(&change.deal_id) else { continue };
            match change.from_step_id.zip(change.from_status) {
                None => created.push(deal_created(deal, change)),
                Some(from) => {
                    // The changes are sorted by deal and version.
                    let previous = stage_changes.last().filter(|previous| previous.deal_id == deal.id);
                    let previous = previous.map_or(0, |previous| previous.row_version);
                    stage_changes.push(stage_changed(deal, change, from, previous));
                }
            }
        }
        for (deal, _) in &current {
            let of_deal = stage_changes.iter().filter(|change| change.deal_id == deal.id);
            let last = of_deal.map(|change| change.row_version).max().unwrap_or_default();
            // The command `restored` raises the version without a row of the timeline.
            if deal.stage_change_version > last {
                let present = DealStageChanged::present(deal, last);
                stage_changes.push(DealStageChanged { row_version: deal.stage_change_version, ..present });
            }
        }
        let booked = current.iter().filter_map(|(deal, booking)| Some((deal, booking.as_ref()?)));
        let booked: Vec<_> = booked.map(|(deal, booking)| BookingCreated::of(deal, booking)).collect();
        let cancelled: Vec<_> = current.iter().filter_map(|(deal, _)| DealCancelled::of(deal)).collect();
        let completed: Vec<_> = current.iter().filter_map(|(deal, _)| DealCompleted::of(deal)).collect();
        outbox::append_all(tx, &created).await?;
        outbox::append_all(tx, &stage_changes).await?;
        outbox::append_all(tx, &booked).await?;
        outbox::append_all(tx, &cancelled).await?;
        outbox::append_all(tx, &completed).await
    }
}

fn deal_created(deal: &Deal, change: &PastChange) -> DealCreated {
    DealCreated {
        agent_user_id: change.agent_user_id,
        amount: change.amount,
        row_version: change.row_version,
        ..DealCreated::of(deal)
    }
}

fn stage_changed(
    deal: &Deal,
    change: &PastChange,
    (from_step_id, from_status): (StepId, DealStatus),
    previous_row_version: i64,
) -> DealStageChanged {
    DealStageChanged {
        deal_id: deal.id,
        tenant_id: deal.tenant_id,
        from_step_id,
        to_step_id: change.to_step_id,
        from_step_group: from_status.group(),
        to_step_group: change.to_status.group(),
        from_status,
        to_status: change.to_status,
        changed_by_user_id: change.by_user_id,
        changed_at: change.at,
        property_object_id: deal.property_object_id,
        client_user_id: deal.client_user_id,
        agent_user_id: change.agent_user_id,
        created_by_user_id: deal.created_by_user_id,
        amount: change.amount,
        row_version: change.row_version,
        previous_row_version,
    }
}
