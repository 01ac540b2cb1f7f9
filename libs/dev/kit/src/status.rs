//! `cargo dev status`: the addresses and states of the stack.

use anyhow::bail;
use clap::Args;
use comfy_table::{Cell, Color};
use console::style;

use crate::actors;
use crate::stack::{Stack, State};

/// Returns the addresses of a running stack, the states of its services, and the demo actors.
pub fn summary(stack: &Stack, broker: &str) -> String {
    let mut places = crate::table(["", ""]);
    places.add_row(["start page", &format!("{}/", stack.base_url)]);
    places.add_row(["all operations", &format!("{}/docs", stack.base_url)]);
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
    let stopped = stack.services.values().filter(|urls| urls.state == State::Stopped).count();
    let title = match stopped {
        0 => style("Ready".to_owned()).bold().green(),
        _ => style(format!("{stopped} stopped")).bold().red(),
    };
    let places = places.trim_fmt();
    format!("\n{title}\n{}\n\n{services}\n\n{}\n", places.trim_start_matches('\n'), actors::table())
}

/// Returns commands to try on a running stack.
pub fn suggestions(stack: &Stack) -> String {
    format!(
        "\n{}\n\
         \x20 cargo dev demo                   a story over HTTP and Kafka, step by step\n\
         \x20 cargo dev events --from-start    events of the services\n\
         \x20 cargo dev stop selections        an outage of one service; `start` ends it\n\
         \x20 curl -H \"Authorization: Bearer $(cargo dev token anna)\" {}/api/v1/selections\n",
        style("Try, in another terminal").bold(),
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
