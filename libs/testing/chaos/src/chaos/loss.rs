//! Losses of committed changes, and the operator commands that follow them.

use std::ops::Range;
use std::time::Duration;

use anyhow::Context;
use futures_util::future::try_join_all;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use runtime::clock;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::fault::FaultKind;
use super::platform::Platform;
use super::settle::Recordings;

/// The services whose backup can be restored while the others continue, since their topics have the
/// lost events. `news` and `selections` change each other by calls, which no topic records.
const PUBLISHERS: [&str; 3] = ["identity", "chessboard", "crm"];

/// The time whose changes are lost, in milliseconds.
const LOST_TIME: Range<u64> = 1_000..4_000;
/// The time from a promotion to the operator's commands, in milliseconds.
const REACTION_TIME: Range<u64> = 500..2_500;

/// A way to lose committed changes whose events were delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// The promotion of an asynchronous standby that lacks the last transactions of all services.
    Tail,
    /// The restore of a publisher's schema from a backup, while the other services continue.
    Backup,
}

/// The services that have lost changes, and a time before the first lost one.
pub(super) struct LostChanges {
    services: Vec<&'static str>,
    since: OffsetDateTime,
}

impl LostChanges {
    /// Aligns the consumers of each service with its database, and starts killed processes.
    pub(super) async fn align(&self, platform: &mut Platform) -> anyhow::Result<()> {
        let since = self.since.format(&Rfc3339)?;
        let arguments = ["restored", "--since", &since];
        try_join_all(self.services.iter().map(|service| platform.run(service, &arguments))).await?;
        platform.end_faults().await
    }
}

impl Loss {
    pub(super) fn choose(random: &mut StdRng) -> Self {
        if random.random() { Self::Tail } else { Self::Backup }
    }

    /// Returns the other loss. The losses of a round alternate, so that each has both.
    pub(super) fn other(self) -> Self {
        match self {
            Self::Tail => Self::Backup,
            Self::Backup => Self::Tail,
        }
    }

    pub(super) fn kind(self) -> FaultKind {
        match self {
            Self::Tail => FaultKind::LoseTail,
            Self::Backup => FaultKind::RestoreBackup,
        }
    }

    /// Loses the changes of the last seconds.
    pub(super) async fn inject(
        self,
        platform: &mut Platform,
        recordings: &mut Recordings,
        random: &mut StdRng,
    ) -> anyhow::Result<LostChanges> {
        match self {
            Self::Tail => lose_tail(platform, recordings, random).await,
            Self::Backup => restore_backup(platform, recordings, random).await,
        }
    }
}

async fn lose_tail(
    platform: &mut Platform,
    recordings: &mut Recordings,
    random: &mut StdRng,
) -> anyhow::Result<LostChanges> {
    let since = clock::now();
    let standby = platform.cluster.detach_standby().await?;
    let kept = recordings.last_committed(&standby).await?;
    let seconds = pause(random, LOST_TIME).await;
    let lost_at = platform.cluster.fail_over().await?;
    let services = kept.keys().copied().collect();
    for (service, kept) in kept {
        recordings.accept_lost(service, kept, lost_at)?;
    }
    devkit::print_line(&format!("            a standby without the last {seconds:.1} s was promoted"));
    // Until the commands run, new changes get the versions of lost ones.
    pause(random, REACTION_TIME).await;
    Ok(LostChanges { services, since })
}

async fn restore_backup(
    platform: &mut Platform,
    recordings: &mut Recordings,
    random: &mut StdRng,
) -> anyhow::Result<LostChanges> {
    let publisher = *PUBLISHERS.choose(random).context("no publisher")?;
    let since = clock::now();
    let backup = platform.cluster.back_up(publisher).await?;
    let seconds = pause(random, LOST_TIME).await;
    platform.kill_service(publisher).await?;
    let lost_at = clock::now();
    platform.cluster.restore_backup(publisher, &backup).await?;
    let mut kept = recordings.last_committed(&platform.database_url()).await?;
    recordings.accept_lost(publisher, kept.remove(publisher).unwrap_or_default(), lost_at)?;
    devkit::print_line(&format!("            {publisher} was restored without the last {seconds:.1} s"));
    Ok(LostChanges { services: vec![publisher], since })
}

/// Waits for a random time, and returns it in seconds.
async fn pause(random: &mut StdRng, milliseconds: Range<u64>) -> f32 {
    let pause = Duration::from_millis(random.random_range(milliseconds));
    tokio::time::sleep(pause).await;
    pause.as_secs_f32()
}
