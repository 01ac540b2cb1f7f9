//! The API page of each service, used with a token: an operation that reads, and for some services
//! one that writes.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::pilot::Pilot;
use devkit::{SERVICES, actors};

/// The operations that a person calls on the API page of a service.
struct Trial {
    service: &'static str,
    person: &'static str,
    operations: Vec<Operation>,
}

struct Operation {
    /// Name of the operation with its tag, as on the page.
    name: &'static str,
    body: Option<Value>,
    /// The beginning of the response's status.
    status: &'static str,
    /// A text that the response body contains.
    shows: &'static str,
}

impl Trial {
    fn new(
        service: &'static str,
        person: &'static str,
        operations: impl IntoIterator<Item = Operation>,
    ) -> Self {
        Self { service, person, operations: operations.into_iter().collect() }
    }
}

fn read(name: &'static str, shows: &'static str) -> Operation {
    Operation { name, body: None, status: "200", shows }
}

fn write(name: &'static str, body: Value, shows: &'static str) -> Operation {
    Operation { name, body: Some(body), status: "201", shows }
}

/// Returns a trial of each service.
fn all() -> [Trial; SERVICES.len()] {
    let titled = || json!({"Title": "Tried on the API page"});
    let with = json!({"UserId": actors::DMITRI.user});
    [
        Trial::new("identity", "olga", [read("Tenants-search_tenants", "\"TaxNumber\"")]),
        Trial::new("chessboard", "maria", [read("Profile-get_my_developer", "\"Highlights\"")]),
        Trial::new(
            "selections",
            "anna",
            [
                read("Selections-list_selections", "\"PublicCode\""),
                write("Selections-create_selection", titled(), "\"PublicCode\""),
            ],
        ),
        Trial::new("crm", "pavel", [read("Deals-list_deals", "\"RowVersion\"")]),
        // Both users are members of the chat of a deal.
        Trial::new(
            "messenger",
            "anna",
            [
                read("Chats-list_chats", "\"Members\""),
                // The chat is created with 201, or found with 200.
                Operation { status: "20", ..write("Chats-open_chat", with, "\"Direct\"") },
            ],
        ),
        Trial::new("agent", "igor", [read("Cabinet-list_own_payouts", "\"Net\"")]),
        Trial::new(
            "news",
            "anna",
            [read("Posts-list_posts", "\"TotalCount\""), write("Posts-create_post", titled(), "\"Draft\"")],
        ),
    ]
}

/// Calls the operations on every page.
pub(super) async fn try_out(pilot: &Pilot, base_url: &str) -> anyhow::Result<()> {
    for trial in all() {
        super::sign_in(pilot, &format!("{base_url}/"), trial.person).await?;
        // Drops the errors of earlier pages.
        pilot.take_console_errors().await?;
        try_page(pilot, base_url, &trial)
            .await
            .with_context(|| format!("the API page of {}", trial.service))?;
    }
    super::done("on each API page requests get their responses");
    Ok(())
}

async fn try_page(pilot: &Pilot, base_url: &str, trial: &Trial) -> anyhow::Result<()> {
    pilot.go(&format!("{base_url}/docs/{}/", trial.service)).await?;
    give_token(pilot).await?;
    for Operation { name, body, status, shows } in &trial.operations {
        let operation = format!("[id='operations-{name}']");
        let response = format!("{operation} .live-responses-table tbody");
        pilot.click(&format!("{operation} .opblock-summary-control")).await?;
        if let Some(body) = body {
            pilot.overwrite(&format!("{operation} .body-param__text"), &body.to_string()).await?;
        }
        pilot.click(&format!("{operation} .execute")).await?;
        let status_text = pilot.text(&format!("{response} .response-col_status")).await?;
        let shown = pilot.text(&format!("{response} .response-col_description")).await?;
        ensure!(status_text.starts_with(status), "{name} returned {status_text}: {shown}");
        ensure!(!status_text.contains("Undocumented"), "the document of {name} does not have {status_text}");
        ensure!(shown.contains(shows), "the response of {name} has no {shows}: {shown}");
    }
    let errors = pilot.take_console_errors().await?;
    ensure!(errors.is_empty(), "the browser reports errors: {errors:?}");
    ensure!(pilot.loaded_only_own_resources().await?, "the page loads resources of another origin");
    Ok(())
}

/// Removes the token that the page has from the sign-in, and enters it by hand.
async fn give_token(pilot: &Pilot) -> anyhow::Result<()> {
    let token = pilot.run("return sessionStorage.getItem('token')").await?;
    pilot.click(".auth-wrapper .authorize.locked").await?;
    pilot.click(".auth-container [aria-label='Remove authorization']").await?;
    pilot.write("#auth-bearer-value", token.as_str().context("no actor is signed in")?).await?;
    pilot.click(".auth-container [aria-label='Apply credentials']").await?;
    pilot.wait_for(".auth-container [aria-label='Remove authorization']").await?;
    pilot.click(".auth-container .btn-done").await
}
