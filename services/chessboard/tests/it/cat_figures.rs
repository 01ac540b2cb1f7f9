//! What is kept of projects, so that facets by prices look for few homes: it is what their homes say, whoever writes meanwhile.

use futures_util::future::{join_all, join3};
use serde_json::{Value, json};
use testkit::eventually;
use testkit::service::Running;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::catalog_fill::{Building, Object, one};
use crate::objects::{BOOKED, House, building, flat, house, tell_deal};
use crate::{cat_lists, id_of, service, with};

/// Projects of which something else is kept than is counted anew, if nothing is known to have changed since.
pub async fn miscounted(sql: &Client) -> i64 {
    let count = "select count(*) from project_figures as kept cross join lateral ( \
            select min(price) as price_from, max(price) as price_to, \
                coalesce(bit_or(1 << (rooms_asked + 22) % 22), 0) as offer_bits, \
                bit_or(offer_price_bit(rooms_asked, price_step(price))) as offer_prices \
            from property_object as home join building on building.id = home.building_id \
            where building.project_id = kept.project_id and building.deleted_at is null and home.removed_at is null \
                and home.status = 'Available' and home.kind in ('Flat', 'Apartment') \
        ) as counted \
        where kept.project_id not in (select project_id from project_figures_change) \
            and (kept.price_from, kept.price_to, coalesce(kept.offer_bits, 0), coalesce(bit_count(kept.offer_prices), 0), \
                    coalesce(kept.offer_prices = counted.offer_prices, true)) \
                is distinct from (counted.price_from, counted.price_to, counted.offer_bits, \
                    coalesce(bit_count(counted.offer_prices), 0), true)";
    sql.query_one(count, &[]).await.unwrap().get(0)
}

async fn is_changed(sql: &Client, project: Uuid) -> bool {
    let asked = "select exists (select from project_figures_change where project_id = $1::text::uuid)";
    sql.query_one(asked, &[&project.to_string()]).await.unwrap().get(0)
}

/// How many projects of a developer are found by prices, and whether facets count as many by rooms.
async fn found(service: &Running, developer: Uuid, prices: &str) -> i64 {
    let path = format!("{}/facets?DeveloperId={developer}&{prices}", cat_lists::PROJECTS);
    let facets = service.guest().get(&path).await.expect(200);
    let found = facets["TotalCount"].as_i64().unwrap();
    assert_eq!(facets["Classes"].as_array().unwrap().len(), usize::from(found > 0), "{facets}");
    assert_eq!(facets["Rooms"].as_array().unwrap().is_empty(), found == 0, "{facets}");
    found
}

/// A connection whose statements wait for nobody who is not done soon.
async fn impatient(service: &Running) -> Client {
    let sql = service.sql().await;
    sql.batch_execute("set lock_timeout = '5s'").await.unwrap();
    sql
}

/// Who changes a building waits neither for who changes another one nor for who adds up; what is committed is found at once,
/// and what was not added up still is.
#[tokio::test]
async fn who_changes_a_building_waits_for_no_other() {
    let mut catalog = one();
    catalog.buildings.push(Building::new(&catalog.projects[0], "2"));
    let (first, second) = (catalog.buildings[0].id, catalog.buildings[1].id);
    catalog.objects = vec![
        Object::new(&catalog.buildings[0], "1").at(300_000_000),
        Object::new(&catalog.buildings[1], "1").at(500_000_000),
    ];
    let own = cat_lists::service_of(&catalog).await;
    let developer = catalog.developers[0].id;
    let cheap = async || found(&own, developer, "PriceFrom=100000000&PriceTo=200000000").await;
    let dear = async || found(&own, developer, "PriceFrom=800000000&PriceTo=1600000000").await;
    let (one, other, adding) = (impatient(&own).await, impatient(&own).await, impatient(&own).await);
    let price = |building: Uuid, price: i64| {
        format!(
            "begin; update property_object set price = {price} where building_id = '{building}'; \
            select renew_building_figures('{building}')"
        )
    };
    let renew = "select renew_project_figures(10)";
    adding.batch_execute(renew).await.unwrap();
    one.batch_execute(&price(first, 150_000_000)).await.unwrap();
    other.batch_execute(&price(second, 900_000_000)).await.unwrap();
    assert_eq!((cheap().await, dear().await), (0, 0));
    one.batch_execute("commit").await.unwrap();
    assert_eq!((cheap().await, dear().await), (1, 0));
    // It knows nothing of the second one yet.
    adding.batch_execute("begin").await.unwrap();
    adding.batch_execute(renew).await.unwrap();
    one.batch_execute(&price(first, 160_000_000)).await.unwrap();
    other.batch_execute("commit").await.unwrap();
    assert_eq!((cheap().await, dear().await), (1, 1));
    adding.batch_execute("commit").await.unwrap();
    assert_eq!((cheap().await, dear().await), (1, 1));
    one.batch_execute("rollback").await.unwrap();
    adding.batch_execute(renew).await.unwrap();
    assert_eq!((cheap().await, dear().await, miscounted(&adding).await), (1, 1, 0));
    // A building goes with its homes, and comes back with them.
    let mut gone = format!("update building set deleted_at = now() where id = '{first}'");
    for left in [0, 1] {
        adding.batch_execute(&gone).await.unwrap();
        assert_eq!((cheap().await, dear().await), (left, 1));
        adding.batch_execute(renew).await.unwrap();
        assert_eq!((cheap().await, dear().await, miscounted(&adding).await), (left, 1, 0));
        gone = format!("update building set deleted_at = null where id = '{first}'");
    }
}

/// The same building's path in a house of several.
fn within(house: &House, building: Uuid) -> House {
    House { building, ..house.clone() }
}

/// Grids, bookings, a deletion and reads at once: a home that is always there is always found, one that never is never; in the
/// end a job has added up what there is.
#[tokio::test]
async fn what_is_kept_of_a_project_is_what_its_homes_say() {
    let house = house().await;
    let another = async || {
        let made = house.manager.post(&house.project_path("/buildings"), building()).await.expect(201);
        within(&house, id_of(&made["Id"]))
    };
    let houses = [house.clone(), another().await, another().await];
    let priced = |number: &str, minor: i64| {
        with(flat(number), "Price", json!({"AmountMinor": minor, "Currency": "RUB"}))
    };
    // The first flat is always between 300 and 400 million, the second one beside, the third one comes and goes.
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
        tell_deal(BOOKED, testkit::guid(), booked, 1, "2026-11-22T10:00:00Z").await;
        let empty = another().await;
        empty.grid(&grid(3)).await;
        house.manager.delete(&empty.path("")).await.expect(204);
    };
    let reading = async {
        for _ in 0..25 {
            let always = found(service(), house.developer, "PriceFrom=300000000&PriceTo=400000000").await;
            let never = found(service(), house.developer, "PriceFrom=450000000&PriceTo=3000000000").await;
            assert_eq!((always, never), (1, 0));
        }
    };
    join3(join_all(houses[..2].iter().map(writing)), deleting, reading).await;
    let sql = service().sql().await;
    eventually("the job", async || (!is_changed(&sql, house.project).await).then_some(())).await;
    assert_eq!(miscounted(&sql).await, 0);
    // The flats that the last grids have made dear.
    let dear = async || found(service(), house.developer, "PriceFrom=3900000000&PriceTo=4100000000").await;
    assert_eq!(dear().await, 1);
    for house in &houses[..2] {
        house.manager.delete(&house.path("")).await.expect(204);
    }
    assert_eq!(dear().await, 0);
}

/// Concurrent jobs add up each project once, and what changes meanwhile is not lost.
#[tokio::test]
async fn of_many_who_add_up_none_loses_what_another_changes() {
    let mut catalog = one();
    let buildings: Vec<_> =
        (2..6).map(|name: i32| Building::new(&catalog.projects[0], &name.to_string())).collect();
    catalog.buildings.extend(buildings);
    catalog.objects = catalog.buildings.iter().map(|building| Object::new(building, "1")).collect();
    let own = cat_lists::service_of(&catalog).await;
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
    let adding = async || {
        let sql = own.sql().await;
        for _ in 0..60 {
            sql.batch_execute("select renew_project_figures(10)").await.unwrap();
            // A project of which nothing is known to have changed is what its homes say, at every moment.
            assert_eq!(miscounted(&sql).await, 0);
        }
    };
    join3(join_all(catalog.buildings.iter().map(changing)), adding(), adding()).await;
    let sql = own.sql().await;
    sql.batch_execute("select renew_project_figures(10)").await.unwrap();
    let dearest = found(&own, catalog.developers[0].id, "PriceFrom=4660000000&PriceTo=4670000000").await;
    assert_eq!((miscounted(&sql).await, dearest), (0, 1));
}
