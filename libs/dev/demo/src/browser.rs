//! `cargo dev browser`: a test that clicks through the start page and the API pages in a real
//! browser.

mod api_pages;
mod feeds;
mod pilot;
mod platform_page;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::Args;

use self::pilot::Pilot;
use devkit::Settings;
use devkit::bus::Kind;
use devkit::postgres::Cluster;
use devkit::signals::Signals;
use devkit::stack::{Lock, Stack};
use devstack::running::Running;
use devstack::up::Up;

/// A message with markup, which must arrive as text.
const MESSAGE: &str = "When can I see it? <b>Today</b>?";

/// Click through the start page in Chromium: against the running stack, or one that it starts and
/// stops
///
/// Two windows act as two people of the demo. One books and frees a flat, and the other shows the
/// change. They exchange messages and call. The page shows an agent's commissions, imports a feed
/// of the developer, and is shown in Russian. Each service's API page sends requests, and the page
/// of the platform shows an operation. Needs `chromium` and `chromedriver`. With --media a LiveKit
/// server carries the call, and each side must receive the other's media.
#[derive(Args)]
pub struct Browser {
    /// Also run a LiveKit server, or require that of the running stack
    #[arg(long)]
    media: bool,
    /// Write a screenshot of the page to this file at the end
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

impl Browser {
    pub async fn run(self) -> anyhow::Result<()> {
        let mut signals = Signals::listen()?;
        if Lock::holder("up")?.is_some() {
            let stack = Stack::running()?;
            ensure!(
                !self.media || stack.livekit_url.is_some(),
                "the stack runs without --media; stop it, or start it with `cargo dev up --media`"
            );
            return self.play(&stack, &mut signals).await;
        }
        let mut running = Running::new()?;
        let options = Up {
            port: 0,
            fresh: false,
            no_seed: false,
            broker: Kind::Embedded,
            processes: false,
            media: self.media,
            cluster: Cluster::STACK,
            settings: Settings::new(),
        };
        let started = tokio::select! {
            started = running.start(&options) => started,
            () = signals.stop() => Err(anyhow::anyhow!("interrupted")),
        };
        let result = match started {
            Ok(stack) => tokio::select! {
                result = self.play(&stack, &mut signals) => result,
                error = running.serve_control() => Err(error),
            },
            Err(error) => Err(error),
        };
        let stopped = running.stop().await;
        result.and(stopped)
    }

    async fn play(&self, stack: &Stack, signals: &mut Signals) -> anyhow::Result<()> {
        let mut pilot = Pilot::start().await?;
        let played = tokio::select! {
            played = self.story(&pilot, stack) => played,
            () = signals.stop() => Err(anyhow::anyhow!("interrupted")),
        };
        if played.is_err() {
            // A screenshot and the state of the page at the failure.
            let _ = pilot.picture(&devkit::stack::dev_path("logs/browser.png")?).await;
            if let Ok(state) = pilot.state().await {
                devkit::print_line(&format!("{state:#}"));
            }
        }
        let stopped = pilot.stop().await;
        played.and(stopped)
    }

    async fn story(&self, pilot: &Pilot, stack: &Stack) -> anyhow::Result<()> {
        let url = format!("{}/", stack.base_url);
        let (seller, buyer) = (pilot.current_window().await?, pilot.open_window().await?);
        pilot.switch_to(&buyer).await?;
        sign_in(pilot, &url, "anna").await?;
        pilot.switch_to(&seller).await?;
        sign_in(pilot, &url, "dmitri").await?;
        done("two windows are signed in as two people");

        let number = book(pilot).await?;
        let cell = |status: &str| format!(".cell[data-number='{number}'][data-status='{status}']");
        pilot.wait_for(&cell("Booked")).await?;
        pilot.switch_to(&buyer).await?;
        pilot.wait_for(&cell("Booked")).await?;
        pilot.wait_for("#feed [data-topic='platform.crm.booking-created.v1']").await?;
        done(&format!("flat {number} is booked in both windows, and the event is shown"));

        pilot.switch_to(&buyer).await?;
        send_message(pilot, &seller, &buyer, &number).await?;
        call(pilot, &seller, &buyer, self.media).await?;

        pilot.switch_to(&seller).await?;
        sign_in(pilot, &url, "pavel").await?;
        arbitrate(pilot, &number).await?;
        let cancelled = Instant::now();
        pilot.switch_to(&buyer).await?;
        pilot.wait_for(&cell("Available")).await?;
        let took = cancelled.elapsed().as_millis();
        done(&format!(
            "Pavel overrides the deal to Sale, cancels it, and anna's window shows the flat as free after {took} ms"
        ));

        sign_in(pilot, &url, "igor").await?;
        for shown in [".bar:not(.none)", "dd[data-part='Paid']", "[data-payout='Paid']"] {
            pilot.wait_for(shown).await?;
        }
        done("Igor sees his months, his commissions and his payout");

        sign_in(pilot, &url, "maria").await?;
        feeds::import(pilot, &stack.base_url).await?;

        pilot.click("[data-language='ru']").await?;
        pilot.wait_for("html[lang='ru'] body[data-ready]").await?;
        ensure!(pilot.text("h1").await? == "Платформа недвижимости", "the page is not in Russian");
        pilot.click("[data-language='en']").await?;
        pilot.wait_for("html[lang='en'] body[data-ready]").await?;
        done("the page is shown in Russian");

        ensure!(pilot.loaded_only_own_resources().await?, "the page loads resources of another origin");
        done("all resources are of this origin");

        platform_page::read(pilot, &stack.base_url).await?;
        api_pages::try_out(pilot, &stack.base_url).await?;
        if let Some(file) = &self.picture {
            sign_in(pilot, &url, "dmitri").await?;
            pilot.picture(file).await?;
        }
        Ok(())
    }
}

async fn sign_in(pilot: &Pilot, url: &str, name: &str) -> anyhow::Result<()> {
    pilot.go(url).await?;
    pilot.wait_for("body[data-ready]").await?;
    pilot.click(&format!("[data-actor='{name}']")).await?;
    // Waits for the page after the sign-in. The page before it shows another button as pressed.
    pilot.wait_for(&format!("body[data-ready] [data-actor='{name}'][aria-pressed='true']")).await?;
    pilot.wait_for("#feed[data-state='live']").await
}

/// Creates a deal of a free flat and books it. Returns the number of the flat.
async fn book(pilot: &Pilot) -> anyhow::Result<String> {
    let free = ".cell[data-status='Available']";
    let number = pilot.attribute(free, "data-number").await?.context("a cell without a number")?;
    pilot.click(&format!(".cell[data-number='{number}']")).await?;
    pilot.click(".details [data-action='deal']").await?;
    pilot.click("dialog [data-action='confirm']").await?;
    pilot.click(&format!("[data-deal][data-number='{number}'].open [data-action='book']")).await?;
    Ok(number)
}

/// Sends a message from Anna to Dmitri in the newest chat, which is about the flat `number`.
async fn send_message(
    pilot: &Pilot,
    seller: &pilot::Window,
    buyer: &pilot::Window,
    number: &str,
) -> anyhow::Result<()> {
    // The chat may be created after the booking is shown.
    let newest = format!("#chat nav button:first-child[data-title='№ {number}']");
    let chat = pilot.attribute(&newest, "data-chat").await?;
    let chat = format!("[data-chat='{}']", chat.context("a chat without an id")?);
    pilot.click(&chat).await?;
    pilot.wait_for(&format!("{chat}[aria-pressed='true']")).await?;
    pilot.write("#chat input", MESSAGE).await?;
    pilot.click("[data-action='send-message']").await?;
    pilot.wait_for(".log .own p").await?;
    pilot.switch_to(seller).await?;
    pilot.click(&chat).await?;
    pilot.wait_for(".log .other p").await?;
    ensure!(pilot.text(".log .other:last-child p").await? == MESSAGE, "the message changed on its way");
    done("dmitri reads anna's message, with its markup as text");
    pilot.switch_to(buyer).await
}

/// Anna calls, Dmitri answers, and Anna hangs up.
async fn call(
    pilot: &Pilot,
    seller: &pilot::Window,
    buyer: &pilot::Window,
    media: bool,
) -> anyhow::Result<()> {
    // A browser may delay the work of a window in the background.
    let joined = if media {
        "#call[data-state='Joined'][data-media='connected']"
    } else {
        "#call[data-state='Joined']"
    };
    pilot.click("[data-action='call-Audio']").await?;
    pilot.wait_for(joined).await?;
    pilot.switch_to(seller).await?;
    pilot.wait_for("#call[data-state='Invited']").await?;
    pilot.click("#call [data-action='join']").await?;
    pilot.wait_for(joined).await?;
    if media {
        for window in [seller, buyer] {
            pilot.switch_to(window).await?;
            pilot.wait_for("#call[data-tracks='1']").await?;
        }
    }
    pilot.switch_to(buyer).await?;
    pilot.wait_for("#call [data-person='dmitri'][data-state='Joined']").await?;
    pilot.click("#call [data-action='end']").await?;
    pilot.wait_for(".log [data-card='ConferenceEnded']").await?;
    pilot.switch_to(seller).await?;
    pilot.wait_for("#call[hidden]").await?;
    done(if media { "anna calls, and both receive the other" } else { "anna calls, and dmitri answers" });
    Ok(())
}

/// Pavel records the contract, overrides the deal to Sale, and cancels it.
async fn arbitrate(pilot: &Pilot, number: &str) -> anyhow::Result<()> {
    let deal = format!("[data-deal][data-number='{number}']");
    pilot.click(&format!("[data-group='Booking'] {deal} .card")).await?;
    pilot.click(&format!("{deal}.open [data-action='contract']")).await?;
    pilot.click("dialog [data-action='confirm']").await?;
    pilot.wait_for("body:not(:has(dialog))").await?;
    pilot.click(&format!("{deal}.open [data-action='override']")).await?;
    pilot.choose("dialog [name='status']", "Sale").await?;
    pilot.click("dialog [data-action='confirm']").await?;
    pilot.wait_for(&format!("[data-group='Contract'] {deal}.open")).await?;
    pilot.click(&format!("{deal}.open [data-action='cancel']")).await?;
    pilot.click("dialog [data-action='confirm']").await
}

fn done(what: &str) {
    devkit::print_line(&format!("{} {what}", console::style("✓").green()));
}
