//! What people and jobs do with deals.

use ::db::Tx;
use auth::Reach;
use messaging::{Event, outbox};
use time::OffsetDateTime;

use crate::db;
use crate::domain::{Author, Change, Deal, DealId, Entry, Operation, Request, TimelineRow, Told};
use crate::error::{DEAL_NOT_FOUND, Error};
use crate::events::{
    BookingCreated, BookingExpired, DealCancelled, DealCompleted, DealCreated, DealStageChanged,
};

/// `false`: its request has made a deal already, and this one is not made.
///
/// # Errors
/// [`DEAL_CONFLICT`](crate::error::DEAL_CONFLICT)
pub async fn create(tx: &mut Tx, new: &Deal, request: Option<Request>, by: Author) -> Result<bool, Error> {
    let is_new = db::change::insert(tx, new, request, by).await?;
    if is_new {
        outbox::append(tx, &DealCreated::of(new)).await?;
    }
    Ok(is_new)
}

/// Writes what was decided, and tells of it.
///
/// # Errors
/// [`DEAL_CONFLICT`](crate::error::DEAL_CONFLICT)
pub async fn change(tx: &mut Tx, change: &Change) -> Result<(), Error> {
    db::change::save(tx, change).await?;
    let (deal, booking) = (&change.after, change.booking.as_ref());
    for told in change.told() {
        match told {
            Told::DealStageChanged => tell(tx, DealStageChanged::of(change)).await?,
            Told::DealCancelled => tell(tx, DealCancelled::of(deal)).await?,
            Told::DealCompleted => tell(tx, DealCompleted::of(deal)).await?,
            Told::BookingCreated => {
                tell(tx, booking.map(|booking| BookingCreated::of(deal, booking))).await?;
            }
            Told::BookingExpired => {
                tell(tx, booking.map(|booking| BookingExpired::of(deal, booking))).await?;
            }
        }
    }
    Ok(())
}

async fn tell<E: Event>(tx: &mut Tx, event: Option<E>) -> Result<(), ::db::Error> {
    match event {
        Some(event) => outbox::append(tx, &event).await,
        None => Ok(()),
    }
}

/// Adds a note to a deal, which stays as it is.
///
/// # Errors
/// [`DEAL_NOT_FOUND`]
pub async fn note(
    tx: &mut Tx,
    id: DealId,
    reach: Reach,
    note: &Entry,
    by: Author,
    now: OffsetDateTime,
) -> Result<TimelineRow, Error> {
    let deal = db::change::lock(tx, id).await?.filter(|deal| reach.covers(deal.tenant_id));
    let deal = deal.ok_or(DEAL_NOT_FOUND)?;
    Ok(db::change::append_note(tx, &deal, note, by, now.max(deal.updated_at)).await?)
}

/// Ends the booking of a deal if it is overdue. `false`: somebody is changing the deal.
///
/// # Errors
/// [`DEAL_CONFLICT`](crate::error::DEAL_CONFLICT)
pub async fn expire_booking(tx: &mut Tx, id: DealId, now: OffsetDateTime) -> Result<bool, Error> {
    let Some(situation) = db::situation::take(tx, id).await? else { return Ok(false) };
    // A deal that has ended meanwhile has ended its booking.
    if let Ok(Some(expired)) = situation.decide(Operation::Expire, Author::SYSTEM, now) {
        change(tx, &expired).await?;
    }
    Ok(true)
}
