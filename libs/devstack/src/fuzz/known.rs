//! Ids that exist, for Schemathesis to ask for: where selections get theirs it cannot tell from the document.

use anyhow::Context;
use serde_json::{Value, json};
use testkit::issuer::Claims;
use uuid::Uuid;

use crate::actors::{self, ANNA};
use crate::http;
use crate::plant::flat;
use crate::stack::{self, Stack};

/// Enough that some are left after many deletions.
const SELECTIONS: usize = 60;

/// Makes selections and snapshots, and writes down what can be asked for, as `schemathesis.toml` names it.
pub(super) async fn plant(stack: &Stack) -> anyhow::Result<()> {
    let (client, issuer) = (http::client()?, actors::issuer(stack)?);
    let (anna, news) = (issuer.token(&ANNA.claims())?, issuer.token(&Claims::client("news"))?);
    let url = format!("{}/api/v1/selections", stack.base_url);
    let before =
        client.get(format!("{url}?PageSize=100")).bearer_auth(&anna).send().await?.error_for_status()?;
    for selection in before.json::<Value>().await?["Items"].as_array().context("no list")? {
        // What earlier runs left behind: an owner may have so many and no more.
        client.delete(format!("{url}/{}", text(&selection["Id"])?)).bearer_auth(&anna).send().await?;
    }
    let internal = stack.services["selections"].internal_url.as_ref().context("no internal port")?;
    let (mut ids, mut codes, mut snapshots) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..SELECTIONS {
        let body = json!({"Title": "x", "Items": [{"PropertyObjectId": flat(1)}]});
        let selection = post(client.post(&url).bearer_auth(&anna).json(&body)).await?;
        let id = text(&selection["Id"])?;
        let body = json!({"PostId": Uuid::from_u128(rand::random()), "ActorUserId": ANNA.user});
        let taking = format!("{internal}/api/v1/internal/selections/{id}/snapshots");
        let snapshot = post(client.post(taking).bearer_auth(&news).json(&body)).await?;
        snapshots.push(text(&snapshot["SnapshotId"])?);
        codes.push(text(&selection["PublicCode"])?);
        ids.push(id);
    }
    for (name, values) in [("selections", ids), ("codes", codes), ("snapshots", snapshots)] {
        let lines: Vec<_> = values.iter().map(|value| format!("\"{value}\"")).collect();
        std::fs::write(stack::dev(&format!("fuzz-{name}.txt"))?, lines.join("\n"))?;
    }
    Ok(())
}

async fn post(request: reqwest::RequestBuilder) -> anyhow::Result<Value> {
    Ok(request.send().await?.error_for_status()?.json().await?)
}

fn text(value: &Value) -> anyhow::Result<String> {
    Ok(value.as_str().context("no text")?.to_owned())
}
