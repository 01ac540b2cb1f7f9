//! The price history of an object.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::cat_lists::OBJECTS;
use crate::catalog_fill::{Object, execute_sql, single_building_catalog};
use crate::{list, service};

/// Inserts an object with its prices. The hours of a price count from the first publication of the
/// project, which is at 2026-01-01T00:00:00Z.
async fn insert_object(prices: &[(i64, i64)]) -> Uuid {
    let mut catalog = single_building_catalog();
    catalog.objects.push(Object::new(&catalog.buildings[0], "1"));
    catalog.fill(service()).await;
    let id = catalog.objects[0].id;
    let rows = prices.iter().enumerate().map(|(at, (price, hours))| {
        let changed_at = format!("'2026-01-01T00:00:00Z'::timestamptz + interval '{hours} h'");
        format!("('{id}', {}, {price}, 'RUB', {changed_at})", at + 1)
    });
    let rows = rows.collect::<Vec<_>>().join(",");
    if !rows.is_empty() {
        execute_sql(service(), &format!("insert into price_history values {rows}")).await;
    }
    id
}

async fn history(id: Uuid) -> Vec<Value> {
    let response = service().guest().get(&format!("{OBJECTS}/{id}/price-history")).await.expect(200);
    assert_eq!(response.as_object().unwrap().len(), 1);
    list(&response["Items"]).to_vec()
}

fn prices(items: &[Value]) -> Vec<i64> {
    items.iter().map(|item| item["Price"]["AmountMinor"].as_i64().unwrap()).collect()
}

/// RULE-CHS-047: the history has the price at the project's first publication and each later price,
/// newest first.
#[tokio::test]
async fn price_history_starts_with_first_publication() {
    let object = insert_object(&[(100, -30), (200, -20), (300, 0), (400, 1), (300, 2)]).await;
    let items = history(object).await;
    assert_eq!(prices(&items), [300, 400, 300]);
    let newest =
        json!({"Price": {"AmountMinor": 300, "Currency": "RUB"}, "ChangedAt": "2026-01-01T02:00:00Z"});
    assert_eq!(items[0], newest);
    assert_eq!(
        prices(&history(insert_object(&[(100, -30), (200, -20)]).await).await),
        [200],
        "unchanged since"
    );
    assert_eq!(
        prices(&history(insert_object(&[(100, 5), (200, 6)]).await).await),
        [200, 100],
        "created afterwards"
    );
    assert_eq!(prices(&history(insert_object(&[]).await).await), [0; 0]);
}

/// RULE-CHS-047: the history has the 100 newest prices.
#[tokio::test]
async fn price_history_has_at_most_100_items() {
    let all: Vec<_> = (0..150).map(|n| (n + 1, n)).collect();
    let newest = prices(&history(insert_object(&all).await).await);
    assert_eq!((newest.len(), newest[0], newest[99]), (100, 150, 51));
}

/// RULE-CHS-047, INV-OBJ-3: a manager's change of a price appears in the history of the catalog.
#[tokio::test]
async fn price_change_by_manager_appears_in_history() {
    let developer = crate::create_published_developer().await;
    let manager = crate::manager(developer);
    let projects = "/api/v1/developers/projects";
    let project = json!({"Name": "Сосны", "Class": "Elite", "City": "Казань", "Address": "ул. Мира, 1"});
    let project = crate::id_of(&manager.post(projects, project).await.expect(201)["Id"]);
    let building = json!({"Name": "1", "SectionsCount": 1, "FloorsTotal": 9, "State": "Planned"});
    let building = manager.post(&format!("{projects}/{project}/buildings"), building).await.expect(201);
    let grid = format!("{projects}/{project}/buildings/{}/property-objects", crate::id_of(&building["Id"]));
    let priced = |amount: i64| {
        json!({"Objects": [{
            "Number": "1", "Kind": "Flat", "Section": 1, "Floor": 1, "PositionOnFloor": 1, "Rooms": 1,
            "AreaTotal": 40.5, "Finishing": "None", "Price": {"AmountMinor": amount, "Currency": "RUB"},
        }]})
    };
    for amount in [100, 200] {
        manager.put(&grid, priced(amount)).await.expect(200);
    }
    manager.post(&format!("{projects}/{project}/publish"), json!({})).await.expect(200);
    let found = service().guest().get(&format!("{OBJECTS}?ProjectId={project}")).await.expect(200);
    let object = crate::id_of(&found["Items"][0]["Id"]);
    assert_eq!(prices(&history(object).await), [200]);
    for amount in [300, 300, 250] {
        manager.put(&grid, priced(amount)).await.expect(200);
    }
    assert_eq!(prices(&history(object).await), [250, 300, 200]);
}
