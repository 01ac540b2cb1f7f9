//! The history of the database, which changes when a standby is promoted or a backup is restored.
//!
//! The transactions of the last moments may then be missing, although their events were published
//! or their offsets committed. The sequence of event ids repeats numbers of lost events.

use std::time::Duration;

use db::{Db, Tx};
use diesel::sql_types::Text;
use diesel_async::RunQueryDsl;

use crate::outbox;

/// The timeout of each statement that renumbers. A backlog may have millions of events.
const RENUMBERING_TIMEOUT: Duration = Duration::from_mins(10);

#[derive(diesel::QueryableByName)]
struct Row {
    #[diesel(sql_type = Text)]
    history: String,
}

/// Returns the present history of the database.
pub(crate) async fn present(db: &Db) -> Result<String, db::Error> {
    let row = diesel::sql_query("select database_history() as history");
    Ok(row.get_result::<Row>(&mut db.conn().await?).await?.history)
}

#[derive(diesel::QueryableByName)]
struct Lease {
    #[diesel(sql_type = Text)]
    known: String,
    #[diesel(sql_type = Text)]
    present: String,
}

/// The result of [`renumber_events`].
pub(crate) struct Renumbering {
    /// The number of events that have a new id.
    pub events: usize,
    /// The next event has a higher id.
    pub last_id: i64,
    pub known: String,
    pub present: String,
}

/// Advances the ids of events to the clock, and gives new ids to the pending events that were
/// appended since the history has changed. Their order stays, and the lease keeps the new history.
///
/// Events that were appended before keep their ids. They may be published already, and consumers
/// then drop them as duplicates. No later event of their keys can be published.
pub(crate) async fn renumber_events(tx: &mut Tx) -> Result<Renumbering, db::Error> {
    let lease = diesel::sql_query(
        "select history as known, database_history() as present from outbox_lease for update",
    );
    let Lease { known, present } = lease.get_result(tx.conn()).await?;
    // Waits for the transactions that have taken an id, and keeps others from taking one. The
    // timeout is still short, since all who append wait behind the lock.
    diesel::sql_query("lock table outbox in share row exclusive mode").execute(tx.conn()).await?;
    tx.extend_timeout(RENUMBERING_TIMEOUT).await?;
    let last_id = outbox::advance_ids_to_clock(tx.conn()).await?;
    let events = diesel::sql_query(
        "with renumbered as (select topic, id, nextval(pg_get_serial_sequence('outbox', 'id')) as new_id \
         from (select topic, id from outbox where history <> $1 order by id) as appended) \
         update outbox set id = new_id, history = $2 from renumbered \
         where outbox.topic = renumbered.topic and outbox.id = renumbered.id",
    );
    let events = events.bind::<Text, _>(&known).bind::<Text, _>(&present).execute(tx.conn()).await?;
    // The next change of the history finds no event of an earlier one.
    for table in ["outbox", "outbox_lease"] {
        let keep = diesel::sql_query(format!("update {table} set history = $1 where history <> $1"));
        keep.bind::<Text, _>(&present).execute(tx.conn()).await?;
    }
    Ok(Renumbering { events, last_id, known, present })
}

/// Makes every consumer compare its positions with its receipts when it starts next.
pub(crate) async fn forget_positions(tx: &mut Tx) -> Result<(), db::Error> {
    diesel::sql_query("update inbox_partition set history = 'unknown'").execute(tx.conn()).await?;
    Ok(())
}
