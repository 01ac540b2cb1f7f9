//! The totals of a long run, stored after each round and written to the documents at the end.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use testkit::history::Fault;

use super::report::Outcome;
use devkit::bus::Kind;
use devkit::{docs, stack};

/// The totals of sound rounds. An unsound round ends the run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Counters {
    pub(super) rounds: u64,
    pub(super) committed: u64,
    delivered: u64,
    repeated: u64,
    stale: u64,
    faults: u64,
    requests: u64,
    takeovers: u64,
    longest_gap: Duration,
}

impl Counters {
    /// Loads the totals of the run with this broker.
    pub(super) fn load(broker: Kind) -> anyhow::Result<Self> {
        let path = state_file(broker)?;
        match std::fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).with_context(|| path.display().to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    pub(super) fn add(&mut self, round: &Outcome) {
        self.rounds += 1;
        self.committed += round.verdict.committed as u64;
        self.delivered += round.verdict.delivered as u64;
        self.repeated += round.verdict.repeated as u64;
        self.stale += round.verdict.count(Fault::Stale) as u64;
        self.faults += round.faults;
        self.requests += round.requests;
        self.takeovers += round.takeovers;
        self.longest_gap = self.longest_gap.max(round.longest_gap);
    }

    pub(super) fn save(&self, broker: Kind) -> anyhow::Result<()> {
        let (path, new) = (state_file(broker)?, stack::dev_path("chaos.json.new")?);
        std::fs::write(&new, serde_json::to_vec_pretty(self)?)?;
        Ok(std::fs::rename(new, path)?)
    }

    /// Writes the totals to `docs/chaos.md`. The next run starts from zero.
    pub(super) fn finish(&self, broker: Kind) -> anyhow::Result<PathBuf> {
        let section = format!("{}\n\n{self}", runtime::clock::now().date());
        let path = docs::write_section("chaos.md", "chaos", name(broker), &section)?;
        stack::remove(&state_file(broker)?)?;
        Ok(path)
    }
}

fn name(broker: Kind) -> &'static str {
    match broker {
        Kind::Embedded => "the embedded broker",
        Kind::Kafka => "three nodes of Apache Kafka",
    }
}

fn state_file(broker: Kind) -> anyhow::Result<PathBuf> {
    stack::dev_path(match broker {
        Kind::Embedded => "chaos-embedded.json",
        Kind::Kafka => "chaos-kafka.json",
    })
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| | |\n|---|---|")?;
        let counts = [
            ("rounds, all sound", self.rounds),
            ("faults", self.faults),
            ("successful requests", self.requests),
            ("events committed", self.committed),
            ("events delivered", self.delivered),
            ("repeats, dropped by consumers", self.repeated),
            ("published by a stale relay", self.stale),
            ("takeovers", self.takeovers),
        ];
        counts.iter().try_for_each(|(name, count)| writeln!(f, "| {name} | {count} |"))?;
        writeln!(f, "| longest gap | {:.1} s |", self.longest_gap.as_secs_f32())
    }
}
