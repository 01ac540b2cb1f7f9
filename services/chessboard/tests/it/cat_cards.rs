//! The cards of developers, projects and objects.

use serde_json::json;

use crate::cat_lists::{DEVELOPERS, OBJECTS, PROJECTS};
use crate::catalog_fill::{Building, Object, single_building_catalog};
use crate::{each, service};

/// RULE-CHS-040: the card of a developer has the public fields of the profile.
#[tokio::test]
async fn developer_card_shows_public_profile() {
    let catalog = single_building_catalog();
    catalog.fill(service()).await;
    let developer = &catalog.developers[0];
    let card = service().guest().get(&format!("{DEVELOPERS}/{}", developer.id)).await.expect(200);
    assert_eq!(
        card,
        json!({
            "Id": developer.id, "Name": "Северный Двор", "LegalName": "Северный Двор LLC", "Description": "About",
            "LogoFileId": null, "Website": "https://example.org/", "ContactPhone": "+78432000000",
            "ContactEmail": "office@example.org", "FoundedYear": null,
            "Highlights": {
                "ContractVersion": 1, "ObjectsDeliveredCount": null, "ObjectsInProgressCount": null,
                "YearsOnMarket": null, "ReliabilityValue": null, "ReliabilityMax": 10, "AwardTitles": [],
            },
            "ProjectsPublishedCount": 0,
        })
    );
}

/// RULE-CHS-043: the card of a project is its list item with the description and the buildings by
/// name.
#[tokio::test]
async fn project_card_shows_item_description_and_buildings() {
    let mut catalog = single_building_catalog();
    let project = catalog.projects[0].clone();
    catalog.buildings = ["б", "B", "а", "A"].map(|name| Building::new(&project, name)).to_vec();
    catalog.objects = vec![
        Object::new(&catalog.buildings[1], "1").at(500),
        Object { kind: "Apartment", ..Object::new(&catalog.buildings[1], "2").at(400) },
        Object { kind: "Parking", rooms: None, ..Object::new(&catalog.buildings[1], "3").at(1) },
    ];
    catalog.fill(service()).await;
    let guest = service().guest();
    let card = guest.get(&format!("{PROJECTS}/{}", project.id)).await.expect(200);
    let item = guest.get(&format!("{PROJECTS}?DeveloperId={}", project.developer)).await.expect(200)["Items"]
        [0]
    .clone();
    let mut expected = item.as_object().unwrap().clone();
    expected.insert("Description".to_owned(), json!("Pines"));
    expected.insert("Buildings".to_owned(), card["Buildings"].clone());
    assert_eq!(card.as_object().unwrap(), &expected);
    assert_eq!(each(&card["Buildings"], "Name"), ["A", "B", "а", "б"]);
    assert_eq!(
        card["Buildings"][1],
        json!({
            "Id": catalog.buildings[1].id, "Name": "B", "SectionsCount": 100, "FloorsTotal": 200,
            "State": "UnderConstruction", "ReadyYear": null, "ReadyQuarter": null,
            "PriceFrom": {"AmountMinor": 400, "Currency": "RUB"}, "FreeCount": 2,
        })
    );
    let empty = &card["Buildings"][0];
    assert_eq!((&empty["PriceFrom"], &empty["FreeCount"]), (&json!(null), &json!(0)));
}

/// RULE-CHS-046: the card of an object equals the search item, in every status.
#[tokio::test]
async fn object_card_equals_search_item_in_every_status() {
    let mut catalog = single_building_catalog();
    let building = catalog.buildings[0].clone();
    catalog.objects = ["Available", "Reserved", "Booked", "Sold", "Unavailable"]
        .map(|status| Object { status, area: 4_500, ..Object::new(&building, status) })
        .to_vec();
    catalog.fill(service()).await;
    let guest = service().guest();
    for object in &catalog.objects {
        let card = guest.get(&format!("{OBJECTS}/{}", object.id)).await.expect(200);
        let query = format!("{OBJECTS}?ProjectId={}&Status={}", building.project, object.status);
        assert_eq!(guest.get(&query).await.expect(200)["Items"], json!([card]));
        let updated_at = &card["UpdatedAt"];
        assert!(updated_at.is_string(), "{card}");
        assert_eq!(
            card,
            json!({
                "Id": object.id, "DeveloperId": catalog.developers[0].id, "ProjectId": building.project,
                "ProjectName": "Сосны", "BuildingId": building.id, "BuildingName": "Корпус 1", "Number": object.status,
                "Kind": "Flat", "Section": 1, "Floor": 1, "PositionOnFloor": 1, "Rooms": 1, "IsStudio": false,
                "AreaTotal": 45, "AreaLiving": null, "AreaKitchen": null, "Finishing": "None",
                "Price": {"AmountMinor": 100_000_000, "Currency": "RUB"}, "LayoutFileId": null,
                "Status": object.status, "UpdatedAt": updated_at,
            })
        );
    }
}

/// RULE-CHS-052: an unknown resource returns 404 with its own code, and a malformed id `NOT_FOUND`.
#[tokio::test]
async fn unknown_resource_returns_its_own_404_code() {
    let guest = service().guest();
    for (path, code) in [
        (DEVELOPERS.to_owned(), "CHESSBOARD_DEVELOPER_NOT_FOUND"),
        (PROJECTS.to_owned(), "CHESSBOARD_PROJECT_NOT_FOUND"),
        (OBJECTS.to_owned(), "CHESSBOARD_PROPERTY_OBJECT_NOT_FOUND"),
    ] {
        for id in [testkit::guid(), uuid::Uuid::nil()] {
            guest.get(&format!("{path}/{id}")).await.expect_problem(404, code);
        }
        for no_id in ["x", "%00", "0198f000-0000-7000-8000-00000000000", "1"] {
            guest.get(&format!("{path}/{no_id}")).await.expect_problem(404, "NOT_FOUND");
        }
    }
    let history = guest.get(&format!("{OBJECTS}/{}/price-history", testkit::guid())).await;
    history.expect_problem(404, "CHESSBOARD_PROPERTY_OBJECT_NOT_FOUND");
    guest.get(&format!("{OBJECTS}/x/price-history")).await.expect_problem(404, "NOT_FOUND");
}
