//! Catalogs that developers write over HTTP and guests read.

use serde_json::{Value, json};
use testkit::client::Client;
use testkit::dedicated::DedicatedService;
use testkit::guid;
use uuid::Uuid;

use crate::cat_lists::{DEVELOPERS, OBJECTS, PROJECTS, encoded, names};
use crate::catalog_fill::{Building, Catalog, Object};
use crate::objects::{
    BOOKED, COMPLETED, House, building, deal_event, deliver_deal_event, flat, project, published_house,
    unchanged_body,
};
use crate::{
    ADMIN, COMPANY_UPSERTED, MANAGE, ME, administrator, company_event, create_developer,
    create_published_developer, each, eventually, external_profile, id_of, list, manager, next_sequence,
    objects, path, profile, publish_company, publish_external_profile, read_when, service, text, user_claims,
    with,
};

/// A catalog that was written over HTTP, with the managers of its developers.
pub struct WrittenCatalog {
    managers: Vec<Client>,
}

impl WrittenCatalog {
    /// Writes a catalog over HTTP and replaces its ids by those of the service.
    pub async fn write(own: &DedicatedService, catalog: &mut Catalog) -> Self {
        let mut managers = Vec::new();
        for at in 0..catalog.developers.len() {
            let (id, name) = (guid(), catalog.developers[at].name.clone());
            own.bus().publish(COMPANY_UPSERTED, id, next_sequence(), &company_event(id, "Active", 1)).await;
            let by = own.caller(&user_claims(Some(id), &[MANAGE]));
            eventually("the developer", async || (by.get(ME).await.status == 200).then_some(())).await;
            by.put(ME, with(profile(), "Name", name)).await.expect(200);
            by.post(&format!("{ME}/publish"), json!({})).await.expect(200);
            let old = std::mem::replace(&mut catalog.developers[at].id, id);
            catalog.projects.iter_mut().filter(|project| project.developer == old).for_each(|project| {
                project.developer = id;
            });
            managers.push(by);
        }
        for at in 0..catalog.projects.len() {
            let developer = catalog.projects[at].developer;
            let of = catalog.developers.iter().position(|known| known.id == developer).unwrap();
            write_project(own, &managers[of], catalog, at).await;
        }
        for (developer, by) in catalog.developers.iter().zip(&managers) {
            if developer.status == "Hidden" {
                by.post(&format!("{ME}/hide"), json!({})).await.expect(200);
            }
        }
        Self { managers }
    }

    /// Hides the developers, so that the catalog has none of their data.
    pub async fn hide(self) {
        for by in self.managers {
            // A developer that is hidden already returns 409.
            let status = by.post(&format!("{ME}/hide"), json!({})).await.status;
            assert!([200, 409].contains(&status), "{status}");
        }
    }
}

async fn write_project(own: &DedicatedService, by: &Client, catalog: &mut Catalog, at: usize) {
    let project = catalog.projects[at].clone();
    let (latitude, longitude) = project.place.unzip();
    let body = json!({
        "Name": project.name, "Class": project.class, "City": project.city, "Address": "ул. Мира, 1",
        "Latitude": latitude, "Longitude": longitude,
    });
    let id = id_of(&by.post(objects::PROJECTS, body).await.expect(201)["Id"]);
    catalog.projects[at].id = id;
    let path = format!("{}/{id}", objects::PROJECTS);
    by.post(&format!("{path}/publish"), json!({})).await.expect(200);
    for at in 0..catalog.buildings.len() {
        if catalog.buildings[at].project == project.id {
            catalog.buildings[at].project = id;
            let is_live = !project.is_deleted && !catalog.buildings[at].is_deleted;
            let house = House {
                developer: project.developer,
                manager: by.clone(),
                project: id,
                building: Uuid::nil(),
            };
            write_building(own, house, catalog, at, is_live).await;
        }
    }
    if project.status == "Hidden" {
        by.post(&format!("{path}/hide"), json!({})).await.expect(200);
    }
    if project.is_deleted {
        by.delete(&path).await.expect(204);
    }
}

async fn write_building(
    own: &DedicatedService,
    mut house: House,
    catalog: &mut Catalog,
    at: usize,
    is_live: bool,
) {
    let Building { id, name, state, ready_year, ready_quarter, is_deleted, .. } =
        catalog.buildings[at].clone();
    let body = json!({
        "Name": name, "SectionsCount": 1, "FloorsTotal": 9, "State": state, "ReadyYear": ready_year,
        "ReadyQuarter": ready_quarter,
    });
    let created = house.manager.post(&house.project_path("/buildings"), body).await.expect(201);
    house.building = id_of(&created["Id"]);
    catalog.buildings[at].id = house.building;
    let mut written: Vec<_> = catalog.objects.iter_mut().filter(|object| object.building == id).collect();
    for object in &mut written {
        object.building = house.building;
        // A held object prevents the deletion of its building and project, so it is Reserved in a
        // deleted one.
        if object.status == "Booked" && !is_live {
            object.status = "Reserved";
        }
    }
    let grid: Vec<_> = written.iter().map(|object| body_of(object)).collect();
    house.grid(&grid).await;
    let shown = house.objects().await;
    for object in &mut written {
        let found = shown.iter().find(|shown| shown["Number"] == object.number).unwrap();
        object.id = id_of(&found["Id"]);
    }
    let live = written.iter().filter(|object| !object.is_removed);
    let live: Vec<_> = live.map(|object| body_of(object)).collect();
    if live.len() < grid.len() {
        house.grid(&live).await;
    }
    for object in written.iter().filter(|object| object.status == "Booked") {
        let deal = guid();
        let event = deal_event(deal, object.id, 1, "2026-11-22T10:00:00Z");
        own.bus().publish(BOOKED, deal, next_sequence(), &event).await;
        let is_booked = async || (house.object(&object.number).await["Status"] == "Booked").then_some(());
        eventually("the booking", is_booked).await;
    }
    if is_deleted {
        house.manager.delete(&house.path("")).await.expect(204);
    }
}

/// Returns the body of an object. Only deals set Booked.
fn body_of(object: &Object) -> Value {
    let status = if object.status == "Booked" { "Available" } else { object.status };
    json!({
        "Number": object.number, "Kind": object.kind, "Section": object.section, "Floor": object.floor,
        "PositionOnFloor": object.position, "Rooms": object.rooms, "IsStudio": object.is_studio,
        "AreaTotal": f64::from(object.area) / 100.0, "Finishing": object.finishing, "Status": status,
        "Price": {"AmountMinor": object.price, "Currency": "RUB"},
    })
}

async fn finds(path: &str, query: &str, name: &str) -> bool {
    let found = names(&service().guest(), &format!("{path}?PageSize=100&Query={}", encoded(query))).await;
    found.iter().any(|found| found == name)
}

/// RULE-CHS-049: guests find a developer by its current name in any letter case. A manager, an
/// administrator, identity or the external system may have written the name.
#[tokio::test]
async fn developer_name_of_every_writer_is_found_in_any_case() {
    let id = create_published_developer().await;
    let tag = guid().simple().to_string();
    let [user, platform, identity, sync] =
        ["Straße ЁЖ", "Οδός ЁЛЬ", "ⰀⰁ ЁРШ", "Հայ ЁМ"].map(|name| format!("{tag} {name}"));
    let expect_found = async |before: Option<&String>, after: &String, other_case: &str| {
        read_when(id, "the name", |found| found["Name"] == *after).await;
        for query in [after.clone(), format!("{} {other_case}", tag.to_uppercase())] {
            assert!(finds(DEVELOPERS, &query, after).await, "{query}");
        }
        if let Some(before) = before {
            assert_eq!(
                names(&service().guest(), &format!("{DEVELOPERS}?Query={}", encoded(before))).await,
                [""; 0]
            );
        }
    };
    manager(id).put(ME, with(profile(), "Name", user.clone())).await.expect(200);
    expect_found(None, &user, "STRASSE ёж").await;
    administrator().put(&path(id, ""), with(profile(), "Name", platform.clone())).await.expect(200);
    expect_found(Some(&user), &platform, "ΟΔΌΣ ёль").await;
    publish_company(&with(company_event(id, "Active", 2), "Name", identity.clone())).await;
    expect_found(Some(&platform), &identity, "ⰰⰱ ёрш").await;
    publish_external_profile(&with(external_profile(guid(), id, 1), "Name", sync.clone())).await;
    expect_found(Some(&identity), &sync, "ՀԱՅ ём").await;

    // A profile that an administrator restored.
    let other = create_developer().await;
    administrator().delete(&path(other, "")).await.expect(204);
    let restored = format!("{tag} Größe");
    let body = with(with(profile(), "CompanyId", json!(other)), "Name", restored.clone());
    administrator().post(ADMIN, body).await.expect(201);
    administrator().post(&path(other, "/publish"), json!({})).await.expect(200);
    assert!(finds(DEVELOPERS, &format!("{tag} GRÖSSE"), &restored).await);
    let sorted = names(&service().guest(), &format!("{DEVELOPERS}?Sort=Name&Query={tag}")).await;
    assert_eq!(sorted, [restored, sync]);
}

/// RULE-CHS-049: guests find a project by its current name and city in any letter case, and not by
/// former ones.
#[tokio::test]
async fn project_name_and_city_are_found_as_last_written() {
    let house = published_house().await;
    let tag = guid().simple().to_string();
    let found = async |query: &str, city: &str| {
        let filter =
            format!("DeveloperId={}&Query={}&City={}", house.developer, encoded(query), encoded(city));
        let guest = service().guest();
        let listed = names(&guest, &format!("{PROJECTS}?{filter}")).await;
        let facets = guest.get(&format!("{PROJECTS}/facets?{filter}")).await.expect(200);
        assert_eq!(facets["TotalCount"], listed.len(), "{filter}");
        listed
    };
    let (first, second) = (format!("{tag} Straße"), format!("{tag} ЁЛКИ"));
    let body = with(with(project(), "Name", first.clone()), "City", "Großенград");
    house.manager.put(&house.project_path(""), body.clone()).await.expect(200);
    assert_eq!(found(&format!("{tag} STRASSE"), "GROSSЕНГРАД").await, [first.as_str()]);
    assert_eq!(found(&first, "Großенград").await, [first.as_str()], "as it was written");
    assert_eq!(found(&tag, "КАЗАНЬ").await, [""; 0], "the city before");
    let changed = with(with(body, "Name", second.clone()), "City", "Ёлкино");
    house.manager.put(&house.project_path(""), changed).await.expect(200);
    assert_eq!(found(&format!("{tag} ёлки"), "ЁЛКИНО").await, [second.as_str()]);
    assert_eq!(found(&format!("{tag}\u{a0}Е\u{308}лки"), " елкино").await, [second.as_str()]);
    assert_eq!(found("STRASSE", "Ёлкино").await, [""; 0], "the name before");
    assert_eq!(found(&tag, "Großenград").await, [""; 0], "another city");
    let of_developer = format!("{PROJECTS}/facets?DeveloperId={}", house.developer);
    let facets = service().guest().get(&of_developer).await.expect(200);
    assert_eq!(facets["Cities"], json!([{"City": "Ёлкино", "ProjectsCount": 1}]));

    // A project that was created, not updated.
    let body = with(with(project(), "Name", first.clone()), "City", "ҒҰЛ");
    let created = house.manager.post(objects::PROJECTS, body).await.expect(201);
    let publish = format!("{}/{}/publish", objects::PROJECTS, text(&created["Id"]));
    house.manager.post(&publish, json!({})).await.expect(200);
    assert_eq!(found(&format!("{tag} strasse"), "ғұл").await, [first]);
}

/// Returns a price in requests and responses.
fn rub(amount: i64) -> Value {
    json!({"AmountMinor": amount, "Currency": "RUB"})
}

/// Returns the numbers of the objects that a search within the project finds, in their order.
async fn search(house: &House, query: &str) -> Vec<String> {
    let path = format!("{OBJECTS}?ProjectId={}&{query}", house.project);
    let page = service().guest().get(&path).await.expect(200);
    each(&page["Items"], "Number").into_iter().map(|number| text(number).to_owned()).collect()
}

/// Asserts prices and counts of a developer's only project, which has one building. They must agree
/// in the list, the card, the building and the facets.
///
/// `offers` has rooms, count and lowest price. `kinds` counts flats, apartments, parking, storages
/// and commercial objects. `max` is the highest price.
async fn assert_figures(house: &House, offers: &[(Value, i64, i64)], kinds: [i64; 5], max: Option<i64>) {
    let guest = service().guest();
    let of_developer = format!("DeveloperId={}", house.developer);
    let listed = guest.get(&format!("{PROJECTS}?{of_developer}")).await.expect(200)["Items"][0].clone();
    let card = guest.get(&format!("{PROJECTS}/{}", house.project)).await.expect(200);
    let min = offers.iter().map(|(_, _, price)| *price).min();
    let free: i64 = offers.iter().map(|(_, free, _)| free).sum();
    let offered = offers
        .iter()
        .map(|(rooms, free, price)| json!({"Rooms": rooms, "FreeCount": free, "PriceFrom": rub(*price)}));
    let offered: Value = offered.collect();
    let [flats, apartments, parking, storage, commercial] = kinds;
    let kinds = json!({
        "Flat": flats, "Apartment": apartments, "Parking": parking, "Storage": storage, "Commercial": commercial,
    });
    for shown in [&listed, &card] {
        assert_eq!((&shown["PriceFrom"], &shown["FreeCount"]), (&json!(min.map(rub)), &json!(free)));
        assert_eq!((&shown["Offers"], &shown["FreeByKind"]), (&offered, &kinds));
    }
    let building = format!("{PROJECTS}/{}/buildings/{}", house.project, house.building);
    let building = guest.get(&building).await.expect(200);
    for building in [&building, &card["Buildings"][0]] {
        assert_eq!((&building["PriceFrom"], &building["FreeCount"]), (&json!(min.map(rub)), &json!(free)));
    }
    let facets = guest.get(&format!("{PROJECTS}/facets?{of_developer}")).await.expect(200);
    assert_eq!((&facets["PriceMin"], &facets["PriceMax"]), (&json!(min.map(rub)), &json!(max.map(rub))));
    let rooms = offers.iter().filter(|(rooms, ..)| !rooms.is_null());
    let rooms: Value = rooms.map(|(rooms, ..)| json!({"Rooms": rooms, "ProjectsCount": 1})).collect();
    assert_eq!(facets["Rooms"], rooms);
}

/// Returns true if a filter finds the project. Asserts that list and facets agree.
async fn is_found(house: &House, filter: &str) -> bool {
    let (guest, of_developer) = (service().guest(), format!("DeveloperId={}&{filter}", house.developer));
    let listed = names(&guest, &format!("{PROJECTS}?{of_developer}")).await.len();
    let facets = guest.get(&format!("{PROJECTS}/facets?{of_developer}")).await.expect(200);
    assert_eq!(facets["TotalCount"], listed, "{filter}");
    listed == 1
}

/// Changes fields of an object by a `PUT` of the object.
async fn update_object(house: &House, number: &str, fields: Value) {
    let now = house.object(number).await;
    let mut body = unchanged_body(&now);
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    house.manager.put(&house.object_path(id_of(&now["Id"])), body).await.expect(200);
}

/// RULE-CHS-049: filters, figures, search and price history follow a grid, a `PUT` of one object, a
/// `PUT` of the building, and a deal.
#[tokio::test]
async fn prices_and_figures_follow_every_writer() {
    let house = published_house().await;
    let home = |number: &str, rooms: i64, price: i64, area: f64| {
        let home = with(with(flat(number), "Rooms", rooms), "Price", rub(price));
        with(with(with(home, "AreaTotal", area), "AreaLiving", Value::Null), "AreaKitchen", Value::Null)
    };
    let parking = with(with(home("p", 1, 50, 12.0), "Kind", "Parking"), "Rooms", Value::Null);
    let studio = with(with(home("s", 1, 300, 25.05), "Kind", "Apartment"), "IsStudio", true);
    let grid =
        [home("a", 1, 100, 40.0), home("b", 2, 200, 50.5), studio, parking.clone(), home("r", 2, 90, 50.51)];
    house.grid(&grid).await;
    let offers = [(json!(0), 1, 300), (json!(1), 1, 100), (json!(2), 2, 90)];
    assert_figures(&house, &offers, [3, 1, 1, 0, 0], Some(300)).await;
    for (query, found) in [
        ("Sort=Price", vec!["p", "r", "a", "b", "s"]),
        ("Sort=-AreaTotal", vec!["r", "b", "a", "s", "p"]),
        ("Sort=Price&PriceFrom=90&PriceTo=200", vec!["r", "a"]),
        ("Sort=AreaTotal&AreaMin=25.05&AreaMax=50.5", vec!["s", "a", "b"]),
        ("Sort=Price&Rooms=0,2", vec!["r", "b", "s"]),
        ("Kind=Parking", vec!["p"]),
        ("Status=Sold,Booked,Reserved", vec![]),
    ] {
        assert_eq!(search(&house, query).await, found, "{query}");
    }
    for (filter, expected) in [
        ("Rooms=0&PriceFrom=300&PriceTo=301", true),
        ("Rooms=2&PriceTo=91", true),
        ("Rooms=1&PriceTo=100", false),
        ("PriceTo=90", false),
        ("PriceFrom=301", false),
        ("ReadyBefore=2027-06-30", false),
        ("ReadyBefore=2027-07-01", true),
        ("ReadyBefore=2027-07-01&Rooms=1", true),
    ] {
        assert_eq!(is_found(&house, filter).await, expected, "{filter}");
    }

    // A `PUT` of one object changes price, area, rooms and status.
    update_object(&house, "a", json!({"Price": rub(400), "AreaTotal": 60.01, "Rooms": 3})).await;
    update_object(&house, "r", json!({"Status": "Reserved"})).await;
    assert_figures(
        &house,
        &[(json!(0), 1, 300), (json!(2), 1, 200), (json!(3), 1, 400)],
        [2, 1, 1, 0, 0],
        Some(400),
    )
    .await;
    assert_eq!(search(&house, "Sort=-Price&AreaMin=50.5").await, ["a", "b"]);
    assert_eq!(search(&house, "Status=Reserved").await, ["r"]);
    assert_eq!(
        (is_found(&house, "Rooms=1").await, is_found(&house, "Rooms=3&PriceFrom=400").await),
        (false, true)
    );

    // A deal books object "a", and another deal buys object "s".
    let (booked, sold) = (house.id_of("a").await, house.id_of("s").await);
    deliver_deal_event(BOOKED, guid(), booked, 1, "2026-11-22T10:00:00Z").await;
    deliver_deal_event(COMPLETED, guid(), sold, 1, "2026-11-22T10:00:00Z").await;
    assert_figures(&house, &[(json!(2), 1, 200)], [1, 0, 1, 0, 0], Some(200)).await;
    assert_eq!(search(&house, "Sort=Price&Status=Booked,Sold").await, ["s", "a"]);
    assert!(!is_found(&house, "Rooms=0").await && !is_found(&house, "PriceFrom=201").await);

    // A `PUT` of the building changes readiness and name.
    let commissioned = with(with(building(), "State", "Commissioned"), "Name", "Корпус Ё");
    house.manager.put(&house.path(""), commissioned).await.expect(200);
    assert!(is_found(&house, "ReadyBefore=2000-01-01&Rooms=2").await);
    let card = service().guest().get(&format!("{OBJECTS}/{booked}")).await.expect(200);
    assert_eq!((&card["BuildingName"], &card["AreaTotal"]), (&json!("Корпус Ё"), &json!(60.01)));

    // A grid with one object removes the others, except the held ones.
    house.grid(&[parking]).await;
    assert_figures(&house, &[], [0, 0, 1, 0, 0], None).await;
    assert_eq!(search(&house, "Status=Available,Booked,Sold,Reserved&Sort=Price").await, ["p", "s", "a"]);
    let history = service().guest().get(&format!("{OBJECTS}/{booked}/price-history")).await.expect(200);
    assert_eq!(each(&history["Items"], "Price"), [&rub(400), &rub(100)]);

    // The deletion of a building includes all its objects.
    let second = house.manager.post(&house.project_path("/buildings"), building()).await.expect(201);
    let second = House { building: id_of(&second["Id"]), ..house.clone() };
    second.grid(&[home("x", 5, 700, 80.0)]).await;
    assert!(is_found(&house, "Rooms=5&PriceFrom=700").await);
    second.manager.delete(&second.path("")).await.expect(204);
    assert!(!is_found(&house, "Rooms=5").await);
    assert_eq!(search(&house, "Rooms=5").await, [""; 0]);
    let card = service().guest().get(&format!("{PROJECTS}/{}", house.project)).await.expect(200);
    assert_eq!(list(&card["Buildings"]).len(), 1);
}
