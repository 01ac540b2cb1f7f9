//! Facets of the project search.

use serde_json::{Value, json};

use crate::cat_lists::{PROJECTS, encoded};
use crate::catalog_fill::{Building, Catalog, Object, Project, single_building_catalog};
use crate::{list, service, text};

async fn facets(catalog: &Catalog, filter: &str) -> Value {
    let developer = catalog.developers[0].id;
    let path = format!("{PROJECTS}/facets?DeveloperId={developer}&{filter}");
    service().guest().get(&path).await.expect(200)
}

/// Formats a list of facets as `name count, name count`.
fn counts(facets: &Value, member: &str) -> String {
    let format_facet =
        |facet: &Value| format!("{} {}", facet[member].to_string().trim_matches('"'), facet["ProjectsCount"]);
    list(facets).iter().map(format_facet).collect::<Vec<_>>().join(", ")
}

fn catalog() -> Catalog {
    let mut catalog = single_building_catalog();
    catalog.projects.clear();
    catalog.buildings.clear();
    // Rooms and price of each home. `Some(0)` is a studio, and `None` is a home without rooms.
    for (name, city, class, homes) in [
        ("a", "Казань", "Elite", vec![(Some(1), 100), (Some(0), 300)]),
        ("b", "казань", "Comfort", vec![(Some(2), 200), (None, 50)]),
        ("c", "Казань", "Comfort", vec![]),
        ("d", "Пермь", "Elite", vec![(Some(1), 900)]),
    ] {
        let project = Project { city: city.to_owned(), class, ..Project::new(&catalog.developers[0], name) };
        let building = Building {
            state: if name == "d" { "Commissioned" } else { "Planned" },
            ..Building::new(&project, "1")
        };
        for (number, (rooms, price)) in homes.into_iter().enumerate() {
            catalog.objects.push(Object {
                rooms: rooms.filter(|rooms| *rooms > 0),
                is_studio: rooms == Some(0),
                ..Object::new(&building, &number.to_string()).at(price)
            });
        }
        catalog.objects.push(Object { kind: "Parking", rooms: None, ..Object::new(&building, "P").at(1) });
        catalog.projects.push(project);
        catalog.buildings.push(building);
    }
    catalog
}

/// RULE-CHS-042: each list of facets ignores its own filter. The count is of the projects that
/// match all filters, and the prices are of all homes of these projects.
#[tokio::test]
async fn facet_list_ignores_its_own_filter() {
    let catalog = catalog();
    catalog.fill(service()).await;
    let kazan = format!("City={}", encoded("КАЗАНЬ"));
    for (filter, total, prices, cities, classes, rooms) in [
        ("", 4, (50, 900), "Казань 3, Пермь 1", "Comfort 2, Elite 2", "0 1, 1 2, 2 1"),
        (kazan.as_str(), 3, (50, 300), "Казань 3, Пермь 1", "Comfort 2, Elite 1", "0 1, 1 1, 2 1"),
        ("Class=Elite", 2, (100, 900), "Казань 1, Пермь 1", "Comfort 2, Elite 2", "0 1, 1 2"),
        ("Rooms=1", 2, (100, 900), "Казань 1, Пермь 1", "Elite 2", "0 1, 1 2, 2 1"),
        ("Rooms=1&PriceTo=500", 1, (100, 300), "Казань 1", "Elite 1", "0 1, 1 1, 2 1"),
        ("PriceFrom=200", 3, (50, 900), "Казань 2, Пермь 1", "Comfort 1, Elite 2", "0 1, 1 1, 2 1"),
        ("PriceTo=60", 1, (50, 200), "казань 1", "Comfort 1", ""),
        ("ReadyBefore=2020-01-01", 1, (900, 900), "Пермь 1", "Elite 1", "1 1"),
        ("ReadyBefore=2020-01-01&Rooms=0", 0, (0, 0), "", "", "1 1"),
        ("Query=d", 1, (900, 900), "Пермь 1", "Elite 1", "1 1"),
        ("Class=Business", 0, (0, 0), "", "Comfort 2, Elite 2", ""),
    ] {
        let facets = facets(&catalog, filter).await;
        // The expected price is 0 if the response has null.
        let price = |member: &str| facets[member]["AmountMinor"].as_i64().unwrap_or_default();
        assert_eq!(facets["TotalCount"], total, "{filter}");
        assert_eq!((price("PriceMin"), price("PriceMax")), prices, "{filter}");
        assert_eq!(counts(&facets["Cities"], "City"), cities, "{filter}");
        assert_eq!(counts(&facets["Classes"], "Class"), classes, "{filter}");
        assert_eq!(counts(&facets["Rooms"], "Rooms"), rooms, "{filter}");
    }
    let none = facets(&catalog, "Query=nothing").await;
    let empty = json!({"TotalCount": 0, "PriceMin": null, "PriceMax": null, "Cities": [], "Classes": [], "Rooms": []});
    assert_eq!(none, empty);
}

/// RULE-CHS-042: the facets have the 100 cities with the most projects.
#[tokio::test]
async fn facets_contain_at_most_100_cities() {
    let mut catalog = single_building_catalog();
    let developer = catalog.developers[0].clone();
    catalog.buildings.clear();
    catalog.projects = (0..105)
        .flat_map(|city| {
            let project = Project { city: format!("City {city:03}"), ..Project::new(&developer, "x") };
            let times = if city >= 90 { 2 } else { 1 };
            (0..times).map(move |_| Project { id: testkit::guid(), ..project.clone() })
        })
        .collect();
    catalog.fill(service()).await;
    let facets = facets(&catalog, "").await;
    let cities: Vec<_> = list(&facets["Cities"]).iter().map(|city| text(&city["City"])).collect();
    assert_eq!(
        (cities.len(), cities[0], cities[14], cities[15], cities[99]),
        (100, "City 090", "City 104", "City 000", "City 084")
    );
    assert_eq!(facets["TotalCount"], 120);
}
