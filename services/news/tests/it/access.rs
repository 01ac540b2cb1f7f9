//! Who may come in, and INV-NWS-007: who may do what with a post.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::access::{self, Case};
use testkit::client::{Answer, Client, send};
use testkit::issuer::Claims;
use uuid::Uuid;

use crate::{
    CREATE_COMPANY, MANAGE, MANAGE_OWN, POSTS, author_of, blocks_path, content, guid, path, service, text,
    text_block,
};

/// In platform scope: for every company that the route reaches, and creating reaches the token's alone.
const EVERY_COMPANY: &str = "news.posts.create-company@platform";

/// INV-NWS-007: each operation on a company's draft, and what it answers to whom. Whoever may not see the
/// draft does not find it; whoever may not change it is told so.
const TABLE: &str = "
    operation       | author | company manager | all companies | manager | colleague | other manager | stranger | guest | forged | news | crm | other machines
    list_posts      |  200   |       200       |      200      |   200   |    200    |      200      |   200    |  200  |  200   | 200  | 200 |  200
    create_post     |  201   |       201       |      403      |   403   |    403    |      403      |   403    |  401  |  401   | 401  | 401 |  401
    get_post        |  200   |       200       |      200      |   200   |    404    |      404      |   404    |  404  |  404   | 404  | 404 |  404
    update_post     |  200   |       200       |      200      |   200   |    403    |      403      |   403    |  401  |  401   | 401  | 401 |  401
    set_post_blocks |  200   |       200       |      200      |   200   |    403    |      403      |   403    |  401  |  401   | 401  | 401 |  401
    publish_post    |  200   |       200       |      200      |   200   |    403    |      403      |   403    |  401  |  401   | 401  | 401 |  401
    unpublish_post  |  200   |       200       |      200      |   200   |    403    |      403      |   403    |  401  |  401   | 401  | 401 |  401
    archive_post    |  200   |       200       |      200      |   200   |    403    |      403      |   403    |  401  |  401   | 401  | 401 |  401
    delete_post     |  204   |       204       |      204      |   204   |    403    |      403      |   403    |  401  |  401   | 401  | 401 |  401
";

/// A company's draft with a block, published where it is to be taken back, and a request that concerns it.
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
    Case {
        parameters: vec![("post_id", post)],
        body: match operation {
            "create_post" => json!({"Title": "x", "AuthorCompanyId": company}),
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

/// What changes a post, each with a request that could succeed on a draft with a block.
fn changes(post: &str) -> Vec<(Method, String, Option<Value>)> {
    let moved = |to: &str| (Method::POST, format!("{POSTS}/{post}/{to}"), None);
    vec![
        (Method::PUT, path(post), Some(json!({"Title": "Changed"}))),
        (Method::PUT, blocks_path(post), Some(content([text_block("changed")]))),
        moved("publish"),
        moved("unpublish"),
        moved("archive"),
        (Method::DELETE, path(post), None),
    ]
}

async fn call(caller: &Client, (method, path, body): &(Method, String, Option<Value>)) -> Answer {
    let request = caller.request(method.clone(), path);
    send(match body {
        Some(body) => request.json(body),
        None => request,
    })
    .await
}

fn person(company: Option<Uuid>, permissions: &[&str]) -> Client {
    let claims = Claims { company_id: company, ..Claims::user(guid()) };
    service().caller(&permissions.iter().fold(claims, |claims, permission| claims.permission(*permission)))
}

/// A draft with a block, for `company` or personal.
async fn post_of(author: &Client, company: Option<Uuid>) -> String {
    let post = author.post(POSTS, json!({"Title": "x", "AuthorCompanyId": company})).await.expect(201);
    let post = text(&post["Id"]).to_owned();
    author.put(&blocks_path(&post), content([text_block("x")])).await.expect(200);
    post
}

/// Authentication, Check order, Token, INV-NWS-007: the table above, which leaves out no operation and no flaw
/// of a token.
#[tokio::test]
async fn every_operation_answers_each_caller_as_the_table_says() {
    access::check(service(), TABLE, prepare).await;
}

/// News: a null `AuthorCompanyId` never makes anybody a company manager.
#[tokio::test]
async fn a_personal_post_has_no_company_manager() {
    let post = post_of(&person(None, &[MANAGE_OWN]), None).await;
    for company in [None, Some(guid()), Some(Uuid::nil())] {
        let manager = person(company, &[CREATE_COMPANY, EVERY_COMPANY]);
        for change in changes(&post) {
            call(&manager, &change).await.expect_problem(403, "FORBIDDEN");
        }
        manager.get(&path(&post)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    }
    call(&person(None, &[MANAGE]), &changes(&post)[0]).await.expect(200);
}

/// Rule 4: the author changes a personal post with a token that has no permission, whatever company it names.
#[tokio::test]
async fn an_author_changes_a_personal_post_without_any_permission() {
    for company in [None, Some(guid())] {
        let id = guid();
        let author = author_of(service(), id, &|claims| claims.permission(MANAGE_OWN));
        let post = author.create_post_of([text_block("x")]).await;
        let now = author_of(service(), id, &|claims| Claims { company_id: company, ..claims });
        now.read(&post).await;
        for change in changes(&post) {
            let success = if change.0 == Method::DELETE { 204 } else { 200 };
            assert_eq!(call(&now.news, &change).await.status, success, "{change:?}");
        }
    }
}

/// News: what is published is for everybody; before and after, only for those who may change it.
#[tokio::test]
async fn a_post_is_seen_by_everybody_while_it_is_published() {
    let company = guid();
    let author = person(Some(company), &[CREATE_COMPANY]);
    let post = post_of(&author, Some(company)).await;
    let insiders = [author, person(Some(company), &[CREATE_COMPANY]), person(None, &[MANAGE])];
    let outsiders = [service().guest(), person(Some(company), &[MANAGE_OWN]), person(None, &[])];
    for (to, public) in [("", false), ("publish", true), ("unpublish", false), ("archive", false)] {
        if !to.is_empty() {
            insiders[0].post(&format!("{POSTS}/{post}/{to}"), Value::Null).await.expect(200);
        }
        for insider in &insiders {
            insider.get(&path(&post)).await.expect(200);
        }
        for outsider in &outsiders {
            let answer = outsider.get(&path(&post)).await;
            if public {
                answer.expect(200);
            } else {
                answer.expect_problem(404, "NEWS_POST_NOT_FOUND");
            }
        }
    }
}

/// Conventions: `METHOD_NOT_ALLOWED` with `Allow`, and unknown routes.
#[tokio::test]
async fn what_does_not_exist_is_told() {
    let (user, id) = (person(None, &[MANAGE]), guid());
    for (path, allowed) in [
        (POSTS.to_owned(), "GET, HEAD, POST"),
        (format!("{POSTS}/{id}"), "GET, HEAD, PUT, DELETE"),
        (format!("{POSTS}/{id}/blocks"), "PUT"),
        (format!("{POSTS}/{id}/publish"), "POST"),
    ] {
        let answer = send(user.request(Method::PATCH, &path)).await;
        assert_eq!(answer.header("allow"), allowed, "{path}");
        answer.expect_problem(405, "METHOD_NOT_ALLOWED");
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
