//! The cards of objects in opened selections.

use serde_json::{Value, json};
use testkit::client::Client;
use testkit::database;
use testkit::deployed::Deployed;
use testkit::issuer::Claims;
use testkit::statements::StatementCounter;
use uuid::Uuid;

use crate::consumer::{not_public, object, publish, wait_for_consumer, wait_for_shown};
use crate::{
    SELECTIONS, create_selection_of, details_path, eventually, guid, guids, items_of, items_path, members,
    new_guids, open_path, service, without_cards,
};

/// Members of a card that have the same name in the event.
const CARD: [&str; 14] = [
    "AreaTotal",
    "BuildingId",
    "BuildingName",
    "Finishing",
    "Floor",
    "IsStudio",
    "Kind",
    "LayoutFileId",
    "Number",
    "Price",
    "ProjectId",
    "ProjectName",
    "Rooms",
    "Status",
];

async fn open(caller: &Client, selection: &Value) -> Value {
    caller.get(&open_path(selection)).await.expect(200)
}

/// RULE-SEL-051: each item has a card with the data of the object's last event.
#[tokio::test]
async fn opened_items_have_the_cards_of_public_objects() {
    let [first, second] = new_guids();
    let published = [first, second].map(|id| object(id, 1, "12"));
    for (id, object) in [first, second].iter().zip(&published) {
        publish(*id, 1, object).await;
        wait_for_shown(*id).await;
    }
    let (_, owner) = service().user();
    let selection = create_selection_of(&owner, items_of(&[first, second])).await;
    let (_, stranger) = service().user();
    for caller in [service().guest(), stranger, owner.clone()] {
        let opened = open(&caller, &selection).await;
        for (n, object) in published.iter().enumerate() {
            let item = &opened["Items"][n];
            assert_eq!(item["PropertyObjectId"], object["Id"]);
            assert_eq!(item["AddedAt"], selection["Items"][n]["AddedAt"]);
            assert_eq!(members(&item["Card"]).len(), CARD.len() + 1);
            assert_eq!(item["Card"]["DeveloperId"], object["TenantId"]);
            for member in CARD {
                assert_eq!(item["Card"][member], object[member], "{member}");
            }
        }
    }
    let details = owner.get(&details_path(&selection)).await.expect(200);
    assert_eq!(details["Items"], open(&owner, &selection).await["Items"]);
}

/// INV-DEV-6, RULE-SEL-051: an object that is unknown or not public has no card, and callers cannot
/// distinguish the two.
#[tokio::test]
async fn hidden_and_unknown_objects_have_no_card() {
    let [hidden, unknown, public] = new_guids();
    publish(hidden, 1, &not_public(hidden, 1, "12")).await;
    publish(public, 1, &object(public, 1, "13")).await;
    wait_for_consumer(hidden, 2).await;
    wait_for_shown(public).await;
    let (_, owner) = service().user();
    let selection = create_selection_of(&owner, items_of(&[hidden, unknown, public])).await;
    let details = owner.get(&details_path(&selection)).await.expect(200);
    for read in [open(&service().guest(), &selection).await, details] {
        assert_eq!(without_cards(&read), selection["Items"]);
        for without in [0, 1] {
            assert_eq!(read["Items"][without].get("Card"), Some(&Value::Null));
        }
        assert_eq!(read["Items"][2]["Card"]["Number"], "13");
    }
}

/// INV-DEV-6, RULE-SEL-051: a card shows a change of the catalog within seconds, and is absent once
/// the object is not public.
#[tokio::test]
async fn card_shows_changes_of_the_catalog() {
    let id = guid();
    publish(id, 1, &object(id, 1, "12")).await;
    wait_for_shown(id).await;
    let (_, owner) = service().user();
    let selection = create_selection_of(&owner, items_of(&[id])).await;
    let (_, reader) = service().user();
    assert_eq!(open(&reader, &selection).await["Items"][0]["Card"]["Status"], "Available");

    let mut sold = object(id, 2, "12");
    sold["Status"] = json!("Sold");
    publish(id, 2, &sold).await;
    eventually("the new status", async || {
        (open(&reader, &selection).await["Items"][0]["Card"]["Status"] == "Sold").then_some(())
    })
    .await;
    publish(id, 3, &not_public(id, 3, "12")).await;
    eventually("no card", async || {
        open(&reader, &selection).await["Items"][0]["Card"].is_null().then_some(())
    })
    .await;
}

/// RULE-SEL-004, RULE-SEL-051: the cache of cards delays no change of the selection.
#[tokio::test]
async fn changed_items_are_opened_at_once() {
    let (_, owner) = service().user();
    let selection = create_selection_of(&owner, items_of(&guids(2))).await;
    for count in [3, 1, 200, 0] {
        open(&owner, &selection).await;
        let body = json!({"Items": items_of(&guids(count))});
        let changed = owner.put(&items_path(&selection), body).await.expect(200);
        assert_eq!(without_cards(&open(&service().guest(), &selection).await), changed["Items"]);
    }
}

/// RULE-SEL-051: one request reads the selection and its 200 cards with two statements. The next
/// one within seconds reads no card from the database.
#[tokio::test]
async fn cards_of_200_objects_take_one_statement() {
    let url = database::create().await.unwrap();
    let statements = StatementCounter::start(&url).await;
    let settings = [("DATABASE_URL", statements.url()), ("GUEST_READS_PER_MINUTE", "0")];
    let serve = Deployed::start(env!("CARGO_BIN_EXE_selections"), &["serve"], &settings).await;
    let sql = database::connect(&url).await.unwrap();
    sql.batch_execute("set search_path = selections").await.unwrap();
    let ids: Vec<Uuid> = guids(200);
    for id in &ids {
        let shown = object(*id, 1, "12").to_string();
        let insert = format!("insert into property_object values ('{id}', 1, true, '{shown}')");
        sql.batch_execute(&insert).await.unwrap();
    }
    let owner = serve.caller(&Claims::user(guid()));
    let body = json!({"Title": "Spring", "Items": items_of(&ids)});
    let selection = owner.post(SELECTIONS, body).await.expect(201);
    let guest = serve.guest();
    let warm_up = owner.post(SELECTIONS, json!({"Title": "Other"})).await.expect(201);
    open(&guest, &warm_up).await;
    let mut executed = Vec::new();
    for _ in 0..2 {
        let before = statements.executed();
        let opened = open(&guest, &selection).await;
        executed.push(statements.executed() - before);
        let cards = opened["Items"].as_array().unwrap().iter().filter(|item| item["Card"]["Number"] == "12");
        assert_eq!(cards.count(), 200);
    }
    assert!(executed[0] <= 2 && executed[1] <= 1, "{executed:?}");
}
