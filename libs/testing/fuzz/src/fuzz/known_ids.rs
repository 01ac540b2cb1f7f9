//! Existing ids for Schemathesis. The OpenAPI documents do not say which response returns an id
//! that another request needs.

mod commissions;

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use testkit::issuer::Claims;
use uuid::Uuid;

use devkit::actors::{self, ANNA, MARIA, OLGA};
use devkit::http;
use devkit::identity::Identity;
use devkit::stack::{self, Stack};
use devstack::fixtures::building::Flats;
use devstack::fixtures::people;

/// Numbers of created entities, so that some are left after many deletions.
const SELECTIONS: usize = 60;
const COMPANIES: usize = 30;
const PROJECTS: usize = 6;
const BUILDINGS: usize = 3;
const DEALS: usize = 40;
/// Timeout until a service has replicated the created data.
const REPLICATION_TIMEOUT: Duration = Duration::from_secs(15);

/// Creates entities and writes their ids to the files that `schemathesis.toml` names.
pub(super) async fn create(stack: &Stack) -> anyhow::Result<()> {
    create_selections(stack).await?;
    create_companies(stack).await?;
    create_buildings(stack).await?;
    create_deals(stack).await?;
    create_chats(stack).await?;
    commissions::create(stack).await
}

/// Creates a message and a call in the chat of each deal. Anna is the client.
async fn create_chats(stack: &Stack) -> anyhow::Result<()> {
    let (client, anna) = (http::client()?, Identity::of(stack)?.token(&ANNA).await?);
    let url = format!("{}/api/messenger/chats", stack.base_url);
    let deadline = tokio::time::Instant::now() + REPLICATION_TIMEOUT;
    let found = loop {
        let found = send(client.get(format!("{url}?PageSize=100")).bearer_auth(&anna)).await?;
        let chats = found["Items"].as_array().context("no list")?;
        if chats.len() >= DEALS {
            break chats.iter().map(|chat| text(&chat["Id"])).collect::<anyhow::Result<Vec<_>>>()?;
        }
        ensure!(tokio::time::Instant::now() < deadline, "messenger has not replicated the deals");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let (mut messages, mut conferences) = (Vec::new(), Vec::new());
    for chat in &found {
        let message = client.post(format!("{url}/{chat}/messages")).bearer_auth(&anna);
        messages.push(text(&send(message.json(&json!({"Text": "x"}))).await?["Id"])?);
        let conference = client.post(format!("{url}/{chat}/conferences")).bearer_auth(&anna);
        conferences.push(text(&send(conference.json(&json!({"Media": "Video"}))).await?["Id"])?);
    }
    save([("chats", found), ("messages", messages), ("conferences", conferences)])
}

/// Creates deals of the demo's developer and lists the pipeline steps.
async fn create_deals(stack: &Stack) -> anyhow::Result<()> {
    let (client, maria) = (http::client()?, Identity::of(stack)?.token(&MARIA).await?);
    let (flats, url) = (Flats::of(stack).await?, format!("{}/api/v1/crm", stack.base_url));
    let pipeline = client.get(format!("{url}/pipeline-steps")).bearer_auth(&maria);
    let pipeline = send_until_replicated(pipeline).await?;
    let steps = pipeline["Steps"].as_array().context("no steps")?;
    let steps = steps.iter().map(|step| text(&step["Id"])).collect::<anyhow::Result<_>>()?;
    let mut deals = Vec::new();
    for number in 0..DEALS {
        // Two flats that are available.
        let flat = flats.id(if number.is_multiple_of(2) { 10 } else { 12 });
        let body = json!({
            "PropertyObjectId": flat,
            "ClientUserId": ANNA.user,
            "RequestId": Uuid::from_u128(rand::random()),
        });
        let made = client.post(format!("{url}/deals")).bearer_auth(&maria).json(&body);
        let id = text(&send_until_replicated(made).await?["DealId"])?;
        if number.is_multiple_of(3) {
            let contract = json!({"ContractType": "Ddu", "PaymentMethod": "Cash"});
            send(client.put(format!("{url}/deals/{id}/contract")).bearer_auth(&maria).json(&contract))
                .await?;
        }
        deals.push(id);
    }
    save([("deals", deals), ("steps", steps)])
}

/// Repeats a request until CRM has replicated developers and flats by Kafka.
async fn send_until_replicated(request: reqwest::RequestBuilder) -> anyhow::Result<Value> {
    send_until(request, |_| true).await
}

/// Repeats a request until its response satisfies `is_expected`.
async fn send_until(
    request: reqwest::RequestBuilder,
    is_expected: impl Fn(&Value) -> bool,
) -> anyhow::Result<Value> {
    let deadline = tokio::time::Instant::now() + REPLICATION_TIMEOUT;
    loop {
        let response = send(request.try_clone().context("a body that can be sent once only")?).await;
        if response.as_ref().is_ok_and(&is_expected) {
            return response;
        }
        if tokio::time::Instant::now() >= deadline {
            response?;
            bail!("the created data does not appear");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Creates projects of the demo's developer with buildings. The ids of each kind are in one list,
/// so a request rarely gets a project and a building that belong together.
async fn create_buildings(stack: &Stack) -> anyhow::Result<()> {
    let (client, maria) = (http::client()?, Identity::of(stack)?.token(&MARIA).await?);
    let url = format!("{}/api/v1/developers/projects", stack.base_url);
    let (mut projects, mut buildings, mut objects) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..PROJECTS {
        let body = json!({"Name": "x", "Class": "Elite", "City": "x", "Address": "x"});
        let project = text(&send(client.post(&url).bearer_auth(&maria).json(&body)).await?["Id"])?;
        for _ in 0..BUILDINGS {
            let body = json!({"Name": "x", "SectionsCount": 9, "FloorsTotal": 99, "State": "Planned"});
            let of_project = format!("{url}/{project}/buildings");
            let building =
                text(&send(client.post(&of_project).bearer_auth(&maria).json(&body)).await?["Id"])?;
            let object = json!({
                "Number": "x",
                "Kind": "Flat",
                "Section": 1,
                "Floor": 1,
                "PositionOnFloor": 1,
                "AreaTotal": 1,
                "Finishing": "None",
                "Price": {"AmountMinor": 1, "Currency": "RUB"},
            });
            let grid = client.put(format!("{of_project}/{building}/property-objects"));
            send(grid.bearer_auth(&maria).json(&json!({"Objects": [object]}))).await?;
            let whole = client.get(format!("{of_project}/{building}")).bearer_auth(&maria);
            objects.push(text(&send(whole).await?["Grid"][0]["Floors"][0]["Objects"][0]["Id"])?);
            buildings.push(building);
        }
        send(client.post(format!("{url}/{project}/publish")).bearer_auth(&maria)).await?;
        projects.push(project);
    }
    save([("projects", projects), ("buildings", buildings), ("property-objects", objects)])
}

/// Creates companies, and employees of the operator's company, as its administrator Olga.
async fn create_companies(stack: &Stack) -> anyhow::Result<()> {
    let (client, olga) = (http::client()?, Identity::of(stack)?.token(&OLGA).await?);
    let url = |path: &str| format!("{}/api/identity/{path}", stack.base_url);
    let (mut tenants, mut employees) = (Vec::new(), Vec::new());
    for number in 0..COMPANIES {
        let kind = ["Developer", "Agency", "Partner"][number % 3];
        let body = json!({"Name": "x", "Type": kind});
        let tenant = send(client.post(url("admin/tenants")).bearer_auth(&olga).json(&body)).await?;
        tenants.push(text(&tenant["Id"])?);
        let body = json!({"Name": "x", "Email": format!("{}@example.com", devkit::random_hex())});
        let employee = send(client.post(url("employees")).bearer_auth(&olga).json(&body)).await?;
        employees.push(text(&employee["Id"])?);
    }
    let roles = ["platform-admin", "deal-arbiter", "care-service", "agent"];
    let roles =
        roles.iter().map(|code| Ok(people::role(code)?.to_string())).collect::<anyhow::Result<_>>()?;
    save([("tenants", tenants), ("employees", employees), ("roles", roles)])
}

async fn create_selections(stack: &Stack) -> anyhow::Result<()> {
    let (client, identity) = (http::client()?, Identity::of(stack)?);
    let flats = Flats::of(stack).await?;
    let anna = identity.token(&ANNA).await?;
    let news = actors::issuer(stack)?.token(&Claims::client("news"))?;
    let url = format!("{}/api/v1/selections", stack.base_url);
    let before =
        client.get(format!("{url}?PageSize=100")).bearer_auth(&anna).send().await?.error_for_status()?;
    for selection in before.json::<Value>().await?["Items"].as_array().context("no list")? {
        // Deletes the selections of the demo data, since an owner may have a limited number.
        client.delete(format!("{url}/{}", text(&selection["Id"])?)).bearer_auth(&anna).send().await?;
    }
    let internal = stack.services["selections"].internal_url.as_ref().context("no internal port")?;
    let (mut ids, mut codes, mut snapshots) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..SELECTIONS {
        let body = json!({"Title": "x", "Items": [{"PropertyObjectId": flats.id(1)}]});
        let selection = send(client.post(&url).bearer_auth(&anna).json(&body)).await?;
        let id = text(&selection["Id"])?;
        let body = json!({"PostId": Uuid::from_u128(rand::random()), "ActorUserId": ANNA.user});
        let taking = format!("{internal}/api/v1/internal/selections/{id}/snapshots");
        let snapshot = send(client.post(taking).bearer_auth(&news).json(&body)).await?;
        snapshots.push(text(&snapshot["SnapshotId"])?);
        codes.push(text(&selection["PublicCode"])?);
        ids.push(id);
    }
    save([("selections", ids), ("codes", codes), ("snapshots", snapshots)])
}

fn save<const N: usize>(lists: [(&str, Vec<String>); N]) -> anyhow::Result<()> {
    for (name, values) in lists {
        let lines: Vec<_> = values.iter().map(|value| format!("\"{value}\"")).collect();
        std::fs::write(stack::dev_path(&format!("fuzz-{name}.txt"))?, lines.join("\n"))?;
    }
    Ok(())
}

async fn send(request: reqwest::RequestBuilder) -> anyhow::Result<Value> {
    Ok(request.send().await?.error_for_status()?.json().await?)
}

fn text(value: &Value) -> anyhow::Result<String> {
    Ok(value.as_str().context("no text")?.to_owned())
}
