//! `cargo dev chaos`: everything breaks while everybody writes, and then the books are checked.

mod platform;
mod replica;
mod talk;
mod writers;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use console::style;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use testkit::history::{Fault, History, Log, Recorder, Verdict};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::platform::{Platform, Trouble};
use self::writers::Writer;
use crate::areas::Area;
use crate::bus::Kind;
use crate::postgres::{self, Connection};
use crate::signals::Signals;
use crate::stack::Lock;

/// Writers of each service.
const WRITERS: usize = 4;
/// How long everything may take to arrive once all troubles are over.
const PATIENCE: Duration = Duration::from_mins(3);
const LOOK: Duration = Duration::from_millis(100);

/// Kill, freeze and restart everything under load, then check that no event was lost or out of order
///
/// Each service runs as three processes with a database of their own. At random, processes are killed
/// and frozen, connections cut, the database and nodes of the broker crashed, while people write. The end is a
/// verdict: every committed event delivered, none that was not, each key in order, each consumer's receipts
/// complete and in order, every outbox empty, nothing parked or put aside, and what was said in chats adds up. Exits with 1 otherwise.
#[derive(Args)]
pub(crate) struct Chaos {
    /// How long things break
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The order of troubles; the verdict names it
    #[arg(long)]
    seed: Option<u64>,
    /// The embedded broker has one node; Apache Kafka has three
    #[arg(long, value_enum, default_value_t = Kind::Embedded)]
    broker: Kind,
}

/// What the verdict does not know.
struct Figures {
    troubles: usize,
    requests: u64,
    longest_gap: Duration,
    takeovers: i64,
    left: Left,
    /// What was said and done in chats, and what of it does not add up.
    talk: Vec<(&'static str, usize)>,
    talk_faults: Vec<(&'static str, usize)>,
}

/// What is left in the tables of all services when everything has arrived. No trouble is a reason for any.
#[derive(Default)]
struct Left {
    pending: usize,
    parked: usize,
    dead: usize,
}

impl Chaos {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let _lock = Lock::take("chaos")?;
        let seed = self.seed.unwrap_or_else(rand::random);
        let mut signals = Signals::listen()?;
        let mut platform = tokio::select! {
            platform = Platform::prepare(self.broker) => platform?,
            () = signals.stop() => bail!("interrupted"),
        };
        let result = tokio::select! {
            result = async {
                platform.start().await?;
                self.torture(&mut platform, seed).await
            } => result,
            () = signals.stop() => Err(anyhow::anyhow!("interrupted")),
        };
        platform.stop().await?;
        let (verdict, figures) = result?;
        if report(&verdict, &figures) {
            return Ok(ExitCode::SUCCESS);
        }
        let broker = if self.broker == Kind::Kafka { " --broker kafka" } else { "" };
        crate::say(&format!("Again: cargo dev chaos --seconds {} --seed {seed}{broker}", self.seconds));
        Ok(ExitCode::FAILURE)
    }

    async fn torture(&self, platform: &mut Platform, seed: u64) -> anyhow::Result<(Verdict, Figures)> {
        let mut recorders = Vec::new();
        for area in &platform.areas {
            recorders.push(Recorder::install(&platform.database_url(), area.name).await?);
        }
        let topics = crate::areas::topics(&platform.areas);
        let log = Log::follow(&platform.brokers()?, &topics)?;
        let (ending, requests) = (CancellationToken::new(), Arc::new(AtomicU64::new(0)));
        let mut writers = JoinSet::new();
        for _ in 0..WRITERS {
            let writer = |area| Writer::new(&platform.issuer, platform.base(area)?, Arc::clone(&requests));
            writers.spawn(writer("selections")?.select(ending.clone()));
            writers.spawn(writer("news")?.post(ending.clone()));
            writers.spawn(writer("identity")?.administer(ending.clone()));
            let (identity, chessboard) = (writer("identity")?, platform.base("chessboard")?);
            writers.spawn(identity.clone().build(chessboard.clone(), ending.clone()));
            let (crm, messenger) = (platform.base("crm")?, platform.base("messenger")?);
            writers.spawn(identity.clone().sell(chessboard.clone(), crm.clone(), ending.clone()));
            writers.spawn(identity.talk(chessboard, crm, messenger, ending.clone()));
        }

        crate::say(&style(format!("{} s of trouble, seed {seed}", self.seconds)).bold().to_string());
        let (troubles, longest_gap) = self.break_things(platform, &log, seed).await?;
        platform.heal().await?;
        ending.cancel();
        writers.join_all().await;

        let verdict = settle(&recorders, &log).await?;
        let server = postgres::connect(&platform.database_url()).await?;
        let mut takeovers = 0;
        for area in &platform.areas {
            let epoch = format!("select epoch from {}.outbox_lease", area.name);
            takeovers += server.client.query_one(&epoch, &[]).await?.get::<_, i64>(0);
        }
        let left = left(&server, &platform.areas).await?;
        let (talk, talk_faults) = (talk::figures(&server).await?, talk::faults(&server).await?);
        let requests = requests.load(Ordering::Relaxed);
        Ok((verdict, Figures { troubles, requests, longest_gap, takeovers, left, talk, talk_faults }))
    }

    /// One trouble after the other, each for a while of its own; answers how many there were, and the
    /// longest time in which nothing was delivered.
    async fn break_things(
        &self,
        platform: &mut Platform,
        log: &Log,
        seed: u64,
    ) -> anyhow::Result<(usize, Duration)> {
        let mut random = StdRng::seed_from_u64(seed);
        let started = Instant::now();
        let end = started + Duration::from_secs(self.seconds);
        let mut under_way: Vec<(Instant, Trouble)> = Vec::new();
        let mut next = started + Duration::from_secs(2);
        let (mut troubles, mut count, mut moved, mut longest) = (0, 0, started, Duration::ZERO);
        while Instant::now() < end {
            tokio::time::sleep(LOOK).await;
            let now = Instant::now();
            if log.count() > count {
                count = log.count();
                moved = now;
            }
            longest = longest.max(now - moved);
            for (_, trouble) in under_way.extract_if(.., |(until, _)| *until < now) {
                platform.recover(&trouble).await?;
            }
            if now < next {
                continue;
            }
            next = now + Duration::from_millis(random.random_range(300..2_500));
            let trouble = Trouble::choose(&mut random, platform.replicas.len());
            let duration = Duration::from_millis(random.random_range(500..8_000));
            if platform.suffer(&trouble).await? {
                crate::say(&format!(
                    "{:>6.1} s  {}",
                    (now - started).as_secs_f32(),
                    platform.describe(&trouble, duration)
                ));
                under_way.push((now + duration, trouble));
                troubles += 1;
            }
        }
        Ok((troubles, longest))
    }
}

/// Waits until all that was committed has arrived, and judges.
async fn settle(recorders: &[Recorder], log: &Log) -> anyhow::Result<Verdict> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut history = History::default();
        for recorder in recorders {
            recorder.read(&mut history).await.context("the books cannot be read")?;
        }
        log.read(&mut history);
        let verdict = history.verdict();
        let missing = verdict.count(Fault::Lost) + verdict.count(Fault::Skipped);
        if missing == 0 || Instant::now() > deadline {
            return Ok(verdict);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Waits until every outbox is empty, since events are deleted after they have arrived, and counts.
async fn left(server: &Connection, areas: &[Area]) -> anyhow::Result<Left> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut left = Left::default();
        for Area { name, .. } in areas {
            let counts = format!(
                "select (select count(*) from {name}.outbox), (select count(*) from {name}.outbox_parked), \
                 (select count(*) from {name}.dead_letter)"
            );
            let row = server.client.query_one(&counts, &[]).await?;
            left.pending += usize::try_from(row.get::<_, i64>(0))?;
            left.parked += usize::try_from(row.get::<_, i64>(1))?;
            left.dead += usize::try_from(row.get::<_, i64>(2))?;
        }
        if left.pending == 0 || Instant::now() > deadline {
            return Ok(left);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Says what came of it; answers whether all is as promised.
fn report(verdict: &Verdict, figures: &Figures) -> bool {
    let counts = [
        ("troubles", figures.troubles.to_string()),
        ("successful requests", figures.requests.to_string()),
        ("committed", verdict.committed.to_string()),
        ("delivered", verdict.delivered.to_string()),
        ("repeats, dropped by consumers", verdict.repeated.to_string()),
        ("of a stale relay", verdict.count(Fault::Stale).to_string()),
        ("takeovers", figures.takeovers.to_string()),
        ("longest gap", format!("{:.1} s", figures.longest_gap.as_secs_f32())),
    ];
    for (name, count) in counts {
        crate::say(&format!("{count:>10}  {name}"));
    }
    for (name, count) in &figures.talk {
        crate::say(&format!("{count:>10}  {name}"));
    }
    let mut sound = true;
    let mut hold_to_none = |count: usize, name| {
        sound &= count == 0;
        let text = format!("{count:>10}  {name}");
        crate::say(&if count == 0 { text } else { style(text).red().bold().to_string() });
    };
    for (fault, name) in [
        (Fault::Lost, "lost"),
        (Fault::Ghost, "delivered, but never committed"),
        (Fault::Overtaken, "delivered out of order"),
        (Fault::Skipped, "not applied by a consumer"),
        (Fault::Misapplied, "applied twice or out of order"),
    ] {
        hold_to_none(verdict.count(fault), name);
        for (_, (topic, key), sequence) in verdict.faults.iter().filter(|(of, ..)| *of == fault).take(5) {
            crate::say(&format!("            {topic} {key} {sequence}"));
        }
    }
    hold_to_none(figures.left.pending, "left in an outbox");
    hold_to_none(figures.left.parked, "parked");
    hold_to_none(figures.left.dead, "dead letters");
    for (name, count) in &figures.talk_faults {
        hold_to_none(*count, *name);
    }
    if sound {
        crate::say(&style("Nothing was lost, out of order or left over.").green().to_string());
    }
    sound
}
