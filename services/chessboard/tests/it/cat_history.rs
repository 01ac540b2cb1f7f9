//! What an object has cost.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::cat_lists::OBJECTS;
use crate::catalog_fill::{Object, change, one};
use crate::{list, service};

/// An object whose project was first published at 2026-01-01T00:00:00Z, with these prices at so many hours after that.
async fn object_of(prices: &[(i64, i64)]) -> Uuid {
    let mut catalog = one();
    catalog.objects.push(Object::new(&catalog.buildings[0], "1"));
    catalog.fill(service()).await;
    let id = catalog.objects[0].id;
    let rows = prices.iter().enumerate().map(|(at, (price, hours))| {
        let changed_at = format!("'2026-01-01T00:00:00Z'::timestamptz + interval '{hours} h'");
        format!("('{id}', {}, {price}, 'RUB', {changed_at})", at + 1)
    });
    let rows = rows.collect::<Vec<_>>().join(",");
    if !rows.is_empty() {
        change(service(), &format!("insert into price_history values {rows}")).await;
    }
    id
}

async fn history(id: Uuid) -> Vec<Value> {
    let answer = service().guest().get(&format!("{OBJECTS}/{id}/price-history")).await.expect(200);
    assert_eq!(answer.as_object().unwrap().len(), 1);
    list(&answer["Items"]).to_vec()
}

fn prices(items: &[Value]) -> Vec<i64> {
    items.iter().map(|item| item["Price"]["AmountMinor"].as_i64().unwrap()).collect()
}

/// The price at the project's first publication and each change since, newest first; what was before is nobody's.
#[tokio::test]
async fn prices_are_told_from_the_first_publication_on() {
    let object = object_of(&[(100, -30), (200, -20), (300, 0), (400, 1), (300, 2)]).await;
    let items = history(object).await;
    assert_eq!(prices(&items), [300, 400, 300]);
    let newest =
        json!({"Price": {"AmountMinor": 300, "Currency": "RUB"}, "ChangedAt": "2026-01-01T02:00:00Z"});
    assert_eq!(items[0], newest);
    assert_eq!(prices(&history(object_of(&[(100, -30), (200, -20)]).await).await), [200], "unchanged since");
    assert_eq!(prices(&history(object_of(&[(100, 5), (200, 6)]).await).await), [200, 100], "made afterwards");
    assert_eq!(prices(&history(object_of(&[]).await).await), [0; 0]);
}

/// At most a hundred: the newest.
#[tokio::test]
async fn a_hundred_prices_are_told() {
    let all: Vec<_> = (0..150).map(|n| (n + 1, n)).collect();
    let told = prices(&history(object_of(&all).await).await);
    assert_eq!((told.len(), told[0], told[99]), (100, 150, 51));
}

/// INV-OBJ-3, end to end: a price that a manager changes has its place in what guests are told.
#[tokio::test]
async fn a_change_of_a_price_is_told() {
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
