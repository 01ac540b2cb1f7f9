//! Saved views.

use serde_json::{Value, json};
use testkit::guid;

use crate::{
    CARE, OWN, PLATFORM, READ_OWN, count, create_developer, each, id_of, list, service, user_with, with,
    without,
};

fn view(name: &str, query: &str) -> Value {
    json!({"Name": name, "Query": query})
}

/// RULE-CRM-083: a person saves, reads, replaces and deletes views of their own.
#[tokio::test]
async fn view_is_saved_replaced_and_deleted() {
    let by = service().caller(&user_with(None, &[CARE]));
    let views = format!("{PLATFORM}/saved-views");
    assert_eq!(by.get(&views).await.expect(200), json!({"Items": []}));
    let first = by.post(&views, view(" Мои продажи ", "Statuses=Sale&Sort=-UpdatedAt")).await;
    let path = first.header("location").to_owned();
    let first = first.expect(201);
    assert_eq!(
        without(without(without(first.clone(), "Id"), "CreatedAt"), "UpdatedAt"),
        view("Мои продажи", "Statuses=Sale&Sort=-UpdatedAt")
    );
    assert_eq!(path, format!("{views}/{}", id_of(&first["Id"])));
    let second = by.post(&views, view("x", "")).await.expect(201);
    assert_eq!(by.get(&views).await.expect(200), json!({"Items": [first, second]}));
    let query = "WithoutAgent=true&ProjectName=%D0%9B%D0%B5%D1%81";
    let replaced = by.put(&path, view("Без агента", query)).await.expect(200);
    assert_eq!((&replaced["Name"], &replaced["Query"]), (&json!("Без агента"), &json!(query)));
    assert_eq!(by.get(&path).await.expect(200), replaced);
    by.get(&format!("{PLATFORM}/deals?{query}")).await.expect(200);
    assert_eq!(by.delete(&path).await.status, 204);
    for gone in [by.get(&path).await, by.delete(&path).await, by.put(&path, view("x", "")).await] {
        gone.expect_problem(404, "CRM_SAVED_VIEW_NOT_FOUND");
    }
}

/// RULE-CRM-083: no caller reads or changes a view of another person, company or route family.
#[tokio::test]
async fn view_of_another_owner_is_unknown() {
    let (one, other) = (create_developer().await, create_developer().await);
    let owner = user_with(Some(one), &[READ_OWN, CARE]);
    let by = service().caller(&owner);
    let created = by.post(&format!("{OWN}/saved-views"), view("x", "Statuses=Sale")).await.expect(201);
    let id = id_of(&created["Id"]);
    let moved = testkit::issuer::Claims { company_id: Some(other), ..owner.clone() };
    for (caller, base) in [
        (by.clone(), PLATFORM),
        (service().caller(&moved), OWN),
        (service().caller(&user_with(Some(one), &[READ_OWN])), OWN),
    ] {
        let path = format!("{base}/saved-views/{id}");
        for unknown in
            [caller.get(&path).await, caller.delete(&path).await, caller.put(&path, view("y", "")).await]
        {
            unknown.expect_problem(404, "CRM_SAVED_VIEW_NOT_FOUND");
        }
        assert_eq!(caller.get(&format!("{base}/saved-views")).await.expect(200), json!({"Items": []}));
    }
    assert_eq!(by.get(&format!("{OWN}/saved-views/{id}")).await.expect(200), created);
}

/// RULE-CRM-083: a person has at most 50 views in a route family and company, also with
/// concurrent requests.
#[tokio::test]
async fn view_above_the_limit_is_refused() {
    let by = service().caller(&user_with(Some(guid()), &[READ_OWN, CARE]));
    let views = format!("{OWN}/saved-views");
    let mut saved = Vec::new();
    for number in 0..48 {
        saved.push(by.post(&views, view(&number.to_string(), "")).await.expect(201));
    }
    let save = || by.post(&views, view("x", ""));
    let responses = futures_util::future::join_all((0..5).map(|_| save())).await;
    assert_eq!((count(&responses, 201), count(&responses, 409)), (2, 3));
    save().await.expect_problem(409, "CRM_SAVED_VIEW_LIMIT_REACHED");
    by.post(&format!("{PLATFORM}/saved-views"), view("x", "")).await.expect(201);
    let items = by.get(&views).await.expect(200)["Items"].clone();
    assert_eq!(list(&items).len(), 50);
    assert_eq!(each(&list(&items)[..48], "Id"), each(&saved, "Id"), "oldest first");
    assert_eq!(by.delete(&format!("{views}/{}", id_of(&saved[0]["Id"]))).await.status, 204);
    save().await.expect(201);
}

/// RULE-CRM-083, RULE-ALL-019: the query of a view is one that the list accepts, without a page.
#[tokio::test]
async fn invalid_view_is_refused() {
    let by = service().caller(&user_with(None, &[CARE]));
    let views = format!("{PLATFORM}/saved-views");
    let long = format!("ProjectName={}", "x".repeat(1990));
    for (member, value, code) in [
        ("Name", json!(" "), "too_short"),
        ("Name", json!("ё".repeat(101)), "too_long"),
        ("Query", json!("Statuses=sale"), "unknown_value"),
        ("Query", json!("Sort=Price"), "unknown_value"),
        ("Query", json!("TenantId=x"), "unknown_value"),
        ("Query", json!("AmountFrom=5&AmountTo=5"), "unknown_value"),
        ("Query", json!("ContractNumber=1"), "unknown_value"),
        ("Query", json!("?Statuses=Sale"), "unknown_value"),
        ("Query", json!("Statuses=Sale&Page=1"), "unknown_value"),
        ("Query", json!("Page=1&Page=2"), "unknown_value"),
        ("Query", json!("PageSize=20"), "unknown_value"),
        ("Query", json!("Cursor=x"), "unknown_value"),
        ("Query", json!(long), "too_long"),
        ("Query", Value::Null, "invalid_type"),
    ] {
        let refused = by.post(&views, with(view("x", ""), member, value)).await;
        refused.expect_refusal("VALIDATION_FAILED", &format!("/{member}"), code);
    }
    // Company routes ignore `TenantId`, as their list does.
    let own = service().caller(&user_with(Some(guid()), &[READ_OWN]));
    own.post(&format!("{OWN}/saved-views"), view("x", "TenantId=x")).await.expect(201);
}
