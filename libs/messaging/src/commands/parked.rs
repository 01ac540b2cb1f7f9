//! The commands for parked events.
//!
//! The broker rejects these events, for example because they are too large. Later events of their
//! topic and key wait in the outbox.

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
        #[command(flatten)]
        selection: Selection,
    },
    /// Delete parked events for ever, so that the later events of their keys are sent
    Discard {
        /// Ids that `list` prints
        #[arg(required = true)]
        ids: Vec<i64>,
    },
}

/// The parked events that a command selects, by exactly one of the arguments.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct Selection {
    /// Ids that `list` prints
    ids: Vec<i64>,
    /// All parked events of this topic
    #[arg(long)]
    topic: Option<String>,
    /// All parked events
    #[arg(long)]
    all: bool,
}

/// The number of events that one transaction releases.
const MAX_RELEASED_TOGETHER: i64 = 1_000;

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
            Self::Release { selection: Selection { ids, topic, .. } } if ids.is_empty() => {
                drop(conn);
                println!("changed {} events", release_all(bus, topic.as_deref()).await?);
                return Ok(());
            }
            Self::List => {
                let events = outbox_parked::table.order(outbox_parked::id).select(ParkedEvent::as_select());
                for event in events.load::<ParkedEvent>(&mut conn).await? {
                    println!("{}", serde_json::to_string(&event)?);
                }
                return Ok(());
            }
            Self::Release { selection: Selection { ids, .. } } => {
                drop(conn);
                (bus.db.tx(async |tx| release(tx, &ids).await).await?, ids)
            }
            Self::Discard { ids } => {
                let discarded = diesel::delete(outbox_parked::table.filter(outbox_parked::id.eq_any(&ids)));
                (discarded.execute(&mut conn).await?, ids)
            }
        };
        println!("changed {done} events");
        anyhow::ensure!(done == ids.len(), "{} of these ids are not parked", ids.len() - done);
        Ok(())
    }
}

/// Releases the parked events of a topic, or of all topics, oldest first. Returns their number.
async fn release_all(bus: &Bus, topic: Option<&str>) -> anyhow::Result<usize> {
    let mut released = 0;
    let last: Option<i64> = {
        let newest = outbox_parked::table.select(diesel::dsl::max(outbox_parked::id));
        newest.first(&mut bus.db.conn().await?).await?
    };
    // An event that is parked again during the command is not released twice.
    let mut after = 0;
    loop {
        let ids = bus
            .db
            .tx(async |tx| {
                let mut next = outbox_parked::table
                    .filter(outbox_parked::id.gt(after).and(outbox_parked::id.le(last.unwrap_or_default())))
                    .order(outbox_parked::id)
                    .limit(MAX_RELEASED_TOGETHER)
                    .select(outbox_parked::id)
                    .into_boxed();
                if let Some(topic) = topic {
                    next = next.filter(outbox_parked::topic.eq(topic));
                }
                let ids: Vec<i64> = next.load(tx.conn()).await?;
                released += release(tx, &ids).await?;
                Ok::<_, db::Error>(ids)
            })
            .await?;
        let Some(&newest) = ids.last() else { return Ok(released) };
        after = newest;
    }
}

/// Moves events back to the outbox. Each event keeps its id, which is its position among the events
/// of its key. The floor of each lane moves below the released ids. The rows get the history of the
/// lease, so that a later change of the history does not renumber them.
async fn release(tx: &mut Tx, ids: &[i64]) -> Result<usize, db::Error> {
    diesel::sql_query("select from outbox_lane order by topic for no key update").execute(tx.conn()).await?;
    let released = diesel::sql_query(
        "with released as (delete from outbox_parked where id = any($1) returning *), \
         lowered as (update outbox_lane set floor = least(floor, first.id - 1) \
         from (select topic, min(id) as id from released group by topic) as first \
         where outbox_lane.topic = first.topic) \
         insert into outbox (id, event_id, topic, key, type, payload, headers, created_at, history) \
         select id, event_id, topic, key, type, payload, headers, created_at, outbox_lease.history \
         from released cross join outbox_lease",
    )
    .bind::<Array<BigInt>, _>(ids);
    Ok(released.execute(tx.conn()).await?)
}
