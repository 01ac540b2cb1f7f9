//! Pages, orders and totals of lists.

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::client::Client;

use crate::{FAVORITES, SELECTIONS, create_selection, path, service, text};

async fn create(owner: &Client, titles: &[&str]) -> Vec<Value> {
    let mut created = Vec::new();
    for title in titles {
        created.push(owner.post(SELECTIONS, json!({"Title": title})).await.expect(201));
    }
    created
}

async fn list(owner: &Client, query: &str) -> Value {
    owner.get(&format!("{SELECTIONS}?{query}")).await.expect(200)
}

fn titles(page: &Value) -> Vec<&str> {
    page["Items"].as_array().unwrap().iter().map(|item| text(&item["Title"])).collect()
}

/// RULE-SEL-001: a user without selections and favorites gets an empty first page.
#[tokio::test]
async fn new_owner_has_an_empty_first_page() {
    let (_, owner) = service().user();
    let empty = json!({"Items": [], "Page": 1, "PageSize": 20, "TotalCount": 0});
    assert_eq!(owner.get(SELECTIONS).await.expect(200), empty);
    assert_eq!(owner.get(FAVORITES).await.expect(200), empty);
}

/// RULE-SEL-001: a page has 20 items by default, the newest first, and the total count.
#[tokio::test]
async fn pages_cover_the_list_without_gaps_or_overlaps() {
    let (_, owner) = service().user();
    let all: Vec<String> = (0..23).map(|number| format!("{number:02}")).collect();
    create(&owner, &all.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let newest_first: Vec<&str> = all.iter().rev().map(String::as_str).collect();

    let default = owner.get(SELECTIONS).await.expect(200);
    assert_eq!(
        (&default["Page"], &default["PageSize"], &default["TotalCount"]),
        (&json!(1), &json!(20), &json!(23))
    );
    assert_eq!(titles(&default), newest_first[..20]);

    for (page, expected) in
        [(1, &newest_first[..10]), (2, &newest_first[10..20]), (3, &newest_first[20..]), (4, &[][..])]
    {
        let response = list(&owner, &format!("Page={page}&PageSize=10")).await;
        assert_eq!(titles(&response), expected);
        assert_eq!(
            (&response["Page"], &response["PageSize"], &response["TotalCount"]),
            (&json!(page), &json!(10), &json!(23))
        );
    }
    assert_eq!(titles(&list(&owner, "PageSize=100").await), newest_first);
    assert_eq!(titles(&list(&owner, "PageSize=1&Page=23").await), ["00"]);
}

/// RULE-SEL-027: `PageSize` is 1..100, `Page` starts at 1, and their product is at most 10,000.
#[tokio::test]
async fn page_parameters_out_of_range_are_refused() {
    let (_, owner) = service().user();
    for route in [SELECTIONS, FAVORITES] {
        for fits in [
            "PageSize=1",
            "PageSize=100",
            "Page=1",
            "Page=500",
            "Page=100&PageSize=100",
            "Page=10000&PageSize=1",
            "",
        ] {
            owner.get(&format!("{route}?{fits}")).await.expect(200);
        }
        for (query, field) in [
            ("PageSize=0", "/PageSize"),
            ("PageSize=101", "/PageSize"),
            ("PageSize=-1", "/PageSize"),
            ("PageSize=x", "/PageSize"),
            ("PageSize=", "/PageSize"),
            ("PageSize=1.5", "/PageSize"),
            ("PageSize=99999999999999999999", "/PageSize"),
            ("Page=0", "/Page"),
            ("Page=-1", "/Page"),
            ("Page=x", "/Page"),
            ("Page=501", "/Page"),
            ("Page=101&PageSize=100", "/Page"),
            ("Page=10001&PageSize=1", "/Page"),
            ("Page=18446744073709551617", "/Page"),
        ] {
            let refused = owner.get(&format!("{route}?{query}")).await;
            refused.expect_refusal("SELECTIONS_VALIDATION_FAILED", field, "out_of_range");
        }
        let twice = owner.get(&format!("{route}?Page=1&Page=2")).await;
        twice.expect_problem(400, "SELECTIONS_VALIDATION_FAILED");
    }
}

/// RULE-ALL-021: all faults of a query are in one problem.
#[tokio::test]
async fn several_wrong_parameters_are_reported_together() {
    let (_, owner) = service().user();
    let refused = owner.get("/api/v1/selections?Page=0&PageSize=0&Sort=x").await;
    let problem = refused.expect_problem(400, "SELECTIONS_VALIDATION_FAILED");
    let fields: Vec<_> =
        problem["errors"].as_array().unwrap().iter().map(|error| text(&error["field"])).collect();
    assert_eq!(fields, ["/Page", "/PageSize", "/Sort"]);
}

/// RULE-SEL-027: each allowed key sorts in both directions.
#[tokio::test]
async fn lists_are_sorted_by_the_allowed_keys() {
    let (_, owner) = service().user();
    let created = create(&owner, &["b", "c", "a"]).await;
    owner.put(&path(&created[0]), json!({"Title": "d", "Description": null})).await.expect(200);
    for (sort, expected) in [
        ("CreatedAt", ["d", "c", "a"]),
        ("-CreatedAt", ["a", "c", "d"]),
        ("UpdatedAt", ["c", "a", "d"]),
        ("-UpdatedAt", ["d", "a", "c"]),
        ("Title", ["a", "c", "d"]),
        ("-Title", ["d", "c", "a"]),
    ] {
        assert_eq!(titles(&list(&owner, &format!("Sort={sort}")).await), expected, "{sort}");
    }
    assert_eq!(list(&owner, "").await, list(&owner, "Sort=-CreatedAt").await);
}

/// RULE-SEL-027: any other sort key is refused.
#[tokio::test]
async fn unknown_sort_key_is_refused() {
    let (_, owner) = service().user();
    for sort in
        ["", "-", "Id", "title", "--Title", "Title,CreatedAt", "Version", "+Title", "Title%20desc", "1"]
    {
        let refused = owner.get(&format!("{SELECTIONS}?Sort={sort}")).await;
        refused.expect_refusal("SELECTIONS_VALIDATION_FAILED", "/Sort", "unknown_value");
    }
    let refused = owner.get("/api/v1/favorites?Sort=Title").await;
    refused.expect_refusal("SELECTIONS_VALIDATION_FAILED", "/Sort", "unknown_value");
}

/// RULE-SEL-027, RULE-ALL-021: equal keys are ordered by `Id`, so that pages neither repeat nor
/// skip an item.
#[tokio::test]
async fn ties_are_ordered_by_id() {
    let (_, owner) = service().user();
    join_all((0..9).map(|_| create(&owner, &["same"]))).await;
    for sort in ["Title", "-Title"] {
        let mut ids = Vec::new();
        for page in 1..=3 {
            let response = list(&owner, &format!("Sort={sort}&PageSize=3&Page={page}")).await;
            ids.extend(response["Items"].as_array().unwrap().iter().map(|item| text(&item["Id"]).to_owned()));
        }
        let mut by_id = ids.clone();
        by_id.sort_unstable();
        assert_eq!((ids.len(), &ids), (9, &by_id), "{sort}");
    }
}

/// INV-SEL-009, RULE-SEL-001: deleted selections are neither listed nor counted.
#[tokio::test]
async fn deleted_selections_are_not_listed() {
    let (_, owner) = service().user();
    let created = create(&owner, &["a", "b", "c"]).await;
    owner.delete(&path(&created[1])).await.expect(204);
    let page = list(&owner, "PageSize=2").await;
    assert_eq!((titles(&page), &page["TotalCount"]), (vec!["c", "a"], &json!(2)));
}

/// RULE-SEL-001: the list has only the caller's selections, with every member.
#[tokio::test]
async fn list_has_full_selections_of_the_caller_only() {
    let (_, owner) = service().user();
    let (_, another) = service().user();
    let own = create_selection(&owner).await;
    create_selection(&another).await;
    assert_eq!(owner.get(SELECTIONS).await.expect(200)["Items"], json!([own]));
}

/// RULE-SEL-027, RULE-ALL-017: unknown parameters of a query are ignored.
#[tokio::test]
async fn unknown_parameters_are_ignored() {
    let (_, owner) = service().user();
    for query in ["Colour=red", "page=7", "pageSize=0", "OwnerUserId=00000000-0000-0000-0000-000000000000"] {
        let page = list(&owner, query).await;
        assert_eq!((&page["Page"], &page["PageSize"]), (&json!(1), &json!(20)), "{query}");
    }
}

/// RULE-SEL-013: a page of favorites has only the items of that page.
#[tokio::test]
async fn favorites_are_paged() {
    let (_, owner) = service().user();
    let marked = crate::new_guids::<5>();
    for object in marked {
        crate::mark(&owner, object).await;
    }
    let page = owner.get("/api/v1/favorites?Sort=AddedAt&PageSize=2&Page=2").await.expect(200);
    assert_eq!(crate::objects(&page), marked[2..4]);
    assert_eq!((&page["Page"], &page["PageSize"], &page["TotalCount"]), (&json!(2), &json!(2), &json!(5)));
}
