//! The signals that end a command.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Handlers of Ctrl-C, SIGTERM and SIGHUP, which no longer end the process.
pub struct Signals([Signal; 3]);

impl Signals {
    pub fn listen() -> anyhow::Result<Self> {
        Ok(Self([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    /// Resolves at the next signal.
    pub async fn stop(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
