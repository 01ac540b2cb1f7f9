//! The time from a fault of a service's leading worker to the lease of the next one.
//!
//! The leading worker holds the lease of the relay. Its log names the epoch of its session.

use std::time::Duration;

use runtime::clock;
use testkit::history::NextLease;
use time::OffsetDateTime;
use tokio::time::Instant;

use super::POLL_INTERVAL;
use super::platform::Platform;
use super::settle::Recordings;
use devkit::postgres;

/// Timeout of a takeover after all faults have ended. A takeover that takes longer counts with the
/// time until then.
const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(30);

/// A fault of a leading worker.
pub(super) struct LeaderFault {
    service: &'static str,
    epoch: i64,
    at: OffsetDateTime,
}

/// The faults of leading workers after which no lease was seen yet.
#[derive(Default)]
pub(super) struct OpenTakeovers(Vec<LeaderFault>);

impl LeaderFault {
    /// Returns the fault of a worker that is about to fail, or `None` if it does not hold the
    /// lease.
    pub(super) async fn of(platform: &Platform, replica: usize) -> anyhow::Result<Option<Self>> {
        let replica = &platform.replicas[replica];
        let Some(epoch) = replica.session_epoch()? else { return Ok(None) };
        let service = replica.program;
        let leads = format!(
            "select exists (select from {service}.outbox_lease where epoch = $1 and expires_at > clock_timestamp())"
        );
        let server = postgres::connect(&platform.database_url()).await?;
        let leads = server.client.query_one(&leads, &[&epoch]).await?.get::<_, bool>(0);
        Ok(leads.then(|| Self { service, epoch, at: clock::now() }))
    }
}

impl OpenTakeovers {
    pub(super) fn add(&mut self, fault: LeaderFault) {
        self.0.push(fault);
    }

    /// Waits for the next lease after each fault, and returns the times of the takeovers. A worker
    /// that renewed its lease after a short fault was not replaced.
    pub(super) async fn finish(self, recordings: &Recordings) -> anyhow::Result<Vec<Duration>> {
        let deadline = Instant::now() + TAKEOVER_TIMEOUT;
        let mut takeovers = Vec::new();
        for LeaderFault { service, epoch, at } in self.0 {
            loop {
                match recordings.next_lease(service, epoch, at).await? {
                    NextLease::TakenOver(after) => takeovers.push(after),
                    NextLease::Renewed => {}
                    NextLease::Pending if Instant::now() < deadline => {
                        tokio::time::sleep(POLL_INTERVAL).await;
                        continue;
                    }
                    NextLease::Pending => {
                        takeovers.push(Duration::try_from(clock::now() - at).unwrap_or_default());
                    }
                }
                break;
            }
        }
        Ok(takeovers)
    }
}
