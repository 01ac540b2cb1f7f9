//! Rules of the search and the lookup of tenants: queries, filters, ranges, order and pages.

use form_urlencoded::Serializer;
use serde_json::{Value, json};
use testkit::client::Response;
use testkit::{guid, text};

use crate::{TENANTS, Tenant, each, list, operator, service, tax_number};

pub const INVALID: &str = "VALIDATION_FAILED";

/// Returns a word that only one test uses.
pub fn word() -> String {
    guid().simple().to_string()
}

pub async fn create(body: Value) -> Value {
    operator().post(TENANTS, body).await.expect(201)
}

pub async fn create_named(names: &[String]) -> Vec<Value> {
    let mut created = Vec::new();
    for name in names {
        created.push(create(json!({"Name": name, "Type": "Agency"})).await);
    }
    created
}

pub fn tenant(created: &Value) -> Tenant {
    Tenant(text(&created["Id"]).parse().unwrap())
}

/// Sends a request with these parameters, whose values it encodes.
pub async fn call(route: &str, parameters: &[(&str, &str)]) -> Response {
    let query = Serializer::new(String::new()).extend_pairs(parameters).finish();
    operator().get(&format!("{TENANTS}/{route}?{query}")).await
}

pub async fn search(parameters: &[(&str, &str)]) -> Value {
    call("search", parameters).await.expect(200)
}

pub async fn lookup(parameters: &[(&str, &str)]) -> Value {
    call("lookup", parameters).await.expect(200)
}

/// Returns the names of a page in their order.
pub fn names(found: &Value) -> Vec<&str> {
    each(&found["Items"], "Name").into_iter().map(text).collect()
}

/// RULE-IDN-028: `Name` sorts by the code points of lower-case forms.
#[tokio::test]
async fn names_sort_by_code_points_of_lower_case_forms() {
    let word = word();
    // U+FF41 precedes U+1F600 by code point, but follows it in UTF-16 and in most locales.
    let tails = [
        "B", "a", "Z", "_", "é", "Я", "я1", "ａ", "😀", "-", "9", "É1", "c d", "C-d", "ё", "ß", "ẞa", "ﬀ",
        "Σ", "ΑΣ",
    ];
    create_named(&tails.map(|tail| format!("{word}{tail}"))).await;
    let mut expected = tails.map(|tail| format!("{word}{tail}")).to_vec();
    expected.sort_by_key(|name| name.to_lowercase());
    let found = search(&[("Query", &word), ("Sort", "Name")]).await;
    assert_eq!(names(&found), expected);
    assert_eq!(names(&lookup(&[("Query", &word)]).await), expected);
    expected.reverse();
    assert_eq!(names(&search(&[("Query", &word), ("Sort", "-Name")]).await), expected);
}

/// RULE-IDN-028: ties sort by id, and pages neither repeat nor skip a tenant.
#[tokio::test]
async fn tenants_with_equal_names_sort_by_id() {
    let word = word();
    let cases: Vec<_> =
        [0, 1, 2, 3, 4].map(|at| if at % 2 == 0 { word.to_uppercase() } else { word.clone() }).into();
    create_named(&cases).await;
    for sort in ["Name", "-Name"] {
        let mut ids = Vec::new();
        for page in ["1", "2", "3"] {
            let found = search(&[("Query", &word), ("Sort", sort), ("PageSize", "2"), ("Page", page)]).await;
            assert_eq!(found["TotalCount"], 5);
            ids.extend(each(&found["Items"], "Id").into_iter().map(|id| text(id).to_owned()));
        }
        let mut by_id = ids.clone();
        by_id.sort_unstable();
        by_id.dedup();
        assert_eq!((ids.len(), &ids), (5, &by_id), "{sort}");
    }
}

/// RULE-IDN-028: the default order is `-CreatedAt`, and an unknown sort key returns 400.
#[tokio::test]
async fn search_sorts_by_creation_or_name() {
    let word = word();
    create_named(&["c", "a", "b"].map(|tail| format!("{word} {tail}"))).await;
    for (sort, expected) in [
        (None, "bac"),
        (Some("-CreatedAt"), "bac"),
        (Some("CreatedAt"), "cab"),
        (Some("Name"), "abc"),
        (Some("-Name"), "cba"),
    ] {
        let mut parameters = vec![("Query", word.as_str())];
        parameters.extend(sort.map(|sort| ("Sort", sort)));
        let found = search(&parameters).await;
        let tails: String = names(&found).iter().filter_map(|name| name.chars().last()).collect();
        assert_eq!(tails, expected, "{sort:?}");
    }
    for sort in ["", "-", "name", "Id", "Status", "--Name", "Name,CreatedAt", "+Name", " Name", "UpdatedAt"] {
        call("search", &[("Sort", sort)]).await.expect_refusal(INVALID, "/Sort", "unknown_value");
    }
}

/// RULE-IDN-029: types and statuses filter. Without `Statuses`, a search returns tenants of any
/// status, and a lookup leaves out Archived ones.
#[tokio::test]
async fn search_filters_by_type_and_status() {
    let word = word();
    for kind in ["Developer", "Agency", "Partner", "Platform"] {
        for moved in ["", "suspend", "archive"] {
            let name = format!("{word} {kind} {moved}");
            let created = create(json!({"Name": name, "Type": kind})).await;
            if !moved.is_empty() {
                tenant(&created).transition(moved).await;
            }
        }
    }
    for (types, statuses, expected) in [
        (None, None, 12),
        (Some("Developer"), None, 3),
        (Some("Developer,Platform"), None, 6),
        (Some("Platform,Developer,Agency,Partner"), None, 12),
        (Some("Agency,Agency"), None, 3),
        (None, Some("Active"), 4),
        (None, Some("Suspended,Archived"), 8),
        (Some("Partner"), Some("Archived"), 1),
        (Some("Partner,Agency"), Some("Archived,Active"), 4),
    ] {
        let mut parameters = vec![("Query", word.as_str())];
        parameters.extend(types.map(|types| ("Types", types)));
        parameters.extend(statuses.map(|statuses| ("Statuses", statuses)));
        let found = search(&parameters).await;
        assert_eq!(
            (&found["TotalCount"], list(&found["Items"]).len()),
            (&json!(expected), expected),
            "{parameters:?}"
        );
        let is_wanted = |wanted: Option<&str>, value: &Value| {
            wanted.is_none_or(|wanted| wanted.split(',').any(|one| value == one))
        };
        let right = |item: &Value| is_wanted(types, &item["Type"]) && is_wanted(statuses, &item["Status"]);
        assert!(list(&found["Items"]).iter().all(right), "{parameters:?}");

        let looked_up = lookup(&parameters).await;
        let shown =
            list(&found["Items"]).iter().filter(|item| statuses.is_some() || item["Status"] != "Archived");
        assert_eq!(list(&looked_up["Items"]).len(), shown.count(), "{parameters:?}");
        assert!(list(&looked_up["Items"]).iter().all(right), "{parameters:?}");
    }
}

/// RULE-IDN-029, RULE-ALL-003: values are separated by commas, and an unknown or empty one returns
/// 400.
#[tokio::test]
async fn unknown_or_empty_enum_value_is_refused() {
    for (member, known) in [("Types", "Developer"), ("Statuses", "Active")] {
        let wrong = [
            String::new(),
            " ".to_owned(),
            ",".to_owned(),
            format!("{known},"),
            format!(",{known}"),
            format!("{known},,{known}"),
            known.to_lowercase(),
            format!("{known} "),
            format!("{known}, {known}"),
            format!("{known};{known}"),
            format!("{known},Draft"),
            "1".to_owned(),
            "null".to_owned(),
            format!("{known}\0"),
        ];
        for value in wrong {
            for route in ["search", "lookup"] {
                let refused = call(route, &[(member, &value)]).await;
                refused.expect_refusal(INVALID, &format!("/{member}"), "unknown_value");
            }
        }
        for route in ["search", "lookup"] {
            let twice = call(route, &[(member, known), (member, known)]).await;
            twice.expect_refusal(INVALID, &format!("/{member}"), "duplicate");
        }
    }
}

/// RULE-IDN-029, RULE-ALL-019: `CreatedFrom` is inclusive, `CreatedTo` exclusive, and an empty
/// range returns 400.
#[tokio::test]
async fn search_filters_by_creation_time() {
    let word = word();
    let created = create_named(&["a", "b", "c"].map(|tail| format!("{word}{tail}"))).await;
    let at: Vec<_> = created.iter().map(|created| text(&created["CreatedAt"])).collect();
    for (range, expected) in [
        (vec![("CreatedFrom", at[1])], 2),
        (vec![("CreatedTo", at[1])], 1),
        (vec![("CreatedFrom", at[0]), ("CreatedTo", at[2])], 2),
        (vec![("CreatedFrom", at[1]), ("CreatedTo", at[2])], 1),
        (vec![("CreatedFrom", "2000-01-01T00:00:00Z"), ("CreatedTo", "2000-01-01T00:00:00.000001Z")], 0),
        (vec![("CreatedFrom", "2000-01-01T02:59:59+03:00"), ("CreatedTo", "9999-12-31T23:59:59Z")], 3),
    ] {
        let parameters: Vec<_> = range.into_iter().chain([("Query", word.as_str())]).collect();
        assert_eq!(search(&parameters).await["TotalCount"], expected, "{parameters:?}");
    }
    for (from, to) in [(at[0], at[0]), (at[1], at[0]), ("2026-01-01T03:00:00+03:00", "2026-01-01T00:00:00Z")]
    {
        let refused = call("search", &[("CreatedFrom", from), ("CreatedTo", to)]).await;
        refused.expect_refusal(INVALID, "/CreatedTo", "empty_range");
    }
    for member in ["CreatedFrom", "CreatedTo"] {
        for wrong in [
            "",
            "x",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-02-30T00:00:00Z",
            "1",
            "2026-01-01 00:00",
            "infinity",
        ] {
            let refused = call("search", &[(member, wrong)]).await;
            refused.expect_refusal(INVALID, &format!("/{member}"), "invalid_type");
        }
    }
}

/// RULE-IDN-030, RULE-ALL-021: `PageSize` is 1..100, `Page` at least 1, and their product at most
/// 10,000.
#[tokio::test]
async fn page_beyond_10_000_is_refused() {
    for (page, size) in [("1", "1"), ("100", "100"), ("10000", "1"), ("5000", "2"), ("101", "99")] {
        let found = search(&[("Page", page), ("PageSize", size)]).await;
        assert_eq!(
            (found["Page"].to_string(), found["PageSize"].to_string()),
            (page.to_owned(), size.to_owned())
        );
    }
    search(&[("Page", "500")]).await;
    for (parameters, field) in [
        (vec![("Page", "101"), ("PageSize", "100")], "/Page"),
        (vec![("Page", "10001"), ("PageSize", "1")], "/Page"),
        (vec![("Page", "501")], "/Page"),
        (vec![("Page", "102"), ("PageSize", "99")], "/Page"),
        (vec![("Page", "0")], "/Page"),
        (vec![("Page", "-1")], "/Page"),
        (vec![("Page", "")], "/Page"),
        (vec![("Page", "18446744073709551617")], "/Page"),
        (vec![("PageSize", "0")], "/PageSize"),
        (vec![("PageSize", "101")], "/PageSize"),
        (vec![("PageSize", "x")], "/PageSize"),
        (vec![("PageSize", "1.0")], "/PageSize"),
    ] {
        call("search", &parameters).await.expect_refusal(INVALID, field, "out_of_range");
    }
}

/// RULE-IDN-030, RULE-ALL-021: `TotalCount` is exact below 10,000, and 10,000 means 10,000 or more.
#[tokio::test]
async fn total_count_is_exact_up_to_10_000() {
    let word = word();
    let insert = "insert into tenant (id, name, type, status, created_at, updated_at, version, lower_name, search_text) \
        select gen_random_uuid(), $1 || n, case n when 1 then 'Partner' when 2 then 'Developer' else 'Agency' end, \
            'Active', '2001-01-01T00:00:00Z', '2001-01-01T00:00:00Z', 1, $1 || n, $1 || n \
        from generate_series(1, 10001) as n";
    service().sql().await.execute(insert, &[&word]).await.unwrap();
    for (types, expected) in [
        ("Agency", 9_999),
        ("Agency,Partner", 10_000),
        ("Agency,Partner,Developer", 10_000),
        ("Developer", 1),
    ] {
        let found = search(&[("Query", &word), ("Types", types)]).await;
        assert_eq!(found["TotalCount"], expected, "{types}");
    }
    let last = search(&[("Query", &word), ("Page", "100"), ("PageSize", "100"), ("Sort", "CreatedAt")]).await;
    let ids: Vec<_> = each(&last["Items"], "Id").into_iter().map(text).collect();
    assert_eq!((ids.len(), &last["TotalCount"]), (100, &json!(10_000)));
    assert!(ids.is_sorted(), "created at the same moment, by id");
}

/// RULE-IDN-027: a search without matches returns an empty page.
#[tokio::test]
async fn search_without_matches_returns_an_empty_page() {
    let empty = json!({"Items": [], "Page": 2, "PageSize": 7, "TotalCount": 0});
    assert_eq!(search(&[("Query", &word()), ("Page", "2"), ("PageSize", "7")]).await, empty);
    assert_eq!(lookup(&[("Query", &word())]).await, json!({"Items": []}));
}

/// RULE-IDN-031: names that begin with the query come first, both groups by name.
#[tokio::test]
async fn lookup_returns_prefix_matches_first() {
    let word = word();
    let all = ["b {}", "{} z", "A {}", "{} B", "ё {}", "{}"].map(|name| name.replace("{}", &word));
    create_named(&all).await;
    create(json!({"Name": "0 elsewhere", "LegalName": format!("{word} at first"), "Type": "Agency"})).await;
    let expected =
        ["{}", "{} B", "{} z", "0 elsewhere", "A {}", "b {}", "ё {}"].map(|name| name.replace("{}", &word));
    for limit in 1..=8 {
        let found = lookup(&[("Query", &word.to_uppercase()), ("Limit", &limit.to_string())]).await;
        assert_eq!(names(&found), expected[..limit.min(7)], "{limit}");
    }
}

/// RULE-IDN-031, RULE-ALL-020: a lookup returns 20 items by default, 50 at most.
#[tokio::test]
async fn lookup_returns_20_by_default_and_50_at_most() {
    let word = word();
    let insert = "insert into tenant (id, name, type, status, created_at, updated_at, version, lower_name, search_text) \
        select gen_random_uuid(), $1 || n, 'Agency', 'Active', now(), now(), 1, $1 || n, $1 || n from generate_series(1, 60) as n";
    service().sql().await.execute(insert, &[&word]).await.unwrap();
    for (limit, expected) in [(None, 20), (Some("1"), 1), (Some("20"), 20), (Some("50"), 50)] {
        let parameters: Vec<_> =
            [("Query", word.as_str())].into_iter().chain(limit.map(|limit| ("Limit", limit))).collect();
        assert_eq!(list(&lookup(&parameters).await["Items"]).len(), expected, "{limit:?}");
    }
    for limit in ["0", "51", "-1", "", "x", "1.5", "99999999999999999999"] {
        call("lookup", &[("Limit", limit)]).await.expect_refusal(INVALID, "/Limit", "out_of_range");
    }
}

/// RULE-IDN-031: `TenantReference` has `Id`, `Name`, `Type` and `Status`, in any status.
#[tokio::test]
async fn reference_has_four_members() {
    let word = word();
    let created =
        create(json!({"Name": word, "LegalName": "x", "Type": "Partner", "TaxNumber": tax_number()})).await;
    let reference =
        |status: &str| json!({"Id": created["Id"], "Name": word, "Type": "Partner", "Status": status});
    let path = format!("{TENANTS}/lookup/{}", text(&created["Id"]));
    assert_eq!(lookup(&[("Query", &word)]).await["Items"], json!([reference("Active")]));
    assert_eq!(operator().get(&path).await.expect(200), reference("Active"));
    tenant(&created).transition("archive").await;
    assert_eq!(operator().get(&path).await.expect(200), reference("Archived"));
    assert_eq!(search(&[("Query", &word)]).await["Items"], json!([tenant(&created).read().await]));
}

/// RULE-IDN-029: a 400 lists every invalid parameter.
#[tokio::test]
async fn invalid_search_lists_every_parameter() {
    let long = "x".repeat(101);
    let refused = call(
        "search",
        &[
            ("Query", &long),
            ("Types", "x"),
            ("Statuses", ""),
            ("CreatedFrom", "x"),
            ("CreatedTo", "y"),
            ("Page", "0"),
            ("PageSize", "0"),
            ("Sort", "x"),
        ],
    )
    .await;
    let problem = refused.expect_problem(400, INVALID);
    let mut fields: Vec<_> = each(&problem["errors"], "field").into_iter().map(text).collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        ["/CreatedFrom", "/CreatedTo", "/Page", "/PageSize", "/Query", "/Sort", "/Statuses", "/Types"]
    );
    let refused = call("lookup", &[("Query", &long), ("Types", "x"), ("Statuses", ""), ("Limit", "0")]).await;
    assert_eq!(list(&refused.expect_problem(400, INVALID)["errors"]).len(), 4);
}
