//! Wake-ups after commits, within one process.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;
use uuid::Uuid;

/// A wake-up that a transaction sends after its commit, identified by its name.
///
/// The part of the program that waits for the signal declares it:
/// `const JOBS_DUE: CommitSignal = CommitSignal("jobs");`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommitSignal(pub &'static str);

/// The signals of one database in this process.
#[derive(Default)]
pub(crate) struct CommitSignals(Mutex<HashMap<CommitSignal, watch::Sender<HashSet<Uuid>>>>);

impl CommitSignals {
    pub(crate) fn send(&self, signal: CommitSignal, keys: HashSet<Uuid>) {
        let sender = self.sender(signal);
        // Without a listener, keys would accumulate.
        if sender.receiver_count() > 0 {
            sender.send_modify(|pending| pending.extend(keys));
        }
    }

    pub(crate) fn listen(&self, signal: CommitSignal) -> CommitListener {
        let sender = self.sender(signal);
        CommitListener { receiver: sender.subscribe(), sender }
    }

    fn sender(&self, signal: CommitSignal) -> watch::Sender<HashSet<Uuid>> {
        let mut senders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        senders.entry(signal).or_default().clone()
    }
}

/// Receives one signal from the commits of this process.
pub struct CommitListener {
    receiver: watch::Receiver<HashSet<Uuid>>,
    sender: watch::Sender<HashSet<Uuid>>,
}

impl CommitListener {
    /// Resolves at the next commit that sends the signal, or immediately if there was one since the
    /// last call.
    pub async fn wait(&mut self) {
        if self.receiver.changed().await.is_err() {
            // The database handle is dropped, so no commit can follow.
            std::future::pending::<()>().await;
        }
    }

    /// [Waits](Self::wait) and takes the keys of the commits. Each key reaches only one listener of
    /// the signal.
    pub async fn keys(&mut self) -> HashSet<Uuid> {
        self.wait().await;
        let mut keys = HashSet::new();
        self.sender.send_if_modified(|pending| {
            keys = std::mem::take(pending);
            false
        });
        keys
    }
}
