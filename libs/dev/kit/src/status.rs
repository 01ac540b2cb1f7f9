//! `cargo dev status`: the addresses and states of the stack.

use anyhow::bail;
use clap::Args;
use comfy_table::{Cell, Color};
use console::style;

use crate::actors;
use crate::stack::{Stack, State};

/// Returns the summary of a running stack.
pub fn summary(stack: &Stack, broker: &str) -> String {
    let mut places = crate::table(["", ""]);
    places.add_row(["base URL", &stack.base_url]);
    places.add_row(["database", &stack.database_url]);
    places.add_row(["brokers", &format!("{} {broker}", stack.brokers)]);
    places.add_row(["issuer", &stack.issuer]);
    if let Some(livekit) = &stack.livekit_url {
        places.add_row(["LiveKit", livekit]);
    }
    let mut services = crate::table(["service", "state", "API page", "public", "internal", "admin"]);
    for (name, urls) in &stack.services {
        let state = match urls.state {
            State::Running => Cell::new("running").fg(Color::Green),
            State::Stopped => Cell::new("stopped").fg(Color::Red),
        };
        let page = format!("{}/docs/{name}/", stack.base_url);
        let internal = urls.internal_url.as_deref().unwrap_or_default();
        let places = [&page, &urls.public_url, internal, &urls.admin_url];
        services.add_row([Cell::new(name), state].into_iter().chain(places.map(Cell::new)));
    }
    let (title, next) = (style("Ready").bold().green(), style("Try, in another terminal").bold());
    format!(
        "\n{title}\n{}\n\n{services}\n\n{}\n\n{next}\n\
         \x20 cargo dev demo                   a story over HTTP and Kafka, step by step\n\
         \x20 cargo dev events --from-start    events of the services\n\
         \x20 cargo dev stop selections        an outage of one service; `start` ends it\n\
         \x20 curl -H \"Authorization: Bearer $(cargo dev token anna)\" {}/api/v1/selections\n",
        places.trim_fmt().trim_start_matches('\n'),
        actors::table(),
        stack.base_url,
    )
}

/// Show the addresses and states of the running stack
#[derive(Args)]
pub struct Status {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Status {
    pub fn run(&self) -> anyhow::Result<()> {
        let stack = match Stack::running() {
            Err(_) if self.json => {
                crate::print_line("{\"running\": false}");
                bail!("no stack is running");
            }
            stack => stack?,
        };
        if self.json {
            crate::print_line(&serde_json::to_string_pretty(&stack)?);
        } else {
            crate::print_line(&summary(&stack, ""));
        }
        Ok(())
    }
}
