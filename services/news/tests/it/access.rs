//! Callers of every operation, and the access to posts (INV-NWS-007).

use futures_util::future::join;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::access::{self, Case, losses, repeats};
use testkit::client::{Client, Response, send};
use testkit::issuer::Claims;
use uuid::Uuid;

use crate::{
    Author, CREATE_COMPANY, MANAGE, MANAGE_OWN, POSTS, author, author_of, blocks_path, content, each, embed,
    guid, path, service, start, text, text_block,
};

/// The permission to edit posts of every company, and to create posts of the token's company.
const EVERY_COMPANY: &str = "news.posts.create-company@platform";

/// Status of each operation on a company's draft for each caller (INV-NWS-007).
const TABLE: &str = "
    operation       | author | company manager | all companies | manager | colleague | other manager | stranger | guest | forged | news | crm | other machines
    list_posts      |  200   |       200       |      200      |   200   |    200    |      200      |   200    |  200  |  200   | 200  | 200 |  200
    read_atom_feed  |  200   |       200       |      200      |   200   |    200    |      200      |   200    |  200  |  200   | 200  | 200 |  200
    create_post     |  201   |       201       |      403      |   403   |    403    |      403      |   403    |  401  |  401   | 401  | 401 |  401
    get_post        |  200   |       200       |      200      |   200   |    404    |      404      |   404    |  404  |  401   | 401  | 401 |  401
    list_post_log   |  200   |       200       |      200      |   200   |    404    |      404      |   404    |  401  |  401   | 401  | 401 |  401
    update_post     |  200   |       200       |      200      |   200   |    403    |      403      |   403    |  401  |  401   | 401  | 401 |  401
    set_post_blocks |  200   |       200       |      200      |   200   |    403    |      403      |   403    |  401  |  401   | 401  | 401 |  401
    publish_post    |  200   |       200       |      200      |   200   |    403    |      403      |   403    |  401  |  401   | 401  | 401 |  401
    unpublish_post  |  200   |       200       |      200      |   200   |    403    |      403      |   403    |  401  |  401   | 401  | 401 |  401
    archive_post    |  200   |       200       |      200      |   200   |    403    |      403      |   403    |  401  |  401   | 401  | 401 |  401
    schedule_post   |  200   |       200       |      200      |   200   |    403    |      403      |   403    |  401  |  401   | 401  | 401 |  401
    list_post_revisions | 200 | 200 | 200 | 200 | 404 | 404 | 404 | 401 | 401 | 401 | 401 | 401
    read_post_revision | 200 | 200 | 200 | 200 | 404 | 404 | 404 | 401 | 401 | 401 | 401 | 401
    compare_post_revisions | 200 | 200 | 200 | 200 | 404 | 404 | 404 | 401 | 401 | 401 | 401 | 401
    restore_post_revision | 200 | 200 | 200 | 200 | 403 | 403 | 403 | 401 | 401 | 401 | 401 | 401
    undelete_post   | 200 | 200 | 200 | 200 | 404 | 404 | 404 | 401 | 401 | 401 | 401 | 401
    delete_post     |  204   |       204       |      204      |   204   |    403    |      403      |   403    |  401  |  401   | 401  | 401 |  401
";

/// Prepares a company's draft with a block, and a request for the operation.
///
/// The post is published if the operation unpublishes it, and deleted if it is undeleted.
async fn prepare(operation: &str) -> Case {
    let (id, company) = (guid(), guid());
    let claims = |company: Option<Uuid>, permissions: &[&str]| {
        let claims = Claims { company_id: company, ..Claims::user(guid()) };
        permissions.iter().fold(claims, |claims, permission| claims.permission(*permission))
    };
    let author = Claims { sub: id.to_string(), ..claims(Some(company), &[MANAGE_OWN, CREATE_COMPANY]) };
    let post = post_of(&service().caller(&author), Some(company)).await;
    if operation == "unpublish_post" {
        service().caller(&author).post(&format!("{POSTS}/{post}/publish"), Value::Null).await.expect(200);
    }
    if operation == "undelete_post" {
        service().caller(&author).delete(&path(&post)).await.expect(204);
    }
    let mut parameters = vec![("post_id", post)];
    if operation.ends_with("_revision") || operation.ends_with("_revisions") {
        parameters.push(("version", "2".to_owned()));
    }
    if operation == "compare_post_revisions" {
        parameters.push(("Since", "2".to_owned()));
    }
    Case {
        parameters,
        body: match operation {
            "create_post" => json!({"Title": "x", "AuthorCompanyId": company}),
            "schedule_post" => json!({"PublishAt": "2100-01-01T00:00:00Z"}),
            "update_post" => json!({"Title": "Changed"}),
            "set_post_blocks" => content([text_block("changed")]),
            _ => Value::Null,
        },
        people: vec![
            ("author", vec![author]),
            (
                "company manager",
                vec![claims(Some(company), &[CREATE_COMPANY]), claims(Some(company), &[EVERY_COMPANY])],
            ),
            ("all companies", vec![claims(None, &[EVERY_COMPANY]), claims(Some(guid()), &[EVERY_COMPANY])]),
            ("manager", vec![claims(None, &[MANAGE]), claims(Some(guid()), &[MANAGE])]),
            ("colleague", vec![claims(Some(company), &[]), claims(Some(company), &[MANAGE_OWN])]),
            ("other manager", vec![claims(Some(guid()), &[CREATE_COMPANY]), claims(None, &[CREATE_COMPANY])]),
            (
                "stranger",
                vec![
                    claims(None, &[]),
                    claims(None, &[MANAGE_OWN]),
                    claims(Some(company), &["news.posts.manage", "news.posts.manage@organization"]),
                    claims(None, &["news.posts.manage@elsewhere", "news.posts.create-company@"]),
                    claims(Some(company), &["crm.deals.manage@platform", "news.posts", "news.posts.managed"]),
                ],
            ),
        ],
    }
}

/// Returns a valid request for each operation that changes a post.
fn changes(post: &str) -> Vec<(Method, String, Option<Value>)> {
    let status_change = |to: &str| (Method::POST, format!("{POSTS}/{post}/{to}"), None);
    vec![
        (Method::PUT, path(post), Some(json!({"Title": "Changed"}))),
        (Method::PUT, blocks_path(post), Some(content([text_block("changed")]))),
        (Method::PUT, format!("{POSTS}/{post}/schedule"), Some(json!({"PublishAt": "2100-01-01T00:00:00Z"}))),
        status_change("publish"),
        status_change("unpublish"),
        status_change("archive"),
        (Method::DELETE, path(post), None),
    ]
}

async fn call(caller: &Client, (method, path, body): &(Method, String, Option<Value>)) -> Response {
    let request = caller.request(method.clone(), path);
    send(match body {
        Some(body) => request.json(body),
        None => request,
    })
    .await
}

fn user_of(company: Option<Uuid>, permissions: &[&str]) -> Client {
    let claims = Claims { company_id: company, ..Claims::user(guid()) };
    service().caller(&permissions.iter().fold(claims, |claims, permission| claims.permission(*permission)))
}

/// Creates a draft with a block, for `company` or personal.
async fn post_of(author: &Client, company: Option<Uuid>) -> String {
    let post = author.post(POSTS, json!({"Title": "x", "AuthorCompanyId": company})).await.expect(201);
    let post = text(&post["Id"]).to_owned();
    author.put(&blocks_path(&post), content([text_block("x")])).await.expect(200);
    post
}

/// INV-NWS-007, RULE-NWS-016, RULE-NWS-029, RULE-NWS-030, RULE-NWS-031, RULE-ALL-012, RULE-ALL-013,
/// RULE-ALL-047, RULE-ALL-050, RULE-ALL-073: each caller gets the status of the table, and each
/// kind of invalid token is rejected.
#[tokio::test]
async fn every_operation_returns_the_status_of_the_table() {
    access::check(service(), TABLE, prepare).await;
}

/// INV-NWS-007, RULE-NWS-031: a null `AuthorCompanyId` makes no user a company manager.
#[tokio::test]
async fn personal_post_has_no_company_manager() {
    let post = post_of(&user_of(None, &[MANAGE_OWN]), None).await;
    for company in [None, Some(guid()), Some(Uuid::nil())] {
        let manager = user_of(company, &[CREATE_COMPANY, EVERY_COMPANY]);
        for change in changes(&post) {
            call(&manager, &change).await.expect_problem(403, "FORBIDDEN");
        }
        manager.get(&path(&post)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    }
    call(&user_of(None, &[MANAGE]), &changes(&post)[0]).await.expect(200);
}

/// INV-NWS-007: the author of a personal post needs `news.posts.manage-own` to edit it, in any
/// company or in none.
#[tokio::test]
async fn author_without_the_permission_cannot_change_a_personal_post() {
    for company in [None, Some(guid())] {
        let id = guid();
        let author = author_of(service(), id, &|claims| claims.permission(MANAGE_OWN));
        let post = author.create_post_of([text_block("x")]).await;
        let bare = author_of(service(), id, &|claims| Claims { company_id: company, ..claims });
        for change in changes(&post) {
            call(&bare.news, &change).await.expect_problem(403, "FORBIDDEN");
        }
        bare.news.get(&path(&post)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
        let later = |claims| Claims { company_id: company, ..claims }.permission(MANAGE_OWN);
        let author = author_of(service(), id, &later);
        for change in changes(&post) {
            let success = if change.0 == Method::DELETE { 204 } else { 200 };
            assert_eq!(call(&author.news, &change).await.status, success, "{change:?}");
        }
    }
}

/// INV-NWS-007: a suspended employee cannot change the company's posts, not even own ones. Neither
/// can a former employee with a new token.
#[tokio::test]
async fn author_who_left_the_company_cannot_change_its_posts() {
    let (id, company) = (guid(), guid());
    let employee = |claims: Claims| claims.company(company).permission(CREATE_COMPANY).permission(MANAGE_OWN);
    let author = author_of(service(), id, &employee);
    let post = post_of(&author.news, Some(company)).await;
    let without_rights = |claims: Claims| claims.company(company);
    let losses: [&dyn Fn(Claims) -> Claims; 5] = [
        &without_rights,
        &|claims| claims,
        &|claims| claims.permission(MANAGE_OWN).permission(CREATE_COMPANY),
        &|claims| claims.company(guid()).permission(MANAGE_OWN).permission(CREATE_COMPANY),
        &|claims| claims.company(guid()).permission("news.posts.manage-own@platform"),
    ];
    let former = losses.map(|loss| author_of(service(), id, loss));
    for former in &former {
        for change in changes(&post) {
            call(&former.news, &change).await.expect_problem(403, "FORBIDDEN");
        }
        former.news.get(&path(&post)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    }
    author.change_status(&post, "publish").await.expect(200);
    let published = service().guest().get(&path(&post)).await.expect(200);
    for former in &former {
        for change in changes(&post) {
            call(&former.news, &change).await.expect_problem(403, "FORBIDDEN");
        }
        assert_eq!(former.news.get(&path(&post)).await.expect(200), published);
    }
    // The author needs no permission for all posts of the company.
    let author = author_of(service(), id, &|claims| claims.company(company).permission(MANAGE_OWN));
    call(&author.news, &changes(&post)[0]).await.expect(200);
}

/// RULE-NWS-035: the list of own posts has no draft of a former company, and no other draft that
/// the caller may not edit.
#[tokio::test]
async fn own_list_has_no_draft_of_a_former_company() {
    let (id, company) = (guid(), guid());
    let author = |company: Option<Uuid>, permissions: &[&str]| {
        let claims = Claims { company_id: company, ..Claims::user(id) };
        service()
            .caller(&permissions.iter().fold(claims, |claims, permission| claims.permission(*permission)))
    };
    let employed = author(Some(company), &[MANAGE_OWN, CREATE_COMPANY]);
    let personal = post_of(&employed, None).await;
    let draft = post_of(&employed, Some(company)).await;
    let published = post_of(&employed, Some(company)).await;
    employed.post(&format!("{POSTS}/{published}/publish"), Value::Null).await.expect(200);
    let (personal, draft, published) = (&*personal, &*draft, &*published);
    let everywhere = "news.posts.manage-own@platform";
    for (caller, expected) in [
        (employed, vec![personal, draft, published]),
        (author(Some(company), &[MANAGE_OWN]), vec![personal, draft, published]),
        (author(Some(company), &[CREATE_COMPANY]), vec![draft, published]),
        (author(None, &[EVERY_COMPANY]), vec![draft, published]),
        (author(None, &[MANAGE]), vec![personal, draft, published]),
        (author(None, &[MANAGE_OWN, CREATE_COMPANY]), vec![personal, published]),
        (author(Some(guid()), &[everywhere, CREATE_COMPANY]), vec![personal, published]),
        (author(Some(company), &[]), vec![published]),
        (author(None, &[]), vec![published]),
    ] {
        let page = caller.get(&format!("{POSTS}?Mine=true&Sort=CreatedAt")).await.expect(200);
        assert_eq!(each(&page["Items"], "Id"), expected);
        assert_eq!(page["TotalCount"], expected.len());
    }
}

/// RULE-NWS-055: two first posts that an author creates concurrently get the same public id.
/// Another database has another id for the author, so the id cannot be derived from the user's id.
#[tokio::test]
async fn public_id_of_an_author_is_random() {
    let (author, other_news) = (author(), start("http://127.0.0.1:1"));
    let twin = author_of(&other_news, author.id, &|claims| claims.permission(MANAGE_OWN));
    let create = async |author: &Author| {
        author.news.post(POSTS, json!({"Title": "x"})).await.expect(201)["AuthorId"].take()
    };
    let (first, second) = join(create(&author), create(&author)).await;
    assert_eq!(second, first);
    assert!(text(&first).parse::<Uuid>().is_ok_and(|id| id != author.id));
    assert_ne!(create(&twin).await, first);
}

/// RULE-NWS-055: readers see no id of a user or of a source selection, but a stable public id of
/// the author.
#[tokio::test]
async fn reader_sees_no_user_and_no_source_selection() {
    let (author, other) = (author(), author());
    let selection = author.create_selection().await;
    let mut ids = Vec::new();
    for (author, blocks) in [
        (&author, vec![embed(&selection)]),
        (&author, vec![text_block("x")]),
        (&other, vec![text_block("x")]),
    ] {
        let post = author.create_post_of(blocks).await;
        author.change_status(&post, "publish").await.expect(200);
        let own = author.read(&post).await;
        assert_eq!(own["AuthorUserId"], author.id.to_string());
        for reader in [service().guest(), user_of(None, &[MANAGE_OWN])] {
            let seen = reader.get(&path(&post)).await.expect(200);
            for hidden in ["AuthorUserId", "CreatedByUserId", "UpdatedByUserId"] {
                assert_eq!(
                    (seen.get(hidden), own[hidden].is_null()),
                    (Some(&Value::Null), false),
                    "{hidden}"
                );
            }
            assert!(seen["Blocks"][0]["SourceSelectionId"].is_null());
            let all = seen.to_string();
            assert!(!all.contains(&author.id.to_string()) && !all.contains(&selection), "{all}");
            assert_eq!(seen["AuthorId"], own["AuthorId"]);
        }
        ids.push(text(&own["AuthorId"]).to_owned());
    }
    assert_eq!(ids[0], ids[1]);
    assert_ne!(ids[0], ids[2]);
}

/// RULE-NWS-055: an editor who is not the author sees the author, and no source selection.
#[tokio::test]
async fn fellow_editor_sees_no_source_selection() {
    let company = guid();
    let author = author_of(service(), guid(), &|claims| {
        Claims { company_id: Some(company), ..claims }.permission(MANAGE_OWN).permission(CREATE_COMPANY)
    });
    let selection = author.create_selection().await;
    let post = post_of(&author.news, Some(company)).await;
    author.set_blocks(&post, [embed(&selection)]).await.expect(200);
    assert_eq!(author.read(&post).await["Blocks"][0]["SourceSelectionId"], selection);
    let fellow = user_of(Some(company), &[CREATE_COMPANY]);
    let seen = fellow.get(&path(&post)).await.expect(200);
    assert_eq!(seen["AuthorUserId"], author.id.to_string());
    assert!(seen["Blocks"][0]["SourceSelectionId"].is_null());
    let renamed = fellow.put(&path(&post), json!({"Title": "Changed"})).await.expect(200);
    assert!(renamed["Blocks"][0]["SourceSelectionId"].is_null());
    assert!(!renamed.to_string().contains(&selection), "{renamed}");
}

/// RULE-NWS-034, RULE-NWS-046: a post that is not published is visible to those who may edit it.
#[tokio::test]
async fn post_is_visible_to_everyone_while_published() {
    let company = guid();
    let author = user_of(Some(company), &[CREATE_COMPANY]);
    let post = post_of(&author, Some(company)).await;
    let insiders = [author, user_of(Some(company), &[CREATE_COMPANY]), user_of(None, &[MANAGE])];
    let outsiders = [service().guest(), user_of(Some(company), &[MANAGE_OWN]), user_of(None, &[])];
    for (to, public) in [("", false), ("publish", true), ("unpublish", false), ("archive", false)] {
        if !to.is_empty() {
            insiders[0].post(&format!("{POSTS}/{post}/{to}"), Value::Null).await.expect(200);
        }
        for insider in &insiders {
            insider.get(&path(&post)).await.expect(200);
        }
        for outsider in &outsiders {
            let response = outsider.get(&path(&post)).await;
            if public {
                response.expect(200);
            } else {
                response.expect_problem(404, "NEWS_POST_NOT_FOUND");
            }
        }
    }
}

/// RULE-NWS-044: unknown routes return 404, and unknown methods return 405 with `Allow`.
#[tokio::test]
async fn unknown_route_and_method_are_refused() {
    let (user, id) = (user_of(None, &[MANAGE]), guid());
    for (path, allowed) in [
        (POSTS.to_owned(), "GET, HEAD, POST"),
        (format!("{POSTS}/{id}"), "GET, HEAD, PUT, DELETE"),
        (format!("{POSTS}/{id}/blocks"), "PUT"),
        (format!("{POSTS}/{id}/publish"), "POST"),
    ] {
        let response = send(user.request(Method::PATCH, &path)).await;
        assert_eq!(response.header("allow"), allowed, "{path}");
        response.expect_problem(405, "METHOD_NOT_ALLOWED");
    }
    for route in [
        "/",
        "/api/v1",
        "/api/v1/post",
        "/api/v2/posts",
        "/health/live",
        "/health/ready",
        "/metrics",
        "/api/v1/posts/",
    ] {
        user.get(route).await.expect_problem(404, "NOT_FOUND");
    }
}

/// Statuses for a fresh token after each loss of rights. An operation that is missing here returns
/// 403.
///
/// The feed is public, and a former employee does not see the drafts of the company. Without a
/// role, an employee still has `news.posts.manage-own`.
const AFTER_LOSS: &str = "
    operation       | suspended | removed | role lost | company suspended
    list_posts      |    200    |   200   |    200    |        200
    read_atom_feed  |    200    |   200   |    200    |        200
    get_post        |    404    |   404   |    200    |        404
    list_post_log   |    404    |   404   |    200    |        404
    update_post     |    403    |   403   |    200    |        403
    set_post_blocks |    403    |   403   |    200    |        403
    publish_post    |    403    |   403   |    200    |        403
    unpublish_post  |    403    |   403   |    200    |        403
    archive_post    |    403    |   403   |    200    |        403
    schedule_post   |    403    |   403   |    200    |        403
    list_post_revisions | 404 | 404 | 200 | 404
    read_post_revision | 404 | 404 | 200 | 404
    compare_post_revisions | 404 | 404 | 200 | 404
    restore_post_revision | 403 | 403 | 200 | 403
    undelete_post   | 404 | 404 | 200 | 404
    delete_post     |    403    |   403   |    204    |        403
";

/// RULE-ALL-075, RULE-ALL-077: after each loss of rights, the old token gets the response to an
/// invalid one, and a fresh token has the remaining rights.
#[tokio::test]
async fn every_operation_refuses_the_token_from_before_a_loss_of_rights() {
    losses::check(service(), TABLE, AFTER_LOSS, prepare).await;
}

/// RULE-ALL-081, RULE-ALL-082, RULE-ALL-095: each operation that creates accepts `Idempotency-Key`.
/// A repeat returns the first response, and another body is refused. Each response has `Location`.
#[tokio::test]
async fn every_creating_operation_returns_its_first_response_to_a_repeat() {
    assert_eq!(repeats::check(service(), TABLE, prepare).await, [""; 0], "operations without `Location`");
}
