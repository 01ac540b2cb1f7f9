//! Ids that exist, for Schemathesis to ask for: where things get theirs it cannot tell from the documents.

use anyhow::Context;
use serde_json::{Value, json};
use testkit::issuer::Claims;
use uuid::Uuid;

use crate::actors::{self, ANNA, OLGA};
use crate::http;
use crate::identity::Identity;
use crate::plant::building::Flats;
use crate::plant::people;
use crate::stack::{self, Stack};

/// Enough that some are left after many deletions.
const SELECTIONS: usize = 60;
const COMPANIES: usize = 30;

/// Makes what can be asked for, and writes it down as `schemathesis.toml` names it.
pub(super) async fn plant(stack: &Stack) -> anyhow::Result<()> {
    plant_selections(stack).await?;
    plant_companies(stack).await
}

/// Companies, and employees of the operator's, whose administrator it is that asks.
async fn plant_companies(stack: &Stack) -> anyhow::Result<()> {
    let (client, olga) = (http::client()?, Identity::of(stack)?.token(&OLGA).await?);
    let url = |path: &str| format!("{}/api/identity/{path}", stack.base_url);
    let (mut tenants, mut employees) = (Vec::new(), Vec::new());
    for number in 0..COMPANIES {
        let kind = ["Developer", "Agency", "Partner"][number % 3];
        let body = json!({"Name": "x", "Type": kind});
        let tenant = post(client.post(url("admin/tenants")).bearer_auth(&olga).json(&body)).await?;
        tenants.push(text(&tenant["Id"])?);
        let body = json!({"Name": "x", "Email": format!("{}@example.com", crate::random_hex())});
        let employee = post(client.post(url("employees")).bearer_auth(&olga).json(&body)).await?;
        employees.push(text(&employee["Id"])?);
    }
    let roles = ["platform-admin", "deal-arbiter", "care-service", "agent"];
    let roles =
        roles.iter().map(|code| Ok(people::role(code)?.to_string())).collect::<anyhow::Result<_>>()?;
    write_down([("tenants", tenants), ("employees", employees), ("roles", roles)])
}

async fn plant_selections(stack: &Stack) -> anyhow::Result<()> {
    let (client, identity) = (http::client()?, Identity::of(stack)?);
    let flats = Flats::of(stack).await?;
    let anna = identity.token(&ANNA).await?;
    let news = actors::issuer(stack)?.token(&Claims::client("news"))?;
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
        let body = json!({"Title": "x", "Items": [{"PropertyObjectId": flats.id(1)}]});
        let selection = post(client.post(&url).bearer_auth(&anna).json(&body)).await?;
        let id = text(&selection["Id"])?;
        let body = json!({"PostId": Uuid::from_u128(rand::random()), "ActorUserId": ANNA.user});
        let taking = format!("{internal}/api/v1/internal/selections/{id}/snapshots");
        let snapshot = post(client.post(taking).bearer_auth(&news).json(&body)).await?;
        snapshots.push(text(&snapshot["SnapshotId"])?);
        codes.push(text(&selection["PublicCode"])?);
        ids.push(id);
    }
    write_down([("selections", ids), ("codes", codes), ("snapshots", snapshots)])
}

fn write_down<const N: usize>(lists: [(&str, Vec<String>); N]) -> anyhow::Result<()> {
    for (name, values) in lists {
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
