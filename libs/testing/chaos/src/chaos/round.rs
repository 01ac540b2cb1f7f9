//! A round: load, faults and losses of commits on a platform without data.

use std::sync::Arc;
use std::time::Duration;

use console::style;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::POLL_INTERVAL;
use super::fault::{Fault, FaultKind, InjectedFaults};
use super::loss::Loss;
use super::platform::Platform;
use super::report::Outcome;
use super::settle::Recordings;
use super::takeovers::{LeaderFault, OpenTakeovers};
use super::writers::{Load, RequestResults};
use devstack::services;

/// Number of writers of each kind.
const WRITERS: usize = 4;
/// Timeout of a writer's request.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time of faults before the next loss of commits, in milliseconds.
const TIME_BETWEEN_LOSSES: std::ops::Range<u64> = 10_000..20_000;
/// Time between two faults, in milliseconds.
const TIME_BETWEEN_FAULTS: std::ops::Range<u64> = 300..2_000;

/// The simulated users of a platform.
struct Users {
    tasks: JoinSet<()>,
    stopping: CancellationToken,
}

impl Users {
    fn start(platform: &Platform, results: &Arc<RequestResults>) -> anyhow::Result<Self> {
        let (mut tasks, stopping) = (JoinSet::new(), CancellationToken::new());
        let client = devkit::http::client()?;
        for _ in 0..WRITERS {
            let issuer = &platform.issuer;
            let load =
                Load { client: &client, timeout: RESPONSE_TIMEOUT, issuer, results, stopping: &stopping };
            load.spawn(&mut tasks, |service| platform.base(service))?;
        }
        Ok(Self { tasks, stopping })
    }

    async fn stop(self) {
        self.stopping.cancel();
        self.tasks.join_all().await;
    }
}

/// Injects faults for this time, and losses of commits in between. Then waits until everything has
/// settled, and returns the outcome.
pub(super) async fn run(platform: &mut Platform, seed: u64, time: Duration) -> anyhow::Result<Outcome> {
    let topics = services::topics(&platform.services);
    let mut recordings =
        Recordings::open(&platform.services, &platform.database_url(), &platform.brokers()?, &topics).await?;
    let results = Arc::new(RequestResults::default());
    let mut users = Users::start(platform, &results)?;

    devkit::print_line(&style(format!("{} s of faults, seed {seed}", time.as_secs())).bold().to_string());
    let mut random = StdRng::seed_from_u64(seed);
    let mut loss = Loss::choose(&mut random);
    let mut faults = InjectedFaults::default();
    let started = Instant::now();
    loop {
        let period = Duration::from_millis(random.random_range(TIME_BETWEEN_LOSSES));
        let end = (Instant::now() + period).min(started + time);
        let takeovers =
            inject_faults(platform, &recordings, &mut random, (started, end), &mut faults).await?;
        platform.end_faults().await?;
        faults.takeovers.extend(takeovers.finish(&recordings).await?);
        if Instant::now() > started + time {
            break;
        }
        recordings.check_before_loss().await?;
        let lost_changes = loss.inject(platform, &mut recordings, &mut random).await?;
        // Without the load of users, the commands end soon on this machine.
        users.stop().await;
        lost_changes.align(platform).await?;
        users = Users::start(platform, &results)?;
        faults.add(loss.kind(), 1);
        loss = loss.other();
    }
    faults.time = started.elapsed();
    users.stop().await;
    faults.add(FaultKind::RevokeAccess, recordings.count_revocations().await?);
    let requests = results.take().successful;
    Outcome::of(&recordings, faults, requests, || {
        platform.restart_ended()?;
        Ok(platform.ended)
    })
    .await
}

/// Injects random faults at random intervals, each for a random time. Faults may overlap. `started`
/// is the beginning of the round. Returns the faults of leading workers.
async fn inject_faults(
    platform: &mut Platform,
    recordings: &Recordings,
    random: &mut StdRng,
    (started, end): (Instant, Instant),
    faults: &mut InjectedFaults,
) -> anyhow::Result<OpenTakeovers> {
    let mut active: Vec<(Instant, Fault)> = Vec::new();
    let mut takeovers = OpenTakeovers::default();
    let mut next = Instant::now() + Duration::from_secs(1);
    let (mut count, mut last_delivery) = (recordings.log().count(), Instant::now());
    while Instant::now() < end {
        tokio::time::sleep(POLL_INTERVAL).await;
        platform.restart_ended()?;
        platform.restart_outdated().await?;
        let now = Instant::now();
        if recordings.log().count() > count {
            count = recordings.log().count();
            last_delivery = now;
        }
        faults.longest_gap = faults.longest_gap.max(now - last_delivery);
        for (_, fault) in active.extract_if(.., |(until, _)| *until < now) {
            platform.recover(fault).await?;
        }
        if now < next {
            continue;
        }
        next = now + Duration::from_millis(random.random_range(TIME_BETWEEN_FAULTS));
        let fault = Fault::choose(random, platform.services.len());
        let duration = fault.choose_duration(random);
        let leader_fault = match fault.kind {
            FaultKind::KillWork | FaultKind::FreezeWork => LeaderFault::of(platform, fault.target).await?,
            _ => None,
        };
        if platform.inject(fault).await? {
            devkit::print_line(&format!(
                "{:>6.1} s  {}",
                (now - started).as_secs_f32(),
                platform.describe(fault, duration)
            ));
            active.push((now + duration, fault));
            faults.add(fault.kind, 1);
            if let Some(leader_fault) = leader_fault {
                takeovers.add(leader_fault);
            }
        }
    }
    Ok(takeovers)
}
