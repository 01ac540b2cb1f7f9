//! The commands for parked events.
//!
//! The broker rejects these events, for example because they are too large or because the right to
//! write to their topic is missing. Later events of their topic and key wait in the outbox.

use db::Tx;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt};
use diesel_async::RunQueryDsl;
use serde::Serialize;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::bus::Bus;
use crate::schema::outbox_parked;

#[derive(Debug, clap::Subcommand)]
pub enum ParkedCommand {
    /// Print parked events as JSON lines, oldest first
    List,
    /// Send parked events again, before the later events of their keys
    Release {
        /// Ids that `list` prints
        #[arg(required = true)]
        ids: Vec<i64>,
    },
    /// Delete parked events for ever, so that the later events of their keys are sent
    Discard {
        /// Ids that `list` prints
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

impl ParkedCommand {
    pub(super) async fn execute(self, bus: &Bus) -> anyhow::Result<()> {
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
                drop(conn);
                (bus.db.tx(async |tx| release(tx, &ids).await).await?, ids)
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

/// Moves events back to the outbox. Each keeps its id, which is its position in the order of its
/// key, and the floor of its lane moves below it.
async fn release(tx: &mut Tx, ids: &[i64]) -> Result<usize, db::Error> {
    diesel::sql_query("select from outbox_lane order by topic for no key update").execute(tx.conn()).await?;
    let released = diesel::sql_query(
        "with released as (delete from outbox_parked where id = any($1) returning *), \
         lowered as (update outbox_lane set floor = least(floor, first.id - 1) \
         from (select topic, min(id) as id from released group by topic) as first \
         where outbox_lane.topic = first.topic) \
         insert into outbox (id, event_id, topic, key, type, payload, headers, created_at) \
         overriding system value \
         select id, event_id, topic, key, type, payload, headers, created_at from released",
    )
    .bind::<Array<BigInt>, _>(ids);
    Ok(released.execute(tx.conn()).await?)
}
