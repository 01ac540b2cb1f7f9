//! Waits until all that was committed has arrived and all that was left to do is done, and says for what it waits.

use std::fmt::Display;
use std::time::Duration;

use anyhow::Context;
use testkit::history::{Fault, History, Log, Recorder, Verdict};
use tokio::time::Instant;

use super::balance::{Left, count};
use super::{LOOK, money, sums};
use devkit::postgres::{self, Connection};
use devstack::areas::Area;

/// How long one waits for what does not become less.
const PATIENCE: Duration = Duration::from_mins(2);
/// How often one says for what.
const WORD: Duration = Duration::from_secs(5);

/// What every service has written and taken in, and what the broker has delivered.
pub struct Books {
    pub(super) areas: Vec<Area>,
    database_url: String,
    recorders: Vec<Recorder>,
    log: Log,
}

impl Books {
    /// Of areas whose schemas have been migrated and in which nothing has happened yet.
    pub async fn open(
        areas: &[Area],
        database_url: &str,
        brokers: &str,
        topics: &[String],
    ) -> anyhow::Result<Self> {
        let mut recorders = Vec::new();
        for area in areas {
            recorders.push(Recorder::install(database_url, area.name).await?);
        }
        let (areas, database_url) = (areas.to_vec(), database_url.to_owned());
        Ok(Self { areas, database_url, recorders, log: Log::follow(brokers, topics)? })
    }

    pub(super) fn log(&self) -> &Log {
        &self.log
    }

    pub(super) async fn connect(&self) -> anyhow::Result<Connection> {
        postgres::connect(&self.database_url).await
    }

    async fn verdict(&self) -> anyhow::Result<Verdict> {
        let mut history = History::default();
        for recorder in &self.recorders {
            recorder.read(&mut history).await.context("the books cannot be read")?;
        }
        self.log.read(&mut history);
        Ok(history.verdict())
    }
}

/// Waits until there is nothing more to be done, or until it becomes no less; and judges. Meanwhile the processes are
/// attended to.
pub(super) async fn settle(
    books: &Books,
    server: &Connection,
    attend: &mut impl FnMut() -> anyhow::Result<usize>,
) -> anyhow::Result<Verdict> {
    let mut quiet_at = None;
    let mut patience = Patience::new();
    loop {
        attend()?;
        let mut waiting = Vec::new();
        for (name, count) in count(server, &[money::IN_TIME, sums::IN_TIME].concat()).await? {
            waiting.push((name.to_owned(), count));
        }
        let left = Left::of(server, &books.areas).await?;
        waiting.push((Left::PENDING.to_owned(), left.pending));
        waiting.push((Left::DUE.to_owned(), left.due));
        let verdict = books.verdict().await?;
        waiting.push(("not delivered".to_owned(), verdict.count(Fault::Lost)));
        let behind = verdict.skipped_by_consumer.iter();
        waiting.extend(behind.map(|(consumer, count)| (format!("not applied by {consumer}"), *count)));
        waiting.retain(|(_, count)| *count > 0);
        if waiting.is_empty() {
            // What arrived after jobs were looked at may have left them something. Where nothing was to be done twice, and
            // nothing was committed between, all has arrived and all is done.
            if quiet_at == Some(verdict.committed) {
                return Ok(verdict);
            }
            quiet_at = Some(verdict.committed);
        } else {
            quiet_at = None;
            if patience.is_over(&waiting) {
                for partition in tokio::task::block_in_place(|| books.log.unread_partitions()) {
                    devkit::say(&format!("            {partition}"));
                }
                return Ok(verdict);
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Of somebody who waits for something to become less.
pub(crate) struct Patience {
    least: usize,
    ends: Instant,
    next_word: Instant,
}

impl Patience {
    pub fn new() -> Self {
        let now = Instant::now();
        Self { least: usize::MAX, ends: now + PATIENCE, next_word: now + WORD }
    }

    pub fn is_over(&mut self, waiting: &[(impl Display, usize)]) -> bool {
        let now = Instant::now();
        let rest = waiting.iter().map(|(_, count)| count).sum();
        if rest < self.least {
            self.least = rest;
            self.ends = now + PATIENCE;
        }
        let is_over = now > self.ends;
        if is_over || now > self.next_word {
            self.next_word = now + WORD;
            let rest: Vec<_> = waiting.iter().map(|(name, count)| format!("{count} {name}")).collect();
            let begin = if is_over { "given up" } else { "waiting" };
            devkit::say(&format!("{begin}: {}", rest.join(", ")));
        }
        is_over
    }
}
