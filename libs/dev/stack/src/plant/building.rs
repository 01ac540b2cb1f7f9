//! A developer's first project with a building of flats, made over HTTP by the developer's administrator.

use std::time::Duration;

use anyhow::{Context, ensure};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use uuid::Uuid;

use devkit::actors::MARIA;
use devkit::http;
use devkit::identity::Identity;
use devkit::stack::Stack;

const PROJECT: &str = "Embankment";
const FLOORS: u32 = 9;
const FLATS_A_FLOOR: u32 = 4;
pub(super) const FLATS: u32 = FLOORS * FLATS_A_FLOOR;
/// How long it may take until chessboard has heard of the company: after a stack that was killed, a real Kafka first waits
/// out the session of the one that is gone (45 s).
const PATIENCE: Duration = Duration::from_mins(1);

/// Picture and plan files, which nothing here keeps.
const fn file(number: u32) -> Uuid {
    Uuid::from_u128(0x0198_0000_0000_7000_8000_0001_0000_0000 | number as u128)
}

/// The flats of the building, by number from 1.
pub struct Flats(Vec<Uuid>);

impl Flats {
    /// As a guest finds them.
    pub async fn of(stack: &Stack) -> anyhow::Result<Self> {
        let client = http::client()?;
        let get = async |path: String| {
            let url = format!("{}/api/v1/public/projects{path}", stack.base_url);
            anyhow::Ok(client.get(url).send().await?.error_for_status()?.json::<Value>().await?)
        };
        let found = get(format!("?Query={PROJECT}&Sort=PublishedAt")).await?;
        let project = text(&found["Items"][0]["Id"]).with_context(|| format!("{PROJECT} is not shown"))?;
        let shown = get(format!("/{project}")).await?;
        let building = text(&shown["Buildings"][0]["Id"])?;
        let building = get(format!("/{project}/buildings/{building}")).await?;
        let floors = building["Grid"][0]["Floors"].as_array().context("a building without floors")?;
        let objects = floors.iter().flat_map(|floor| floor["Objects"].as_array().into_iter().flatten());
        let mut flats = Vec::new();
        for object in objects {
            flats.push((text(&object["Number"])?.parse::<u32>()?, text(&object["Id"])?.parse()?));
        }
        flats.sort_unstable();
        ensure!(flats.iter().map(|(number, _)| *number).eq(1..=FLATS), "{PROJECT} has lost flats");
        Ok(Self(flats.into_iter().map(|(_, id)| id).collect()))
    }

    /// The id of a flat, which is one of those that there are.
    pub fn id(&self, number: u32) -> Uuid {
        self.0[number as usize - 1]
    }
}

/// Makes what is missing, and leaves alone what is there; answers whether anything was.
pub(super) async fn plant(stack: &Stack) -> anyhow::Result<bool> {
    let token = Identity::of(stack)?.token(&MARIA).await?;
    let maria =
        Maria { url: format!("{}/api/v1/developers", stack.base_url), client: http::client()?, token };
    let profile = maria.profile().await?;
    let found = maria.ask(Method::GET, &format!("/projects?Query={PROJECT}"), &Value::Null).await?;
    if let Some(project) = found["Items"].as_array().and_then(|projects| projects.first())
        && project["Status"] != "Draft"
    {
        return Ok(false);
    }
    if profile["Status"] == "Draft" {
        let body = json!({
            "Name": profile["Name"],
            "Description": "Houses between the park and the river",
            "LogoFileId": file(0),
            "Website": "https://riverside.example",
            "ContactPhone": "+7 495 123-45-67",
            "ContactEmail": "office@riverside.example",
            "FoundedYear": 1998,
            "Highlights": {"ContractVersion": 1, "ObjectsDeliveredCount": 14, "AwardTitles": ["House of the Year"]},
        });
        maria.ask(Method::PUT, "/me", &body).await?;
        maria.ask(Method::POST, "/me/publish", &Value::Null).await?;
    }
    let mut project = found["Items"][0].clone();
    if project.is_null() {
        let body = json!({
            "Name": PROJECT,
            "Class": "Comfort",
            "City": "Moscow",
            "Address": "1 Embankment",
            "Latitude": 55.7446,
            "Longitude": 37.6014,
        });
        project = maria.ask(Method::POST, "/projects", &body).await?;
    }
    let project = format!("/projects/{}", text(&project["Id"])?);
    let mut building = maria.ask(Method::GET, &project, &Value::Null).await?["Buildings"][0].clone();
    if building.is_null() {
        let body = json!({
            "Name": "Building 1",
            "SectionsCount": 1,
            "FloorsTotal": FLOORS,
            "State": "UnderConstruction",
            "ReadyYear": 2027,
            "ReadyQuarter": 2,
        });
        building = maria.ask(Method::POST, &format!("{project}/buildings"), &body).await?;
    }
    let grid = format!("{project}/buildings/{}/property-objects", text(&building["Id"])?);
    let objects: Vec<_> = (1..=FLATS).map(flat).collect();
    maria.ask(Method::PUT, &grid, &json!({ "Objects": objects })).await?;
    maria.ask(Method::POST, &format!("{project}/publish"), &Value::Null).await?;
    Ok(true)
}

/// Flats of one to three rooms; higher floors cost more, some are taken already.
fn flat(number: u32) -> Value {
    let (floor, position) = ((number - 1) / FLATS_A_FLOOR + 1, (number - 1) % FLATS_A_FLOOR);
    let (rooms, area) = [(1, 38.40), (2, 54.30), (3, 77.15), (1, 27.90)][position as usize];
    let status = match number {
        3 | 29 => "Reserved",
        8 | 19 | 22 => "Sold",
        36 => "Unavailable",
        _ => "Available",
    };
    json!({
        "Number": number.to_string(),
        "Kind": "Flat",
        "Section": 1,
        "Floor": floor,
        "PositionOnFloor": position + 1,
        "Rooms": rooms,
        "IsStudio": position == 3,
        "AreaTotal": area,
        "Finishing": "PreFinish",
        "Price": { "AmountMinor": 700_000_000 + 350_000_000 * rooms + 10_000_000 * floor, "Currency": "RUB" },
        "LayoutFileId": file(position + 1),
        "Status": status,
    })
}

/// The developer's administrator, at work.
struct Maria {
    url: String,
    client: Client,
    token: String,
}

impl Maria {
    /// The profile, which is there once chessboard has heard of the company.
    async fn profile(&self) -> anyhow::Result<Value> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            match self.ask(Method::GET, "/me", &Value::Null).await {
                Err(error) if tokio::time::Instant::now() >= deadline => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                profile => return profile,
            }
        }
    }

    async fn ask(&self, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
        let request =
            self.client.request(method.clone(), format!("{}{path}", self.url)).bearer_auth(&self.token);
        let request = if body.is_null() { request } else { request.json(body) };
        let answer = request.send().await?;
        let (status, text) = (answer.status(), answer.text().await?);
        ensure!(status.is_success(), "{method} {path}: {status} {text}");
        Ok(serde_json::from_str(&text)?)
    }
}

fn text(value: &Value) -> anyhow::Result<&str> {
    value.as_str().context("no text")
}
