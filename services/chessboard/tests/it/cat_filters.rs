//! Filters of the project search.

use crate::cat_lists::{PROJECTS, encoded, names};
use crate::catalog_fill::{Building, Catalog, Object, Project, single_building_catalog};
use crate::service;

/// Returns the sorted names of the matching projects of the catalog's first developer.
async fn found(catalog: &Catalog, filter: &str) -> Vec<String> {
    let developer = catalog.developers[0].id;
    names(&service().guest(), &format!("{PROJECTS}?DeveloperId={developer}&Sort=Name&{filter}")).await
}

async fn expect_rejection(filter: &str, field: &str, code: &str) {
    for path in [PROJECTS.to_owned(), format!("{PROJECTS}/facets")] {
        let response = service().guest().get(&format!("{path}?{filter}")).await;
        response.expect_refusal("VALIDATION_FAILED", field, code);
    }
}

/// RULE-CHS-051: `City` compares the folded forms of whole names, `Class` takes several values, and
/// `DeveloperId` takes one.
#[tokio::test]
async fn projects_are_filtered_by_city_class_and_developer() {
    let mut catalog = single_building_catalog();
    let developer = catalog.developers[0].clone();
    let project = |name: &str, city: &str, class| Project {
        city: city.to_owned(),
        class,
        ..Project::new(&developer, name)
    };
    catalog.projects = vec![
        project("a", "Казань", "Economy"),
        project("b", "КАЗАНЬ", "Elite"),
        project("c", "Казань-2", "Elite"),
        project("d", "Straße", "Business"),
    ];
    catalog.buildings.clear();
    catalog.fill(service()).await;
    for (filter, names) in [
        (format!("City={}", encoded("казань")), vec!["a", "b"]),
        (format!("City={}", encoded("STRASSE")), vec!["d"]),
        (format!("City={}", encoded(" Казань\u{a0}")), vec!["a", "b"]),
        (format!("City={}", encoded("казань\u{2011}2")), vec!["c"]),
        (format!("City={}", encoded("каз")), vec![]),
        (format!("City={}", encoded("%")), vec![]),
        ("Class=Elite".to_owned(), vec!["b", "c"]),
        ("Class=Elite,Business".to_owned(), vec!["b", "c", "d"]),
        (format!("Class=Elite&City={}", encoded("Казань")), vec!["b"]),
        (String::new(), vec!["a", "b", "c", "d"]),
    ] {
        assert_eq!(found(&catalog, &filter).await, names, "{filter}");
    }
    let elsewhere = format!("{PROJECTS}?DeveloperId={}", testkit::guid());
    assert_eq!(names(&service().guest(), &elsewhere).await, [""; 0]);
    for class in ["", "elite", "Elite,", ",", "Elite;Business"] {
        expect_rejection(&format!("Class={class}"), "/Class", "unknown_value").await;
    }
    expect_rejection("DeveloperId=1", "/DeveloperId", "invalid_type").await;
    expect_rejection(&format!("City={}", "x".repeat(129)), "/City", "too_long").await;
}

/// RULE-CHS-051: `Rooms`, `PriceFrom` (inclusive) and `PriceTo` (exclusive) must match one
/// Available flat or apartment.
#[tokio::test]
async fn rooms_and_prices_must_match_one_home() {
    let mut catalog = single_building_catalog();
    catalog.projects.clear();
    catalog.buildings.clear();
    // Rooms and price of each home. `Some(0)` is a studio, and `None` is a home without rooms.
    for (name, homes) in [
        ("a", vec![(Some(1), 100), (Some(2), 200)]),
        ("b", vec![(Some(2), 100)]),
        ("c", vec![(Some(0), 150)]),
        ("d", vec![(None, 200)]),
    ] {
        let project = Project::new(&catalog.developers[0], name);
        let building = Building::new(&project, "1");
        let home = |(number, (rooms, price)): (usize, (Option<i16>, i64))| Object {
            is_studio: rooms == Some(0),
            rooms: rooms.filter(|rooms| *rooms > 0),
            kind: if number % 2 == 0 { "Flat" } else { "Apartment" },
            ..Object::new(&building, &number.to_string()).at(price)
        };
        catalog.objects.extend(homes.into_iter().enumerate().map(home));
        // None of these objects is a home.
        for (number, (kind, status, is_removed)) in [
            ("Parking", "Available", false),
            ("Flat", "Reserved", false),
            ("Flat", "Sold", false),
            ("Flat", "Booked", false),
            ("Flat", "Available", true),
        ]
        .into_iter()
        .enumerate()
        {
            let number = format!("x{number}");
            catalog.objects.push(Object {
                kind,
                status,
                is_removed,
                rooms: Some(9),
                ..Object::new(&building, &number).at(900)
            });
        }
        catalog.projects.push(project);
        catalog.buildings.push(building);
    }
    catalog.fill(service()).await;
    for (filter, names) in [
        ("Rooms=1", vec!["a"]),
        ("Rooms=2", vec!["a", "b"]),
        ("Rooms=0", vec!["c"]),
        ("Rooms=0,1", vec!["a", "c"]),
        ("Rooms=9", vec![]),
        ("Rooms=20", vec![]),
        ("PriceFrom=200", vec!["a", "d"]),
        ("PriceFrom=201", vec![]),
        ("PriceTo=100", vec![]),
        ("PriceTo=101", vec!["a", "b"]),
        ("PriceFrom=100&PriceTo=101", vec!["a", "b"]),
        ("PriceFrom=150&PriceTo=200", vec!["c"]),
        ("Rooms=2&PriceTo=150", vec!["b"]),
        ("Rooms=1&PriceFrom=150", vec![]),
        ("PriceFrom=900", vec![]),
        ("PriceFrom=0&PriceTo=9223372036854775807", vec!["a", "b", "c", "d"]),
    ] {
        assert_eq!(found(&catalog, filter).await, names, "{filter}");
    }
    for rooms in ["", "21", "-1", "1,", "x", "1.5", "null"] {
        expect_rejection(&format!("Rooms={rooms}"), "/Rooms", "unknown_value").await;
    }
    expect_rejection("PriceFrom=100&PriceTo=100", "/PriceTo", "empty_range").await;
    expect_rejection("PriceFrom=100&PriceTo=99", "/PriceTo", "empty_range").await;
    expect_rejection("PriceFrom=1.5", "/PriceFrom", "invalid_type").await;
    expect_rejection("PriceTo=x", "/PriceTo", "invalid_type").await;
    expect_rejection("PriceTo=", "/PriceTo", "invalid_type").await;
}

/// RULE-CHS-051: a building is ready on the last day of its quarter or year. A Commissioned
/// building is always ready, and another building without a year never. With rooms or prices the
/// building of the home must be ready, otherwise any building of the project.
#[tokio::test]
async fn building_is_ready_on_last_day_of_quarter_or_year() {
    let mut catalog = single_building_catalog();
    catalog.projects.clear();
    catalog.buildings.clear();
    for (name, state, year, quarter, is_home_here) in [
        ("a", "Commissioned", None, None, false),
        ("b", "Commissioned", Some(2099), Some(4), true),
        ("c", "Planned", None, None, true),
        ("d", "UnderConstruction", Some(2027), Some(1), true),
        ("e", "UnderConstruction", Some(2027), None, false),
    ] {
        let project = Project::new(&catalog.developers[0], name);
        let building =
            Building { state, ready_year: year, ready_quarter: quarter, ..Building::new(&project, "1") };
        // This building has no year, so a home in it is never ready.
        let never_ready = Building::new(&project, "2");
        let of_home = if is_home_here { &building } else { &never_ready };
        catalog.objects.push(Object::new(of_home, "1").at(100));
        catalog.projects.push(project);
        catalog.buildings.extend([building, never_ready]);
    }
    let project = Project::new(&catalog.developers[0], "f");
    catalog.buildings.push(Building {
        state: "Commissioned",
        is_deleted: true,
        ..Building::new(&project, "1")
    });
    catalog.projects.push(project);
    catalog.fill(service()).await;
    for (filter, names) in [
        ("ReadyBefore=2027-03-31", vec!["a", "b"]),
        ("ReadyBefore=2027-04-01", vec!["a", "b", "d"]),
        ("ReadyBefore=2027-12-31", vec!["a", "b", "d"]),
        ("ReadyBefore=2028-01-01", vec!["a", "b", "d", "e"]),
        ("ReadyBefore=0001-01-01", vec!["a", "b"]),
        ("ReadyBefore=9999-12-31", vec!["a", "b", "d", "e"]),
        ("ReadyBefore=2028-01-01&Rooms=1", vec!["b", "d"]),
        ("ReadyBefore=2028-01-01&PriceTo=101", vec!["b", "d"]),
        ("ReadyBefore=2027-01-01&PriceFrom=100", vec!["b"]),
    ] {
        assert_eq!(found(&catalog, filter).await, names, "{filter}");
    }
    for date in ["2027", "2027-02-29", "2027-1-1", "2027-04-01T00:00:00Z", "01.04.2027", "", "-2027-04-01"] {
        expect_rejection(&format!("ReadyBefore={date}"), "/ReadyBefore", "invalid_type").await;
    }
}

/// RULE-CHS-051: `Box` includes its edges. A value out of range or out of order returns 400.
#[tokio::test]
async fn box_includes_its_edges() {
    let mut catalog = single_building_catalog();
    let developer = catalog.developers[0].clone();
    let project = |name: &str, place| Project { place, ..Project::new(&developer, name) };
    catalog.projects = vec![
        project("a", Some((55.0, 37.0))),
        project("b", Some((56.0, 38.0))),
        project("c", Some((55.5, 39.0))),
        project("d", None),
        project("e", Some((-90.0, 180.0))),
    ];
    catalog.buildings.clear();
    catalog.fill(service()).await;
    for (sides, names) in [
        ("55,37,56,38", vec!["a", "b"]),
        ("55,37,55,37", vec!["a"]),
        ("55.0001,37,56,39", vec!["b", "c"]),
        ("-90,-180,90,180", vec!["a", "b", "c", "e"]),
        ("0,0,1,1", vec![]),
    ] {
        assert_eq!(found(&catalog, &format!("Box={sides}")).await, names, "{sides}");
    }
    for (sides, code) in [
        ("56,37,55,38", "empty_range"),
        ("55,38,56,37", "empty_range"),
        ("-91,0,0,0", "out_of_bounds"),
        ("0,0,90.1,0", "out_of_bounds"),
        ("0,-181,0,0", "out_of_bounds"),
        ("0,0,0,181", "out_of_bounds"),
        ("NaN,0,0,0", "out_of_bounds"),
        ("1,2,3", "invalid_type"),
        ("1,2,3,4,5", "invalid_type"),
        ("a,b,c,d", "invalid_type"),
        ("", "invalid_type"),
    ] {
        expect_rejection(&format!("Box={sides}"), "/Box", code).await;
    }
}

/// RULE-CHS-051: a 400 lists every invalid filter and no value.
#[tokio::test]
async fn every_invalid_filter_is_reported() {
    let query = "DeveloperId=sekret&Class=sekret&Rooms=sekret&PriceFrom=sekret&PriceTo=-5&ReadyBefore=sekret&Box=sekret&Sort=sekret";
    let response = service().guest().get(&format!("{PROJECTS}?{query}")).await;
    assert!(!response.text.contains("sekret"), "{}", response.text);
    let problem = response.expect_problem(400, "VALIDATION_FAILED");
    let mut fields: Vec<_> = crate::each(&problem["errors"], "field").into_iter().map(crate::text).collect();
    fields.sort_unstable();
    let all = ["/Box", "/Class", "/DeveloperId", "/PriceFrom", "/PriceTo", "/ReadyBefore", "/Rooms", "/Sort"];
    assert_eq!(fields, all);
}
