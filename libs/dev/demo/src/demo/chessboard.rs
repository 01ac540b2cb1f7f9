//! The second chapter: a company becomes a developer, and its grid of flats is published, hidden
//! and published again.

use anyhow::Context;
use rdkafka::ClientConfig;
use rdkafka::producer::{FutureProducer, FutureRecord};
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::scene::Scene;
use super::story::{Story, expected};
use super::{EVENT_TIMEOUT, next_event};
use devkit::actors::OLGA;
use devkit::events::Follower;

const DEVELOPER: &str = "platform.chessboard.developer-upserted.v1";
const OBJECT: &str = "platform.chessboard.property-object-upserted.v1";
const OUTSIDE: &str = "external.chessboard.developer-upserted.v1";

/// The developer company of the chapter.
struct Subject {
    developer: Uuid,
    /// The administrator of the developer.
    lev: Uuid,
    olga: String,
}

pub(super) async fn play(story: &mut Story, scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let topics = [DEVELOPER, OBJECT].map(str::to_owned).to_vec();
    let mut bus = Follower::open(&scene.stack.brokers, topics, false)?;
    let subject = create_developer(story, scene, &mut bus).await?;
    publish(story, scene, &subject).await?;
    let page = build(story, scene, &subject, &mut bus).await?;
    take_over(story, scene, &subject).await?;
    suspend(story, scene, &subject, &page).await
}

async fn create_developer(
    story: &mut Story,
    scene: &mut Scene<'_>,
    bus: &mut Follower,
) -> anyhow::Result<Subject> {
    let olga = scene.sign_in(&OLGA).await?;
    let tenants = scene.identity("admin/tenants");

    story.step("Olga creates a developer with Lev as its administrator.");
    let body = json!({"Name": "Northern Light", "Type": "Developer"});
    let made = story.post(&tenants, Some(&olga), &body, expected(201)).await?;
    let developer = id(&made)?;
    scene.undo(Method::POST, format!("{tenants}/{developer}/archive"), &olga);
    let body = json!({"Name": "Lev Northern", "Email": "lev@example.com"});
    let administrators = format!("{tenants}/{developer}/administrators");
    let made = story.post(&administrators, Some(&olga), &body, expected(201)).await?;
    let lev = id(&made)?;
    scene.undo_last(Method::DELETE, format!("{tenants}/{developer}/employees/{lev}"), &olga);

    story.step("Chessboard consumes the company and creates its profile: a draft.");
    let key = developer.to_string();
    let event = next_event(bus, |record| record.topic == DEVELOPER && record.key == key).await?;
    story.check(event.payload["Status"] == "Draft", &format!("it is {}", event.payload["Status"]));
    scene.undo(Method::DELETE, format!("{}/{developer}", scene.public("admin/developers")), &olga);
    Ok(Subject { developer, lev, olga })
}

async fn publish(story: &mut Story, scene: &Scene<'_>, subject: &Subject) -> anyhow::Result<()> {
    let token = scene.identity.token_of(subject.lev).await?;
    let me = scene.public("developers/me");

    story.step("Lev publishes it at once: something is missing.");
    let refused = expected(409).code("CHESSBOARD_DEVELOPER_PUBLISH_INCOMPLETE");
    story.post(&format!("{me}/publish"), Some(&token), &Value::Null, refused).await?;

    story.step("He fills it. The phone number is stored in international form.");
    let body = json!({
        "Name": "Northern Light",
        "Description": "Houses with windows to the north and to the south",
        "LogoFileId": Uuid::from_u128(subject.developer.as_u128() ^ 1),
        "ContactPhone": "8 (812) 123-45-67",
        "Highlights": {"ContractVersion": 1, "ReliabilityValue": 9.5, "AwardTitles": []},
    });
    let filled = story.put(&me, Some(&token), &body, expected(200)).await?;
    let phone = &filled["ContactPhone"];
    story.check(phone == "+78121234567", &format!("it is {phone}"));

    story.step("Now it is published, and a guest sees it.");
    story.post(&format!("{me}/publish"), Some(&token), &Value::Null, expected(200)).await?;
    let card = scene.public(&format!("public/developers/{}", subject.developer));
    story.get(&card, None, expected(200)).await?;
    Ok(())
}

/// Creates and publishes a project with a grid of flats. Returns the URL of the grid for a guest.
async fn build(
    story: &mut Story,
    scene: &mut Scene<'_>,
    subject: &Subject,
    bus: &mut Follower,
) -> anyhow::Result<String> {
    let token = scene.identity.token_of(subject.lev).await?;
    let projects = scene.public("developers/projects");

    story.step("Lev begins a project with a building of two sections.");
    let body = json!({"Name": "White Nights", "Class": "Business", "City": "Saint Petersburg", "Address": "Neva, 7"});
    let made = story.post(&projects, Some(&token), &body, expected(201)).await?;
    let project = id(&made)?;
    let of_platform = scene.public(&format!("admin/developers/{}/projects/{project}", subject.developer));
    scene.undo(Method::DELETE, of_platform, &subject.olga);
    let body =
        json!({"Name": "1", "SectionsCount": 2, "FloorsTotal": 5, "State": "Planned", "ReadyYear": 2028});
    let buildings = format!("{projects}/{project}/buildings");
    let building = id(&story.post(&buildings, Some(&token), &body, expected(201)).await?)?;

    story.step("Forty flats in one request: all of them, or none.");
    let grid = format!("{buildings}/{building}/property-objects");
    let body = json!({"Objects": (0..40).map(flat).collect::<Vec<_>>()});
    let counts = story.put(&grid, Some(&token), &body, expected(200)).await?;
    story.check(counts["Created"] == 40, &format!("{} were made", counts["Created"]));

    story.step("The same grid again changes nothing and publishes no event.");
    let counts = story.put(&grid, Some(&token), &body, expected(200)).await?;
    story.check(counts["Unchanged"] == 40, &format!("{} are unchanged", counts["Unchanged"]));

    story.step("A guest does not see a draft.");
    let page = scene.public(&format!("public/projects/{project}/buildings/{building}"));
    story.get(&page, None, expected(404).code("CHESSBOARD_BUILDING_NOT_FOUND")).await?;

    story.step("Lev publishes the project; the guest sees the chessboard, floors from the top.");
    story.post(&format!("{projects}/{project}/publish"), Some(&token), &Value::Null, expected(200)).await?;
    let seen = story.get(&page, None, expected(200)).await?;
    let sections = seen["Grid"].as_array().map_or(0, Vec::len);
    let top = &seen["Grid"][0]["Floors"][0]["Floor"];
    story.check(sections == 2 && top == 5, &format!("{sections} sections, from floor {top} down"));

    story.step("Chessboard publishes an event for each flat, which is public now.");
    let key = project.to_string();
    let is_public = |payload: &Value| payload["ProjectId"] == *key && payload["IsPublic"] == true;
    let event = next_event(bus, |record| record.topic == OBJECT && is_public(&record.payload)).await?;
    story.check(
        event.payload["ProjectName"] == "White Nights",
        &format!("flat {} of {}", event.payload["Number"], event.payload["ProjectName"]),
    );
    Ok(page)
}

/// Returns a flat of a grid with two sections, five floors, and four flats a floor.
fn flat(number: u32) -> Value {
    let (section, floor, position) = (number / 20 + 1, number % 20 / 4 + 1, number % 4 + 1);
    json!({
        "Number": format!("{section}-{}", number % 20 + 1),
        "Kind": "Flat",
        "Section": section,
        "Floor": floor,
        "PositionOnFloor": position,
        "Rooms": position,
        "AreaTotal": 25 + 15 * position,
        "Finishing": "None",
        "Price": {"AmountMinor": 1_000_000_000 + 500_000_000 * u64::from(position), "Currency": "RUB"},
    })
}

async fn take_over(story: &mut Story, scene: &Scene<'_>, subject: &Subject) -> anyhow::Result<()> {
    let token = scene.identity.token_of(subject.lev).await?;
    let (me, outside) = (scene.public("developers/me"), Uuid::from_u128(rand::random()));

    story.step("An external system, which also has developers, publishes this one on the bus.");
    let payload = json!({
        "ExternalChessboardDeveloperId": outside,
        "CompanyId": subject.developer,
        "Version": 7,
        "Name": "Northern Light Group",
        "LegalName": "Northern Light Ltd",
        "LogoFileId": Uuid::from_u128(subject.developer.as_u128() ^ 2),
        "FoundedYear": 2003,
    });
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", &scene.stack.brokers)
        .set("enable.idempotence", "true")
        .create()?;
    let (key, payload) = (outside.to_string(), payload.to_string());
    let record = FutureRecord::to(OUTSIDE).key(&key).payload(&payload);
    producer.send(record, EVENT_TIMEOUT).await.map_err(|(error, _)| error).context(OUTSIDE)?;
    let synced = |body: &Value| body["SyncSource"] == "ExternalChessboard";
    let profile = story.get(&me, Some(&token), expected(200).within(EVENT_TIMEOUT).showing(synced)).await?;
    story.check(profile["FoundedYear"] == 2003, &format!("it was founded in {}", profile["FoundedYear"]));

    story.step(
        "From now on that system owns the name: Lev cannot change it, but he can change the description.",
    );
    let body = json!({
        "Name": "Southern Light",
        "LegalName": profile["LegalName"],
        "LogoFileId": profile["LogoFileId"],
        "FoundedYear": profile["FoundedYear"],
        "Description": "Houses with windows to all sides",
        "Highlights": profile["Highlights"],
    });
    let refused = expected(422).code("CHESSBOARD_DEVELOPER_FIELD_SYNC_MANAGED");
    story.put(&me, Some(&token), &body, refused).await?;
    let mut kept = body;
    kept["Name"] = profile["Name"].clone();
    let saved = story.put(&me, Some(&token), &kept, expected(200)).await?;
    story.check(saved["Description"] == kept["Description"], "the description is his");
    Ok(())
}

async fn suspend(story: &mut Story, scene: &Scene<'_>, subject: &Subject, page: &str) -> anyhow::Result<()> {
    let tenant = scene.identity(&format!("admin/tenants/{}", subject.developer));
    let gone = expected(404).code("CHESSBOARD_BUILDING_NOT_FOUND");

    story.step("Olga suspends the company. Chessboard consumes the event and hides the grid.");
    let reason = json!({"Reason": "The licence has run out"});
    story.post(&format!("{tenant}/suspend"), Some(&subject.olga), &reason, expected(200)).await?;
    story.get(page, None, gone.within(EVENT_TIMEOUT)).await?;

    story.step("The licence is renewed: the hidden grid is visible again.");
    story.post(&format!("{tenant}/activate"), Some(&subject.olga), &Value::Null, expected(200)).await?;
    story.get(page, None, expected(200).within(EVENT_TIMEOUT)).await?;
    Ok(())
}

fn id(made: &Value) -> anyhow::Result<Uuid> {
    Ok(made["Id"].as_str().context("the created resource has no Id")?.parse()?)
}
