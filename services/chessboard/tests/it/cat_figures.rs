//! Stored figures of buildings and projects under concurrent writes.

use futures_util::future::{join_all, join3};
use serde_json::{Value, json};
use testkit::eventually;
use testkit::service::Running;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::catalog_fill::{Building, Object, single_building_catalog};
use crate::objects::{BOOKED, House, building, flat, publish_deal_event, published_house};
use crate::{cat_lists, id_of, service, with};

/// Counts the projects without a pending change whose stored figures differ from their homes.
///
/// Bit 21 is that of homes without a number of rooms, whose room category is -1. A project without
/// homes stores null or zero bits.
pub async fn count_wrong_figures(sql: &Client) -> i64 {
    let count = "select count(*) from project_figures as stored cross join lateral ( \
            select min(price) as price_from, max(price) as price_to, \
                coalesce(bit_or(1 << (room_category + 22) % 22), 0) as offer_bits, \
                bit_or(offer_price_bit(room_category, price_step(price))) as offer_prices \
            from property_object as home join building on building.id = home.building_id \
            where building.project_id = stored.project_id and building.deleted_at is null and home.removed_at is null \
                and home.status = 'Available' and home.kind in ('Flat', 'Apartment') \
        ) as counted \
        where stored.project_id not in (select project_id from project_figures_change) \
            and (stored.price_from, stored.price_to, coalesce(stored.offer_bits, 0), coalesce(bit_count(stored.offer_prices), 0), \
                    coalesce(stored.offer_prices = counted.offer_prices, true)) \
                is distinct from (counted.price_from, counted.price_to, counted.offer_bits, \
                    coalesce(bit_count(counted.offer_prices), 0), true)";
    sql.query_one(count, &[]).await.unwrap().get(0)
}

async fn has_pending_change(sql: &Client, project: Uuid) -> bool {
    let exists = "select exists (select from project_figures_change where project_id = $1::text::uuid)";
    sql.query_one(exists, &[&project.to_string()]).await.unwrap().get(0)
}

/// Returns the number of a developer's projects that match a price filter, and checks the facets.
async fn count_found(service: &Running, developer: Uuid, prices: &str) -> i64 {
    let path = format!("{}/facets?DeveloperId={developer}&{prices}", cat_lists::PROJECTS);
    let facets = service.guest().get(&path).await.expect(200);
    let found = facets["TotalCount"].as_i64().unwrap();
    assert_eq!(facets["Classes"].as_array().unwrap().len(), usize::from(found > 0), "{facets}");
    assert_eq!(facets["Rooms"].as_array().unwrap().is_empty(), found == 0, "{facets}");
    found
}

/// Opens a connection with a lock timeout of 5 s.
async fn connect_with_lock_timeout(service: &Running) -> Client {
    let sql = service.sql().await;
    sql.batch_execute("set lock_timeout = '5s'").await.unwrap();
    sql
}

/// RULE-CHS-050: a writer of a building waits neither for writers of other buildings nor for the
/// job. Reads include every commit, before and after the job adds it up.
#[tokio::test]
async fn writer_of_building_does_not_wait_for_other_buildings() {
    let mut catalog = single_building_catalog();
    catalog.buildings.push(Building::new(&catalog.projects[0], "2"));
    let (first, second) = (catalog.buildings[0].id, catalog.buildings[1].id);
    catalog.objects = vec![
        Object::new(&catalog.buildings[0], "1").at(300_000_000),
        Object::new(&catalog.buildings[1], "1").at(500_000_000),
    ];
    let own = cat_lists::start_with_catalog(&catalog).await;
    let developer = catalog.developers[0].id;
    let cheap = async || count_found(&own, developer, "PriceFrom=100000000&PriceTo=200000000").await;
    let expensive = async || count_found(&own, developer, "PriceFrom=800000000&PriceTo=1600000000").await;
    let (one, other, job) = (
        connect_with_lock_timeout(&own).await,
        connect_with_lock_timeout(&own).await,
        connect_with_lock_timeout(&own).await,
    );
    let begin_with_price = |building: Uuid, price: i64| {
        format!(
            "begin; update property_object set price = {price} where building_id = '{building}'; \
            select renew_building_figures('{building}')"
        )
    };
    let renew = "select renew_project_figures(10)";
    job.batch_execute(renew).await.unwrap();
    one.batch_execute(&begin_with_price(first, 150_000_000)).await.unwrap();
    other.batch_execute(&begin_with_price(second, 900_000_000)).await.unwrap();
    assert_eq!((cheap().await, expensive().await), (0, 0));
    one.batch_execute("commit").await.unwrap();
    assert_eq!((cheap().await, expensive().await), (1, 0));
    // The job adds up while the change of the second building is not committed.
    job.batch_execute("begin").await.unwrap();
    job.batch_execute(renew).await.unwrap();
    one.batch_execute(&begin_with_price(first, 160_000_000)).await.unwrap();
    other.batch_execute("commit").await.unwrap();
    assert_eq!((cheap().await, expensive().await), (1, 1));
    job.batch_execute("commit").await.unwrap();
    assert_eq!((cheap().await, expensive().await), (1, 1));
    one.batch_execute("rollback").await.unwrap();
    job.batch_execute(renew).await.unwrap();
    assert_eq!((cheap().await, expensive().await, count_wrong_figures(&job).await), (1, 1, 0));
    // The deletion of a building removes its homes from the figures, and its restoration adds them.
    let mut change = format!("update building set deleted_at = now() where id = '{first}'");
    for expected in [0, 1] {
        job.batch_execute(&change).await.unwrap();
        assert_eq!((cheap().await, expensive().await), (expected, 1));
        job.batch_execute(renew).await.unwrap();
        assert_eq!((cheap().await, expensive().await, count_wrong_figures(&job).await), (expected, 1, 0));
        change = format!("update building set deleted_at = null where id = '{first}'");
    }
}

/// Returns a house with another building of the same project.
fn with_building(house: &House, building: Uuid) -> House {
    House { building, ..house.clone() }
}

/// RULE-CHS-050: grids, bookings and deletions run beside searches. A search finds a price that
/// always exists, and never finds a price that does not exist. The job adds up the changes.
#[tokio::test]
async fn figures_match_homes_during_grids_bookings_and_deletions() {
    let house = published_house().await;
    let another = async || {
        let created = house.manager.post(&house.project_path("/buildings"), building()).await.expect(201);
        with_building(&house, id_of(&created["Id"]))
    };
    let houses = [house.clone(), another().await, another().await];
    let priced = |number: &str, minor: i64| {
        with(flat(number), "Price", json!({"AmountMinor": minor, "Currency": "RUB"}))
    };
    // The first flat always costs 300 to 400 million minor units, and no flat ever costs 450
    // million to 3 billion. Every third turn removes the third flat.
    let grid = |turn: i64| -> Vec<Value> {
        let mut grid = vec![
            priced("1", 310_000_000 + turn * 7_000_000),
            priced("2", if turn % 2 == 0 { 100_000_000 } else { 4_000_000_000 }),
            priced("3", 250_000_000),
            priced("4", 260_000_000 + turn),
        ];
        if turn % 3 == 0 {
            grid.swap_remove(2);
        }
        grid
    };
    for house in &houses {
        house.grid(&grid(1)).await;
    }
    let booked = houses[2].id_of("3").await;
    let writing = async |house: &House| {
        for turn in 0..12 {
            house.send_grid(&grid(turn), None).await.expect(200);
        }
    };
    let deleting = async {
        houses[2].send_grid(&grid(2), None).await.expect(200);
        publish_deal_event(BOOKED, testkit::guid(), booked, 1, "2026-11-22T10:00:00Z").await;
        let deleted = another().await;
        deleted.grid(&grid(3)).await;
        house.manager.delete(&deleted.path("")).await.expect(204);
    };
    let reading = async {
        for _ in 0..25 {
            let always =
                count_found(service(), house.developer, "PriceFrom=300000000&PriceTo=400000000").await;
            let never =
                count_found(service(), house.developer, "PriceFrom=450000000&PriceTo=3000000000").await;
            assert_eq!((always, never), (1, 0));
        }
    };
    join3(join_all(houses[..2].iter().map(writing)), deleting, reading).await;
    let sql = service().sql().await;
    eventually("the job", async || (!has_pending_change(&sql, house.project).await).then_some(())).await;
    assert_eq!(count_wrong_figures(&sql).await, 0);
    // In the last grids of two buildings, the second flat costs 4 billion minor units.
    let expensive =
        async || count_found(service(), house.developer, "PriceFrom=3900000000&PriceTo=4100000000").await;
    assert_eq!(expensive().await, 1);
    for house in &houses[..2] {
        house.manager.delete(&house.path("")).await.expect(204);
    }
    assert_eq!(expensive().await, 0);
}

/// RULE-CHS-050: concurrent jobs lose no change of a building.
#[tokio::test]
async fn concurrent_jobs_lose_no_change_of_figures() {
    let mut catalog = single_building_catalog();
    let buildings: Vec<_> =
        (2..6).map(|name: i32| Building::new(&catalog.projects[0], &name.to_string())).collect();
    catalog.buildings.extend(buildings);
    catalog.objects = catalog.buildings.iter().map(|building| Object::new(building, "1")).collect();
    let own = cat_lists::start_with_catalog(&catalog).await;
    let changing = async |building: &Building| {
        let sql = own.sql().await;
        for turn in 1..40_i64 {
            let id = building.id;
            let price = 100_000_000 + turn * turn * 3_000_000;
            let change = format!(
                "begin; update property_object set price = {price} where building_id = '{id}'; \
                select renew_building_figures('{id}'); commit"
            );
            sql.batch_execute(&change).await.unwrap();
        }
    };
    let adding_up = async || {
        let sql = own.sql().await;
        for _ in 0..60 {
            sql.batch_execute("select renew_project_figures(10)").await.unwrap();
            // Without a pending change the figures of a project match its homes at every moment.
            assert_eq!(count_wrong_figures(&sql).await, 0);
        }
    };
    join3(join_all(catalog.buildings.iter().map(changing)), adding_up(), adding_up()).await;
    let sql = own.sql().await;
    sql.batch_execute("select renew_project_figures(10)").await.unwrap();
    // The last price of each building is 100,000,000 + 39 * 39 * 3,000,000 = 4,663,000,000.
    let highest =
        count_found(&own, catalog.developers[0].id, "PriceFrom=4660000000&PriceTo=4670000000").await;
    assert_eq!((count_wrong_figures(&sql).await, highest), (0, 1));
}
