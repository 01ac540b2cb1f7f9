//! Search and lookup of tenants, in a service with known tenants.

use serde_json::json;
use testkit::client::Client;
use testkit::service::Running;

use crate::{ADMIN_PERMISSIONS, TENANTS, claims_with, each, list, operator, tax_number, text};

/// Starts a service with these tenants only: name, legal name, type and tax number, in this order.
async fn service_of(tenants: &[(&str, Option<&str>, &str, Option<&str>)]) -> (Running, Client) {
    let identity = Running::start::<identity::Service>(&[]);
    let by = identity.caller(&claims_with(None, &ADMIN_PERMISSIONS));
    for (name, legal_name, kind, tax_number) in tenants {
        let body = json!({"Name": name, "LegalName": legal_name, "Type": kind, "TaxNumber": tax_number});
        by.post(TENANTS, body).await.expect(201);
    }
    (identity, by)
}

async fn names(by: &Client, path: &str) -> Vec<String> {
    let page = by.get(&format!("{TENANTS}/{path}")).await.expect(200);
    if let Some(total) = page["TotalCount"].as_u64() {
        assert_eq!(total, list(&page["Items"]).len() as u64, "{path}");
    }
    each(&page["Items"], "Name").into_iter().map(|name| text(name).to_owned()).collect()
}

/// RULE-IDN-001: three or more characters match anywhere, and a shorter query matches a prefix.
/// Letter case is ignored in any script, and wildcards match literally.
#[tokio::test]
async fn search_matches_any_letter_case_and_literal_wildcards() {
    let (_identity, by) = service_of(&[
        ("ООО «Ромашка»", Some("Romashka LLC"), "Developer", Some("7707083893")),
        ("Straße 50%_off", None, "Agency", Some("500100732259")),
        ("ΟΔΟΣ", Some("a\\b"), "Partner", None),
        ("Я", None, "Agency", None),
        ("77 этажей", None, "Developer", None),
    ])
    .await;
    let (flower, street, way, ya, floors) = ("ООО «Ромашка»", "Straße 50%_off", "ΟΔΟΣ", "Я", "77 этажей");
    for (query, found) in [
        ("ромашка", vec![flower]),
        ("РОМ", vec![flower]),
        ("«ро", vec![flower]),
        // The letter is Latin here, and Cyrillic in the next query.
        ("o «", vec![]),
        ("о «", vec![flower]),
        ("romashka llc", vec![flower]),
        ("70838", vec![flower]),
        ("77", vec![floors, flower]),
        ("70", vec![]),
        ("7", vec![floors, flower]),
        ("50", vec![street]),
        ("STRASSE", vec![street]),
        ("0%_", vec![street]),
        ("%_o", vec![street]),
        ("___", vec![]),
        ("%%%", vec![]),
        ("οδος", vec![way]),
        ("οδο", vec![way]),
        ("A\\B", vec![way]),
        ("\\", vec![]),
        ("я", vec![ya]),
        ("ro", vec![]),
        ("ооо", vec![flower]),
        ("оо", vec![flower]),
        ("ломашка", vec![]),
    ] {
        assert_eq!(names(&by, &format!("search?Sort=Name&Query={}", encoded(query))).await, found, "{query}");
        let looked_up = names(&by, &format!("lookup?Query={}", encoded(query))).await;
        assert_eq!(looked_up.len(), found.len(), "{query}");
    }
    // A query cannot contain the separator of the fields, so it does not match across two of them.
    let refused = by.get(&format!("{TENANTS}/search?Query={}", encoded("»\nr"))).await;
    refused.expect_refusal("VALIDATION_FAILED", "/Query", "forbidden_character");
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// RULE-IDN-001: in both directions names sort by the code points of their lower-case forms, and
/// times by value. Ties sort by id.
#[tokio::test]
async fn search_sorts_by_name_or_time() {
    let all = [
        ("б", None, "Agency", None),
        ("Ё", None, "Agency", None),
        ("A", None, "Agency", None),
        ("а", None, "Agency", None),
        ("Z", None, "Agency", None),
        ("z", None, "Agency", None),
    ];
    let (_identity, by) = service_of(&all).await;
    let by_name = ["A", "Z", "z", "а", "б", "Ё"];
    let reversed: Vec<_> = ["Ё", "б", "а", "Z", "z", "A"].to_vec();
    assert_eq!(names(&by, "search?Sort=Name").await, by_name);
    assert_eq!(names(&by, "search?Sort=-Name").await, reversed, "ties are by id, whatever the direction");
    assert_eq!(names(&by, "search?Sort=CreatedAt").await, all.map(|tenant| tenant.0));
    let newest: Vec<_> = all.iter().rev().map(|tenant| tenant.0).collect();
    assert_eq!(names(&by, "search").await, newest);
    let page = by.get(&format!("{TENANTS}/search?Sort=Name&Page=2&PageSize=4")).await.expect(200);
    assert_eq!(
        (each(&page["Items"], "Name"), &page["TotalCount"]),
        (vec![&json!("б"), &json!("Ё")], &json!(6))
    );
}

/// RULE-IDN-001, RULE-IDN-002: types, statuses and times filter, alone and together.
#[tokio::test]
async fn search_filters_by_type_status_and_time() {
    let (_identity, by) = service_of(&[
        ("one", None, "Agency", None),
        ("two", None, "Developer", None),
        ("three", None, "Partner", None),
        ("four", None, "Platform", None),
    ])
    .await;
    let all = by.get(&format!("{TENANTS}/search?Sort=CreatedAt")).await.expect(200);
    let id = |at: usize| text(&all["Items"][at]["Id"]).to_owned();
    by.post(&format!("{TENANTS}/{}/suspend", id(0)), json!({})).await.expect(200);
    by.post(&format!("{TENANTS}/{}/archive", id(1)), json!({})).await.expect(200);
    let (second, third) = (text(&all["Items"][1]["CreatedAt"]), text(&all["Items"][2]["CreatedAt"]));
    for (query, found) in [
        ("Types=Agency,Platform".to_owned(), vec!["one", "four"]),
        ("Statuses=Archived".to_owned(), vec!["two"]),
        ("Statuses=Active,Suspended".to_owned(), vec!["one", "three", "four"]),
        ("Types=Agency&Statuses=Active".to_owned(), vec![]),
        (format!("CreatedFrom={second}&CreatedTo={third}"), vec!["two"]),
        (format!("CreatedFrom={second}"), vec!["two", "three", "four"]),
        ("Query=our&Types=Platform".to_owned(), vec!["four"]),
    ] {
        assert_eq!(names(&by, &format!("search?Sort=CreatedAt&{query}")).await, found, "{query}");
    }
    assert_eq!(
        names(&by, "lookup").await,
        ["four", "one", "three"],
        "only an explicit status lists archived tenants"
    );
    assert_eq!(names(&by, "lookup?Statuses=Archived").await, ["two"]);
    assert_eq!(names(&by, "lookup?Types=Agency,Partner&Limit=1").await, ["one"]);
}

/// RULE-IDN-002, RULE-ALL-020: names that begin with the query come first, both groups by name.
#[tokio::test]
async fn lookup_lists_prefix_matches_first() {
    let all = ["Альфа Строй", "Строй Бета", "строй альфа", "Гамма", "ГК Строитель"];
    let tenants = all.map(|name| (name, Some("ООО"), "Agency", None));
    let (_identity, by) = service_of(&tenants).await;
    let found = ["строй альфа", "Строй Бета", "Альфа Строй", "ГК Строитель"];
    assert_eq!(names(&by, &format!("lookup?Query={}", encoded("СТРО"))).await, found);
    assert_eq!(names(&by, &format!("lookup?Limit=3&Query={}", encoded("СТРО"))).await, found[..3]);
    assert_eq!(names(&by, &format!("lookup?Limit=1&Query={}", encoded("СТРО"))).await, found[..1]);
    assert_eq!(names(&by, &format!("lookup?Query={}", encoded("г"))).await, ["Гамма", "ГК Строитель"]);
    let reference =
        &by.get(&format!("{TENANTS}/lookup?Query={}", encoded("гамма"))).await.expect(200)["Items"][0];
    assert_eq!((reference.as_object().unwrap().len(), text(&reference["Status"])), (4, "Active"));
}

/// RULE-IDN-001: an updated tenant is found by its new texts only.
#[tokio::test]
async fn updated_tenant_is_found_by_its_new_texts() {
    let number = tax_number();
    let created = operator()
        .post(TENANTS, json!({"Name": format!("был {number}"), "Type": "Agency"}))
        .await
        .expect(201);
    let path = format!("{TENANTS}/{}", text(&created["Id"]));
    operator().put(&path, json!({"Name": "стал", "TaxNumber": number})).await.expect(200);
    let found =
        |query: String| async move { names(&operator(), &format!("search?Query={}", encoded(&query))).await };
    assert_eq!(found(format!("был {number}")).await, [""; 0]);
    assert_eq!(found(number).await, ["стал"]);
}

/// RULE-IDN-029: a 400 lists every invalid parameter of a search.
#[tokio::test]
async fn invalid_search_query_lists_every_parameter() {
    let fields = async |path: &str| -> Vec<String> {
        let problem =
            operator().get(&format!("{TENANTS}/{path}")).await.expect_problem(400, "VALIDATION_FAILED");
        let mut fields: Vec<_> =
            each(&problem["errors"], "field").into_iter().map(|field| text(field).to_owned()).collect();
        fields.sort();
        fields
    };
    let long = "x".repeat(101);
    let all = format!(
        "search?Query={long}&Types=,&Statuses=active&CreatedFrom=x&CreatedTo=2026-01-01&Page=x&PageSize=0&Sort=Id"
    );
    assert_eq!(
        fields(&all).await,
        ["/CreatedFrom", "/CreatedTo", "/Page", "/PageSize", "/Query", "/Sort", "/Statuses", "/Types"]
    );
    let range = "search?CreatedFrom=2026-01-02T00:00:00Z&CreatedTo=2026-01-01T00:00:00Z&Sort=";
    assert_eq!(fields(range).await, ["/CreatedTo", "/Sort"]);
    let all = format!("{range}&Types=x&Query=a%01");
    assert_eq!(
        fields(&all).await,
        ["/CreatedTo", "/Query", "/Sort", "/Types"],
        "an invalid range is listed beside other errors"
    );
    assert_eq!(fields("lookup?Limit=51&Types=").await, ["/Limit", "/Types"]);
    assert_eq!(fields("search?Page=101&PageSize=100").await, ["/Page"]);
    assert_eq!(fields("lookup?Limit=0&Query=a%01").await, ["/Limit", "/Query"]);
    operator().get(&format!("{TENANTS}/search?Query={}", "%F0%9F%8F%A0".repeat(100))).await.expect(200);
    operator().get(&format!("{TENANTS}/lookup?Limit=50")).await.expect(200);
}

/// RULE-IDN-001: `TotalCount` 10,000 means "10,000 or more".
#[tokio::test]
async fn total_count_ends_at_10_000() {
    let (identity, by) = service_of(&[]).await;
    let sql = identity.sql().await;
    let fill = "insert into tenant (id, name, type, status, created_at, updated_at, version, lower_name, search_text) \
        select gen_random_uuid(), 'x ' || n, 'Agency', 'Active', now(), now(), 1, 'x ' || n, 'x ' || n || E'\\n\\n' from generate_series($1::int, $2::int) n";
    let total = async |query: &str| {
        by.get(&format!("{TENANTS}/search?{query}")).await.expect(200)["TotalCount"].clone()
    };
    sql.execute(fill, &[&1, &9_999]).await.unwrap();
    assert_eq!(total("").await, 9_999);
    sql.execute(fill, &[&10_000, &10_500]).await.unwrap();
    assert_eq!(
        (total("").await, total("Query=x%20").await, total("Types=Agency").await),
        (json!(10_000), json!(10_000), json!(10_000))
    );
    assert_eq!(total("Query=10499").await, 1);
    by.get(&format!("{TENANTS}/search?Page=100&PageSize=100&Sort=Name")).await.expect(200);
}
