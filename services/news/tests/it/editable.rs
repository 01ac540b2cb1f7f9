//! Lists of the posts that the caller may edit.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testkit::client::Client;
use testkit::issuer::Claims;
use uuid::Uuid;

use crate::{
    Author, CREATE_COMPANY, MANAGE, MANAGE_OWN, POSTS, author, author_of, each, encoded, guid, list, path,
    publish_as, service, text, text_block, unique_word,
};

const EVERY_COMPANY: &str = "news.posts.create-company@platform";

fn user(id: Uuid, company: Option<Uuid>, permissions: &[&str]) -> Client {
    let claims = Claims { company_id: company, ..Claims::user(id) };
    service().caller(&permissions.iter().fold(claims, |claims, permission| claims.permission(*permission)))
}

/// Returns an author of posts of a company.
fn author_in(company: Uuid) -> Author {
    author_of(service(), guid(), &|claims| {
        claims.company(company).permission(MANAGE_OWN).permission(CREATE_COMPANY)
    })
}

async fn create(author: &Author, metadata: Value) -> String {
    text(&author.news.post(POSTS, metadata).await.expect(201)["Id"]).to_owned()
}

/// Returns the ids and the total of a list.
async fn listed(caller: &Client, query: &str) -> (Vec<String>, Value) {
    let page = caller.get(&format!("{POSTS}?PageSize=100&{query}")).await.expect(200);
    let ids = list(&page["Items"]).iter().map(|post| text(&post["Id"]).to_owned());
    (ids.collect(), page["TotalCount"].clone())
}

/// RULE-NWS-069, INV-NWS-007: `Editable` lists each post that the caller may edit, in every status,
/// and no other.
#[tokio::test]
async fn editable_list_has_the_posts_that_the_caller_may_edit() {
    let (company, mark) = (guid(), unique_word());
    let (author, colleague, foreign) = (author_in(company), author_in(company), author_in(guid()));
    let metadata = |company: Option<Uuid>| json!({"Title": mark, "Tags": [mark], "AuthorCompanyId": company});
    let mut posts = Vec::new();
    for (author, company) in [(&author, Some(company)), (&author, None), (&colleague, Some(company))] {
        posts.push(create(author, metadata(company)).await);
    }
    let published = publish_as(&author, metadata(Some(company)), "x").await;
    create(&foreign, json!({"Title": mark, "Tags": ["other"]})).await;
    let gone = create(&author, metadata(Some(company))).await;
    author.news.delete(&path(&gone)).await.expect(204);
    let [own, personal, colleagues] = [0, 1, 2].map(|at| posts[at].clone());
    let all = [&own, &personal, &colleagues, &published];
    for (caller, expected) in [
        (user(author.id, Some(company), &[MANAGE_OWN, CREATE_COMPANY]), all.to_vec()),
        (user(author.id, Some(company), &[MANAGE_OWN]), vec![&own, &personal, &published]),
        (user(author.id, None, &[MANAGE_OWN]), vec![&personal]),
        (user(author.id, None, &[]), vec![]),
        (user(guid(), Some(company), &[CREATE_COMPANY]), vec![&own, &colleagues, &published]),
        (user(guid(), Some(company), &[MANAGE_OWN]), vec![]),
        (user(guid(), Some(guid()), &[CREATE_COMPANY]), vec![]),
        (user(guid(), None, &[EVERY_COMPANY]), vec![&own, &colleagues, &published]),
        (user(guid(), None, &[MANAGE]), all.to_vec()),
        (user(guid(), Some(company), &["news.posts.manage"]), vec![]),
    ] {
        let (ids, total) = listed(&caller, &format!("Editable=true&Tag={mark}")).await;
        let expected: BTreeSet<_> = expected.into_iter().cloned().collect();
        assert_eq!(ids.iter().cloned().collect::<BTreeSet<_>>(), expected);
        assert_eq!(total, expected.len());
        for post in &ids {
            caller.put(&path(post), json!({"Title": mark})).await.expect(200);
        }
    }
    let manager = user(guid(), Some(company), &[CREATE_COMPANY]);
    let page = manager.get(&format!("{POSTS}?Editable=true&Tag={mark}")).await.expect(200);
    assert!(list(&page["Items"]).iter().all(|post| post["AuthorUserId"].is_string()), "RULE-NWS-055");
    for caller in [service().guest(), service().bearer("nonsense")] {
        caller.get(&format!("{POSTS}?Editable=true")).await.expect_problem(401, "UNAUTHORIZED");
    }
}

/// RULE-NWS-069: with `Mine` and `Editable` the list has the caller's own posts without those that
/// the caller may no longer edit.
#[tokio::test]
async fn own_editable_posts_are_listed() {
    let company = guid();
    let author = author_in(company);
    let published = publish_as(&author, json!({"Title": "x", "AuthorCompanyId": company}), "x").await;
    let personal = create(&author, json!({"Title": "x"})).await;
    let later = json!({"UnpublishAt": "2100-01-01T00:00:00Z"});
    author.news.put(&format!("{}/schedule", path(&published)), later).await.expect(200);
    let former = user(author.id, None, &[MANAGE_OWN]);
    assert_eq!(listed(&former, "Mine=true&Sort=CreatedAt").await.0, [published.clone(), personal.clone()]);
    assert_eq!(listed(&former, "Mine=true&Editable=true").await.0, [personal]);
    let schedule = async |caller: &Client| {
        let page = caller.get(&format!("{POSTS}?Mine=true&Statuses=Published")).await.expect(200);
        page["Items"][0]["UnpublishAt"].clone()
    };
    assert_eq!(schedule(&former).await, Value::Null, "only editors see the schedule");
    assert_eq!(schedule(&author.news).await, "2100-01-01T00:00:00Z");
    let feed = author.news.get(&format!("{POSTS}?AuthorCompanyId={company}")).await.expect(200);
    assert_eq!(
        (&feed["Items"][0]["Id"], &feed["Items"][0]["UnpublishAt"]),
        (&json!(published), &Value::Null)
    );
}

/// RULE-NWS-072: editors filter by status, author, company, tag and date, and combine the filters.
#[tokio::test]
async fn editors_filter_their_posts() {
    let company = guid();
    let (first, second) = (author_in(company), author_in(company));
    let of_company = |tags: Value| json!({"Title": "x", "AuthorCompanyId": company, "Tags": tags});
    let draft = create(&first, of_company(json!(["Новостройки", "Сад"]))).await;
    let published = publish_as(&second, of_company(json!(["НОВОСТРОЙКИ"])), "x").await;
    let archived = create(&second, of_company(json!([]))).await;
    second.change_status(&archived, "archive").await.expect(200);
    let manager = user(guid(), None, &[MANAGE]);
    let created =
        async |post: &str| text(&manager.get(&path(post)).await.expect(200)["CreatedAt"]).to_owned();
    let (from, to) = (created(&published).await, created(&archived).await);
    for (query, expected) in [
        (String::new(), vec![&draft, &published, &archived]),
        ("Statuses=Draft".to_owned(), vec![&draft]),
        ("Statuses=Draft,Archived".to_owned(), vec![&draft, &archived]),
        (format!("AuthorUserId={}", second.id), vec![&published, &archived]),
        (format!("AuthorUserId={}&Statuses=Archived", second.id), vec![&archived]),
        (format!("Tag={}", encoded("новостройки")), vec![&draft, &published]),
        (format!("Tag={}", encoded("САД")), vec![&draft]),
        (format!("Tag={}", encoded("новострой")), vec![]),
        (format!("CreatedFrom={from}"), vec![&published, &archived]),
        (format!("CreatedFrom={from}&CreatedTo={to}"), vec![&published]),
        (format!("CreatedTo={from}"), vec![&draft]),
    ] {
        for caller in [&manager, &user(guid(), Some(company), &[CREATE_COMPANY])] {
            let query = format!("Editable=true&AuthorCompanyId={company}&Sort=CreatedAt&{query}");
            let (ids, total) = listed(caller, &query).await;
            assert_eq!(ids.iter().collect::<Vec<_>>(), expected, "{query}");
            assert_eq!(total, expected.len(), "{query}");
        }
    }
    assert_eq!(listed(&first.news, "Mine=true&Statuses=Draft").await.0, [draft]);
    assert_eq!(listed(&first.news, &format!("Mine=true&AuthorUserId={}", second.id)).await.0, [""; 0]);
}

/// RULE-NWS-072: guests filter the feed by tag and company.
#[tokio::test]
async fn guests_filter_the_feed_by_tag_and_company() {
    let (company, other, mark) = (guid(), guid(), unique_word());
    let publish_in = async |company: Uuid, tag: &str| {
        let metadata = json!({"Title": mark, "AuthorCompanyId": company, "Tags": [mark, tag]});
        publish_as(&author_in(company), metadata, "x").await
    };
    let (house, garden) = (publish_in(company, "House").await, publish_in(company, "Garden").await);
    let elsewhere = publish_in(other, "house").await;
    let guest = service().guest();
    for (query, expected) in [
        (format!("Tag={mark}"), vec![&elsewhere, &garden, &house]),
        (format!("AuthorCompanyId={company}"), vec![&garden, &house]),
        (format!("AuthorCompanyId={company}&Tag=HOUSE"), vec![&house]),
        (format!("AuthorCompanyId={company}&Tag=house&Query={mark}"), vec![&house]),
        (format!("AuthorCompanyId={company}&Query={}", unique_word()), vec![]),
        (format!("AuthorCompanyId={}", guid()), vec![]),
    ] {
        let (ids, total) = listed(&guest, &query).await;
        assert_eq!(
            (ids.iter().collect::<Vec<_>>(), total),
            (expected.clone(), json!(expected.len())),
            "{query}"
        );
    }
    let page = guest.get(&format!("{POSTS}?Tag={mark}&PageSize=2&Page=2")).await.expect(200);
    assert_eq!(each(&page["Items"], "Id"), [&json!(house)]);
    let author = author_in(company);
    for (to, expected) in [("unpublish", vec![&house]), ("publish", vec![&garden, &house])] {
        author.change_status(&garden, to).await.expect(200);
        assert_eq!(
            listed(&guest, &format!("AuthorCompanyId={company}")).await.0.iter().collect::<Vec<_>>(),
            expected
        );
    }
    author.news.put(&path(&garden), json!({"Title": "x", "Tags": ["yard"]})).await.expect(200);
    assert_eq!(listed(&guest, &format!("AuthorCompanyId={company}&Tag=garden")).await.0, [""; 0]);
    assert_eq!(listed(&guest, &format!("AuthorCompanyId={company}&Tag=yard")).await.0, [garden]);
}

/// RULE-NWS-072: a filter of editors is refused in the feed, and invalid filters are named.
#[tokio::test]
async fn filters_of_editors_are_refused_in_the_feed() {
    let author = author();
    for (query, field) in [
        ("Statuses=Published", "/Statuses"),
        (&*format!("AuthorUserId={}", author.id), "/AuthorUserId"),
        ("CreatedFrom=2026-01-01T00:00:00Z", "/CreatedFrom"),
        ("CreatedTo=2026-01-01T00:00:00Z", "/CreatedTo"),
    ] {
        let listed = author.news.get(&format!("{POSTS}?{query}")).await;
        listed.expect_refusal("VALIDATION_FAILED", field, "editors_only");
        author.news.get(&format!("{POSTS}?Mine=true&{query}")).await.expect(200);
    }
    for (query, field, reason) in [
        ("Statuses=Open", "/Statuses", "unknown_value"),
        ("AuthorUserId=x", "/AuthorUserId", "invalid_type"),
        ("AuthorCompanyId=x", "/AuthorCompanyId", "invalid_type"),
        ("Tag=", "/Tag", "too_short"),
        ("CreatedFrom=2026-01-02T00:00:00Z&CreatedTo=2026-01-01T00:00:00Z", "/CreatedTo", "empty_range"),
        ("Editable=yes", "/Editable", "invalid_type"),
    ] {
        let editable = if query.starts_with("Editable") { "" } else { "Editable=true&" };
        let refused = author.news.get(&format!("{POSTS}?{editable}{query}")).await;
        refused.expect_refusal("VALIDATION_FAILED", field, reason);
    }
}

/// RULE-NWS-072: pages of a filtered list have each post once, whatever the order.
#[tokio::test]
async fn pages_of_editable_posts_have_each_post_once() {
    let company = guid();
    let author = author_in(company);
    let mut posts = BTreeSet::new();
    for at in 0..5 {
        let post = create(&author, json!({"Title": "x", "AuthorCompanyId": company})).await;
        if at % 2 == 0 {
            author.set_blocks(&post, [text_block("x")]).await.expect(200);
            author.change_status(&post, "publish").await.expect(200);
        }
        posts.insert(post);
    }
    for sort in ["PublishedAt", "-PublishedAt", "CreatedAt", "-CreatedAt", "Relevance", "-Relevance"] {
        let mut seen = Vec::new();
        for number in 1..=3 {
            let query =
                format!("Editable=true&AuthorCompanyId={company}&Sort={sort}&PageSize=2&Page={number}");
            let page = author.news.get(&format!("{POSTS}?{query}")).await.expect(200);
            assert_eq!(page["TotalCount"], 5);
            seen.extend(list(&page["Items"]).iter().map(|post| text(&post["Id"]).to_owned()));
        }
        assert_eq!(seen.len(), 5, "{sort}");
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), posts, "{sort}");
    }
}
