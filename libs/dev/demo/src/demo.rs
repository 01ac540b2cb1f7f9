//! `cargo dev demo`: a story over HTTP and Kafka that checks each step.

mod agent;
mod chessboard;
mod crm;
mod identity;
mod machine;
mod messenger;
mod news;
mod offboarding;
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

/// Timeout of an asynchronous effect, such as an event or a detachment.
const EVENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which every service rejects a revoked access.
const ACCESS_END_TIMEOUT: Duration = Duration::from_mins(1);

/// Ring time of calls on a stack that the demo starts. The default is a minute.
const RING_SECONDS: u32 = 5;

/// Play a story over HTTP and Kafka: against the running stack, or one that it starts and stops
///
/// Identity: a company is founded, and roles and a suspension change the next tokens of its
/// employees. Chessboard: a developer gets a profile, a project and a grid of flats; an external
/// system takes over fields; a suspension empties the catalog. CRM: a deal is created, booked,
/// arbitrated, cancelled and revived, and its flat becomes booked and free; the platform finds it
/// in the register of overrides, in searches and in exports. Messenger: the members of a deal
/// exchange messages, see its status and call each other. Agent: a sale earns a commission, which
/// is adjusted, paid and reversed. Selections: a selection is created, shared, edited, embedded and
/// deleted, with its events. News: a post with an embedded selection is published, read and
/// changed, also while selections is stopped; it is scheduled, restored and brought back. Last, an
/// employee leaves, and every service ends the access.
///
/// At the end, the demo deletes its selections, posts and saved views, cancels its deals, and
/// archives its companies. Sold flats, chats and payouts stay until `cargo dev up --fresh`. Exit
/// code 1 if a step fails.
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
                error = running.serve_control() => Err(error),
            },
            Err(error) => Err(error),
        };
        let stopped = running.stop().await;
        result.and(stopped)
    }
}

/// Plays the whole story and restores the stack, even if the story fails.
pub async fn play(stack: &Stack, signals: &mut Signals) -> anyhow::Result<()> {
    let (mut story, mut scene) = (Story::begin()?, Scene::of(stack).await?);
    let played = tokio::select! {
        played = chapters(&mut story, &mut scene) => played,
        () = signals.stop() => Err(interrupted()),
    };
    let undone = tokio::select! {
        undone = scene.undo_all() => undone,
        () = signals.stop() => Err(anyhow::anyhow!("interrupted while undoing the story")),
    };
    match (played, undone) {
        (Err(played), Err(undone)) => bail!("{played:#}; and then: {undone:#}"),
        (played, undone) => played.and(undone)?,
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
    news::play(story, scene).await?;
    offboarding::play(story, scene).await
}

/// Waits for the next event that satisfies `is`.
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
    let record =
        record.with_context(|| format!("no event arrived within {} s", EVENT_TIMEOUT.as_secs()))??;
    devkit::print_line(&format!("    {}  key {}", record.topic, record.key));
    Ok(record)
}

fn interrupted() -> anyhow::Error {
    anyhow::anyhow!("interrupted")
}
