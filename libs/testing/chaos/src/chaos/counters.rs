//! The totals of a long run, stored beside the document that shows them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use testkit::history::Fault;

use super::fault::FaultKind;
use super::report::Outcome;
use devkit::bus::Kind;
use devkit::{docs, stack};

/// Milliseconds in a class of the takeovers' times.
const TAKEOVER_CLASS: u64 = 100;

/// The totals of sound rounds.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Counters {
    first_day: String,
    last_day: String,
    pub(super) rounds: u64,
    /// Number of rounds that were not sound. Nothing else of them is counted.
    unsound_rounds: u64,
    seconds: u64,
    requests: u64,
    pub(super) committed: u64,
    delivered: u64,
    repeated: u64,
    stale: u64,
    undone: u64,
    leases: u64,
    longest_gap_ms: u64,
    faults: BTreeMap<FaultKind, u64>,
    /// The number of takeovers by their time, rounded up to [`TAKEOVER_CLASS`], in milliseconds.
    takeovers: BTreeMap<u64, u64>,
}

impl Counters {
    /// Loads the totals of the run with this broker.
    pub(super) fn load(broker: Kind) -> anyhow::Result<Self> {
        let path = state_file(broker);
        match std::fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).with_context(|| path.display().to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    /// Returns true if the rounds have this number of events and of faults of each kind.
    pub(super) fn has(&self, events: u64, faults: u64) -> bool {
        self.committed >= events && FaultKind::ALL.iter().all(|kind| self.count(*kind) >= faults)
    }

    fn count(&self, kind: FaultKind) -> u64 {
        self.faults.get(&kind).copied().unwrap_or_default()
    }

    /// Adds a round, or `None` for one that was not sound.
    pub(super) fn add(&mut self, round: Option<&Outcome>) {
        self.last_day = runtime::clock::now().date().to_string();
        if self.first_day.is_empty() {
            self.first_day.clone_from(&self.last_day);
        }
        let Some(Outcome { verdict, faults, requests, leases, .. }) = round else {
            self.unsound_rounds += 1;
            return;
        };
        self.rounds += 1;
        self.seconds += faults.time.as_secs();
        self.requests += requests;
        self.committed += verdict.committed as u64;
        self.delivered += verdict.delivered as u64;
        self.repeated += verdict.repeated as u64;
        self.stale += verdict.count(Fault::Stale) as u64;
        self.undone += verdict.undone as u64;
        self.leases += leases;
        let milliseconds = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.longest_gap_ms = self.longest_gap_ms.max(milliseconds(faults.longest_gap));
        for (kind, count) in &faults.counts {
            *self.faults.entry(*kind).or_default() += count;
        }
        for time in &faults.takeovers {
            let class = milliseconds(*time).div_ceil(TAKEOVER_CLASS) * TAKEOVER_CLASS;
            *self.takeovers.entry(class).or_default() += 1;
        }
    }

    /// Stores the totals and writes them to `docs/chaos.md`.
    pub(super) fn save(&self, broker: Kind) -> anyhow::Result<()> {
        let path = state_file(broker);
        let new = path.with_extension("json.new");
        std::fs::write(&new, serde_json::to_string_pretty(self)? + "\n")?;
        std::fs::rename(new, path)?;
        docs::write_section("chaos.md", "chaos", name(broker), &self.to_string())?;
        Ok(())
    }

    /// Returns the median time of a takeover in milliseconds. `None` if there was no takeover.
    fn median_takeover(&self) -> Option<u64> {
        let half = self.takeovers.values().sum::<u64>().div_ceil(2);
        let mut counted = 0;
        let median = self.takeovers.iter().find(|(_, count)| {
            counted += **count;
            counted >= half
        });
        median.map(|(time, _)| *time)
    }
}

fn name(broker: Kind) -> &'static str {
    match broker {
        Kind::Embedded => "the embedded broker",
        Kind::Kafka => "three nodes of Apache Kafka",
    }
}

fn state_file(broker: Kind) -> PathBuf {
    stack::root().join("docs").join(match broker {
        Kind::Embedded => "chaos-embedded.json",
        Kind::Kafka => "chaos-kafka.json",
    })
}

/// Returns a time in seconds with one decimal.
fn seconds(milliseconds: u64) -> String {
    format!("{}.{} s", milliseconds / 1_000, milliseconds % 1_000 / 100)
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} to {}\n\n| | |\n|---|---|", self.first_day, self.last_day)?;
        let takeovers = self.takeovers.values().sum::<u64>();
        let takeover_time = |time: Option<u64>| time.map_or_else(|| "none".to_owned(), seconds);
        let rows = [
            ("sound rounds", self.rounds.to_string()),
            ("other rounds, not counted below", self.unsound_rounds.to_string()),
            ("time under faults", format!("{} min", self.seconds / 60)),
            ("successful requests", self.requests.to_string()),
            ("events committed", self.committed.to_string()),
            ("events delivered", self.delivered.to_string()),
            ("repeats, dropped by consumers", self.repeated.to_string()),
            ("published by a stale relay", self.stale.to_string()),
            ("delivered, then lost by the database", self.undone.to_string()),
            ("leases of relays", self.leases.to_string()),
            ("takeovers after a fault of the leading worker", takeovers.to_string()),
            ("median takeover", takeover_time(self.median_takeover())),
            ("longest takeover", takeover_time(self.takeovers.keys().next_back().copied())),
            ("longest gap", seconds(self.longest_gap_ms)),
        ];
        rows.iter().try_for_each(|(name, value)| writeln!(f, "| {name} | {value} |"))?;
        writeln!(f, "\n| Fault | Times |\n|---|---|")?;
        FaultKind::ALL.iter().try_for_each(|kind| writeln!(f, "| {} | {} |", kind.name(), self.count(*kind)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::Counters;
    use crate::chaos::fault::FaultKind;

    #[test]
    fn median_is_the_class_of_the_middle_takeover() {
        let takeovers = BTreeMap::from([(2_300, 1), (2_600, 2), (9_000, 2)]);
        let counters = Counters { takeovers, ..Counters::default() };
        assert_eq!(counters.median_takeover(), Some(2_600));
        assert!(counters.to_string().contains("| median takeover | 2.6 s |\n| longest takeover | 9.0 s |"));
        let without = Counters::default().to_string();
        assert!(without.contains("| median takeover | none |\n| longest takeover | none |"));
    }

    #[test]
    fn run_is_complete_after_the_rarest_fault() {
        let mut faults: BTreeMap<_, _> = FaultKind::ALL.map(|kind| (kind, 5)).into();
        let complete = Counters { committed: 100, faults: faults.clone(), ..Counters::default() };
        assert!(complete.has(100, 5) && !complete.has(101, 5) && !complete.has(100, 6));
        faults.remove(&FaultKind::LoseTail);
        assert!(!Counters { faults, ..complete }.has(100, 5));
    }

    /// The stored totals name the faults by text, so that a new fault does not change their
    /// meaning.
    #[test]
    fn stored_totals_are_read_again() {
        let faults = BTreeMap::from([(FaultKind::LoseTail, 3)]);
        let stored = serde_json::to_string(&Counters { faults, ..Counters::default() }).unwrap();
        assert!(stored.contains(r#""faults":{"lose-tail":3}"#), "{stored}");
        let read: Counters = serde_json::from_str(&stored).unwrap();
        assert_eq!(read.count(FaultKind::LoseTail), 3);
    }
}
