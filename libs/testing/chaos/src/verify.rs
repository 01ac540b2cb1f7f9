//! `cargo dev verify`: the data checks of `cargo dev chaos` on the running stack.

use std::process::ExitCode;
use std::time::Duration;

use console::style;

use crate::chaos::checks::Checks;
use crate::chaos::settle::StallDetector;
use devkit::postgres;
use devkit::stack::Stack;
use devstack::services;

const POLL_INTERVAL: Duration = Duration::from_millis(500);

pub async fn run() -> anyhow::Result<ExitCode> {
    let server = postgres::connect(&Stack::running()?.database_url).await?;
    let services = services::all();
    let mut stall = StallDetector::new();
    let checks = loop {
        let checks = Checks::of(&server, &services).await?;
        let violations = checks.violations();
        if violations.is_empty() || stall.has_stalled(&violations) {
            break checks;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    };
    checks.show();
    if !checks.report() {
        return Ok(ExitCode::FAILURE);
    }
    devkit::print_line(&style("All checks hold.").green().to_string());
    Ok(ExitCode::SUCCESS)
}
