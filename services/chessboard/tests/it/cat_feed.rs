//! The public feed of a developer in YRL.

use std::io::Read;

use chessboard::Service;
use flate2::read::GzDecoder;
use futures_util::future::{join, join_all};
use reqwest::Method;
use serde_json::json;
use testkit::client::send;
use testkit::database;
use testkit::deployed::Deployed;
use testkit::held::HeldLocks;
use testkit::service::Running;
use testkit::statements::StatementCounter;
use uuid::Uuid;

use crate::cat_lists::{DEVELOPERS, start_with_catalog};
use crate::catalog_fill::{
    Building, Catalog, Developer, Object, Project, execute_sql, single_building_catalog,
    single_object_catalog,
};
use crate::objects::{book_object, flat, flats, project, published_house, wait_for_object_event};
use crate::{guid, service, with};

fn feed_path(developer: Uuid) -> String {
    format!("{DEVELOPERS}/{developer}/feed.yrl")
}

/// Returns the feed as a guest reads it.
async fn read(developer: Uuid) -> String {
    let response = service().guest().get(&feed_path(developer)).await;
    assert_eq!(response.status, 200, "{}", response.text);
    response.text
}

/// Returns the texts of all elements with this name in the order of the feed.
fn texts(feed: &str, element: &str) -> Vec<String> {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    let parts = feed.split(&open).skip(1);
    parts.map(|part| part.split(&close).next().unwrap_or_default().to_owned()).collect()
}

/// RULE-CHS-078: the feed has the Available objects that guests see, and no storage.
#[tokio::test]
async fn feed_has_the_available_objects_that_guests_see() {
    let mut catalog = single_building_catalog();
    let hidden = Project { status: "Hidden", ..Project::new(&catalog.developers[0], "Скрытый") };
    let deleted = Building { is_deleted: true, ..Building::new(&catalog.projects[0], "Снесён") };
    let hidden_building = Building::new(&hidden, "Корпус 2");
    let building = catalog.buildings[0].clone();
    let object = |number: &str| Object::new(&building, number);
    catalog.objects = vec![
        object("shown"),
        Object { kind: "Parking", rooms: None, ..object("parking") },
        Object { kind: "Storage", rooms: None, ..object("storage") },
        Object { status: "Sold", ..object("sold") },
        Object { status: "Booked", ..object("booked") },
        Object { status: "Reserved", ..object("reserved") },
        Object { status: "Unavailable", ..object("unavailable") },
        Object { is_removed: true, ..object("removed") },
        Object::new(&hidden_building, "hidden"),
        Object::new(&deleted, "deleted"),
    ];
    catalog.projects.push(hidden);
    catalog.buildings.extend([hidden_building, deleted]);
    catalog.fill(service()).await;
    let feed = read(catalog.developers[0].id).await;
    let mut numbers = texts(&feed, "apartment");
    numbers.sort();
    assert_eq!(numbers, ["parking", "shown"], "{feed}");
    assert!(feed.contains(&format!("<offer internal-id=\"{}\">", catalog.objects[0].id)), "{feed}");
}

/// RULE-CHS-078: an offer has the fields of its object, its building, its project and its
/// developer.
#[tokio::test]
async fn offer_has_the_fields_of_its_object_and_ancestors() {
    let house = published_house().await;
    let flat = with(with(flat("7"), "Kind", "Apartment"), "Floor", 3);
    house.grid(&[flat]).await;
    let feed = read(house.developer).await;
    for (element, shown) in [
        ("category", "квартира"),
        ("apartments", "1"),
        ("apartment", "7"),
        ("locality-name", "Казань"),
        ("address", "ул. Мира, 1"),
        ("latitude", "55.796127"),
        ("organization", "Ромашка"),
        ("phone", "+74951234567"),
        ("currency", "RUB"),
        ("rooms", "2"),
        ("renovation", "предчистовая"),
        ("floor", "3"),
        ("floors-total", "10"),
        ("building-name", "Сосны"),
        ("building-section", "Корпус 1"),
        ("building-state", "unfinished"),
        ("built-year", "2027"),
        ("ready-quarter", "2"),
    ] {
        assert!(texts(&feed, element).contains(&shown.to_owned()), "{element}: {feed}");
    }
    assert_eq!(texts(&feed, "value"), ["12500000.00", "54.25", "30.50", "10.00"]);
    assert!(!feed.contains("anna@example.org") && !feed.contains("HoldDealId"), "{feed}");
}

/// RULE-CHS-052, RULE-CHS-078: a developer that guests do not see has no feed, immediately after
/// the commit.
#[tokio::test]
async fn hidden_developer_has_no_feed() {
    let house = published_house().await;
    house.grid(&flats(1)).await;
    assert_eq!(texts(&read(house.developer).await, "apartment"), ["1"]);
    house.manager.post(&house.project_path("/hide"), json!({})).await.expect(200);
    assert!(texts(&read(house.developer).await, "apartment").is_empty());
    house.manager.post("/api/v1/developers/me/hide", json!({})).await.expect(200);
    for developer in [house.developer, guid()] {
        let refused = service().guest().get(&feed_path(developer)).await;
        refused.expect_problem(404, "CHESSBOARD_DEVELOPER_NOT_FOUND");
    }
}

/// RULE-CHS-079: the tag of the feed changes with each change of its content, and only then.
#[tokio::test]
async fn tag_changes_with_the_content() {
    let house = published_house().await;
    house.grid(&flats(2)).await;
    let (guest, path) = (service().guest(), feed_path(house.developer));
    let tag_and_text = async || {
        let response = guest.get(&path).await;
        assert_eq!(response.header("cache-control"), "public, max-age=0, must-revalidate");
        (response.header("etag").to_owned(), response.text)
    };
    let cached = async |tag: &str| send(guest.request(Method::GET, &path).header("If-None-Match", tag)).await;
    let mut last = tag_and_text().await;
    assert_eq!(tag_and_text().await, last, "the second response is the cached one");
    let first = house.id_of("1").await;
    let priced = with(flat("1"), "Price", json!({"AmountMinor": 5, "Currency": "RUB"}));
    house.manager.put(&house.object_path(first), priced.clone()).await.expect(200);
    let priced_feed = tag_and_text().await;
    assert_ne!(priced_feed.0, last.0);
    assert_eq!(cached(&last.0).await.status, 200);
    let unchanged = cached(&priced_feed.0).await;
    assert_eq!((unchanged.status, unchanged.text.as_str()), (304, ""));
    last = priced_feed;
    house.manager.put(&house.object_path(first), priced).await.expect(200);
    assert_eq!(tag_and_text().await, last, "an edit without a change");
    book_object(&house, "2").await;
    let booked = tag_and_text().await;
    assert!(booked.0 != last.0 && booked.1 != last.1, "a booking");
    last = booked;
    for change in [
        format!("update building set version = version + 1, name = 'Иной' where id = '{}'", house.building),
        format!("update project set version = version + 1, city = 'Тула' where id = '{}'", house.project),
        format!("update developer set version = version + 1, name = 'Иная' where id = '{}'", house.developer),
    ] {
        execute_sql(service(), &change).await;
        let next = tag_and_text().await;
        assert!(next.0 != last.0 && next.1 != last.1, "{change}");
        last = next;
    }
}

/// RULE-CHS-079: the job that publishes the objects of a renamed project does not change the tag.
#[tokio::test]
async fn propagation_keeps_the_tag() {
    let house = published_house().await;
    house.grid(&flats(1)).await;
    let id = house.id_of("1").await;
    // The lock makes the job wait until the test has read the tag.
    let held =
        HeldLocks::lock(service(), &format!("select from property_object where id = '{id}' for share")).await;
    house.manager.put(&house.project_path(""), with(project(), "Name", "Ели")).await.expect(200);
    let tag = async || service().guest().get(&feed_path(house.developer)).await.header("etag").to_owned();
    let renamed = tag().await;
    held.release().await;
    wait_for_object_event(id, "the project's name", |event| event["ProjectName"] == "Ели").await;
    assert_eq!(tag().await, renamed);
}

/// RULE-CHS-079: a guest may get the feed compressed, and a user gets it plain and without a tag.
#[tokio::test]
async fn guest_gets_feed_compressed_and_user_plain() {
    let catalog = single_object_catalog();
    catalog.fill(service()).await;
    let path = feed_path(catalog.developers[0].id);
    let (guest, (_, user)) = (service().guest(), service().user());
    // The first round builds the feed, and the second round reads it from the cache.
    let mut feeds = Vec::new();
    for _ in 0..2 {
        let response =
            guest.request(Method::GET, &path).header("Accept-Encoding", "gzip").send().await.unwrap();
        assert_eq!(response.headers()["content-encoding"], "gzip");
        assert_eq!(response.headers()["content-type"], "text/xml; charset=utf-8");
        let mut feed = String::new();
        GzDecoder::new(&*response.bytes().await.unwrap()).read_to_string(&mut feed).unwrap();
        feeds.push(feed);
        let plain = guest.get(&path).await;
        assert_eq!(
            (plain.header("content-encoding"), plain.header("vary")),
            ("", "Authorization, Accept-Encoding")
        );
        feeds.push(plain.text);
        let response =
            user.request(Method::GET, &path).header("Accept-Encoding", "gzip").send().await.unwrap();
        let header = |name: &str| response.headers().get(name).map_or("", |value| value.to_str().unwrap());
        assert_eq!(
            (header("content-encoding"), header("etag"), header("cache-control")),
            ("", "", "no-store")
        );
        feeds.push(response.text().await.unwrap());
    }
    assert!(feeds.iter().all(|feed| *feed == feeds[0] && feed.ends_with("</realty-feed>\n")), "{feeds:?}");
}

/// RULE-CHS-079: a long feed is read in pages of 500 objects, each by one statement, and has each
/// object once. A cached feed needs fewer statements.
#[tokio::test]
async fn long_feed_is_read_in_pages() {
    let url = database::create().await.unwrap();
    let statements = StatementCounter::start(&url).await;
    let settings = [("DATABASE_URL", statements.url()), ("GUEST_READS_PER_MINUTE", "0")];
    let serve = Deployed::start(env!("CARGO_BIN_EXE_chessboard"), &["serve"], &settings).await;
    let (sql, guest) = (database::connect(&url).await.unwrap(), serve.guest());
    sql.batch_execute("set search_path = chessboard").await.unwrap();
    let developer = Developer::new("Большой");
    let project = Project::new(&developer, "Город");
    let buildings: Vec<_> = (0..11).map(|n| Building::new(&project, &format!("Корпус {n}"))).collect();
    let objects = (0..1_100).map(|n| Object::new(&buildings[n % 11], &n.to_string())).collect();
    let path = feed_path(developer.id);
    Catalog { developers: vec![developer], projects: vec![project], buildings, objects }.insert(&sql).await;
    let read = async || {
        let before = statements.executed();
        let response = guest.get(&path).await;
        let mut numbers: Vec<usize> =
            texts(&response.text, "apartment").iter().map(|number| number.parse().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..1_100).collect::<Vec<_>>());
        statements.executed() - before
    };
    let (built, cached) = (read().await, read().await);
    assert!(built >= 4, "the version and three pages: {built}");
    assert!(built <= 4 + 12, "new connections execute some statements of their own: {built}");
    assert!(cached < built, "{cached}");
}

/// Returns the feeds of `count` developers with one object each.
fn catalog_of(count: usize) -> (Catalog, Vec<String>) {
    let mut catalog = single_object_catalog();
    for n in 1..count {
        let more = single_object_catalog();
        let developer = Developer { name: format!("Застройщик {n}"), ..more.developers[0].clone() };
        catalog.developers.push(developer);
        catalog.projects.extend(more.projects);
        catalog.buildings.extend(more.buildings);
        catalog.objects.extend(more.objects);
    }
    let paths = catalog.developers.iter().map(|developer| feed_path(developer.id)).collect();
    (catalog, paths)
}

/// RULE-CHS-079: a process builds four feeds at once, and two for one caller. A further one waits
/// for 5 s. A cached feed is returned without a build, and callers of one feed wait for one build.
#[tokio::test]
async fn fifth_build_is_rejected_until_another_ends() {
    let (catalog, paths) = catalog_of(7);
    let service = start_with_catalog(&catalog).await;
    let [first, second, third, fourth] = [(); 4].map(|()| service.guest());
    let cached = first.get(&paths[0]).await;
    // The lock makes the first page of each build wait. A read of the feed's version does not need
    // this table.
    let held = HeldLocks::lock(&service, "lock table property_object in access exclusive mode").await;
    let (of_first, of_second) =
        (join_all([1, 2].map(|n| first.get(&paths[n]))), join_all([3, 4].map(|n| second.get(&paths[n]))));
    let shared = async {
        held.wait_for(4, "%\"property_object\"%").await;
        join(third.get(&paths[1]), third.get(&paths[1])).await
    };
    let rejected = async {
        held.wait_for(4, "%\"property_object\"%").await;
        let rejected = join(first.get(&paths[5]), fourth.get(&paths[6])).await;
        let kept = first.get(&paths[0]).await;
        held.wait_for(4, "%\"property_object\"%").await;
        held.release().await;
        (rejected, kept)
    };
    let ((of_first, of_second), (shared, ((own, full), kept))) =
        join(join(of_first, of_second), join(shared, rejected)).await;
    for (rejected, status, code) in [(own, 429, "RATE_LIMITED"), (full, 503, "SERVICE_UNAVAILABLE")] {
        assert!(rejected.header("retry-after").parse::<u64>().is_ok_and(|wait| wait >= 1));
        rejected.expect_problem(status, code);
    }
    assert_eq!((kept.status, kept.text), (200, cached.text));
    let shared = [shared.0, shared.1];
    for build in of_first.iter().chain(&of_second).chain(&shared) {
        assert!(build.status == 200 && build.text.ends_with("</realty-feed>\n"), "{}", build.text);
    }
    assert!(shared.iter().all(|feed| feed.text == of_first[0].text), "one build");
    assert_eq!(fourth.get(&paths[6]).await.status, 200);
}

/// RULE-CHS-079: clients who do not read their feeds keep no build waiting.
#[tokio::test]
async fn unread_feeds_stop_no_build() {
    let url = database::create().await.unwrap();
    let settings = [("DATABASE_URL", url.as_str()), ("GUEST_READS_PER_MINUTE", "0")];
    let serve = Deployed::start(env!("CARGO_BIN_EXE_chessboard"), &["serve"], &settings).await;
    let sql = database::connect(&url).await.unwrap();
    sql.batch_execute("set search_path = chessboard").await.unwrap();
    let mut unread = Vec::new();
    for n in 0..6 {
        let developer = Developer::new(&format!("Большой {n}"));
        let project = Project::new(&developer, "Город");
        let buildings: Vec<_> = (0..8).map(|n| Building::new(&project, &format!("Корпус {n}"))).collect();
        // Plain, the feed has about 7 MB, which the buffers of a connection do not hold.
        let objects = (0..6_000).map(|n| Object::new(&buildings[n % 8], &n.to_string())).collect();
        let path = feed_path(developer.id);
        Catalog { developers: vec![developer], projects: vec![project], buildings, objects }
            .insert(&sql)
            .await;
        let response = serve.guest().request(Method::GET, &path).send().await.unwrap();
        assert_eq!(response.status(), 200, "feed {n}");
        unread.push(response);
    }
    for response in unread {
        let feed = response.text().await.unwrap();
        assert!(feed.ends_with("</realty-feed>\n") && texts(&feed, "apartment").len() == 6_000);
    }
}

/// RULE-ALL-027: a cached feed counts as one more read of a guest for each whole MiB of its
/// response, and a compressed one counts less.
#[tokio::test]
async fn plain_feed_of_a_guest_counts_by_its_size() {
    let mut catalog = single_building_catalog();
    catalog.objects = (0..1_200).map(|n| Object::new(&catalog.buildings[0], &n.to_string())).collect();
    let service = Running::start::<Service>(&[("GUEST_READS_PER_MINUTE", "4")]);
    catalog.fill(&service).await;
    let path = feed_path(catalog.developers[0].id);
    // The service knows the size after the first response.
    let size = service.guest().get(&path).await.text.len();
    assert!((1 << 20..2 << 20).contains(&size), "{size}");

    let (plain, compressed) = (service.guest(), service.guest());
    for _ in 0..2 {
        assert_eq!(plain.get(&path).await.status, 200);
    }
    plain.get(&path).await.expect_problem(429, "RATE_LIMITED");
    for _ in 0..4 {
        let request = compressed.request(Method::GET, &path).header("Accept-Encoding", "gzip");
        assert_eq!(request.send().await.unwrap().status(), 200);
    }
}
