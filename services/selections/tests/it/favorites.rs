//! Favorites, and selections from favorites.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::{Client, send};
use uuid::Uuid;

use crate::{
    FAVORITES, FROM_FAVORITES, favorite_path, guid, guids, join_limited, mark, members, new_guids, objects,
    path, service, text,
};

/// Returns the owner's favorites, newest first.
async fn list(owner: &Client) -> Value {
    owner.get("/api/v1/favorites?PageSize=100").await.expect(200)
}

async fn mark_all(owner: &Client, objects: &[Uuid]) {
    join_limited(objects.iter().map(async |object| mark(owner, *object).await)).await;
}

/// INV-DEV-6, RULE-SEL-013: favorites are listed in pages, the newest first by default. They show
/// no data of objects.
#[tokio::test]
async fn favorites_are_listed_newest_first() {
    let (_, owner) = service().user();
    let [a, b, c] = new_guids();
    for object in [a, b, c] {
        mark(&owner, object).await;
    }

    let page = owner.get(FAVORITES).await.expect(200);

    assert_eq!(objects(&page), [c, b, a]);
    assert_eq!((&page["TotalCount"], &page["Page"], &page["PageSize"]), (&json!(3), &json!(1), &json!(20)));
    assert_eq!(members(&page["Items"][0]), ["AddedAt", "PropertyObjectId"]);
    let oldest_first = owner.get("/api/v1/favorites?Sort=AddedAt&PageSize=2&Page=2").await.expect(200);
    assert_eq!((objects(&oldest_first), &oldest_first["TotalCount"]), (vec![c], &json!(3)));
}

/// RULE-SEL-013: marking is idempotent and keeps the time of the first mark.
#[tokio::test]
async fn repeated_mark_changes_nothing() {
    let (_, owner) = service().user();
    let [a, b] = new_guids();
    mark(&owner, a).await;
    mark(&owner, b).await;
    let before = list(&owner).await;

    let again = owner.put(&favorite_path(a), Value::Null).await;

    assert_eq!((again.status, again.text.as_str()), (204, ""));
    assert_eq!(list(&owner).await, before, "the object keeps its position");
}

/// RULE-SEL-013: unmarking is idempotent.
#[tokio::test]
async fn repeated_unmark_changes_nothing() {
    let (_, owner) = service().user();
    let [a, b, never_marked] = new_guids();
    mark(&owner, a).await;
    mark(&owner, b).await;
    for object in [a, a, never_marked] {
        owner.delete(&favorite_path(object)).await.expect(204);
    }
    assert_eq!(objects(&list(&owner).await), [b]);
}

/// RULE-SEL-013: marking needs no body and reads none.
#[tokio::test]
async fn mark_reads_no_body() {
    let (_, owner) = service().user();
    let [a, b] = new_guids();
    send(owner.request(Method::PUT, &favorite_path(a))).await.expect(204);
    send(owner.request(Method::PUT, &favorite_path(b)).body("not JSON")).await.expect(204);
    assert_eq!(objects(&list(&owner).await), [b, a]);
}

/// RULE-SEL-013: a user's marks do not change those of another user.
#[tokio::test]
async fn favorites_belong_to_one_user() {
    let (_, owner) = service().user();
    let (_, other) = service().user();
    let object = guid();
    mark(&owner, object).await;
    other.delete(&favorite_path(object)).await.expect(204);
    assert_eq!(list(&other).await["TotalCount"], 0);
    mark(&other, object).await;
    assert_eq!(objects(&list(&owner).await), [object]);
}

/// RULE-SEL-025, RULE-SEL-044: a user has at most 200 favorites, and marking an object again adds
/// none.
#[tokio::test]
async fn favorite_201_is_refused_until_one_is_unmarked() {
    let (_, owner) = service().user();
    let most = guids(200);
    mark_all(&owner, &most).await;

    let one_more = async || owner.put(&favorite_path(guid()), Value::Null).await;
    let problem = one_more().await.expect_problem(409, "SELECTIONS_FAVORITES_LIMIT_EXCEEDED");
    assert!(text(&problem["detail"]).contains("200"), "{problem}");
    mark(&owner, most[7]).await;
    assert_eq!(list(&owner).await["TotalCount"], 200);

    owner.delete(&favorite_path(most[0])).await.expect(204);
    owner.delete(&favorite_path(most[0])).await.expect(204);
    one_more().await.expect(204);
    one_more().await.expect_problem(409, "SELECTIONS_FAVORITES_LIMIT_EXCEEDED");
}

/// RULE-SEL-003: the items are in the order of the marks.
#[tokio::test]
async fn selection_from_favorites_has_the_order_of_the_marks() {
    let (id, owner) = service().user();
    let [a, b, c] = new_guids();
    for object in [c, a, b] {
        mark(&owner, object).await;
    }
    owner.delete(&favorite_path(c)).await.expect(204);
    mark(&owner, c).await;

    let body = json!({"Title": "Best", "Description": "Of all"});
    let selection = owner.post(FROM_FAVORITES, body).await.expect(201);

    assert_eq!(objects(&selection), [a, b, c]);
    assert_eq!((&selection["Title"], &selection["Description"]), (&json!("Best"), &json!("Of all")));
    assert_eq!((&selection["ItemsCount"], &selection["Version"]), (&json!(3), &json!(1)));
    assert_eq!(selection["OwnerUserId"], id.to_string());
    assert_eq!(selection["Items"][2]["SortOrder"], 2);
    assert_eq!(selection["Items"][0]["AddedAt"], selection["CreatedAt"]);
    assert_eq!(objects(&list(&owner).await), [c, b, a], "the favorites stay");
}

/// RULE-SEL-003, RULE-SEL-013: ties are ordered by id, in lists and in a selection from favorites.
#[tokio::test]
async fn favorites_of_one_instant_are_ordered_by_id() {
    let (id, owner) = service().user();
    let mut marked = guids(5);
    mark_all(&owner, &marked).await;
    let at_once = "update favorite set added_at = now() where owner_user_id = $1::text::uuid";
    service().sql().await.execute(at_once, &[&id.to_string()]).await.unwrap();
    marked.sort_unstable();

    for sort in ["AddedAt", "-AddedAt"] {
        let page = async |number: u32| {
            owner.get(&format!("{FAVORITES}?Sort={sort}&PageSize=3&Page={number}")).await.expect(200)
        };
        assert_eq!([objects(&page(1).await), objects(&page(2).await)].concat(), marked, "{sort}");
    }
    assert_eq!(objects(&owner.post(FROM_FAVORITES, json!({})).await.expect(201)), marked);
}

/// RULE-SEL-003: a repeat creates another copy, and later marks change neither.
#[tokio::test]
async fn selection_from_favorites_is_an_independent_copy() {
    let (_, owner) = service().user();
    let [a, b] = new_guids();
    mark(&owner, a).await;
    let first = owner.post(FROM_FAVORITES, json!({})).await.expect(201);
    owner.delete(&favorite_path(a)).await.expect(204);
    mark(&owner, b).await;
    let second = owner.post(FROM_FAVORITES, json!({})).await.expect(201);

    assert_ne!(first["Id"], second["Id"]);
    assert_ne!(first["PublicCode"], second["PublicCode"]);
    assert_eq!(objects(&second), [b]);
    assert_eq!(objects(&crate::reread(&owner, &first).await), [a]);
    owner.delete(&path(&second)).await.expect(204);
    assert_eq!(objects(&list(&owner).await), [b]);
}

/// RULE-SEL-043: a selection from favorites needs at least one favorite.
#[tokio::test]
async fn selection_from_no_favorites_is_refused() {
    let (_, owner) = service().user();
    let [object] = new_guids();
    let make = async || owner.post(FROM_FAVORITES, json!({"Title": "Best"})).await;
    make().await.expect_problem(400, "SELECTIONS_FAVORITES_EMPTY");
    mark(&owner, object).await;
    owner.delete(&favorite_path(object)).await.expect(204);
    make().await.expect_problem(400, "SELECTIONS_FAVORITES_EMPTY");
}

/// INV-SEL-004, RULE-SEL-025: the limits of favorites and items are the same.
#[tokio::test]
async fn all_200_favorites_fit_into_a_selection() {
    let (_, owner) = service().user();
    let mut most = guids(200);
    mark_all(&owner, &most).await;
    let selection = owner.post(FROM_FAVORITES, json!({})).await.expect(201);
    let mut copied = objects(&selection);
    copied.sort_unstable();
    most.sort_unstable();
    assert_eq!(copied, most);
}

/// RULE-SEL-003: without `Title` the title is in the caller's language.
#[tokio::test]
async fn selection_from_favorites_has_a_localized_default_title() {
    let (_, owner) = service().user();
    mark(&owner, guid()).await;
    for (language, title) in [("ru", "Избранное"), ("en", "Favorites"), ("fr", "Favorites")] {
        for body in [json!({}), json!({"Title": null})] {
            let request = owner.request(Method::POST, FROM_FAVORITES).header("Accept-Language", language);
            assert_eq!(send(request.json(&body)).await.expect(201)["Title"], title);
        }
    }
}

/// RULE-SEL-003: every member of the body is optional, and so is the body.
#[tokio::test]
async fn selection_from_favorites_needs_no_body() {
    let (_, owner) = service().user();
    let object = guid();
    mark(&owner, object).await;
    let selection = send(owner.request(Method::POST, FROM_FAVORITES)).await.expect(201);
    assert_eq!((objects(&selection), text(&selection["Title"])), (vec![object], "Favorites"));
}
