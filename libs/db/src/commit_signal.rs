//! Wake-ups after commits, within one process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// A wake-up that a transaction sends after its commit, identified by its name.
///
/// The part of the program that waits for the signal declares it:
/// `const JOBS_DUE: CommitSignal = CommitSignal("jobs");`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommitSignal(pub &'static str);

/// The signals of one database in this process.
#[derive(Default)]
pub(crate) struct CommitSignals(Mutex<HashMap<CommitSignal, watch::Sender<()>>>);

impl CommitSignals {
    pub(crate) fn send(&self, signal: CommitSignal) {
        self.sender(signal).send_replace(());
    }

    pub(crate) fn listen(&self, signal: CommitSignal) -> CommitListener {
        CommitListener(self.sender(signal).subscribe())
    }

    fn sender(&self, signal: CommitSignal) -> watch::Sender<()> {
        let mut senders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        senders.entry(signal).or_default().clone()
    }
}

/// A listener to the commits of this process that send one signal.
pub struct CommitListener(watch::Receiver<()>);

impl CommitListener {
    /// Resolves at the next commit, or immediately if there was one since the last call.
    pub async fn wait(&mut self) {
        if self.0.changed().await.is_err() {
            // The database handle is dropped, so no commit can follow.
            std::future::pending::<()>().await;
        }
    }
}
