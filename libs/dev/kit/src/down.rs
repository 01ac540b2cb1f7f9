//! `cargo dev down`: stops what a stack or a test run has left behind.

use anyhow::ensure;

use crate::children;
use crate::control::Control;
use crate::postgres::Cluster;
use crate::stack::{Lock, Stack};

pub async fn run() -> anyhow::Result<()> {
    let mut found = false;
    for command in ["up", "kafka", "bench", "chaos", "watch"] {
        if let Some(process) = Lock::holder(command)? {
            found = true;
            children::terminate(process);
            ensure!(
                children::wait_until_ended(process).await,
                "`cargo dev {command}` (process {process}) does not stop"
            );
            crate::print_line(&format!("stopped `cargo dev {command}` (process {process})"));
        }
    }
    for name in children::stop_left_behind().await? {
        found = true;
        crate::print_line(&format!("stopped {name}, which was left behind"));
    }
    // A running test command still uses its cluster.
    let mut clusters = vec![
        Cluster::STACK,
        Cluster::FUZZ,
        Cluster::CHAOS,
        Cluster::ALERT_DRILL,
        Cluster::TRACE,
        Cluster::BENCH,
        Cluster::PODS,
    ];
    if Lock::holder("test")?.is_none() {
        clusters.push(Cluster::TESTS);
    }
    for name in clusters {
        if let Some(cluster) = Cluster::find(name).await?
            && cluster.stop().await?
        {
            found = true;
            crate::print_line(&format!("stopped PostgreSQL ({name}), which was left behind"));
        }
    }
    Stack::delete_file()?;
    Control::remove_socket()?;
    if !found {
        crate::print_line("nothing was running");
    }
    Ok(())
}
