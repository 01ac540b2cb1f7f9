//! `cargo dev verify`: the sums of `cargo dev chaos`, of the stack that runs.

use std::process::ExitCode;
use std::time::Duration;

use console::style;

use crate::chaos::balance::Balance;
use crate::chaos::settle::Patience;
use devkit::postgres;
use devkit::stack::Stack;
use devstack::areas;

const LOOK: Duration = Duration::from_millis(500);

pub async fn run() -> anyhow::Result<ExitCode> {
    let server = postgres::connect(&Stack::running()?.database_url).await?;
    let areas = areas::all();
    let mut patience = Patience::new();
    let balance = loop {
        let balance = Balance::of(&server, &areas).await?;
        let off = balance.off();
        if off.is_empty() || patience.is_over(&off) {
            break balance;
        }
        tokio::time::sleep(LOOK).await;
    };
    balance.show();
    if !balance.hold() {
        return Ok(ExitCode::FAILURE);
    }
    devkit::say(&style("All adds up.").green().to_string());
    Ok(ExitCode::SUCCESS)
}
