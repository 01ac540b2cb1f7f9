//! Writes of developers' profiles, with their log entries and events.

use ::db::Tx;
use messaging::outbox;
use time::OffsetDateTime;

use crate::db;
use crate::db::propagation::Scope;
use crate::domain::{Author, Developer, LogEntry};
use crate::error::Error;
use crate::events::DeveloperUpserted;

/// Inserts a new profile, logs and publishes it.
pub async fn insert(tx: &mut Tx, new: &mut Developer, by: Author) -> Result<(), Error> {
    db::developer::insert(tx, new).await?;
    log_and_publish(tx, None, new, by).await
}

/// Saves a changed profile, logs and publishes it. A change of bookkeeping columns is only saved.
pub async fn save(
    tx: &mut Tx,
    before: &Developer,
    after: &mut Developer,
    by: Author,
    now: OffsetDateTime,
) -> Result<(), Error> {
    if after.differs_from(before) {
        after.updated_at = now;
        after.updated_by_user_id = by.user_id;
        db::developer::save(tx, before, after).await?;
        if after.is_published() != before.is_published() {
            // The change publishes or hides the objects, so other services need their events.
            let hides = !after.is_published();
            db::propagation::request(tx, Scope::Developer, after.id.into(), after.id, hides).await?;
        }
        return log_and_publish(tx, Some(before), after, by).await;
    }
    if after.has_other_bookkeeping_than(before) {
        db::developer::save_bookkeeping(tx, after).await?;
    }
    Ok(())
}

async fn log_and_publish(
    tx: &mut Tx,
    before: Option<&Developer>,
    after: &Developer,
    by: Author,
) -> Result<(), Error> {
    db::log::append(tx, &LogEntry::for_change(before, after, by)).await?;
    if after.changes_event(before) {
        outbox::append(tx, &DeveloperUpserted::new(after)).await?;
    }
    Ok(())
}
