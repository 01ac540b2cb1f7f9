//! Aligns consumers with a restored database. Publishes the current state of deals whose version is
//! lower than before, and the end of deals that no longer exist.

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
use crate::db::history::PastChange;
use crate::domain::{
    Amount, BookingId, Deal, DealId, DealStatus, PropertyObjectId, Step, StepId, receiving_step,
};

/// The cancellation reason of a lost deal. Only consumers read it, since crm has no such deal.
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

/// The members of `deal-stage-changed` with the stage that consumers know.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct KnownStage {
    to_step_id: StepId,
    to_status: DealStatus,
    #[serde(with = "time::serde::rfc3339")]
    changed_at: OffsetDateTime,
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
        let past = db::history::past_changes(tx.conn(), &keys).await?;
        let tenants: Vec<_> = current.iter().map(|(deal, _)| deal.tenant_id).collect();
        let pipelines = db::step::live_steps_by_tenant(tx, &tenants).await?;
        let (mut changed, mut booked, mut released) = (Vec::new(), Vec::new(), Vec::new());
        for (deal, booking) in &mut current {
            let Some(state) = raised.iter().find(|state| state.key == Uuid::from(deal.id)) else { continue };
            let pipeline = pipelines.get(&deal.tenant_id).map_or(&[][..], Vec::as_slice);
            let past: Vec<_> = past.iter().filter(|change| change.deal_id == deal.id).collect();
            changed.extend(stage_changes(deal, state, &past, pipeline, now));
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
        let pipelines = db::step::live_steps_by_tenant(outbox.tx(), &tenants).await?;
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

/// Returns the changes from the stage that consumers know to the present one. Raises the version of
/// the deal to the version of the last change.
///
/// There are up to three changes, in this order:
/// 1. The end of another sale, if consumers know one.
/// 2. The beginning of the present sale, if consumers do not know this sale. A commission depends
///    on the agent, the amount and the time of the beginning.
/// 3. The present state, if the second change does not lead to it.
fn stage_changes(
    deal: &mut Deal,
    state: &PublishedState,
    past: &[&PastChange],
    pipeline: &[Step],
    now: OffsetDateTime,
) -> Vec<DealStageChanged> {
    let known = state.newest::<KnownStage>(DealStageChanged::TOPIC);
    let (from_step_id, from_status) =
        known.map_or((deal.step_id, deal.status), |stage| (stage.to_step_id, stage.to_status));
    let present = DealStageChanged {
        from_step_id,
        from_step_group: from_status.group(),
        from_status,
        changed_at: if is_sold(deal.status) { deal.step_entered_at } else { now },
        ..DealStageChanged::present(deal, deal.stage_change_version)
    };
    let end = known.filter(|known| has_other_sale(deal, known, past)).map(|_| DealStageChanged {
        to_step_id: receiving_step_id(pipeline, DealStatus::Application),
        to_step_group: DealStatus::Application.group(),
        to_status: DealStatus::Application,
        // The end has the time of the present step, and so has the reversal of the other sale's
        // commission. A commission of the present sale is approved at this time or later. So a
        // payout run with that commission also contains the reversal.
        ..present.clone()
    });
    let is_sale_unknown = is_sold(deal.status) && (end.is_some() || !is_sold(from_status));
    let beginning = sale_beginning(past).filter(|_| is_sale_unknown).map(|beginning| DealStageChanged {
        to_step_id: beginning.to_step_id,
        to_step_group: beginning.to_status.group(),
        to_status: beginning.to_status,
        agent_user_id: beginning.agent_user_id,
        amount: beginning.amount,
        changed_at: beginning.at,
        ..present.clone()
    });
    let leads_to_present = beginning.as_ref().is_some_and(|beginning| beginning.has_same_result(&present));
    let last = (!leads_to_present).then_some(present);
    number_changes(deal, end.into_iter().chain(beginning).chain(last))
}

/// Numbers the changes and links each one to the previous one. The first change already has
/// its version. Raises the version of the deal to the version of the last change.
fn number_changes(
    deal: &mut Deal,
    unnumbered: impl Iterator<Item = DealStageChanged>,
) -> Vec<DealStageChanged> {
    let mut changes = Vec::<DealStageChanged>::new();
    for change in unnumbered {
        let change = match changes.last() {
            None => change,
            Some(previous) => {
                deal.row_version += 1;
                change.following(previous, deal.row_version)
            }
        };
        changes.push(change);
    }
    changes
}

fn is_sold(status: DealStatus) -> bool {
    matches!(status, DealStatus::Sale | DealStatus::Completed)
}

/// Returns true if consumers know a sale of the deal that may not be the present one.
///
/// There are two causes:
/// - The database has lost a completion or a change that consumers have applied.
/// - A change after a failover has the same version as a lost change that consumers have applied.
///
/// A run of `restored` raises the version of a deal and adds no past change. Therefore the second
/// cause requires a past change with the known version. Without one, that version may be from an
/// earlier run.
fn has_other_sale(deal: &Deal, known: &KnownStage, past: &[&PastChange]) -> bool {
    let is_lost =
        |change: &&PastChange| change.row_version == known.row_version && change.at != known.changed_at;
    let is_other = known.row_version > deal.stage_change_version || past.iter().any(is_lost);
    let is_completion_lost = known.to_status == DealStatus::Completed && deal.status == DealStatus::Sale;
    is_sold(deal.status) && is_sold(known.to_status) && (is_other || is_completion_lost)
}

/// Returns the change with which the present sale began.
fn sale_beginning<'c>(past: &[&'c PastChange]) -> Option<&'c PastChange> {
    let begins = |change: &&PastChange| is_sold(change.to_status) && !change.from_status.is_some_and(is_sold);
    past.iter().copied().rfind(begins)
}

/// Returns the step that receives deals of a status, or the nil id if the pipeline is lost, too.
fn receiving_step_id(pipeline: &[Step], status: DealStatus) -> StepId {
    receiving_step(pipeline, status.group()).map_or_else(|| StepId::from(Uuid::nil()), |step| step.id)
}

/// Returns the event that releases the object of a lost booking or a lost completion.
///
/// `deal` must have no Active booking. A deal that is Cancelled or Completed needs no such event,
/// because `deal-cancelled` or `deal-completed` decides about the object.
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
    let known = state.newest::<KnownStage>(DealStageChanged::TOPIC);
    let (from_step_id, from_status) = known.map_or_else(
        || (receiving_step_id(pipeline, DealStatus::Application), DealStatus::Application),
        |stage| (stage.to_step_id, stage.to_status),
    );
    DealStageChanged {
        deal_id: DealId::from(state.key),
        tenant_id: deal.tenant_id,
        from_step_id,
        to_step_id: receiving_step_id(pipeline, DealStatus::Cancelled),
        from_step_group: from_status.group(),
        to_step_group: DealStatus::Cancelled.group(),
        from_status,
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
