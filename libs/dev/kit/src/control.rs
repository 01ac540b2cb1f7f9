//! Stopping and starting one service of the running stack.

mod socket;

use clap::Args;
use clap::builder::PossibleValuesParser;

pub use self::socket::{Control, Request, ask};
use crate::SERVICES;
use crate::stack::Stack;

/// Stop one service of the running stack, to see how the others do without it
///
/// It finishes the requests and messages that it has in hand, as in a deployment. The others go on: its
/// own paths answer 503, and whoever calls it meets what an outage would be. Stopping what is stopped
/// already is fine. `cargo dev status` shows what is stopped; `cargo dev start` starts it again.
#[derive(Args)]
pub struct Stop {
    /// The service's name
    #[arg(value_name = "SERVICE", value_parser = names())]
    service: String,
}

/// Start a service that was stopped, on the ports that it had
///
/// It answers again when this command ends. Starting what runs already is fine. A service that does not
/// come up stays stopped, and the reason is told; the rest of the stack goes on.
#[derive(Args)]
pub struct Start {
    /// The service's name
    #[arg(value_name = "SERVICE", value_parser = names())]
    service: String,
}

fn names() -> PossibleValuesParser {
    SERVICES.into()
}

impl Stop {
    pub async fn run(self) -> anyhow::Result<()> {
        send(Request::Stop(self.service)).await
    }
}

impl Start {
    pub async fn run(self) -> anyhow::Result<()> {
        send(Request::Start(self.service)).await
    }
}

async fn send(request: Request) -> anyhow::Result<()> {
    Stack::running()?;
    crate::say(&ask(&request).await?);
    Ok(())
}
