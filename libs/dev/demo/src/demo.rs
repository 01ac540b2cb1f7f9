//! A story over HTTP and Kafka, told step by step; a step that is not as promised fails it.

mod agent;
mod chessboard;
mod crm;
mod identity;
mod messenger;
mod news;
mod scene;
mod selections;
mod story;

use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;

use self::scene::Scene;
use self::story::Story;
use devkit::Settings;
use devkit::bus::Kind;
use devkit::events::{Follower, Record};
use devkit::postgres::Cluster;
use devkit::signals::Signals;
use devkit::stack::{Lock, Stack};
use devstack::running::Running;
use devstack::up::Up;

/// How long something may take that happens after the call that causes it: an event, a detachment.
const EVENT_TIMEOUT: Duration = Duration::from_secs(10);

/// Nobody waits a minute for a call that is not answered, where the stack is the story's own.
const RING_SECONDS: u32 = 5;

/// Play a story over HTTP and Kafka: against the running stack, or one that it starts and stops
///
/// Identity: a company is founded, and what a role that is given, or a suspension, is to its people's next
/// token. Chessboard: a developer's profile, project and grid of flats, an outside system that takes fields over, and how
/// soon a suspension empties the catalog. CRM: a deal is made, booked, arbitrated, cancelled and revived, and how soon its flat is
/// taken and free again. Messenger: the people of a deal write to each other, see its status change, and call each other. Agent:
/// a sale earns a commission, which is adjusted, paid, and taken back as a debt. Selections: one is made, shared, edited, embedded, deleted; and what Kafka tells of it. News: a post
/// with an embedded selection is published and read, its embed replaced, and all that once more while
/// selections is away: the demo stops it and starts it again. What it made is deleted at the end, the
/// company archived; what was sold stays sold. Exit code 1 if any step was not as promised.
#[derive(Args)]
pub struct Demo {}

impl Demo {
    pub async fn run(self) -> anyhow::Result<()> {
        let mut signals = Signals::listen()?;
        if Lock::holder("up")?.is_some() {
            return play(&Stack::running()?, &mut signals).await;
        }
        let mut running = Running::new()?;
        let options = Up {
            port: 0,
            fresh: false,
            no_seed: false,
            broker: Kind::Embedded,
            processes: false,
            media: false,
            cluster: Cluster::STACK,
            settings: Settings::from([("MESSENGER_RING_SECONDS", RING_SECONDS.to_string())]),
        };
        let started = tokio::select! {
            started = running.start(&options) => started,
            () = signals.stop() => Err(interrupted()),
        };
        let result = match started {
            Ok(stack) => tokio::select! {
                result = play(&stack, &mut signals) => result,
                error = running.attend() => Err(error),
            },
            Err(error) => Err(error),
        };
        let stopped = running.stop().await;
        result.and(stopped)
    }
}

/// Tells the whole story, and leaves the stack as it was, however far the story came.
pub async fn play(stack: &Stack, signals: &mut Signals) -> anyhow::Result<()> {
    let (mut story, mut scene) = (Story::begin()?, Scene::of(stack).await?);
    let played = tokio::select! {
        played = chapters(&mut story, &mut scene) => played,
        () = signals.stop() => Err(interrupted()),
    };
    let tidied = tokio::select! {
        tidied = scene.tidy() => tidied,
        () = signals.stop() => Err(anyhow::anyhow!("interrupted while tidying up")),
    };
    match (played, tidied) {
        (Err(played), Err(tidied)) => bail!("{played:#}; and then: {tidied:#}"),
        (played, tidied) => played.and(tidied)?,
    }
    story.end()
}

async fn chapters(story: &mut Story, scene: &mut Scene<'_>) -> anyhow::Result<()> {
    identity::play(story, scene).await?;
    chessboard::play(story, scene).await?;
    crm::play(story, scene).await?;
    messenger::play(story, scene).await?;
    agent::play(story, scene).await?;
    selections::play(story, scene).await?;
    news::play(story, scene).await
}

/// The next event that is so, which has its time to come.
async fn next_event(bus: &mut Follower, is: impl Fn(&Record) -> bool) -> anyhow::Result<Record> {
    let next = async {
        loop {
            let record = bus.next().await?;
            if is(&record) {
                return anyhow::Ok(record);
            }
        }
    };
    let record = tokio::time::timeout(EVENT_TIMEOUT, next).await;
    let record = record.with_context(|| format!("no event came within {} s", EVENT_TIMEOUT.as_secs()))??;
    devkit::say(&format!("    {}  key {}", record.topic, record.key));
    Ok(record)
}

fn interrupted() -> anyhow::Error {
    anyhow::anyhow!("interrupted")
}
