//! The signals that end a command.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C, SIGTERM, and the terminal being closed. From then on they no longer kill the process.
pub struct Signals([Signal; 3]);

impl Signals {
    pub fn listen() -> anyhow::Result<Self> {
        Ok(Self([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    /// Resolves at the next one.
    pub async fn stop(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
