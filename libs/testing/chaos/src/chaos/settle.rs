//! Waits until every committed event has arrived and every job is done, and prints what it waits
//! for.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use anyhow::Context;
use testkit::history::{Fault, History, Log, LostEvents, NextLease, Recorder, Stream, Verdict};
use time::OffsetDateTime;
use tokio::time::Instant;

use super::checks::{Leftovers, count};
use super::{POLL_INTERVAL, agreement, commissions};
use devkit::postgres::{self, Connection};
use devstack::services::ServiceEntry;

/// Time without progress after which waiting ends.
const STALL_TIMEOUT: Duration = Duration::from_mins(2);
/// The topic of revocations of access.
const REVOCATIONS: &str = "platform.identity.access-revoked.v1";
/// Interval of the printed lines.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// The recorded writes and receipts of every service, and the deliveries of the broker.
pub struct Recordings {
    pub(super) services: Vec<ServiceEntry>,
    database_url: String,
    /// The recorder of each service, in the order of `services`.
    recorders: Vec<Recorder>,
    log: Log,
    lost: Vec<LostEvents>,
    /// The faults of events whose record a loss may have removed since.
    faults_before_losses: Vec<(Fault, Stream, i64)>,
}

impl Recordings {
    /// Installs the recorders in migrated schemas without data.
    pub async fn open(
        services: &[ServiceEntry],
        database_url: &str,
        brokers: &str,
        topics: &[String],
    ) -> anyhow::Result<Self> {
        let mut recorders = Vec::new();
        for service in services {
            recorders.push(Recorder::install(database_url, service.name).await?);
        }
        let (services, database_url) = (services.to_vec(), database_url.to_owned());
        let log = Log::follow(brokers, topics)?;
        let (lost, faults_before_losses) = (Vec::new(), Vec::new());
        Ok(Self { services, database_url, recorders, log, lost, faults_before_losses })
    }

    pub(super) fn log(&self) -> &Log {
        &self.log
    }

    pub(super) async fn connect(&self) -> anyhow::Result<Connection> {
        postgres::connect(&self.database_url).await
    }

    /// Returns the highest committed sequence of each stream of each service in a copy of the
    /// database.
    pub(super) async fn last_committed(
        &self,
        url: &str,
    ) -> anyhow::Result<BTreeMap<&'static str, BTreeMap<Stream, i64>>> {
        let mut last = BTreeMap::new();
        for (service, recorder) in self.services.iter().zip(&self.recorders) {
            last.insert(service.name, recorder.last_committed(url).await?);
        }
        Ok(last)
    }

    /// Keeps the faults so far. A loss excuses the delivery of events that the database does not
    /// have afterwards, and removes receipts.
    pub(super) async fn check_before_loss(&mut self) -> anyhow::Result<()> {
        let faults = self.verdict().await?.faults.into_iter();
        let is_final = |fault| matches!(fault, Fault::Uncommitted | Fault::ReceivedOutOfOrder);
        self.faults_before_losses = faults.filter(|(fault, ..)| is_final(*fault)).collect();
        Ok(())
    }

    /// Accepts the delivery of the events that the database of a service has lost at this time.
    /// `kept` has the last sequence of each stream that the database still has.
    pub(super) fn accept_lost(
        &mut self,
        service: &str,
        kept: BTreeMap<Stream, i64>,
        lost_at: OffsetDateTime,
    ) -> anyhow::Result<()> {
        let service = self.services.iter().find(|entry| entry.name == service);
        let topics = service.into_iter().flat_map(|entry| entry.events).map(|event| event.topic.to_owned());
        let before = i64::try_from(lost_at.unix_timestamp_nanos() / 1_000)?;
        self.lost.push(LostEvents { topics: topics.collect(), kept, before });
        Ok(())
    }

    /// Returns the lease of a service's relay after a fault of the session with this epoch.
    pub(super) async fn next_lease(
        &self,
        service: &str,
        epoch: i64,
        fault: OffsetDateTime,
    ) -> anyhow::Result<NextLease> {
        let mut recorders = self.services.iter().zip(&self.recorders);
        let recorder = recorders.find(|(entry, _)| entry.name == service);
        let (_, recorder) = recorder.with_context(|| format!("no recorder of {service}"))?;
        recorder.next_lease(epoch, fault).await
    }

    /// Returns the number of committed revocations of access.
    pub(super) async fn count_revocations(&self) -> anyhow::Result<u64> {
        let count = "select count(*) from identity.history_appended where topic = $1";
        let row = self.connect().await?.client.query_one(count, &[&REVOCATIONS]).await?;
        Ok(u64::try_from(row.get::<_, i64>(0))?)
    }

    async fn verdict(&self) -> anyhow::Result<Verdict> {
        let mut history = History { lost: self.lost.clone(), ..History::default() };
        // The deliveries are read first, so that the database has each delivered event.
        self.log.read(&mut history);
        for recorder in &self.recorders {
            recorder.read(&mut history).await.context("failed to read the recordings")?;
        }
        let mut verdict = history.verdict();
        let earlier = self.faults_before_losses.iter().filter(|fault| !verdict.faults.contains(fault));
        let earlier: Vec<_> = earlier.cloned().collect();
        verdict.faults.extend(earlier);
        Ok(verdict)
    }
}

/// Waits until nothing is left to do, or until nothing progresses, and returns the verdict.
/// `restart_ended` runs in each turn.
pub(super) async fn settle(
    recordings: &Recordings,
    server: &Connection,
    restart_ended: &mut impl FnMut() -> anyhow::Result<usize>,
) -> anyhow::Result<Verdict> {
    let mut quiet_at = None;
    let mut stall = StallDetector::new();
    loop {
        restart_ended()?;
        let mut waiting = Vec::new();
        for (name, count) in
            count(server, &[commissions::EVENTUAL_RULES, agreement::EVENTUAL_RULES].concat()).await?
        {
            waiting.push((name.to_owned(), count));
        }
        let left = Leftovers::of(server, &recordings.services).await?;
        waiting.push((Leftovers::PENDING.to_owned(), left.pending));
        waiting.push((Leftovers::DUE.to_owned(), left.due));
        let verdict = recordings.verdict().await?;
        waiting.push(("not delivered".to_owned(), verdict.count(Fault::Lost)));
        let behind = verdict.skipped_by_consumer.iter();
        waiting.extend(behind.map(|(consumer, count)| (format!("not applied by {consumer}"), *count)));
        waiting.retain(|(_, count)| *count > 0);
        if waiting.is_empty() {
            // Events may have arrived after the jobs were counted. Everything is done if two turns
            // in succession found nothing left, without a commit in between.
            if quiet_at == Some(verdict.committed) {
                return Ok(verdict);
            }
            quiet_at = Some(verdict.committed);
        } else {
            quiet_at = None;
            if stall.has_stalled(&waiting) {
                for partition in tokio::task::block_in_place(|| recordings.log.unread_partitions()) {
                    devkit::print_line(&format!("            {partition}"));
                }
                return Ok(verdict);
            }
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// A timer that expires when the number of open items does not fall for some time.
pub(crate) struct StallDetector {
    least: usize,
    ends: Instant,
    next_report: Instant,
}

impl StallDetector {
    pub fn new() -> Self {
        let now = Instant::now();
        Self { least: usize::MAX, ends: now + STALL_TIMEOUT, next_report: now + REPORT_INTERVAL }
    }

    /// Records the open items and prints them at intervals. Returns true if their number has not
    /// fallen for [`STALL_TIMEOUT`].
    pub fn has_stalled(&mut self, waiting: &[(impl Display, usize)]) -> bool {
        let now = Instant::now();
        let rest = waiting.iter().map(|(_, count)| count).sum();
        if rest < self.least {
            self.least = rest;
            self.ends = now + STALL_TIMEOUT;
        }
        let has_stalled = now > self.ends;
        if has_stalled || now > self.next_report {
            self.next_report = now + REPORT_INTERVAL;
            let rest: Vec<_> = waiting.iter().map(|(name, count)| format!("{count} {name}")).collect();
            let begin = if has_stalled { "no progress" } else { "waiting" };
            devkit::print_line(&format!("{begin}: {}", rest.join(", ")));
        }
        has_stalled
    }
}
