//! The object search within one project or developer, and its cursors.

use std::collections::BTreeSet;

use serde_json::json;
use testkit::client::Client;
use uuid::Uuid;

use crate::cat_lists::OBJECTS;
use crate::catalog_fill::{
    Building, Catalog, Object, Project, execute_sql, single_building_catalog, single_object_catalog,
};
use crate::{each, list, service, text};

async fn numbers(guest: &Client, query: &str) -> Vec<String> {
    let page = guest.get(&format!("{OBJECTS}?{query}")).await.expect(200);
    assert_eq!(page["NextCursor"], json!(null), "{query}");
    let mut numbers: Vec<_> =
        each(&page["Items"], "Number").into_iter().map(|number| text(number).to_owned()).collect();
    numbers.sort();
    numbers
}

/// RULE-CHS-045: each filter works alone and with others, and `Status` defaults to Available. All
/// bounds are inclusive except `PriceTo`.
#[tokio::test]
async fn object_search_applies_every_filter() {
    let mut catalog = single_building_catalog();
    let second = Building::new(&catalog.projects[0], "Корпус 2");
    let object = |number: &str| Object::new(&catalog.buildings[0], number);
    let objects = vec![
        Object { area: 4_000, floor: 1, ..object("a").at(100) },
        Object {
            rooms: Some(2),
            area: 5_050,
            floor: 5,
            finishing: "Finished",
            kind: "Apartment",
            ..object("b").at(200)
        },
        Object { rooms: Some(2), is_studio: true, area: 6_000, floor: 9, ..object("c").at(300) },
        Object { status: "Sold", ..object("d").at(400) },
        Object { status: "Reserved", kind: "Parking", rooms: None, ..object("e").at(500) },
        Object { floor: -1, ..Object::new(&second, "f").at(600) },
        Object { is_removed: true, ..object("g") },
    ];
    catalog.objects = objects;
    catalog.buildings.push(second);
    catalog.fill(service()).await;
    let (project, developer) = (catalog.projects[0].id, catalog.developers[0].id);
    let guest = service().guest();
    for (filter, found) in [
        ("", vec!["a", "b", "c", "f"]),
        ("Status=Sold", vec!["d"]),
        ("Status=Sold,Reserved,Available", vec!["a", "b", "c", "d", "e", "f"]),
        ("Kind=Apartment", vec!["b"]),
        ("Kind=Flat,Parking", vec!["a", "c", "f"]),
        ("Rooms=0", vec!["c"]),
        ("Rooms=1,2", vec!["a", "b", "f"]),
        ("Finishing=Finished,Furnished", vec!["b"]),
        ("PriceFrom=200&PriceTo=300", vec!["b"]),
        ("PriceFrom=300", vec!["c", "f"]),
        ("AreaMin=50.5&AreaMax=60", vec!["b", "c"]),
        ("AreaMax=40.00", vec!["a"]),
        ("AreaMin=50.51&AreaMax=50.51", vec![]),
        ("FloorMin=5&FloorMax=9", vec!["b", "c"]),
        ("FloorMax=-1", vec!["f"]),
        ("Kind=Flat&Rooms=0&Finishing=None&PriceFrom=300&AreaMin=60&FloorMin=9", vec!["c"]),
    ] {
        for within in [
            format!("ProjectId={project}"),
            format!("DeveloperId={developer}"),
            format!("ProjectId={project}&DeveloperId={developer}"),
        ] {
            let found_there = numbers(&guest, &format!("{within}&{filter}")).await;
            assert_eq!(found_there, found, "{within}&{filter}");
        }
    }
    let second = catalog.buildings[1].id;
    assert_eq!(numbers(&guest, &format!("ProjectId={project}&BuildingId={second}")).await, ["f"]);
    for none in [
        format!("ProjectId={}", testkit::guid()),
        format!("ProjectId={project}&DeveloperId={}", testkit::guid()),
        format!("DeveloperId={developer}&BuildingId={}", testkit::guid()),
    ] {
        assert_eq!(numbers(&guest, &none).await, [""; 0], "{none}");
    }
}

/// RULE-CHS-045, RULE-ALL-019: a search without a project or developer, or with an invalid
/// parameter, returns 400.
#[tokio::test]
async fn invalid_object_search_returns_400() {
    let guest = service().guest();
    let project = testkit::guid();
    for query in ["", "BuildingId=0198f000-0000-7000-8000-000000000001", "Status=Sold"] {
        guest.get(&format!("{OBJECTS}?{query}")).await.expect_refusal(
            "VALIDATION_FAILED",
            "/ProjectId",
            "required",
        );
    }
    for (query, field, code) in [
        ("Kind=flat", "/Kind", "unknown_value"),
        ("Status=", "/Status", "unknown_value"),
        ("Rooms=21", "/Rooms", "unknown_value"),
        ("Finishing=None,", "/Finishing", "unknown_value"),
        ("PriceFrom=2&PriceTo=2", "/PriceTo", "empty_range"),
        ("AreaMin=2&AreaMax=1.99", "/AreaMax", "empty_range"),
        ("AreaMin=1.001", "/AreaMin", "too_precise"),
        ("AreaMin=x", "/AreaMin", "invalid_type"),
        ("FloorMin=3&FloorMax=2", "/FloorMax", "empty_range"),
        ("FloorMin=1.5", "/FloorMin", "invalid_type"),
        ("PageSize=501", "/PageSize", "out_of_range"),
        ("PageSize=0", "/PageSize", "out_of_range"),
        ("Sort=Number", "/Sort", "unknown_value"),
        ("Cursor=x", "/Cursor", "unknown_value"),
        ("Cursor=", "/Cursor", "unknown_value"),
        // This is `null` in Base64.
        ("Cursor=bnVsbA", "/Cursor", "unknown_value"),
        ("BuildingId=x", "/BuildingId", "invalid_type"),
    ] {
        let refused = guest.get(&format!("{OBJECTS}?ProjectId={project}&{query}")).await;
        refused.expect_refusal("VALIDATION_FAILED", field, code);
    }
    for query in ["AreaMin=2&AreaMax=2", "FloorMin=2&FloorMax=2", "PageSize=500", "AreaMin=0"] {
        guest.get(&format!("{OBJECTS}?ProjectId={project}&{query}")).await.expect(200);
    }
}

/// RULE-CHS-060: `Ids` finds up to 200 visible objects of any developer and status in one request.
/// Other filters narrow it.
#[tokio::test]
async fn objects_are_found_by_their_ids() {
    let catalogs = [(); 2].map(|()| single_building_catalog());
    let mut catalogs = Vec::from(catalogs);
    let building = catalogs[0].buildings[0].clone();
    catalogs[0].objects = vec![
        Object::new(&building, "a"),
        Object { status: "Sold", ..Object::new(&building, "b") },
        Object { is_removed: true, ..Object::new(&building, "c") },
        Object::new(&building, "not requested"),
    ];
    catalogs[1].objects = vec![Object::new(&catalogs[1].buildings[0], "d")];
    let mut hidden = single_building_catalog();
    hidden.objects = vec![Object::new(&hidden.buildings[0], "e")];
    hidden.projects[0].status = "Hidden";
    for catalog in catalogs.iter().chain([&hidden]) {
        catalog.fill(service()).await;
    }
    let requested = catalogs[0].objects[..3].iter().chain(&catalogs[1].objects).chain(&hidden.objects);
    let mut ids: Vec<String> = requested.map(|object| object.id.to_string()).collect();
    ids.resize_with(200, || testkit::guid().to_string());
    // A repeated id counts towards the limit.
    ids[199] = ids[0].clone();
    let all = ids.join(",");
    let guest = service().guest();
    assert_eq!(numbers(&guest, &format!("Ids={all}")).await, ["a", "b", "d"]);
    assert_eq!(numbers(&guest, &format!("Ids={}&PageSize=200", all.replace(',', "%2C"))).await.len(), 3);
    assert_eq!(numbers(&guest, &format!("Ids={all}&Status=Sold")).await, ["b"]);
    let project = catalogs[1].projects[0].id;
    assert_eq!(numbers(&guest, &format!("Ids={all}&ProjectId={project}")).await, ["d"]);

    let refused = guest.get(&format!("{OBJECTS}?Ids={all},{}", ids[0])).await;
    refused.expect_refusal("VALIDATION_FAILED", "/Ids", "too_many");
    for invalid in ["", "x", &format!("{},", ids[0])] {
        let refused = guest.get(&format!("{OBJECTS}?Ids={invalid}")).await;
        refused.expect_refusal("VALIDATION_FAILED", "/Ids", "unknown_value");
    }
}

fn catalog_with_ties() -> Catalog {
    let mut catalog = single_building_catalog();
    let building = catalog.buildings[0].clone();
    catalog.objects = (0..23_i32)
        .map(|n| Object {
            area: 1_000 + n % 4,
            ..Object::new(&building, &n.to_string()).at(i64::from(100 + n % 3))
        })
        .collect();
    catalog
}

/// Follows the cursors and returns the ids in the order of the pages. After each page the function
/// calls `after_page` with its number.
async fn walk(guest: &Client, query: &str, mut after_page: impl AsyncFnMut(usize)) -> Vec<Uuid> {
    let (mut ids, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = guest.get(&format!("{OBJECTS}?{query}{cursor}")).await.expect(200);
        ids.extend(each(&page["Items"], "Id").into_iter().map(|id| text(id).parse::<Uuid>().unwrap()));
        pages += 1;
        after_page(pages).await;
        let Some(next) = page["NextCursor"].as_str() else { return ids };
        cursor = format!("&Cursor={next}");
    }
}

/// RULE-CHS-045: a walk returns each object once, in the order of `Id`, `Price` or `AreaTotal`, in
/// both directions, with ties by id.
#[tokio::test]
async fn walk_returns_each_object_once_in_order() {
    let catalog = catalog_with_ties();
    catalog.fill(service()).await;
    let (project, developer) = (catalog.projects[0].id, catalog.developers[0].id);
    for sort in ["", "Id", "-Id", "Price", "-Price", "AreaTotal", "-AreaTotal"] {
        let mut sorted = catalog.objects.clone();
        sorted.sort_by_key(|object| {
            let value = match sort.trim_start_matches('-') {
                "Price" => object.price,
                "AreaTotal" => object.area.into(),
                _ => 0,
            };
            (value, object.id)
        });
        if sort.starts_with('-') {
            sorted.reverse();
        }
        let sorted: Vec<_> = sorted.into_iter().map(|object| object.id).collect();
        let query = if sort.is_empty() { String::new() } else { format!("&Sort={sort}") };
        for (within, size) in [
            (format!("ProjectId={project}"), 5),
            (format!("DeveloperId={developer}"), 1),
            (format!("ProjectId={project}"), 23),
        ] {
            let ids =
                walk(&service().guest(), &format!("{within}&PageSize={size}{query}"), async |_| {}).await;
            assert_eq!(ids, sorted, "{within} {size} {sort}");
        }
    }
    let page = service().guest().get(&format!("{OBJECTS}?ProjectId={project}")).await.expect(200);
    assert_eq!(list(&page["Items"]).len(), 23, "one page of the default size, 50");
}

/// RULE-CHS-045: a walk returns each object that does not change exactly once, regardless of
/// changes of other objects.
#[tokio::test]
async fn walk_returns_unchanged_objects_once_despite_changes() {
    let catalog = catalog_with_ties();
    catalog.fill(service()).await;
    let project = catalog.projects[0].id;
    let changing: BTreeSet<_> = catalog.objects.iter().step_by(3).map(|object| object.id).collect();
    let ids = changing.iter().map(|id| format!("'{id}'")).collect::<Vec<_>>().join(",");
    for sort in ["Id", "-Price", "AreaTotal"] {
        let walked =
            walk(&service().guest(), &format!("ProjectId={project}&PageSize=4&Sort={sort}"), async |page| {
                let what = match page % 3 {
                    0 => "price = price + 1, area_total = area_total + 1",
                    1 => "removed_at = now()",
                    _ => "removed_at = null, price = price - 1",
                };
                execute_sql(service(), &format!("update property_object set {what} where id in ({ids})"))
                    .await;
            })
            .await;
        let mut found: Vec<_> = walked.into_iter().filter(|id| !changing.contains(id)).collect();
        found.sort_unstable();
        let mut unchanged: Vec<_> =
            catalog.objects.iter().map(|object| object.id).filter(|id| !changing.contains(id)).collect();
        unchanged.sort_unstable();
        assert_eq!(found, unchanged, "{sort}");
    }
}

/// RULE-CHS-045: a cursor of another sort and an invalid cursor return 400.
#[tokio::test]
async fn cursor_of_other_sort_is_rejected() {
    let catalog = catalog_with_ties();
    catalog.fill(service()).await;
    let within = format!("{OBJECTS}?ProjectId={}&PageSize=5", catalog.projects[0].id);
    let guest = service().guest();
    let sorts = ["Id", "-Id", "Price", "-Price", "AreaTotal", "-AreaTotal"];
    for issued in sorts {
        let page = guest.get(&format!("{within}&Sort={issued}")).await.expect(200);
        let cursor = text(&page["NextCursor"]).to_owned();
        for requested in sorts {
            let response = guest.get(&format!("{within}&Sort={requested}&Cursor={cursor}")).await;
            if requested == issued {
                response.expect(200);
            } else {
                response.expect_refusal("VALIDATION_FAILED", "/Cursor", "unknown_value");
            }
        }
        let broken = guest.get(&format!("{within}&Sort={issued}&Cursor={}", &cursor[1..])).await;
        broken.expect_refusal("VALIDATION_FAILED", "/Cursor", "unknown_value");
    }
}

/// RULE-CHS-045: one walk covers all projects of a developer and no object of another developer.
#[tokio::test]
async fn walk_of_developer_spans_projects() {
    let mut catalog = single_building_catalog();
    let project = Project::new(&catalog.developers[0], "Второй");
    let building = Building::new(&project, "1");
    catalog.objects = vec![Object::new(&catalog.buildings[0], "1"), Object::new(&building, "1")];
    catalog.projects.push(project);
    catalog.buildings.push(building);
    catalog.fill(service()).await;
    single_object_catalog().fill(service()).await;
    let ids = walk(
        &service().guest(),
        &format!("DeveloperId={}&PageSize=1", catalog.developers[0].id),
        async |_| {},
    )
    .await;
    let mut all: Vec<_> = catalog.objects.iter().map(|object| object.id).collect();
    all.sort_unstable();
    assert_eq!(ids, all);
}
