//! The report of a trial, with a row for each fault.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use testkit::history;

use super::fault::Fault;
use super::policies::PolicyOutcome;
use chaos::chaos::report::Outcome;
use chaos::chaos::writers::Score;
use devkit::docs;

/// The results of one fault.
struct Row {
    fault: Fault,
    requests: u64,
    failed: u64,
    failed_retries: u64,
    longest: Duration,
    took: Duration,
}

pub(super) struct Report {
    cluster: String,
    policy_outcome: String,
    rows: Vec<Row>,
    committed: usize,
    delivered: usize,
    lost: usize,
    is_sound: bool,
}

impl Report {
    pub(super) fn of(cluster: &str, policy_outcome: &PolicyOutcome) -> Self {
        let (cluster, policy_outcome) = (cluster.to_owned(), policy_outcome.to_string());
        Self {
            cluster,
            policy_outcome,
            rows: Vec::new(),
            committed: 0,
            delivered: 0,
            lost: 0,
            is_sound: false,
        }
    }

    pub(super) fn add(&mut self, fault: Fault, score: &Score, took: Duration) {
        let Score { requests, failed, failed_retries, longest, .. } = *score;
        self.rows.push(Row { fault, requests, failed, failed_retries, longest, took });
    }

    /// Prints the outcome of the checks and adds it.
    pub(super) fn close(&mut self, outcome: &Outcome) {
        self.is_sound = outcome.report();
        self.committed = outcome.verdict.committed;
        self.delivered = outcome.verdict.delivered;
        self.lost = outcome.verdict.count(history::Fault::Lost);
    }

    /// Writes the report to `docs/operations.md`.
    pub(super) fn write(&self) -> anyhow::Result<PathBuf> {
        let section = format!("{}\n\n{self}", runtime::clock::now().date());
        docs::write_section("operations.md", "cluster", "noticed faults", &section)
    }

    /// Checks the results.
    ///
    /// # Errors
    /// A failed request during a silent fault, a request that failed in every retry after a kill,
    /// or an unsound outcome.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let silent = self.rows.iter().filter(|row| row.fault.is_silent());
        let failed: u64 = silent.map(|row| row.failed).sum();
        ensure!(failed == 0, "{failed} requests failed during silent faults");
        let killed = self.rows.iter().filter(|row| matches!(row.fault, Fault::Kill));
        let failed_retries: u64 = killed.map(|row| row.failed_retries).sum();
        ensure!(failed_retries == 0, "{failed_retries} requests failed in every retry");
        ensure!(self.is_sound, "the outcome is not sound");
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}. {}\n", self.cluster, if self.is_sound { "Sound." } else { "Not sound." })?;
        writeln!(
            f,
            "| Fault | Time | Requests | Failed | Failed in every retry | Longest response |\n|---|---|---|---|---|---|"
        )?;
        for Row { fault, requests, failed, failed_retries, longest, took } in &self.rows {
            let (name, took, longest) = (fault.name(), took.as_secs(), longest.as_millis());
            writeln!(f, "| {name} | {took} s | {requests} | {failed} | {failed_retries} | {longest} ms |")?;
        }
        let Self { committed, delivered, lost, policy_outcome, .. } = self;
        writeln!(f, "\n{committed} events committed, {delivered} delivered, {lost} lost.\n\n{policy_outcome}")
    }
}
