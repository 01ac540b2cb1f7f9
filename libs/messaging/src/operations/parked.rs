//! Parked events, for operators: those that cannot be sent as things are, such as one that is larger
//! than the broker takes, or whose topic may not be written to. The later ones of their topic and key
//! wait in the outbox.

use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt};
use diesel_async::RunQueryDsl;
use serde::Serialize;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::Bus;
use crate::schema::outbox_parked;

/// What can be done with events that could not be sent.
#[derive(Debug, clap::Subcommand)]
pub enum Parked {
    /// Print them as JSON lines, oldest first
    List,
    /// Try to send them again, before the later ones of their key
    Release {
        /// As `list` shows them
        #[arg(required = true)]
        ids: Vec<i64>,
    },
    /// Drop them for good, and let the later ones of their key go
    Discard {
        /// As `list` shows them
        #[arg(required = true)]
        ids: Vec<i64>,
    },
}

#[derive(Queryable, Selectable, Serialize)]
#[diesel(table_name = outbox_parked)]
struct ParkedEvent {
    id: i64,
    event_id: Uuid,
    topic: String,
    key: String,
    error: String,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    parked_at: OffsetDateTime,
}

impl Parked {
    pub(crate) async fn execute(self, bus: &Bus) -> anyhow::Result<()> {
        let mut conn = bus.db.conn().await?;
        let (done, ids) = match self {
            Self::List => {
                let events = outbox_parked::table.order(outbox_parked::id).select(ParkedEvent::as_select());
                for event in events.load::<ParkedEvent>(&mut conn).await? {
                    println!("{}", serde_json::to_string(&event)?);
                }
                return Ok(());
            }
            Self::Release { ids } => {
                // With its id, which is its place in the order of its key.
                let released = diesel::sql_query(
                    "with released as (delete from outbox_parked where id = any($1) returning *) \
                     insert into outbox (id, event_id, topic, key, type, payload, headers, created_at) \
                     overriding system value \
                     select id, event_id, topic, key, type, payload, headers, created_at from released",
                )
                .bind::<Array<BigInt>, _>(&ids);
                (released.execute(&mut conn).await?, ids)
            }
            Self::Discard { ids } => {
                let discarded = diesel::delete(outbox_parked::table.filter(outbox_parked::id.eq_any(&ids)));
                (discarded.execute(&mut conn).await?, ids)
            }
        };
        println!("{done} done");
        anyhow::ensure!(done == ids.len(), "{} of these ids are not parked", ids.len() - done);
        Ok(())
    }
}
