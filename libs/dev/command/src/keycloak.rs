//! `cargo dev keycloak`: a real Keycloak with the platform's realm, in the foreground or for the tests of who may do what.

use std::process::{ExitCode, Stdio};

use anyhow::Context;
use clap::Args;
use console::style;
use testkit::keycloak::{self, ADMINISTRATOR, Realm};

use devkit::progress::Step;
use devkit::signals::Signals;
use devkit::stack::Lock;

/// Each service's walk over all that it offers, as everybody who might ask.
const ACCESS_TABLE_TEST: &str = "every_operation_answers_each_caller_as_the_table_says";

/// Run a real Keycloak with the realm of deploy/keycloak until Ctrl-C; needs Java 17 or later and Maven
///
/// It is brought once (160 MB) and lies in .dev/keycloak. What it has it forgets when it stops.
#[derive(Args)]
pub struct Keycloak {
    /// Run every service's access table with its tokens, whose keys change meanwhile, and end
    #[arg(long)]
    test: bool,
    /// Only bring what it needs, and say whether it could run here
    #[arg(long, conflicts_with = "test")]
    fetch: bool,
}

impl Keycloak {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let mut signals = Signals::listen()?;
        let _lock = Lock::take("keycloak")?;
        let step = Step::start("keycloak");
        step.note("bringing Keycloak with Maven, if it is not here (160 MB)");
        keycloak::fetch().await?;
        if self.fetch {
            step.done("brought");
            return Ok(ExitCode::SUCCESS);
        }
        step.note("starting");
        let mut keycloak = tokio::select! {
            keycloak = keycloak::Keycloak::start() => keycloak?,
            () = signals.stop() => return Ok(ExitCode::FAILURE),
        };
        step.done(keycloak.url().to_owned());
        if self.test {
            return walk(keycloak.url()).await;
        }
        let (name, password) = ADMINISTRATOR;
        devkit::say(&format!(
            "AUTH_ISSUER={}\n{}",
            Realm::new(keycloak.url()).issuer(),
            style(format!("Its administrator is {name}, password {password}. Ctrl-C stops it.")).dim()
        ));
        tokio::select! {
            error = keycloak.ended() => Err(error),
            () = signals.stop() => Ok(ExitCode::SUCCESS),
        }
    }
}

/// One service after the other, since the keys that one changes are those of all.
async fn walk(url: &str) -> anyhow::Result<ExitCode> {
    let mut test = tokio::process::Command::new(std::env::current_exe()?);
    test.args(["test", "--at-once", "1", "--locked", "--test", "it", ACCESS_TABLE_TEST])
        .env(keycloak::URL, url)
        .stdin(Stdio::null());
    let status = test.kill_on_drop(true).status().await.context("the tests cannot be run")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
