//! Lists of developers and projects in the catalog: order and pages.

use chessboard::Service;
use serde_json::{Value, json};
use testkit::client::Client;
use testkit::dedicated::DedicatedService;
use uuid::Uuid;

use crate::catalog_fill::{Building, Catalog, Developer, Object, Project, single_building_catalog};
use crate::{ADMIN, administrator, each, id_of, list, manager, objects, service, text};

pub const DEVELOPERS: &str = "/api/v1/public/developers";
pub const PROJECTS: &str = "/api/v1/public/projects";
pub const OBJECTS: &str = "/api/v1/public/property-objects";

/// Starts a service whose catalog has only these rows.
pub async fn start_with_catalog(catalog: &Catalog) -> DedicatedService {
    let own = DedicatedService::start::<Service>(&[("GUEST_READS_PER_MINUTE", "0")]);
    // The recount job runs when the service starts. Wait for it, because it would replace the
    // counts of the catalog.
    let sql = own.sql().await;
    let counted = "select 1 from job where kind = 'project-recount' and run is null and due_at > now() + interval '1 minute'";
    testkit::eventually("the first count", async || sql.query_opt(counted, &[]).await.unwrap()).await;
    catalog.fill(&own).await;
    own
}

pub fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

pub async fn names(guest: &Client, path: &str) -> Vec<String> {
    let page = guest.get(path).await.expect(200);
    each(&page["Items"], "Name").into_iter().map(|name| text(name).to_owned()).collect()
}

pub fn members(object: &Value) -> Vec<&str> {
    let mut names: Vec<_> = object.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

fn developers(names: &[&str]) -> Catalog {
    Catalog { developers: names.iter().map(|name| Developer::new(name)).collect(), ..Catalog::default() }
}

/// RULE-CHS-039: developers sort by name or by number of projects, in both directions, with ties by
/// id.
#[tokio::test]
async fn developers_are_sorted_by_name_or_projects() {
    let mut catalog = developers(&["Б", "a", "А", "Z", "z"]);
    for (developer, count) in catalog.developers.iter_mut().zip([1, 2, 2, 0, 9]) {
        developer.projects_published_count = count;
    }
    catalog.developers.sort_by_key(|developer| developer.id);
    let own = start_with_catalog(&catalog).await;
    let guest = own.guest();
    let sorted = |key: &dyn Fn(&Developer) -> (i32, String), descending: bool| {
        let mut sorted = catalog.developers.clone();
        sorted.sort_by(
            |one, other| if descending { key(other).cmp(&key(one)) } else { key(one).cmp(&key(other)) },
        );
        sorted.into_iter().map(|developer| developer.name).collect::<Vec<_>>()
    };
    let name = |developer: &Developer| (0, values::fold(&developer.name));
    let count = |developer: &Developer| (developer.projects_published_count, String::new());
    assert_eq!(names(&guest, DEVELOPERS).await, sorted(&name, false));
    assert_eq!(names(&guest, &format!("{DEVELOPERS}?Sort=Name")).await, sorted(&name, false));
    assert_eq!(names(&guest, &format!("{DEVELOPERS}?Sort=-Name")).await, sorted(&name, true));
    let by_count = format!("{DEVELOPERS}?Sort=ProjectsPublishedCount");
    assert_eq!(names(&guest, &by_count).await, sorted(&count, false));
    let by_count = format!("{DEVELOPERS}?Sort=-ProjectsPublishedCount");
    assert_eq!(names(&guest, &by_count).await, sorted(&count, true));
    let page = guest.get(&format!("{DEVELOPERS}?Sort=Name&Page=2&PageSize=2")).await.expect(200);
    assert_eq!((list(&page["Items"]).len(), &page["TotalCount"], &page["Page"]), (2, &json!(5), &json!(2)));
}

/// RULE-CHS-039: `Query` matches literally anywhere in a name, regardless of letter case.
#[tokio::test]
async fn query_matches_any_part_of_name() {
    let all = ["Северный Двор", "Straße 50%_off", "a\\b", "ЯЯ", "ΟΔΟΣ"];
    let mut catalog = developers(&all);
    let developer = catalog.developers[0].clone();
    catalog.projects = all.iter().map(|name| Project::new(&developer, name)).collect();
    let own = start_with_catalog(&catalog).await;
    let guest = own.guest();
    for (query, found) in [
        ("северный", vec!["Северный Двор"]),
        ("НЫЙ ДВ", vec!["Северный Двор"]),
        ("р", vec!["Северный Двор"]),
        ("STRASSE", vec!["Straße 50%_off"]),
        ("0%_O", vec!["Straße 50%_off"]),
        ("%", vec!["Straße 50%_off"]),
        ("_", vec!["Straße 50%_off"]),
        ("\\", vec!["a\\b"]),
        ("A\\B", vec!["a\\b"]),
        ("я", vec!["ЯЯ"]),
        ("яя", vec!["ЯЯ"]),
        ("ояя", vec![]),
        ("%%%", vec![]),
        ("___", vec![]),
        ("οδος", vec!["ΟΔΟΣ"]),
        ("llc", vec![]),
        ("СЕВЕРНЫИ\u{306}\u{a0}двор", vec!["Северный Двор"]),
        (" сев\u{200b}ерный  двор\u{2009}", vec!["Северный Двор"]),
        ("севернЫи", vec![]),
        (" ", vec!["a\\b", "Straße 50%_off", "ΟΔΟΣ", "Северный Двор", "ЯЯ"]),
        ("\u{200b}", vec!["a\\b", "Straße 50%_off", "ΟΔΟΣ", "Северный Двор", "ЯЯ"]),
        ("", vec!["a\\b", "Straße 50%_off", "ΟΔΟΣ", "Северный Двор", "ЯЯ"]),
    ] {
        for path in [DEVELOPERS, PROJECTS] {
            let path = format!("{path}?Sort=Name&Query={}", encoded(query));
            assert_eq!(names(&guest, &path).await, found, "{path}");
        }
    }
    for path in [DEVELOPERS, PROJECTS] {
        guest.get(&format!("{path}?Query={}", encoded(&"я".repeat(200)))).await.expect(200);
        let long = guest.get(&format!("{path}?Query={}", encoded(&"я".repeat(201)))).await;
        long.expect_refusal("VALIDATION_FAILED", "/Query", "too_long");
        let nul = guest.get(&format!("{path}?Query=a%00")).await;
        nul.expect_refusal("VALIDATION_FAILED", "/Query", "forbidden_character");
    }
}

/// RULE-CHS-041: prices and counts of a project are exact and concern the whole project, regardless
/// of the filters.
#[tokio::test]
async fn project_numbers_concern_all_its_objects() {
    let mut catalog = single_building_catalog();
    let first = catalog.buildings[0].clone();
    let second = Building::new(&catalog.projects[0], "Корпус 2");
    let deleted = Building { is_deleted: true, ..Building::new(&catalog.projects[0], "Снесён") };
    let object = |building: &Building, number: usize| Object::new(building, &number.to_string());
    catalog.objects = vec![
        object(&first, 1).at(900),
        Object { rooms: Some(3), ..object(&first, 2).at(700) },
        Object { rooms: None, is_studio: true, kind: "Apartment", ..object(&second, 1).at(500) },
        Object { rooms: Some(2), is_studio: true, ..object(&second, 2).at(400) },
        Object { rooms: None, ..object(&second, 3).at(800) },
        Object { kind: "Parking", rooms: None, ..object(&second, 4).at(1) },
        Object { kind: "Storage", rooms: None, ..object(&first, 5).at(2) },
        Object { kind: "Commercial", rooms: Some(1), ..object(&first, 6).at(3) },
        Object { status: "Reserved", ..object(&first, 7).at(4) },
        Object { status: "Booked", ..object(&first, 8).at(4) },
        Object { status: "Sold", ..object(&first, 9).at(4) },
        Object { status: "Unavailable", ..object(&first, 10).at(4) },
        Object { is_removed: true, ..object(&first, 11).at(4) },
        object(&deleted, 1).at(4),
    ];
    catalog.buildings.extend([second, deleted]);
    let empty = Project { published_at: -1, ..Project::new(&catalog.developers[0], "Пусто") };
    catalog.projects.push(empty);
    catalog.fill(service()).await;
    let developer = &catalog.developers[0];
    let path = format!("{PROJECTS}?DeveloperId={}", developer.id);
    let page = service().guest().get(&path).await.expect(200);
    let rub = |amount: i64| json!({"AmountMinor": amount, "Currency": "RUB"});
    let project = &catalog.projects[0];
    let shown = json!({
        "Id": project.id, "DeveloperId": developer.id, "DeveloperName": "Северный Двор", "Name": "Сосны",
        "Class": "Comfort", "City": "Казань", "Address": "ул. Мира, 1", "Latitude": null, "Longitude": null,
        "CoverFileId": null, "PublishedAt": "2026-01-01T00:00:00Z", "PriceFrom": rub(400), "FreeCount": 5,
        "FreeByKind": {"Flat": 4, "Apartment": 1, "Parking": 1, "Storage": 1, "Commercial": 1},
        "Offers": [
            {"Rooms": 0, "FreeCount": 2, "PriceFrom": rub(400)},
            {"Rooms": 1, "FreeCount": 1, "PriceFrom": rub(900)},
            {"Rooms": 3, "FreeCount": 1, "PriceFrom": rub(700)},
            {"Rooms": null, "FreeCount": 1, "PriceFrom": rub(800)},
        ],
    });
    assert_eq!(page["Items"][0], shown);
    let empty = &page["Items"][1];
    assert_eq!(
        (&empty["PriceFrom"], &empty["FreeCount"], &empty["Offers"]),
        (&json!(null), &json!(0), &json!([]))
    );
    let narrowed = service().guest().get(&format!("{path}&Rooms=3&PriceFrom=650")).await.expect(200);
    assert_eq!(narrowed["Items"], json!([shown]), "regardless of the filters");
}

/// RULE-CHS-041: the newest project is first by default. Projects without a price are last in both
/// directions, and ties sort by id.
#[tokio::test]
async fn projects_without_price_are_sorted_last() {
    let mut catalog = single_building_catalog();
    let developer = catalog.developers[0].clone();
    catalog.projects.clear();
    catalog.buildings.clear();
    for (name, published_at, price) in
        [("б", 3, Some(500)), ("А", 2, None), ("a", 1, Some(300)), ("Z", 4, Some(900)), ("z", 0, None)]
    {
        let project = Project { published_at, ..Project::new(&developer, name) };
        let building = Building::new(&project, "1");
        catalog.objects.extend(price.map(|price| Object::new(&building, "1").at(price)));
        catalog.projects.push(project);
        catalog.buildings.push(building);
    }
    catalog.fill(service()).await;
    let guest = service().guest();
    let mut tied = [&catalog.projects[3], &catalog.projects[4]];
    tied.sort_by_key(|project| project.id);
    let tied = tied.map(|project| project.name.as_str());
    let mut unpriced = [&catalog.projects[1], &catalog.projects[4]];
    unpriced.sort_by_key(|project| project.id);
    let [first, second] = unpriced.map(|project| project.name.as_str());
    for (sort, sorted) in [
        ("", vec!["Z", "б", "А", "a", "z"]),
        ("&Sort=-PublishedAt", vec!["Z", "б", "А", "a", "z"]),
        ("&Sort=PublishedAt", vec!["z", "a", "А", "б", "Z"]),
        ("&Sort=Name", vec!["a", tied[0], tied[1], "А", "б"]),
        ("&Sort=-Name", vec!["б", "А", tied[0], tied[1], "a"]),
        ("&Sort=PriceFrom", vec!["a", "б", "Z", first, second]),
        ("&Sort=-PriceFrom", vec!["Z", "б", "a", first, second]),
    ] {
        let path = format!("{PROJECTS}?DeveloperId={}{sort}", developer.id);
        assert_eq!(names(&guest, &path).await, sorted, "{sort}");
        let page = guest.get(&format!("{path}&PageSize=2&Page=2")).await.expect(200);
        assert_eq!(each(&page["Items"], "Name"), [sorted[2], sorted[3]], "{sort}");
        assert_eq!((&page["TotalCount"], &page["PageSize"]), (&json!(5), &json!(2)), "{sort}");
        let beyond = guest.get(&format!("{path}&PageSize=5&Page=2")).await.expect(200);
        assert_eq!((&beyond["Items"], &beyond["TotalCount"]), (&json!([]), &json!(5)), "{sort}");
    }
}

/// RULE-CHS-004, RULE-CHS-023, RULE-CHS-041, RULE-ALL-021: ties sort by id in both directions, and
/// pages have no gaps or overlaps. This holds for guests, managers and administrators.
#[tokio::test]
async fn ties_sort_by_id_across_pages() {
    let (name, owner) = (testkit::guid().simple().to_string(), Developer::new("Владелец"));
    let projects: Vec<_> = (0..7).map(|_| Project::new(&owner, &name)).collect();
    let buildings: Vec<_> = projects.iter().map(|project| Building::new(project, "1")).collect();
    let objects = buildings.iter().map(|building| Object::new(building, "1")).collect();
    let mut developers: Vec<_> = (0..7).map(|_| Developer::new(&name)).collect();
    let of_developers = ordered(developers.iter().map(|developer| developer.id));
    let of_projects = ordered(projects.iter().map(|project| project.id));
    let (guest, manager, administrator) = (service().guest(), manager(owner.id), administrator());
    let of_owner = format!("{PROJECTS}?DeveloperId={}", owner.id);
    developers.push(owner);
    // All rows of a table get the same time, so they tie in every order by time.
    Catalog { developers, projects, buildings, objects }.fill(service()).await;
    for (caller, path, ids, sorts) in [
        (
            &guest,
            format!("{DEVELOPERS}?Query={name}"),
            &of_developers,
            vec!["Name", "ProjectsPublishedCount"],
        ),
        (&guest, of_owner, &of_projects, vec!["PublishedAt", "Name", "PriceFrom"]),
        (
            &manager,
            format!("{}?Query={name}", objects::PROJECTS),
            &of_projects,
            vec!["Name", "CreatedAt", "UpdatedAt"],
        ),
        (
            &administrator,
            format!("{ADMIN}?Query={name}"),
            &of_developers,
            vec!["Name", "CreatedAt", "UpdatedAt"],
        ),
    ] {
        for sort in sorts.into_iter().flat_map(|sort| [sort.to_owned(), format!("-{sort}")]) {
            let mut listed = Vec::new();
            for page in 1..=3 {
                let query = format!("{path}&Sort={sort}&PageSize=3&Page={page}");
                let page = caller.get(&query).await.expect(200);
                assert_eq!(page["TotalCount"], 7, "{query}");
                listed.extend(each(&page["Items"], "Id").into_iter().map(id_of));
            }
            assert_eq!(listed, *ids, "{path} by {sort}");
        }
    }
}

fn ordered(ids: impl Iterator<Item = Uuid>) -> Vec<Uuid> {
    let mut ids: Vec<_> = ids.collect();
    ids.sort_unstable();
    ids
}

/// RULE-CHS-041: a page, page size or sort out of bounds returns 400 with the name of the
/// parameter.
#[tokio::test]
async fn page_out_of_bounds_returns_400() {
    for path in [DEVELOPERS, PROJECTS] {
        for (query, field, code) in [
            ("Page=0", "/Page", "out_of_range"),
            ("PageSize=0", "/PageSize", "out_of_range"),
            ("PageSize=101", "/PageSize", "out_of_range"),
            ("Page=101&PageSize=100", "/Page", "out_of_range"),
            ("Sort=Id", "/Sort", "unknown_value"),
            ("Sort=name", "/Sort", "unknown_value"),
            ("Sort=--Name", "/Sort", "unknown_value"),
            ("Sort=", "/Sort", "unknown_value"),
            ("Sort=Name&Sort=Name", "/Sort", "duplicate"),
        ] {
            let refused = service().guest().get(&format!("{path}?{query}")).await;
            refused.expect_refusal("VALIDATION_FAILED", field, code);
        }
        service().guest().get(&format!("{path}?Page=100&PageSize=100")).await.expect(200);
    }
}

/// RULE-CHS-041: `TotalCount` is exact below 10,000, and 10,000 means 10,000 or more.
#[tokio::test]
async fn total_count_is_exact_up_to_10000() {
    let mut catalog = single_building_catalog();
    catalog.objects.push(Object::new(&catalog.buildings[0], "1"));
    let own = start_with_catalog(&catalog).await;
    let fill = format!(
        "insert into project (id, tenant_id, name, class, city, address, status, published_at, created_at, \
            created_by_user_id, updated_at, updated_by_user_id, version, folded_name, folded_city) \
        select gen_random_uuid(), '{0}', 'x', 'Elite', 'x', 'x', 'Published', now(), now(), '{0}', now(), '{0}', 1, 'xxx', 'x' \
        from generate_series(1, 10050); analyze project",
        catalog.developers[0].id
    );
    own.sql().await.batch_execute(&fill).await.unwrap();
    for (query, total) in [
        ("", 10_000),
        ("?Class=Elite", 10_000),
        ("?Query=xxx", 10_000),
        ("?Rooms=1", 1),
        ("?Sort=PriceFrom", 10_000),
    ] {
        let page = own.guest().get(&format!("{PROJECTS}{query}")).await.expect(200);
        assert_eq!(page["TotalCount"], total, "{query}");
        let facets =
            own.guest().get(&format!("{PROJECTS}/facets{}", query.replace("Sort=PriceFrom", ""))).await;
        assert_eq!(facets.expect(200)["TotalCount"], total, "{query}");
    }
    assert_eq!(
        list(&own.guest().get(&format!("{PROJECTS}?Page=100&PageSize=100")).await.expect(200)["Items"]).len(),
        100
    );
}
