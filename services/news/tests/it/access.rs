//! Who may come in, and INV-NWS-007: who may do what with a post.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::{Answer, Client, send};
use testkit::forged;
use testkit::issuer::Claims;
use uuid::Uuid;

use crate::{
    CREATE_COMPANY, MANAGE, MANAGE_OWN, POSTS, author_of, blocks_path, content, guid, path, service, text,
    text_block,
};

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

/// A draft with a block, of somebody in `company`.
async fn post_of(company: Option<Uuid>) -> (Client, String) {
    let author = author_of(service(), guid(), &|claims| {
        let claims = Claims { company_id: company, ..claims };
        claims.permission(MANAGE_OWN).permission(CREATE_COMPANY)
    });
    let post = author.news.post(POSTS, json!({"Title": "x", "AuthorCompanyId": company})).await.expect(201);
    let post = text(&post["Id"]).to_owned();
    author.set_blocks(&post, [text_block("x")]).await.expect(200);
    (author.news, post)
}

/// INV-NWS-007: the author, a manager of the author's company, a manager of all posts; each may do everything.
#[tokio::test]
async fn those_who_may_change_a_post_may_change_all_of_it() {
    let company = guid();
    for editor in [
        None,
        Some(person(Some(company), &[CREATE_COMPANY])),
        Some(person(None, &[MANAGE])),
        Some(person(Some(guid()), &[MANAGE])),
    ] {
        let (author, post) = post_of(Some(company)).await;
        let editor = editor.unwrap_or(author);
        editor.get(&path(&post)).await.expect(200);
        for change in changes(&post) {
            let answer = call(&editor, &change).await;
            // Unpublished by then, so that archiving and deleting follow.
            assert!([200, 204].contains(&answer.status), "{change:?}: {}", answer.text);
        }
    }
}

/// INV-NWS-007: nobody else may do anything, and nothing has happened.
#[tokio::test]
async fn those_who_may_not_change_a_post_change_nothing() {
    let company = guid();
    let (author, post) = post_of(Some(company)).await;
    let before = author.get(&path(&post)).await.expect(200);
    for (who, stranger) in [
        ("an author of other posts", person(None, &[MANAGE_OWN])),
        ("a colleague", person(Some(company), &[])),
        ("a colleague who writes", person(Some(company), &[MANAGE_OWN])),
        ("another company's manager", person(Some(guid()), &[CREATE_COMPANY])),
        ("a manager of no company", person(None, &[CREATE_COMPANY])),
        (
            "a holder of other permissions",
            person(Some(company), &["crm.deals.manage@platform", "news.posts", "news.posts.managed"]),
        ),
    ] {
        for change in changes(&post) {
            let answer = call(&stranger, &change).await;
            assert_eq!(answer.status, 403, "{who}: {change:?}: {}", answer.text);
            answer.expect_problem(403, "FORBIDDEN");
        }
        stranger.get(&path(&post)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    }
    assert_eq!(author.get(&path(&post)).await.expect(200), before);
}

/// News: a null `AuthorCompanyId` never makes anybody a company manager.
#[tokio::test]
async fn a_personal_post_has_no_company_manager() {
    let (_, post) = post_of(None).await;
    for company in [None, Some(guid()), Some(Uuid::nil())] {
        let manager = person(company, &[CREATE_COMPANY]);
        for change in changes(&post) {
            call(&manager, &change).await.expect_problem(403, "FORBIDDEN");
        }
        manager.get(&path(&post)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    }
    call(&person(None, &[MANAGE]), &changes(&post)[0]).await.expect(200);
}

/// The author stays the author, whatever company and permissions the token names today.
#[tokio::test]
async fn an_author_needs_no_permission_for_their_post() {
    let id = guid();
    let before = author_of(service(), id, &|claims| claims.permission(MANAGE_OWN));
    let post = before.create_post_of([text_block("x")]).await;
    let now = author_of(service(), id, &|claims| claims.company(guid()));
    now.read(&post).await;
    for change in changes(&post) {
        let answer = call(&now.news, &change).await;
        assert!([200, 204].contains(&answer.status), "{change:?}: {}", answer.text);
    }
}

/// Authentication: nobody writes or changes anything; a missing post makes no difference.
#[tokio::test]
async fn nobody_changes_anything_without_a_token() {
    let (_, post) = post_of(None).await;
    let create = (Method::POST, POSTS.to_owned(), Some(json!({"Title": "x"})));
    for change in changes(&post).into_iter().chain(changes(&guid().to_string())).chain([create]) {
        let answer = call(&service().guest(), &change).await;
        assert_eq!(answer.header("www-authenticate"), "Bearer", "{change:?}");
        answer.expect_problem(401, "UNAUTHORIZED");
    }
}

/// Conventions, Token: each flaw is refused by every operation that takes a token.
#[tokio::test]
async fn no_forged_token_is_taken() {
    let (author, post) = post_of(None).await;
    let before = author.get(&path(&post)).await.expect(200);
    let create = (Method::POST, POSTS.to_owned(), Some(json!({"Title": "x"})));
    let operations: Vec<_> = changes(&post).into_iter().chain([create]).collect();
    for (flaw, token) in forged::tokens(&Claims::user(guid()).permission(MANAGE).permission(MANAGE_OWN)) {
        for operation in &operations {
            let answer = call(&service().bearer(&token), operation).await;
            assert_eq!(answer.status, 401, "{flaw}: {operation:?}: {}", answer.text);
            answer.expect_problem(401, "UNAUTHORIZED");
        }
        service().bearer(&token).get(&path(&post)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    }
    assert_eq!(author.get(&path(&post)).await.expect(200), before);
}

/// Authentication: a machine is no person, not even one with permissions.
#[tokio::test]
async fn a_machine_token_is_worth_nothing_here() {
    let (_, post) = post_of(None).await;
    for client in ["news", "crm"] {
        let mut claims = Claims::client(client).permission(MANAGE);
        claims.sub = guid().to_string();
        let caller = service().caller(&claims);
        for change in changes(&post) {
            call(&caller, &change).await.expect_problem(401, "UNAUTHORIZED");
        }
    }
}

/// News: what is published is for everybody; before and after, only for those who may change it.
#[tokio::test]
async fn a_post_is_seen_by_everybody_while_it_is_published() {
    let company = guid();
    let (author, post) = post_of(Some(company)).await;
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

/// The table above leaves nothing out that the service documents.
#[tokio::test]
async fn the_table_of_operations_is_complete() {
    let document = service().guest().get("/docs/news/openapi.json").await.expect(200);
    let paths = document["paths"].as_object().unwrap().values();
    let documented: usize = paths
        .map(|path| ["get", "post", "put", "delete"].iter().filter(|m| path.get(**m).is_some()).count())
        .sum();
    // Beside the changes: creating, reading, listing.
    assert_eq!(documented, changes("x").len() + 3);
}

/// Conventions: `METHOD_NOT_ALLOWED` with `Allow`, and unknown routes.
#[tokio::test]
async fn what_does_not_exist_is_told() {
    let (user, id) = (person(None, &[MANAGE]), guid());
    for (path, allowed) in [
        (POSTS.to_owned(), "GET, POST"),
        (format!("{POSTS}/{id}"), "GET, PUT, DELETE"),
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
