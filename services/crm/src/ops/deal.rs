//! Use cases of deals within a transaction.

use ::db::Tx;
use auth::{CompanyId, Reach, UserId};
use messaging::{Event, outbox};
use time::OffsetDateTime;

use crate::db;
use crate::domain::{
    AdditionKind, AdditionLimits, Author, Change, CreationRequest, Deal, DealEventType, DealId, NoteAudience,
    Operation, TimelineEntry, TimelineRow,
};
use crate::error::{DEAL_NOT_FOUND, Error};
use crate::events::{
    BookingCreated, BookingExpired, DealCancelled, DealCompleted, DealCreated, DealStageChanged,
};

/// Creates a deal and publishes `deal-created`. Returns false if an earlier request with this id
/// created a deal.
///
/// # Errors
/// [`DEAL_CONFLICT`](crate::error::DEAL_CONFLICT) if the step was archived after it was read, and
/// the codes of the limits if the creator or the client has too many new deals.
pub async fn create(
    tx: &mut Tx,
    new: &Deal,
    request: Option<CreationRequest>,
    author: Author,
    limits: AdditionLimits,
) -> Result<bool, Error> {
    let is_new = db::change::insert(tx, new, request, author).await?;
    if is_new {
        let counted = [
            (AdditionKind::DealCreated, new.created_by_user_id),
            (AdditionKind::DealReceived, new.client_user_id),
        ];
        for (kind, user) in counted {
            count_addition(tx, limits, kind, user, new.tenant_id, new.created_at).await?;
        }
        outbox::append(tx, &DealCreated::of(new)).await?;
    }
    Ok(is_new)
}

/// Counts one more addition of a user to the deals of a developer, if the kind has a limit. A
/// refusal rolls the addition back.
///
/// # Errors
/// The code of the limit if the user has reached it.
async fn count_addition(
    tx: &mut Tx,
    limits: AdditionLimits,
    kind: AdditionKind,
    user: UserId,
    tenant: CompanyId,
    now: OffsetDateTime,
) -> Result<(), Error> {
    let Some(max) = limits.of(kind) else { return Ok(()) };
    let added = db::addition::count(tx.conn(), kind, user, tenant, now).await?;
    Ok(kind.check(added, max, now)?)
}

/// Writes a change and publishes its events.
///
/// # Errors
/// [`DEAL_CONFLICT`](crate::error::DEAL_CONFLICT) if another change won the race, or if the step
/// that the deal enters was archived.
pub async fn change(tx: &mut Tx, change: &Change) -> Result<(), Error> {
    db::change::save(tx, change).await?;
    let (deal, booking) = (&change.after, change.booking.as_ref());
    for event_type in change.event_types() {
        match event_type {
            DealEventType::DealStageChanged => publish(tx, DealStageChanged::of(change)).await?,
            DealEventType::DealCancelled => publish(tx, DealCancelled::of(deal)).await?,
            DealEventType::DealCompleted => publish(tx, DealCompleted::of(deal)).await?,
            DealEventType::BookingCreated => {
                publish(tx, booking.map(|booking| BookingCreated::of(deal, booking))).await?;
            }
            DealEventType::BookingExpired => {
                publish(tx, booking.map(|booking| BookingExpired::of(deal, booking))).await?;
            }
        }
    }
    Ok(())
}

async fn publish<E: Event>(tx: &mut Tx, event: Option<E>) -> Result<(), ::db::Error> {
    match event {
        Some(event) => outbox::append(tx, &event).await,
        None => Ok(()),
    }
}

/// Adds a note to a deal. The deal and its version stay unchanged.
///
/// # Errors
/// [`DEAL_NOT_FOUND`] if the deal is unknown or outside the reach.
/// [`NOTES_LIMIT_EXCEEDED`](crate::error::NOTES_LIMIT_EXCEEDED) if the author has written the
/// maximum number of notes in this hour.
pub async fn add_note(
    tx: &mut Tx,
    id: DealId,
    reach: Reach,
    (note, audience): &(TimelineEntry, NoteAudience),
    author: Author,
    limits: AdditionLimits,
    now: OffsetDateTime,
) -> Result<TimelineRow, Error> {
    let deal = db::change::lock(tx, id).await?.filter(|deal| reach.covers(deal.tenant_id));
    let deal = deal.ok_or(DEAL_NOT_FOUND)?;
    if let Some(user) = author.user_id {
        count_addition(tx, limits, AdditionKind::NoteWritten, user, deal.tenant_id, now).await?;
    }
    Ok(db::change::append_note(tx, &deal, note, *audience, author, now.max(deal.updated_at)).await?)
}

/// Ends the booking of a deal if it is overdue. Returns false if another transaction is changing
/// the deal.
///
/// # Errors
/// [`DEAL_CONFLICT`](crate::error::DEAL_CONFLICT) if another change won the race.
pub async fn expire_booking(tx: &mut Tx, id: DealId, now: OffsetDateTime) -> Result<bool, Error> {
    let Some(state) = db::deal_state::try_lock(tx, id).await? else { return Ok(false) };
    // A refusal means that the deal has ended, and its booking with it.
    if let Ok(Some(expired)) = state.decide(Operation::Expire, Author::SYSTEM, now) {
        change(tx, &expired).await?;
    }
    Ok(true)
}
