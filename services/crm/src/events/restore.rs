//! Aligns consumers with deals of a restored database: the present state of deals whose version
//! went back, and the end of deals that no longer exist.

use ::db::Tx;
use auth::{CompanyId, UserId};
use messaging::outbox::{self, RowlessOutbox};
use messaging::{Event, PublishedState, Restore, VersionNames};
use runtime::clock;
use serde::Deserialize;
use time::OffsetDateTime;
use uuid::Uuid;
use values::{Private, Prose};

use super::{
    BookingCreated, BookingExpired, DealCancelled, DealCompleted, DealCreated, DealStageChanged, Deals,
};
use crate::db;
use crate::domain::{
    Amount, BookingId, Deal, DealId, DealStatus, PropertyObjectId, Step, StepId, receiving_step,
};

/// The reason of the cancellation of a lost deal. No user of this service reads it, since the deal
/// does not exist.
const CANCEL_REASON: &str = "The deal was lost when the database was restored.";

/// The members of `deal-created` and `deal-stage-changed` that describe a lost deal.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LostDeal {
    tenant_id: CompanyId,
    property_object_id: PropertyObjectId,
    client_user_id: UserId,
    agent_user_id: Option<UserId>,
    created_by_user_id: UserId,
    amount: Amount,
}

/// The members of `deal-stage-changed` that say where consumers see the deal.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LostStage {
    to_step_id: StepId,
    to_status: DealStatus,
    row_version: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LostBooking {
    booking_id: BookingId,
}

impl Restore for Deals {
    const VERSION: Option<VersionNames> = Some(VersionNames { column: "row_version", member: "RowVersion" });
    const TOPICS: &'static [&'static str] = &[
        DealCreated::TOPIC,
        DealStageChanged::TOPIC,
        DealCancelled::TOPIC,
        DealCompleted::TOPIC,
        BookingCreated::TOPIC,
        BookingExpired::TOPIC,
    ];

    async fn publish_raised(tx: &mut Tx, raised: &[PublishedState]) -> Result<(), ::db::Error> {
        let keys: Vec<_> = raised.iter().map(|state| state.key).collect();
        let now = clock::now();
        let mut current = db::history::current_deals(tx.conn(), &keys).await?;
        let tenants: Vec<_> = current.iter().map(|(deal, _)| deal.tenant_id).collect();
        let pipelines = db::step::live_by_tenant(tx, &tenants).await?;
        let (mut changed, mut booked, mut released) = (Vec::new(), Vec::new(), Vec::new());
        for (deal, booking) in &mut current {
            let Some(state) = raised.iter().find(|state| state.key == Uuid::from(deal.id)) else { continue };
            let mut present = present_stage(deal, state, now);
            let pipeline = pipelines.get(&deal.tenant_id).map_or(&[][..], Vec::as_slice);
            if let Some(end) = lost_sale_end(deal, state, &present, pipeline, now) {
                deal.row_version += 1;
                present = present.following(&end, deal.row_version);
                changed.push(end);
            }
            changed.push(present);
            match booking {
                Some(booking) => booked.push(BookingCreated {
                    row_version: deal.row_version,
                    ..BookingCreated::of(deal, booking)
                }),
                None => released.extend(release(deal, state, now)),
            }
        }
        let cancelled: Vec<_> = current.iter().filter_map(|(deal, _)| DealCancelled::of(deal)).collect();
        let completed: Vec<_> = current.iter().filter_map(|(deal, _)| DealCompleted::of(deal)).collect();
        db::history::raise_versions(tx, current.iter().map(|(deal, _)| deal)).await?;
        outbox::append_all(tx, &changed).await?;
        outbox::append_all(tx, &booked).await?;
        outbox::append_all(tx, &released).await?;
        outbox::append_all(tx, &cancelled).await?;
        outbox::append_all(tx, &completed).await
    }

    async fn end(outbox: &mut RowlessOutbox<'_>, lost: &[PublishedState]) -> Result<Vec<Uuid>, ::db::Error> {
        let lost = lost.iter().filter_map(|state| {
            let newest = state.newest(DealStageChanged::TOPIC).or_else(|| state.newest(DealCreated::TOPIC));
            newest.map(|deal: LostDeal| (state, deal))
        });
        let lost: Vec<_> = lost.collect();
        let tenants: Vec<_> = lost.iter().map(|(_, deal)| deal.tenant_id).collect();
        let pipelines = db::step::live_by_tenant(outbox.tx(), &tenants).await?;
        let (mut changed, mut cancelled) = (Vec::new(), Vec::new());
        let now = clock::now();
        // The text is within the bounds of the type.
        let Ok(reason) = Prose::parse(CANCEL_REASON).map(Private::new) else { return Ok(Vec::new()) };
        for (state, deal) in &lost {
            let pipeline = pipelines.get(&deal.tenant_id).map_or(&[][..], Vec::as_slice);
            let change = cancellation(state, deal, pipeline, now);
            cancelled.push(DealCancelled {
                deal_id: change.deal_id,
                tenant_id: deal.tenant_id,
                property_object_id: deal.property_object_id,
                cancelled_by_user_id: change.changed_by_user_id,
                cancel_reason: reason.clone(),
                cancelled_at: now,
                row_version: change.row_version,
            });
            changed.push(change);
        }
        outbox.append_all(&changed).await?;
        outbox.append_all(&cancelled).await?;
        Ok(lost.iter().map(|(state, _)| state.key).collect())
    }
}

/// Returns the change from the stage that consumers know to the present one.
fn present_stage(deal: &Deal, state: &PublishedState, now: OffsetDateTime) -> DealStageChanged {
    let lost = state.newest::<LostStage>(DealStageChanged::TOPIC);
    let (from_step_id, from_status) =
        lost.map_or((deal.step_id, deal.status), |stage| (stage.to_step_id, stage.to_status));
    // A sale that begins again has the rate of its first moment.
    let is_sold = matches!(deal.status, DealStatus::Sale | DealStatus::Completed);
    let changed_at = if is_sold { deal.step_entered_at } else { now };
    DealStageChanged {
        from_step_id,
        from_step_group: from_status.group(),
        from_status,
        changed_at,
        ..DealStageChanged::present(deal, deal.stage_change_version)
    }
}

/// Returns the end of a sale that consumers know and that may not be the present one: it was
/// completed, or changed in the lost time. Its commission ends, and that of the present sale
/// begins.
fn lost_sale_end(
    deal: &Deal,
    state: &PublishedState,
    present: &DealStageChanged,
    pipeline: &[Step],
    now: OffsetDateTime,
) -> Option<DealStageChanged> {
    let newest = state.newest::<LostStage>(DealStageChanged::TOPIC)?;
    let has_other_sale = match newest.to_status {
        DealStatus::Completed => true,
        DealStatus::Sale => newest.row_version > deal.stage_change_version,
        _ => false,
    };
    if deal.status != DealStatus::Sale || !has_other_sale {
        return None;
    }
    Some(DealStageChanged {
        from_step_id: present.from_step_id,
        from_step_group: present.from_step_group,
        from_status: present.from_status,
        to_step_id: receiving_step_id(pipeline, DealStatus::Application),
        to_step_group: DealStatus::Application.group(),
        to_status: DealStatus::Application,
        changed_at: now,
        ..DealStageChanged::present(deal, deal.stage_change_version)
    })
}

/// Returns the step that receives deals of a status, or the nil id if the pipeline is lost, too.
fn receiving_step_id(pipeline: &[Step], status: DealStatus) -> StepId {
    receiving_step(pipeline, status.group()).map_or_else(|| StepId::from(Uuid::nil()), |step| step.id)
}

/// Returns the event that releases the object of a lost booking or a lost completion.
///
/// The caller calls it for a deal without an Active booking. A deal that is Cancelled or Completed
/// needs no such event, because the event of its end decides about the object.
fn release(deal: &Deal, state: &PublishedState, now: OffsetDateTime) -> Option<BookingExpired> {
    let has_ended = matches!(deal.status, DealStatus::Cancelled | DealStatus::Completed);
    let was_taken = state.has(BookingCreated::TOPIC) || state.has(DealCompleted::TOPIC);
    if has_ended || !was_taken {
        return None;
    }
    let lost = state.newest::<LostBooking>(BookingCreated::TOPIC);
    Some(BookingExpired {
        // A lost completion may have had no booking, so its event gets a new id.
        booking_id: lost.map_or_else(BookingId::generate, |booking| booking.booking_id),
        deal_id: deal.id,
        tenant_id: deal.tenant_id,
        property_object_id: deal.property_object_id,
        expired_at: now,
        row_version: deal.row_version,
    })
}

/// Returns the change of a lost deal to Cancelled.
fn cancellation(
    state: &PublishedState,
    deal: &LostDeal,
    pipeline: &[Step],
    now: OffsetDateTime,
) -> DealStageChanged {
    let lost = state.newest::<LostStage>(DealStageChanged::TOPIC);
    let from = lost.unwrap_or_else(|| LostStage {
        to_step_id: receiving_step_id(pipeline, DealStatus::Application),
        to_status: DealStatus::Application,
        row_version: 0,
    });
    DealStageChanged {
        deal_id: DealId::from(state.key),
        tenant_id: deal.tenant_id,
        from_step_id: from.to_step_id,
        to_step_id: receiving_step_id(pipeline, DealStatus::Cancelled),
        from_step_group: from.to_status.group(),
        to_step_group: DealStatus::Cancelled.group(),
        from_status: from.to_status,
        to_status: DealStatus::Cancelled,
        changed_by_user_id: deal.created_by_user_id,
        changed_at: now,
        property_object_id: deal.property_object_id,
        client_user_id: deal.client_user_id,
        agent_user_id: deal.agent_user_id,
        created_by_user_id: deal.created_by_user_id,
        amount: deal.amount,
        row_version: state.next_version(),
        // 0 makes consumers accept the change, although events before it may be lost.
        previous_row_version: 0,
    }
}
