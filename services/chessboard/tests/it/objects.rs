//! Helpers for tests of projects, buildings and objects.

use serde_json::{Value, json};
use testkit::bus::Bus;
use testkit::bus::payloads;
use testkit::client::{Client, Response};
use testkit::{eventually, guid, text};
use uuid::Uuid;

use crate::feed_imports;
use crate::{
    create_developer, create_published_developer, id_of, list, manager, next_sequence, service, with,
};

pub const PROJECTS: &str = "/api/v1/developers/projects";
pub const PROJECT_CHANGED: &str = "platform.chessboard.project-status-changed.v1";
pub const OBJECT_UPSERTED: &str = "platform.chessboard.property-object-upserted.v1";

pub const BOOKED: &str = "platform.crm.booking-created.v1";
pub const EXPIRED: &str = "platform.crm.booking-expired.v1";
pub const CANCELLED: &str = "platform.crm.deal-cancelled.v1";
pub const COMPLETED: &str = "platform.crm.deal-completed.v1";

/// Returns the body of a project, with a new `CoverFileId`. A second body is therefore a change.
pub fn project() -> Value {
    json!({
        "Name": "Сосны", "Description": "У леса", "Class": "Comfort", "City": "Казань", "Address": "ул. Мира, 1",
        "Latitude": 55.796_127, "Longitude": 49.106_414, "CoverFileId": guid(),
    })
}

/// Returns the body of a building with three sections and ten floors.
pub fn building() -> Value {
    json!({
        "Name": "Корпус 1", "SectionsCount": 3, "FloorsTotal": 10, "State": "UnderConstruction", "ReadyYear": 2027,
        "ReadyQuarter": 2,
    })
}

/// Returns the body of a flat, with a new `LayoutFileId`. A second body is therefore a change.
pub fn flat(number: &str) -> Value {
    json!({
        "Number": number, "Kind": "Flat", "Section": 1, "Floor": 1, "PositionOnFloor": 1, "Rooms": 2,
        "IsStudio": false, "AreaTotal": 54.25, "AreaLiving": 30.5, "AreaKitchen": 10, "Finishing": "PreFinish",
        "Price": {"AmountMinor": 1_250_000_000, "Currency": "RUB"}, "LayoutFileId": guid(),
    })
}

/// Returns the bodies of `count` flats with numbers from 1.
pub fn flats(count: usize) -> Vec<Value> {
    (1..=count).map(|number| flat(&number.to_string())).collect()
}

/// A building with its project, its developer and a manager's client.
#[derive(Clone)]
pub struct House {
    pub developer: Uuid,
    pub manager: Client,
    pub project: Uuid,
    pub building: Uuid,
}

/// Creates a building in a Published project of a Published developer.
pub async fn published_house() -> House {
    let house = unpublished_house(create_published_developer().await).await;
    house.manager.post(&house.project_path("/publish"), json!({})).await.expect(200);
    house
}

/// Creates a building in a Draft project of a Draft developer.
pub async fn draft_house() -> House {
    unpublished_house(create_developer().await).await
}

async fn unpublished_house(developer: Uuid) -> House {
    create_house(developer, manager(developer)).await
}

/// Creates a building with the manager's client, which may belong to a dedicated service.
pub async fn create_house(developer: Uuid, manager: Client) -> House {
    let project = id_of(&manager.post(PROJECTS, project()).await.expect(201)["Id"]);
    let path = format!("{PROJECTS}/{project}/buildings");
    let building = id_of(&manager.post(&path, building()).await.expect(201)["Id"]);
    House { developer, manager, project, building }
}

/// Creates a building with one object, and returns the path parameters and the body of an operation
/// on it.
pub async fn prepare_request(operation: &str, developer: Uuid) -> (Vec<(&'static str, String)>, Value) {
    let house = unpublished_house(developer).await;
    if operation == "hide_project" {
        house.manager.post(&house.project_path("/publish"), json!({})).await.expect(200);
    }
    house.grid(&flats(1)).await;
    if operation.contains("external_id") || operation.starts_with("upsert") {
        house.manager.put(&house.project_path(""), with(project(), "ExternalId", "a")).await.expect(200);
        house.manager.put(&house.path(""), with(building(), "ExternalId", "a")).await.expect(200);
        house.grid(&[with(flat("1"), "ExternalId", "a")]).await;
    }
    let import =
        if operation.contains("feed") { feed_imports::prepare(&house, operation).await } else { None };
    let ids = vec![
        ("feed_import_id", import.unwrap_or_default().to_string()),
        ("project_id", house.project.to_string()),
        ("building_id", house.building.to_string()),
        ("property_object_id", house.id_of("1").await.to_string()),
        ("external_id", "a".to_owned()),
    ];
    let body = match operation {
        "create_project" | "update_project" | "upsert_project" => project(),
        "create_feed_import" | "apply_feed_import" => json!({}),
        "create_building" | "update_building" => building(),
        "upsert_building" => with(building(), "ProjectExternalId", "a"),
        "upsert_property_object" => with(flat("1"), "BuildingExternalId", "a"),
        "replace_property_objects" => json!({"Objects": flats(2)}),
        "update_property_object" => flat("1"),
        _ => Value::Null,
    };
    (ids, body)
}

impl House {
    pub fn project_path(&self, below: &str) -> String {
        format!("{PROJECTS}/{}{below}", self.project)
    }

    pub fn path(&self, below: &str) -> String {
        self.project_path(&format!("/buildings/{}{below}", self.building))
    }

    pub fn object_path(&self, object: Uuid) -> String {
        self.path(&format!("/property-objects/{object}"))
    }

    pub async fn send_grid(&self, objects: &[Value], version: Option<i64>) -> Response {
        let body = json!({"Objects": objects, "Version": version});
        self.manager.put(&self.path("/property-objects"), body).await
    }

    /// Replaces the grid. Returns the counts of created, updated, unchanged and removed objects,
    /// and the numbers of held ones.
    pub async fn grid(&self, objects: &[Value]) -> (i64, i64, i64, i64, Vec<String>) {
        let done = self.send_grid(objects, None).await.expect(200);
        let count = |member: &str| done[member].as_i64().unwrap();
        let kept = list(&done["Kept"]).iter().map(|number| text(number).to_owned()).collect();
        (count("Created"), count("Updated"), count("Unchanged"), count("Removed"), kept)
    }

    pub async fn read(&self) -> Value {
        self.manager.get(&self.path("")).await.expect(200)
    }

    /// Returns the live objects in the order of the grid.
    pub async fn objects(&self) -> Vec<Value> {
        let read = self.read().await;
        let sections = list(&read["Grid"]).iter().flat_map(|section| list(&section["Floors"]));
        sections.flat_map(|floor| list(&floor["Objects"]).to_vec()).collect()
    }

    /// Returns the live object with a number.
    pub async fn object(&self, number: &str) -> Value {
        let objects = self.objects().await;
        objects.into_iter().find(|object| object["Number"] == number).expect("an object")
    }

    pub async fn id_of(&self, number: &str) -> Uuid {
        id_of(&self.object(number).await["Id"])
    }
}

/// Returns a body that leaves an object unchanged.
pub fn unchanged_body(object: &Value) -> Value {
    with(object.clone(), "Version", Value::Null)
}

/// Returns a payload with the fields of every deal topic.
pub fn deal_event(deal: Uuid, object: Uuid, row_version: i64, at: &str) -> Value {
    json!({
        "BookingId": guid(), "DealId": deal, "TenantId": guid(), "PropertyObjectId": object, "ClientUserId": guid(),
        "ExpiresAt": at, "CreatedAt": at, "ExpiredAt": at, "CancelledByUserId": guid(), "CancelReason": "x",
        "CancelledAt": at, "AgentUserId": null, "Amount": {"AmountMinor": 1, "Currency": "RUB"},
        "CompletedAt": at, "RowVersion": row_version,
    })
}

/// Publishes an event of a deal and returns its sequence.
pub async fn publish_deal_event(topic: &str, deal: Uuid, object: Uuid, row_version: i64, at: &str) -> i64 {
    let sequence = next_sequence();
    service().bus().publish(topic, deal, sequence, &deal_event(deal, object, row_version, at)).await;
    sequence
}

/// Publishes an event of a deal and waits until the consumer has applied or dead-lettered it.
pub async fn deliver_deal_event(topic: &str, deal: Uuid, object: Uuid, row_version: i64, at: &str) {
    let (sequence, key) = (publish_deal_event(topic, deal, object, row_version, at).await, deal.to_string());
    let sql = service().sql().await;
    eventually("the message", async || {
        let seen = "select 1 from inbox where topic = $1 and key = $2 and sequence >= $3";
        sql.query_opt(seen, &[&topic, &key, &sequence]).await.unwrap().map(drop)
    })
    .await;
}

/// Books an object and returns the deal.
pub async fn book_object(house: &House, number: &str) -> Uuid {
    let (deal, object) = (guid(), house.id_of(number).await);
    deliver_deal_event(BOOKED, deal, object, 1, "2026-11-22T10:00:00Z").await;
    deal
}

/// Waits for `count` events of an object, and returns the payloads of all committed ones.
///
/// The job may commit an event later than the request that caused it.
pub async fn object_events(object: Uuid, count: usize) -> Vec<Value> {
    object_events_on(service().bus(), object, count).await;
    payloads(service().published(object).await, OBJECT_UPSERTED)
}

/// Waits until `count` events of an object have arrived, and returns the payloads of all arrived
/// ones.
pub async fn object_events_on(bus: &Bus, object: Uuid, count: usize) -> Vec<Value> {
    let find = async || Some(payloads(bus.events(&object), OBJECT_UPSERTED)).filter(|all| all.len() >= count);
    eventually("the events", find).await
}

/// Waits until the last event of an object meets a condition, and returns its payload.
pub async fn wait_for_object_event(object: Uuid, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
    eventually(what, async || {
        let last = payloads(service().bus().events(&object), OBJECT_UPSERTED).pop()?;
        Some(last).filter(&condition)
    })
    .await
}
