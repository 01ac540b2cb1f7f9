//! The grid of a building in the catalog.

use serde_json::json;

use crate::cat_lists::{PROJECTS, members};
use crate::catalog_fill::{Building, Object, Project, single_building_catalog};
use crate::{each, list, service};

/// RULE-CHS-044: sections are ascending, floors descending, and objects sorted by position and
/// number. The grid has objects of every status and no empty section or floor.
#[tokio::test]
async fn grid_sorts_sections_floors_and_objects() {
    let mut catalog = single_building_catalog();
    let building =
        Building { ready_year: Some(2027), ready_quarter: Some(2), ..catalog.buildings[0].clone() };
    let object = |number: &str, section, floor, position| Object {
        section,
        floor,
        position,
        ..Object::new(&building, number)
    };
    catalog.objects = vec![
        object("10", 2, 1, 1),
        object("9", 2, 1, 1),
        object("1", 2, 1, 2),
        Object { status: "Sold", ..object("a", 1, -1, 1) },
        Object { status: "Booked", ..object("b", 1, 12, 1) },
        Object { status: "Reserved", ..object("c", 1, 3, 1) },
        Object { status: "Unavailable", ..object("d", 5, 3, 1) },
        Object { is_removed: true, ..object("e", 4, 3, 1) },
    ];
    catalog.buildings = vec![building];
    catalog.fill(service()).await;
    let path = format!("{PROJECTS}/{}/buildings/{}", catalog.projects[0].id, catalog.buildings[0].id);
    let shown = service().guest().get(&path).await.expect(200);
    assert_eq!(
        members(&shown),
        [
            "FloorsTotal",
            "FreeCount",
            "Grid",
            "Id",
            "Name",
            "PriceFrom",
            "ReadyQuarter",
            "ReadyYear",
            "SectionsCount",
            "State"
        ]
    );
    assert_eq!((&shown["FreeCount"], &shown["PriceFrom"]["AmountMinor"]), (&json!(3), &json!(100_000_000)));
    assert_eq!((&shown["ReadyYear"], &shown["ReadyQuarter"]), (&json!(2027), &json!(2)));
    let numbers: Vec<_> = list(&shown["Grid"])
        .iter()
        .map(|section| {
            let floors = list(&section["Floors"]).iter();
            let floors: Vec<_> =
                floors.map(|floor| json!([floor["Floor"], each(&floor["Objects"], "Number")])).collect();
            json!([section["Section"], floors])
        })
        .collect();
    assert_eq!(
        json!(numbers),
        json!([[1, [[12, ["b"]], [3, ["c"]], [-1, ["a"]]]], [2, [[1, ["10", "9", "1"]]]], [5, [[3, ["d"]]]]])
    );
    let flat = &shown["Grid"][0]["Floors"][0]["Objects"][0];
    assert_eq!(
        *flat,
        json!({
            "Id": catalog.objects[4].id, "Number": "b", "Kind": "Flat", "Section": 1, "Floor": 12, "PositionOnFloor": 1,
            "Rooms": 1, "IsStudio": false, "AreaTotal": 45.5, "AreaLiving": null, "AreaKitchen": null,
            "Finishing": "None", "Price": {"AmountMinor": 100_000_000, "Currency": "RUB"}, "LayoutFileId": null,
            "Status": "Booked",
        })
    );
}

/// RULE-CHS-044: a building is found under its own project only, and otherwise returns 404 with its
/// own code.
#[tokio::test]
async fn building_is_found_under_its_own_project_only() {
    let mut catalog = single_building_catalog();
    let other = Project::new(&catalog.developers[0], "Другой");
    let deleted = Building { is_deleted: true, ..Building::new(&catalog.projects[0], "Снесён") };
    catalog.projects.push(other);
    catalog.buildings.push(deleted);
    catalog.fill(service()).await;
    let [own, other] = [0, 1].map(|at| catalog.projects[at].id);
    let [building, deleted] = [0, 1].map(|at| catalog.buildings[at].id);
    let guest = service().guest();
    let empty = guest.get(&format!("{PROJECTS}/{own}/buildings/{building}")).await.expect(200);
    assert_eq!(
        (&empty["Grid"], &empty["PriceFrom"], &empty["FreeCount"]),
        (&json!([]), &json!(null), &json!(0))
    );
    for (project, building) in [
        (other, building),
        (testkit::guid(), building),
        (own, deleted),
        (own, testkit::guid()),
        (own, uuid::Uuid::nil()),
    ] {
        let response = guest.get(&format!("{PROJECTS}/{project}/buildings/{building}")).await;
        response.expect_problem(404, "CHESSBOARD_BUILDING_NOT_FOUND");
    }
    for path in [format!("{own}/buildings/x"), format!("x/buildings/{building}")] {
        guest.get(&format!("{PROJECTS}/{path}")).await.expect_problem(404, "NOT_FOUND");
    }
}

/// RULE-CHS-044: a grid of 5,000 objects is returned whole.
#[tokio::test]
async fn grid_of_5000_objects_is_returned_whole() {
    let mut catalog = single_building_catalog();
    let building = catalog.buildings[0].clone();
    catalog.objects = (0..5_000_i16)
        .map(|n| Object {
            section: n / 1_000 + 1,
            floor: n % 100,
            position: n / 100 % 10 + 1,
            ..Object::new(&building, &n.to_string())
        })
        .collect();
    catalog.fill(service()).await;
    let path = format!("{PROJECTS}/{}/buildings/{}", catalog.projects[0].id, building.id);
    let shown = service().guest().get(&path).await.expect(200);
    let objects = list(&shown["Grid"]).iter().flat_map(|section| list(&section["Floors"]));
    let objects: usize = objects.map(|floor| list(&floor["Objects"]).len()).sum();
    assert_eq!((objects, &shown["FreeCount"]), (5_000, &json!(5_000)));
}
