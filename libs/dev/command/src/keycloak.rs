//! `cargo dev keycloak`: a Keycloak with the platform's realm, in the foreground or for the access
//! tests.

use std::process::{ExitCode, Stdio};

use anyhow::Context;
use clap::Args;
use console::style;
use testkit::keycloak::{self, ADMINISTRATOR, Realm};

use devkit::progress::Step;
use devkit::signals::Signals;
use devkit::stack::Lock;

/// The tests that use tokens of Keycloak: those that call every operation of a service as every
/// kind of caller, and those of machine accounts.
const TESTS: [&str; 2] = ["every_operation_returns_the_status_of_the_table", "machine_accounts::tokens"];

/// Run a real Keycloak with the realm of deploy/local/keycloak until Ctrl-C; needs Java 17 or later
/// and Maven
///
/// Keycloak is installed once (160 MB) into .dev/keycloak. Its data is lost when it stops.
#[derive(Args)]
pub struct Keycloak {
    /// Run every service's access table with tokens of Keycloak while its keys rotate, then the
    /// tests of machine accounts, and exit
    #[arg(long)]
    test: bool,
    /// Only install Keycloak, and report whether it can run here
    #[arg(long, conflicts_with = "test")]
    fetch: bool,
}

impl Keycloak {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let mut signals = Signals::listen()?;
        let _lock = Lock::take("keycloak")?;
        let step = Step::start("keycloak");
        step.note("installing Keycloak with Maven, if missing (160 MB)");
        keycloak::fetch().await?;
        if self.fetch {
            step.done("installed");
            return Ok(ExitCode::SUCCESS);
        }
        step.note("starting");
        let mut keycloak = tokio::select! {
            keycloak = keycloak::Keycloak::start() => keycloak?,
            () = signals.stop() => return Ok(ExitCode::FAILURE),
        };
        step.done(keycloak.url().to_owned());
        if self.test {
            return run_tests(keycloak.url()).await;
        }
        let (name, password) = ADMINISTRATOR;
        devkit::print_line(&format!(
            "AUTH_ISSUER={}\n{}",
            Realm::new(keycloak.url()).issuer(),
            style(format!("Its administrator is {name}, password {password}. Ctrl-C stops it.")).dim()
        ));
        tokio::select! {
            error = keycloak.wait_for_end() => Err(error),
            () = signals.stop() => Ok(ExitCode::SUCCESS),
        }
    }
}

/// Runs the access tests of one service after the other, since a rotation of the keys affects all
/// tests.
async fn run_tests(url: &str) -> anyhow::Result<ExitCode> {
    let mut all_succeeded = true;
    for name in TESTS {
        let mut test = tokio::process::Command::new(std::env::current_exe()?);
        test.args(["test", "--at-once", "1", "--locked", "--test", "it", name])
            .env(keycloak::URL_VARIABLE, url)
            .stdin(Stdio::null());
        let status = test.kill_on_drop(true).status().await.context("failed to run the tests")?;
        all_succeeded &= status.success();
    }
    Ok(if all_succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
