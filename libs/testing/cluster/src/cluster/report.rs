//! The table that a trial ends with.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use testkit::history::Fault;

use super::policies::Ways;
use super::trouble::Trouble;
use chaos::chaos::report::Outcome;
use chaos::chaos::writers::Score;
use devkit::docs;

/// What people noticed of one trouble.
struct Row {
    trouble: Trouble,
    requests: u64,
    failed: u64,
    in_vain: u64,
    longest: Duration,
    took: Duration,
}

pub(super) struct Report {
    cluster: String,
    ways: String,
    rows: Vec<Row>,
    committed: usize,
    delivered: usize,
    lost: usize,
    is_sound: bool,
}

impl Report {
    pub(super) fn of(cluster: &str, ways: &Ways) -> Self {
        let (cluster, ways) = (cluster.to_owned(), ways.to_string());
        Self { cluster, ways, rows: Vec::new(), committed: 0, delivered: 0, lost: 0, is_sound: false }
    }

    pub(super) fn add(&mut self, trouble: Trouble, score: &Score, took: Duration) {
        let Score { requests, failed, in_vain, longest, .. } = *score;
        self.rows.push(Row { trouble, requests, failed, in_vain, longest, took });
    }

    /// Says what has become of events and of what areas know of each other.
    pub(super) fn close(&mut self, outcome: &Outcome) {
        self.is_sound = outcome.report();
        self.committed = outcome.verdict.committed;
        self.delivered = outcome.verdict.delivered;
        self.lost = outcome.verdict.count(Fault::Lost);
    }

    /// Writes it to `docs/operations.md`.
    pub(super) fn keep(&self) -> anyhow::Result<PathBuf> {
        let section = format!("{}\n\n{self}", runtime::clock::now().date());
        docs::write_section("operations.md", "cluster", "what is noticed", &section)
    }

    /// # Errors
    /// When something was noticed that nobody may notice, or something is lost or does not add up.
    pub(super) fn judge(&self) -> anyhow::Result<()> {
        let noticed = self.rows.iter().filter(|row| row.trouble.is_silent());
        let failed: u64 = noticed.map(|row| row.failed).sum();
        ensure!(failed == 0, "{failed} requests failed that should not have");
        let killed = self.rows.iter().filter(|row| matches!(row.trouble, Trouble::Kill));
        let in_vain: u64 = killed.map(|row| row.in_vain).sum();
        ensure!(in_vain == 0, "{in_vain} requests failed that may be repeated, and were");
        ensure!(self.is_sound, "not all is as promised");
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}. {}\n", self.cluster, if self.is_sound { "Sound." } else { "Not sound." })?;
        writeln!(
            f,
            "| What happens | for | requests | failed | of these repeated in vain | longest answer |\n|---|---|---|---|---|---|"
        )?;
        for Row { trouble, requests, failed, in_vain, longest, took } in &self.rows {
            let (name, took, longest) = (trouble.name(), took.as_secs(), longest.as_millis());
            writeln!(f, "| {name} | {took} s | {requests} | {failed} | {in_vain} | {longest} ms |")?;
        }
        let Self { committed, delivered, lost, ways, .. } = self;
        writeln!(f, "\n{committed} events committed, {delivered} delivered, {lost} lost.\n\n{ways}")
    }
}
