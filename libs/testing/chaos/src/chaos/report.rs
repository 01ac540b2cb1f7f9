//! The outcome of a round, and its report.

use std::time::Duration;

use console::style;
use testkit::history::{Fault, Verdict};

use super::checks::{Checks, report_count};
use super::fault::InjectedFaults;
use super::settle::{Recordings, settle};

/// The verdict of a round with its other results.
pub struct Outcome {
    pub verdict: Verdict,
    pub(super) faults: InjectedFaults,
    pub(super) requests: u64,
    /// Number of leases of relays, including the first lease of each service.
    pub(super) leases: u64,
    /// Number of processes that ended by themselves.
    ended: usize,
    checks: Checks,
}

impl Outcome {
    /// Waits until everything has settled, and runs the checks. `restart_ended` restarts processes
    /// and returns the number of those that ended by themselves.
    pub async fn of(
        recordings: &Recordings,
        faults: InjectedFaults,
        requests: u64,
        mut restart_ended: impl FnMut() -> anyhow::Result<usize>,
    ) -> anyhow::Result<Self> {
        let server = recordings.connect().await?;
        let verdict = settle(recordings, &server, &mut restart_ended).await?;
        let mut leases = 0;
        for service in &recordings.services {
            let epoch = format!("select epoch from {}.outbox_lease", service.name);
            leases += u64::try_from(server.client.query_one(&epoch, &[]).await?.get::<_, i64>(0))?;
        }
        let checks = Checks::of(&server, &recordings.services).await?;
        let ended = restart_ended()?;
        Ok(Self { verdict, faults, requests, leases, ended, checks })
    }

    /// Prints the outcome. Returns true if all checks hold.
    pub fn report(&self) -> bool {
        let verdict = &self.verdict;
        let counts = self.faults.counts.iter().map(|(kind, count)| (kind.name(), count.to_string()));
        let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f32());
        let mut takeovers = self.faults.takeovers.clone();
        takeovers.sort_unstable();
        let takeover_time =
            |time: Option<&Duration>| time.map_or_else(|| "none".to_owned(), |time| seconds(*time));
        let counts = counts.chain([
            ("successful requests", self.requests.to_string()),
            ("committed", verdict.committed.to_string()),
            ("delivered", verdict.delivered.to_string()),
            ("repeats, dropped by consumers", verdict.repeated.to_string()),
            ("published by a stale relay", verdict.count(Fault::Stale).to_string()),
            ("delivered, then lost by the database", verdict.undone.to_string()),
            ("leases of relays", self.leases.to_string()),
            ("takeovers after a fault of the leading worker", takeovers.len().to_string()),
            ("median takeover", takeover_time(takeovers.get(takeovers.len() / 2))),
            ("longest takeover", takeover_time(takeovers.last())),
            ("longest gap", seconds(self.faults.longest_gap)),
        ]);
        for (name, count) in counts {
            devkit::print_line(&format!("{count:>10}  {name}"));
        }
        self.checks.show();
        let mut sound = true;
        for (fault, name) in [
            (Fault::Lost, "lost"),
            (Fault::Uncommitted, "delivered, but never committed"),
            (Fault::DeliveredOutOfOrder, "delivered out of order"),
            (Fault::Skipped, "not applied by a consumer"),
            (Fault::ReceivedOutOfOrder, "applied twice or out of order"),
        ] {
            sound &= report_count(verdict.count(fault), name);
            for (_, (topic, key), sequence) in verdict.faults.iter().filter(|(of, ..)| *of == fault).take(5) {
                devkit::print_line(&format!("            {topic} {key} {sequence}"));
            }
        }
        sound &= report_count(self.ended, "processes that ended by themselves");
        sound &= self.checks.report();
        if sound {
            devkit::print_line(
                &style("No event was lost, out of order or left over, and all checks hold.")
                    .green()
                    .to_string(),
            );
        }
        sound
    }
}
