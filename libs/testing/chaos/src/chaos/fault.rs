//! The kinds of faults, their frequencies, and their counts.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde::{Deserialize, Serialize};

/// Workers of each service. One runs the relay; the other takes over when it fails.
pub(super) const WORKERS: usize = 2;
/// Processes of each service: one of the role `serve`, followed by the workers.
const REPLICAS: usize = 1 + WORKERS;
/// Nodes of Apache Kafka. The embedded broker has one, which represents any of them.
pub(super) const NODES: u16 = 3;

/// A kind of fault, which a run counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    KillServe,
    FreezeServe,
    KillWork,
    FreezeWork,
    CutConnections,
    CrashDatabase,
    /// The promotion of the standby, which has every commit.
    FailOver,
    /// The promotion of a standby that lacks the last commits.
    LoseTail,
    RestoreBackup,
    ExpirePassword,
    InvalidateCertificate,
    KillBroker,
    FreezeBroker,
    /// A revocation of a user's or a company's access, by the load.
    RevokeAccess,
}

/// The weights of the faults that may overlap. A node that has a fault already gets no second one,
/// so faults of nodes are chosen more often than they are injected.
const WEIGHTS: [(u32, FaultKind); 11] = [
    (2, FaultKind::KillServe),
    (2, FaultKind::FreezeServe),
    (2, FaultKind::KillWork),
    (2, FaultKind::FreezeWork),
    (2, FaultKind::CutConnections),
    (2, FaultKind::CrashDatabase),
    (2, FaultKind::FailOver),
    (2, FaultKind::ExpirePassword),
    (2, FaultKind::InvalidateCertificate),
    (3, FaultKind::KillBroker),
    (3, FaultKind::FreezeBroker),
];

impl FaultKind {
    pub const ALL: [Self; 14] = [
        Self::KillServe,
        Self::FreezeServe,
        Self::KillWork,
        Self::FreezeWork,
        Self::CutConnections,
        Self::CrashDatabase,
        Self::FailOver,
        Self::LoseTail,
        Self::RestoreBackup,
        Self::ExpirePassword,
        Self::InvalidateCertificate,
        Self::KillBroker,
        Self::FreezeBroker,
        Self::RevokeAccess,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::KillServe => "process of the role `serve` killed",
            Self::FreezeServe => "process of the role `serve` frozen",
            Self::KillWork => "process of the role `work` killed",
            Self::FreezeWork => "process of the role `work` frozen",
            Self::CutConnections => "connections to the database cut",
            Self::CrashDatabase => "database crashed",
            Self::FailOver => "synchronous standby promoted",
            Self::LoseTail => "asynchronous standby promoted without the last commits",
            Self::RestoreBackup => "publisher restored from a backup",
            Self::ExpirePassword => "password of a service expired",
            Self::InvalidateCertificate => "certificate of the database invalid",
            Self::KillBroker => "node of the broker killed",
            Self::FreezeBroker => "node of the broker frozen",
            Self::RevokeAccess => "access of a user or a company revoked",
        }
    }
}

/// A fault of the platform.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    /// The number of the process, of the service, of the node or of the invalid certificate. 0 for
    /// a fault of the whole database.
    pub(super) target: usize,
}

impl Fault {
    /// Chooses a fault that may overlap others.
    pub(super) fn choose(random: &mut StdRng, services: usize) -> Self {
        let kind = WEIGHTS
            .choose_weighted(random, |(weight, _)| *weight)
            .map_or(FaultKind::CutConnections, |(_, kind)| *kind);
        let service = random.random_range(0..services);
        let target = match kind {
            FaultKind::KillServe | FaultKind::FreezeServe => service * REPLICAS,
            FaultKind::KillWork | FaultKind::FreezeWork => {
                service * REPLICAS + random.random_range(1..REPLICAS)
            }
            FaultKind::ExpirePassword => service,
            FaultKind::InvalidateCertificate => random.random_range(0..2),
            FaultKind::KillBroker | FaultKind::FreezeBroker => random.random_range(0..usize::from(NODES)),
            _ => 0,
        };
        Self { kind, target }
    }

    /// Chooses the duration of the fault. An invalid certificate stops every service.
    pub(super) fn choose_duration(self, random: &mut StdRng) -> Duration {
        let duration = Duration::from_millis(random.random_range(500..8_000));
        if self.kind == FaultKind::InvalidateCertificate { duration / 2 } else { duration }
    }
}

/// The injected faults and their effects.
#[derive(Clone, Debug, Default)]
pub struct InjectedFaults {
    pub counts: BTreeMap<FaultKind, u64>,
    /// The longest time without a delivery.
    pub longest_gap: Duration,
    /// The times from a fault of a leading worker to the lease of the next one.
    pub takeovers: Vec<Duration>,
    /// The time of injection.
    pub time: Duration,
}

impl InjectedFaults {
    pub fn add(&mut self, kind: FaultKind, count: u64) {
        *self.counts.entry(kind).or_default() += count;
    }
}
