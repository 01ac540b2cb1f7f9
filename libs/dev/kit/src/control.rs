//! Commands that stop and start one service of the running stack.

mod socket;

use clap::Args;
use clap::builder::PossibleValuesParser;

pub use self::socket::{Control, Request, send};
use crate::SERVICES;
use crate::stack::Stack;

/// Stop one service of the running stack, to see how the others behave without it
///
/// The service finishes its requests and messages, as in a deployment. The other services keep
/// running. The paths of the stopped service return 503, and its callers see an outage. Stopping a
/// stopped service succeeds. `cargo dev status` shows the state; `cargo dev start` starts the
/// service again.
#[derive(Args)]
pub struct Stop {
    /// Name of the service
    #[arg(value_name = "SERVICE", value_parser = names())]
    service: String,
}

/// Start a stopped service on its previous ports
///
/// The service is ready when this command ends. Starting a running service succeeds. A service that
/// fails to start stays stopped, and the command prints the reason.
#[derive(Args)]
pub struct Start {
    /// Name of the service
    #[arg(value_name = "SERVICE", value_parser = names())]
    service: String,
}

fn names() -> PossibleValuesParser {
    SERVICES.into()
}

impl Stop {
    pub async fn run(self) -> anyhow::Result<()> {
        send_and_print(Request::Stop(self.service)).await
    }
}

impl Start {
    pub async fn run(self) -> anyhow::Result<()> {
        send_and_print(Request::Start(self.service)).await
    }
}

async fn send_and_print(request: Request) -> anyhow::Result<()> {
    Stack::running()?;
    crate::print_line(&send(&request).await?);
    Ok(())
}
