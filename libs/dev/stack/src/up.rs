//! `cargo dev up`: the stack in the foreground.

use console::style;

pub use crate::options::Up;
use crate::running::Running;
use devkit::signals::Signals;
use devkit::status::{suggestions, summary};

impl Up {
    pub async fn run(self) -> anyhow::Result<()> {
        let mut signals = Signals::listen()?;
        let mut running = Running::new()?;
        let result = tokio::select! {
            result = async {
                let stack = running.start(&self).await?;
                devkit::print_line(&(summary(&stack, running.broker()) + &suggestions(&stack)));
                devkit::print_line(&style("Ctrl-C stops everything.").dim().to_string());
                Err(running.serve_control().await)
            } => result,
            () = signals.stop() => Ok(()),
        };
        let stopped = running.stop().await;
        result.and(stopped)
    }
}
