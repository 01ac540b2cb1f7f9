//! The history of the database, which changes when a standby is promoted or a backup is restored.
//!
//! The last transactions may then be missing, although their events were published or their offsets
//! committed. The sequence may then assign ids of lost events to new events.

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

/// Returns the current history of the database.
pub(crate) async fn current(db: &Db) -> Result<String, db::Error> {
    let row = diesel::sql_query("select database_history() as history");
    Ok(row.get_result::<Row>(&mut db.conn().await?).await?.history)
}

#[derive(diesel::QueryableByName)]
struct Lease {
    #[diesel(sql_type = Text)]
    previous: String,
    #[diesel(sql_type = Text)]
    current: String,
}

/// The result of [`renumber_events`].
pub(crate) struct Renumbering {
    /// The number of events that have a new id.
    pub events: usize,
    /// The last assigned id. The next event gets a higher one.
    pub last_id: i64,
    pub previous: String,
    pub current: String,
}

/// Advances the ids of events to the clock. Gives new ids, in the same order, to the pending events
/// that were appended since the history changed. Stores the new history in the lease.
///
/// Events from before the change keep their ids, since they may be published already. If such an
/// event is sent again, consumers drop it as a duplicate, because neither its id nor its time is
/// above the last one of its key.
pub(crate) async fn renumber_events(tx: &mut Tx) -> Result<Renumbering, db::Error> {
    let lease = diesel::sql_query(
        "select history as previous, database_history() as current from outbox_lease for update",
    );
    let Lease { previous, current } = lease.get_result(tx.conn()).await?;
    // Waits for the transactions that have taken an id, and prevents others from taking one. The
    // lock has the default timeout, which is short, since all appending transactions wait behind
    // it.
    diesel::sql_query("lock table outbox in share row exclusive mode").execute(tx.conn()).await?;
    tx.extend_timeout(RENUMBERING_TIMEOUT).await?;
    let last_id = outbox::advance_ids_to_clock(tx.conn()).await?;
    let events = diesel::sql_query(
        "with renumbered as (select topic, id, nextval(pg_get_serial_sequence('outbox', 'id')) as new_id \
         from (select topic, id from outbox where history <> $1 order by id) as appended) \
         update outbox set id = new_id, history = $2 from renumbered \
         where outbox.topic = renumbered.topic and outbox.id = renumbered.id",
    );
    let events = events.bind::<Text, _>(&previous).bind::<Text, _>(&current).execute(tx.conn()).await?;
    // Gives the other rows the current history, too. The next change of the history therefore
    // renumbers only events that are appended after that change.
    for table in ["outbox", "outbox_lease"] {
        let update = diesel::sql_query(format!("update {table} set history = $1 where history <> $1"));
        update.bind::<Text, _>(&current).execute(tx.conn()).await?;
    }
    Ok(Renumbering { events, last_id, previous, current })
}

/// Makes every consumer compare its positions with its receipts at its next start.
pub(crate) async fn require_position_checks(tx: &mut Tx) -> Result<(), db::Error> {
    diesel::sql_query("update inbox_partition set history = 'unknown'").execute(tx.conn()).await?;
    Ok(())
}
