//! Imports of feeds.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::{Response, send};
use testkit::{eventually, guid, text};
use uuid::Uuid;

use crate::catalog_fill::execute_sql;
use crate::objects::{House, book_object, building, flat, flats, object_events, published_house};
use crate::{count, each, id_of, list, service, with};

pub const IMPORTS: &str = "/api/v1/developers/feed-imports";

/// Returns an offer of a flat in the building of [`published_house`].
pub fn offer(id: &str, number: &str, price: u32) -> String {
    format!(
        "<offer internal-id=\"{id}\"><type>продажа</type><category>квартира</category>\
         <location><apartment>{number}</apartment></location>\
         <price><value>{price}</value><currency>RUB</currency></price>\
         <area><value>54,25</value><unit>кв. м</unit></area><rooms>2</rooms><section>1</section><floor>2</floor>\
         <building-name>ЖК «Сосны»</building-name><building-section>1</building-section></offer>\n"
    )
}

pub fn feed(offers: &[String]) -> String {
    format!("<realty-feed>\n{}</realty-feed>\n", offers.concat())
}

pub fn import_path(import: Uuid, below: &str) -> String {
    format!("{IMPORTS}/{import}{below}")
}

/// Creates the import that an operation needs. `create_feed_import` needs none.
pub async fn prepare(house: &House, operation: &str) -> Option<Uuid> {
    match operation {
        "create_feed_import" => None,
        "apply_feed_import" => Some(id_of(&import(house, feed(&[offer("1", "9", 5)])).await["Id"])),
        _ => Some(create(house, json!({})).await),
    }
}

pub async fn create(house: &House, body: Value) -> Uuid {
    id_of(&house.manager.post(IMPORTS, body).await.expect(201)["Id"])
}

pub async fn send_file(house: &House, import: Uuid, file: impl Into<reqwest::Body>) -> Response {
    send(house.manager.request(Method::PUT, &import_path(import, "/file")).body(file)).await
}

/// Waits until an import is in one of these states, and returns it.
pub async fn wait_for(house: &House, import: Uuid, states: &[&str]) -> Value {
    eventually("the state of the import", async || {
        let read = house.manager.get(&import_path(import, "")).await.expect(200);
        states.contains(&text(&read["State"])).then_some(read)
    })
    .await
}

/// Uploads a file and waits for the end of its validation.
pub async fn import(house: &House, file: impl Into<reqwest::Body>) -> Value {
    let import = create(house, json!({})).await;
    send_file(house, import, file).await.expect(200);
    wait_for(house, import, &["Validated", "Failed"]).await
}

/// Applies an import and waits for the end.
pub async fn apply(house: &House, import: &Value, body: Value) -> Value {
    let id = id_of(&import["Id"]);
    house.manager.post(&import_path(id, "/apply"), body).await.expect(200);
    wait_for(house, id, &["Applied"]).await
}

async fn items(house: &House, import: &Value, below: &str) -> Vec<Value> {
    let path = import_path(id_of(&import["Id"]), below);
    list(&house.manager.get(&format!("{path}?PageSize=100")).await.expect(200)["Items"]).to_vec()
}

/// Returns the only building of an import.
pub async fn only_building(house: &House, import: &Value) -> Value {
    let buildings = items(house, import, "/buildings").await;
    assert_eq!(each(&json!(buildings), "BuildingId"), [&json!(house.building)]);
    buildings[0].clone()
}

async fn changes(house: &House, import: &Value) -> Vec<Value> {
    items(house, import, &format!("/buildings/{}/changes", house.building)).await
}

/// Returns each problem as its line, element and code.
async fn problems(house: &House, import: &Value) -> Vec<String> {
    let problems = items(house, import, "/problems").await;
    let short = |problem: &Value| {
        format!("{} {} {}", problem["Line"], text(&problem["Element"]), text(&problem["Code"]))
    };
    problems.iter().map(short).collect()
}

/// RULE-CHS-073, RULE-CHS-074: an import shows new, changed, kept and missing objects before it
/// changes them. Repeating it changes nothing.
#[tokio::test]
async fn import_previews_and_applies_changes_once() {
    let house = published_house().await;
    let stored = with(flat("1"), "Floor", 2);
    house.grid(&[stored, flat("2"), flat("3"), with(flat("4"), "Status", "Sold")]).await;
    let booked = house.id_of("3").await;
    let deal = book_object(&house, "3").await;
    let before = house.read().await;
    let file = feed(&[
        offer("a-1", "1", 9_000_000),
        offer("a-3", "3", 1),
        offer("a-4", "4", 1),
        offer("a-5", "5", 7_000_000),
    ]);
    let validated = import(&house, file.clone()).await;
    assert_eq!((&validated["State"], &validated["OffersCount"]), (&json!("Validated"), &json!(4)));
    let building = only_building(&house, &validated).await;
    for (member, count) in [
        ("CreatedCount", 1),
        ("UpdatedCount", 1),
        ("KeptCount", 2),
        ("MissingCount", 1),
        ("RejectedCount", 0),
    ] {
        assert_eq!(building[member], count, "{member}: {building}");
    }
    let rows = changes(&house, &validated).await;
    let kinds: Vec<_> = rows.iter().map(|row| (text(&row["Number"]), text(&row["Kind"]))).collect();
    assert_eq!(kinds, [("1", "Updated"), ("2", "Missing"), ("3", "Kept"), ("4", "Kept"), ("5", "Created")]);
    let fields = json!([
        {"Field": "Price", "From": "1250000000", "To": "900000000"},
        {"Field": "ExternalId", "From": null, "To": "a-1"},
    ]);
    assert_eq!(rows[0]["Fields"], fields, "only the fields that differ");
    assert_eq!(house.read().await, before, "a preview changes nothing");
    let applied = apply(&house, &validated, json!({"Version": validated["Version"]})).await;
    assert_eq!(only_building(&house, &applied).await["State"], "Applied");
    let first = house.object("1").await;
    assert_eq!((&first["Price"]["AmountMinor"], &first["ExternalId"]), (&json!(900_000_000), &json!("a-1")));
    assert_eq!((&first["AreaLiving"], &first["Finishing"]), (&json!(30.5), &json!("PreFinish")));
    let third = house.object("3").await;
    assert_eq!((id_of(&third["HoldDealId"]), &third["Price"]["AmountMinor"]), (deal, &json!(1_250_000_000)));
    assert_eq!(house.object("4").await["Status"], "Sold");
    assert_eq!(house.object("2").await["Status"], "Available");
    let fifth = house.object("5").await;
    assert_eq!((&fifth["Status"], &fifth["PositionOnFloor"]), (&json!("Available"), &json!(2)));
    let (after, events) = (house.read().await, object_events(booked, 2).await.len());
    let again = import(&house, file).await;
    assert_eq!(only_building(&house, &again).await["State"], "Unchanged");
    apply(&house, &again, json!({})).await;
    assert_eq!(house.read().await, after, "a repeated import changes nothing");
    assert_eq!(object_events(booked, 2).await.len(), events);
}

/// RULE-CHS-073: an applied import publishes one event for each change. The event names the user
/// who has applied the import.
#[tokio::test]
async fn applied_import_publishes_its_changes() {
    let house = published_house().await;
    let validated = import(&house, feed(&[offer("b-1", "1", 100)])).await;
    apply(&house, &validated, json!({})).await;
    let object = house.object("1").await;
    let events = object_events(id_of(&object["Id"]), 1).await;
    assert_eq!((events.len(), &events[0]["Price"]["AmountMinor"]), (1, &json!(10_000)));
    assert_eq!(events[0]["UpdatedByUserId"], object["UpdatedByUserId"]);
    assert!(!object["UpdatedByUserId"].is_null());
}

/// RULE-CHS-071, RULE-CHS-073: each rejected offer is reported with its line, in the caller's
/// language, and blocks its building until the manager skips it.
#[tokio::test]
async fn rejected_offer_blocks_its_building_until_it_is_skipped() {
    let house = published_house().await;
    let broken = offer("c-2", "2", 5).replace("<rooms>2</rooms>", "<rooms>\nмного</rooms>");
    let high = offer("c-3", "3", 5).replace("<floor>2</floor>", "<floor>11</floor>");
    let elsewhere = offer("c-4", "4", 5).replace("Сосны", "Ели");
    let file = feed(&[offer("c-1", "1", 5), broken, high, elsewhere]);
    let validated = import(&house, file.clone()).await;
    assert_eq!(
        problems(&house, &validated).await,
        ["3 rooms invalid_rooms", "5 floor out_of_range", "6 building-name unknown_building"]
    );
    assert_eq!((&validated["OffersCount"], &validated["RejectedCount"]), (&json!(4), &json!(3)));
    let path = import_path(id_of(&validated["Id"]), "/problems?PageSize=1");
    for (language, message) in
        [("en", "The number of rooms is not understood"), ("ru", "Число комнат непонятно")]
    {
        let page = send(house.manager.request(Method::GET, &path).header("Accept-Language", language)).await;
        let problem = &page.body["Items"][0];
        assert_eq!((text(&problem["Message"]), text(&problem["Value"])), (message, "много"));
        assert_eq!(problem["InternalId"], "c-2");
        assert!(page.body["NextCursor"].is_string());
    }
    assert_eq!(only_building(&house, &validated).await["State"], "Blocked");
    let applied = apply(&house, &validated, json!({})).await;
    assert_eq!(only_building(&house, &applied).await["State"], "Blocked");
    assert!(house.objects().await.is_empty());
    let validated = import(&house, file).await;
    let applied = apply(&house, &validated, json!({"SkipRejected": true})).await;
    assert_eq!(only_building(&house, &applied).await["State"], "Applied");
    assert_eq!(each(&json!(house.objects().await), "ExternalId"), [&json!("c-1")]);
}

/// RULE-CHS-073: each rejected offer counts, also if several are on one line.
#[tokio::test]
async fn rejected_offers_on_one_line_count_each() {
    let house = published_house().await;
    let file = feed(&[offer("", "1", 5), offer("", "2", 5), offer("k-3", "3", 5)]).replace('\n', "");
    let validated = import(&house, file).await;
    assert_eq!(validated["RejectedCount"], 2);
    let building = only_building(&house, &validated).await;
    assert_eq!((&building["OffersCount"], &building["RejectedCount"]), (&json!(3), &json!(2)));
}

/// RULE-CHS-072: the manager may choose the building of all offers.
#[tokio::test]
async fn chosen_building_has_all_offers() {
    let house = published_house().await;
    let import = create(&house, json!({"BuildingId": house.building})).await;
    let file = feed(&[offer("d-1", "1", 5).replace("Сосны", "Ели")]);
    send_file(&house, import, file).await.expect(200);
    let validated = wait_for(&house, import, &["Validated"]).await;
    assert_eq!((&validated["RejectedCount"], id_of(&validated["BuildingId"])), (&json!(0), house.building));
    assert_eq!(only_building(&house, &validated).await["CreatedCount"], 1);
    house.manager.delete(&import_path(import, "")).await.expect(204);
    let unknown = house.manager.post(IMPORTS, json!({"BuildingId": guid()})).await;
    unknown.expect_problem(404, "CHESSBOARD_BUILDING_NOT_FOUND");
}

/// RULE-CHS-070: a file that is rejected as a whole has a code, a line and a message. A compressed
/// file is read.
#[tokio::test]
async fn rejected_file_has_code_line_and_message() {
    let house = published_house().await;
    for (file, code, line) in [
        ("<!DOCTYPE realty-feed [<!ENTITY a \"b\">]>\n<realty-feed/>".to_owned(), "dtd_forbidden", 1),
        (format!("<realty-feed>\n{}", offer("1", "1", 5)), "truncated", 3),
        (String::new(), "not_xml", 1),
    ] {
        let failed = import(&house, file).await;
        assert_eq!((&failed["State"], &failed["Refusal"]["Code"]), (&json!("Failed"), &json!(code)));
        assert_eq!(failed["Refusal"]["Line"], line, "{failed}");
        assert!(!text(&failed["Refusal"]["Message"]).contains('_'), "{failed}");
        let path = import_path(id_of(&failed["Id"]), "/apply");
        let refused = house.manager.post(&path, json!({})).await;
        refused.expect_problem(409, "CHESSBOARD_FEED_IMPORT_INVALID_TRANSITION");
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(feed(&[offer("e-1", "1", 5)]).as_bytes()).unwrap();
    let validated = import(&house, encoder.finish().unwrap()).await;
    assert_eq!((&validated["State"], &validated["OffersCount"]), (&json!("Validated"), &json!(1)));
}

/// RULE-CHS-075: a developer has one import in progress, and a file is uploaded once.
#[tokio::test]
async fn developer_has_one_import_in_progress() {
    let house = published_house().await;
    let first = create(&house, json!({})).await;
    let refused = house.manager.post(IMPORTS, json!({})).await;
    refused.expect_problem(409, "CHESSBOARD_FEED_IMPORT_IN_PROGRESS");
    send_file(&house, first, feed(&[])).await.expect(200);
    let validated = wait_for(&house, first, &["Validated"]).await;
    let again = send_file(&house, first, feed(&[])).await;
    again.expect_problem(409, "CHESSBOARD_FEED_IMPORT_INVALID_TRANSITION");
    let refused = house.manager.post(IMPORTS, json!({})).await;
    refused.expect_problem(409, "CHESSBOARD_FEED_IMPORT_IN_PROGRESS");
    apply(&house, &validated, json!({})).await;
    let second = create(&house, json!({})).await;
    house.manager.delete(&import_path(second, "")).await.expect(204);
    let gone = house.manager.delete(&import_path(second, "")).await;
    gone.expect_problem(404, "CHESSBOARD_FEED_IMPORT_NOT_FOUND");
    create(&house, json!({})).await;
    let page = house.manager.get(IMPORTS).await.expect(200);
    assert_eq!(each(&page["Items"], "State"), [&json!("Created"), &json!("Applied")]);
}

/// RULE-CHS-075: a file above 64 MiB gets 413, and the import still waits for its file.
#[tokio::test]
async fn file_above_64_mib_gets_413() {
    let house = published_house().await;
    let import = create(&house, json!({})).await;
    let large = send_file(&house, import, vec![b' '; 64 * 1024 * 1024 + 1]).await;
    large.expect_problem(413, "PAYLOAD_TOO_LARGE");
    send_file(&house, import, feed(&[])).await.expect(200);
}

/// RULE-CHS-074: a building that changed after the validation stays as it is.
#[tokio::test]
async fn building_changed_after_validation_is_outdated() {
    let house = published_house().await;
    let validated = import(&house, feed(&[offer("f-1", "1", 5)])).await;
    house.grid(&flats(1)).await;
    let applied = apply(&house, &validated, json!({})).await;
    assert_eq!(only_building(&house, &applied).await["State"], "Outdated");
    assert_eq!(house.object("1").await["ExternalId"], Value::Null);
}

/// RULE-CHS-077: an import without a change for 30 days is deleted with all its rows.
#[tokio::test]
async fn expired_import_is_deleted_with_its_rows() {
    let house = published_house().await;
    let validated = import(&house, feed(&[offer("h-1", "1", 5)])).await;
    let id = id_of(&validated["Id"]);
    execute_sql(
        service(),
        &format!("update feed_import set updated_at = now() - interval '31 days' where id = '{id}'"),
    )
    .await;
    // A deletion runs the job at once.
    let other = published_house().await;
    let deleted = create(&other, json!({})).await;
    other.manager.delete(&import_path(deleted, "")).await.expect(204);
    for import in [id, deleted] {
        eventually("the deletion of the rows", async || {
            let count = format!(
                "select (select count(*) from feed_import where id = '{import}') \
                 + (select count(*) from feed_change where import_id = '{import}') \
                 + (select count(*) from feed_offer where import_id = '{import}')"
            );
            let count: i64 = service().sql().await.query_one(&count, &[]).await.unwrap().get(0);
            (count == 0).then_some(())
        })
        .await;
    }
    house.manager.get(&import_path(id, "")).await.expect_problem(404, "CHESSBOARD_FEED_IMPORT_NOT_FOUND");
}

/// RULE-CHS-076: an interrupted application continues with the next building, and applies no
/// building twice.
#[tokio::test]
async fn interrupted_application_continues_with_next_building() {
    let house = published_house().await;
    let second = with(building(), "Name", "Корпус 2");
    let second =
        id_of(&house.manager.post(&house.project_path("/buildings"), second).await.expect(201)["Id"]);
    let in_second = offer("i-2", "1", 5).replace("<building-section>1", "<building-section>2");
    let validated = import(&house, feed(&[offer("i-1", "1", 5), in_second])).await;
    let (id, first, user) = (id_of(&validated["Id"]), house.building, guid());
    execute_sql(
        service(),
        &format!(
            "update feed_building set state = 'Applied' where import_id = '{id}' and building_id = '{first}'; \
             update feed_import set state = 'Applying', applied_by_user_id = '{user}' where id = '{id}'; \
             insert into job (kind, key, due_at) values ('feed-application', '{id}', now())"
        ),
    )
    .await;
    wait_for(&house, id, &["Applied"]).await;
    assert!(house.objects().await.is_empty());
    let house = House { building: second, ..house };
    assert_eq!(each(&json!(house.objects().await), "UpdatedByUserId"), [&json!(user)]);
}

/// RULE-CHS-075: only one of several concurrent creations succeeds.
#[tokio::test]
async fn one_of_concurrent_creations_succeeds() {
    let house = published_house().await;
    let responses = join_all((0..4).map(|_| house.manager.post(IMPORTS, json!({})))).await;
    assert_eq!((count(&responses, 201), count(&responses, 409)), (1, 3));
}
