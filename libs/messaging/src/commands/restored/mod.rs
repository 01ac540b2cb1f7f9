//! The command for a database that was restored to an earlier time, or that has lost its last
//! transactions.
//!
//! Kafka still has the events of the lost changes, and other services have applied them. With a
//! time, the command reads the service's own topics since then. The command raises the version of
//! each row above the published version, and publishes the current state. For each entity that no
//! longer exists, the command publishes the end of the entity.

mod published;
mod reader;
mod steps;
mod store;

use std::fmt::Write;
use std::future::Future;

use db::Tx;
use futures_util::future::BoxFuture;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use self::reader::TopicReader;
use self::steps::Steps;
use self::store::{Batch, Versions};
use crate::bus::Bus;
use crate::commands::lock::{Run, RunLock};
use crate::commands::republish::Republish;
use crate::contract::event::Aggregate;
use crate::history;
use crate::outbox::RowlessOutbox;

pub use self::published::PublishedState;

/// The maximum time from the creation of an event to the commit of its transaction. An event that
/// was created before the restored time may belong to a lost transaction.
const MAX_COMMIT_DELAY: Duration = Duration::minutes(1);

/// The timeout of each statement of a dry run, and of the idle transaction while the command reads
/// Kafka.
const DRY_RUN_TIMEOUT: std::time::Duration = std::time::Duration::from_mins(10);

/// The names under which a kind of aggregate has its version.
#[derive(Clone, Copy, Debug)]
pub struct VersionNames {
    /// The `bigint` column in the table of the aggregate.
    pub column: &'static str,
    /// The member in the payload of each event.
    pub member: &'static str,
}

/// Aligns consumers with the restored state of one kind of aggregate.
pub trait Restore: Republish {
    /// `None` if the events have no version. The state of every key that has an event since the
    /// restored time is then published again.
    const VERSION: Option<VersionNames>;
    /// The topics that have events with the version.
    const TOPICS: &'static [&'static str];

    /// Appends the current state of aggregates whose version has just been raised above the
    /// published one. The caller has locked their rows.
    fn publish_raised(
        tx: &mut Tx,
        raised: &[PublishedState],
    ) -> impl Future<Output = Result<(), db::Error>> + Send {
        async move {
            let keys: Vec<_> = raised.iter().map(|state| state.key).collect();
            Self::republish(tx, &keys).await
        }
    }

    /// Appends the end of aggregates that no longer exist, under [`PublishedState::next_version`].
    /// Returns the keys whose end was appended. The other keys have too few events since the
    /// restored time.
    fn end(
        outbox: &mut RowlessOutbox<'_>,
        lost: &[PublishedState],
    ) -> impl Future<Output = Result<Vec<Uuid>, db::Error>> + Send;
}

type PublishRaisedFn = for<'a> fn(&'a mut Tx, &'a [PublishedState]) -> BoxFuture<'a, Result<(), db::Error>>;
type EndFn = for<'a, 't> fn(
    &'a mut RowlessOutbox<'t>,
    &'a [PublishedState],
) -> BoxFuture<'a, Result<Vec<Uuid>, db::Error>>;

/// A [`Restore`] implementation as a value.
#[derive(Clone, Copy)]
pub struct Restorer {
    aggregate: Aggregate,
    version: Option<VersionNames>,
    topics: &'static [&'static str],
    publish_raised: PublishRaisedFn,
    end: EndFn,
}

impl Restorer {
    /// Returns the value of implementation `R`.
    pub const fn of<R: Restore + 'static>() -> Self {
        Self {
            aggregate: R::AGGREGATE,
            version: R::VERSION,
            topics: R::TOPICS,
            publish_raised: |tx, raised| Box::pin(R::publish_raised(tx, raised)),
            end: |outbox, lost| Box::pin(R::end(outbox, lost)),
        }
    }
}

/// The number of keys with each outcome.
#[derive(Default)]
struct Counts {
    raised: usize,
    ended: usize,
    not_ended: usize,
}

/// Numbers new events above all earlier ones. With a time, aligns the consumers with the database.
/// An interrupted command continues where it stopped if it is repeated with the same time.
pub(super) async fn execute(
    bus: &Bus,
    restorers: &[Restorer],
    since: Option<OffsetDateTime>,
    dry_run: bool,
) -> anyhow::Result<()> {
    let _lock = RunLock::acquire(&bus.db, Run::Restored).await?;
    if !dry_run {
        let renumbering = bus.db.tx(async |tx| {
            history::require_position_checks(tx).await?;
            history::renumber_events(tx).await
        });
        println!("events are numbered above {}", renumbering.await?.last_id);
    }
    let Some(since) = since else { return Ok(()) };
    if restorers.is_empty() {
        println!("{} publishes no state that consumers keep", bus.service);
        return Ok(());
    }
    let not_ended = if dry_run {
        let dry_run = bus.db.rolled_back_tx(async |tx| {
            tx.extend_timeout(DRY_RUN_TIMEOUT).await?;
            align_all(bus, restorers, since, &mut Steps::DryRun(tx)).await
        });
        let not_ended = dry_run.await?;
        println!("dry run: nothing was written or published");
        not_ended
    } else {
        align_all(bus, restorers, since, &mut Steps::Committed(&bus.db)).await?
    };
    anyhow::ensure!(not_ended == 0, "{not_ended} keys are not ended; repeat with an earlier time");
    Ok(())
}

/// Reads the topics and aligns all keys. Returns the number of keys that could not be ended.
async fn align_all(
    bus: &Bus,
    restorers: &[Restorer],
    since: OffsetDateTime,
    steps: &mut Steps<'_>,
) -> anyhow::Result<usize> {
    steps.run(async |tx| store::begin(tx, since).await).await?;
    for restorer in restorers {
        for topic in restorer.topics {
            read_topic(bus, restorer, topic, since, steps).await?;
        }
    }
    let mut not_ended = 0;
    for restorer in restorers {
        not_ended += align(restorer, steps).await?;
    }
    steps.run(async |tx| store::finish(tx).await).await?;
    Ok(not_ended)
}

/// Stores the newest event of each key of a topic.
async fn read_topic(
    bus: &Bus,
    restorer: &Restorer,
    topic: &'static str,
    since: OffsetDateTime,
    steps: &mut Steps<'_>,
) -> anyhow::Result<()> {
    if steps.run(async |tx| store::is_read(tx, topic).await).await? {
        println!("{topic}: read before the interruption");
        return Ok(());
    }
    let (name, version) = (restorer.aggregate.name, restorer.version);
    let mut reader = TopicReader::start(bus, topic, since - MAX_COMMIT_DELAY, version)?;
    while let Some(events) = reader.next().await {
        let keep = steps.run(async |tx| store::keep_newest(tx, version.is_some(), name, topic, events).await);
        keep.await?;
    }
    let offsets = reader.finish().await?;
    steps.run(async |tx| store::mark_read(tx, topic).await).await?;
    println!("{topic}: {offsets}");
    Ok(())
}

/// Raises or ends the keys of one kind, batch by batch. Returns the number of keys that could not
/// be ended.
async fn align(restorer: &Restorer, steps: &mut Steps<'_>) -> anyhow::Result<usize> {
    let name = restorer.aggregate.name;
    let (mut counts, mut after) = (Counts::default(), None);
    loop {
        let batch = steps.run_with_locks(async |tx| {
            let Some(batch) = store::next_batch(tx, name, after).await? else { return Ok(None) };
            align_batch(tx, restorer, batch).await.map(Some)
        });
        let Some(aligned) = batch.await? else { break };
        print!("{}", aligned.report);
        counts.raised += aligned.counts.raised;
        counts.ended += aligned.counts.ended;
        counts.not_ended += aligned.counts.not_ended;
        after = Some(aligned.last_key);
    }
    let Counts { raised, ended, not_ended } = counts;
    println!("{name}: {raised} raised, {ended} ended, {not_ended} not ended");
    Ok(not_ended)
}

struct AlignedBatch {
    last_key: Uuid,
    counts: Counts,
    /// A line for each key that was raised or ended.
    report: String,
}

async fn align_batch(tx: &mut Tx, restorer: &Restorer, batch: Batch) -> Result<AlignedBatch, db::Error> {
    let Restorer { aggregate, version, .. } = *restorer;
    let Batch { states, last_key } = batch;
    let keys: Vec<_> = states.iter().map(|state| state.key).collect();
    let stored = Versions::lock(tx, aggregate, version, &keys).await?;
    let (mut raised, lost): (Vec<_>, Vec<_>) =
        states.into_iter().partition(|state| stored.get(state.key).is_some());
    for state in &mut raised {
        // Changes without an event may have raised the row to the published version or above it.
        // The version must rise once more, since consumers still have the lost state.
        state.version = state.version.max(stored.get(state.key).unwrap_or_default());
    }
    if let Some(version) = version {
        store::raise_versions(tx, aggregate, version, &raised).await?;
    }
    (restorer.publish_raised)(tx, &raised).await?;
    let ended = (restorer.end)(&mut RowlessOutbox::new(tx), &lost).await?;
    store::delete_aligned(tx, aggregate.name, &keys).await?;
    let mut report = String::new();
    for state in &raised {
        let from = stored.get(state.key).unwrap_or_default();
        // Writing to a string does not fail.
        let _ = match version {
            Some(_) => {
                writeln!(
                    report,
                    "{} {}: raised from {from} above {}",
                    aggregate.name, state.key, state.version
                )
            }
            None => writeln!(report, "{} {}: published again", aggregate.name, state.key),
        };
    }
    for state in &lost {
        let outcome =
            if ended.contains(&state.key) { "ended" } else { "NOT ended: its first event is missing" };
        let _ = writeln!(report, "{} {}: {outcome}", aggregate.name, state.key);
    }
    let counts = Counts { raised: raised.len(), ended: ended.len(), not_ended: lost.len() - ended.len() };
    Ok(AlignedBatch { last_key, counts, report })
}
