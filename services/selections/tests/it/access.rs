//! Who may come in: every operation, as everybody who may not.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use testkit::client::{Answer, Client, send};
use testkit::forged;
use testkit::issuer::Claims;
use testkit::service::issuer;
use time::{Duration, OffsetDateTime};

use crate::{FAVORITES, FROM_FAVORITES, SELECTIONS, create_selection, guid, service};

/// One operation, with a request that could succeed.
pub struct Operation {
    pub method: Method,
    pub path: String,
    pub body: Option<Value>,
}

impl Operation {
    fn new(method: Method, path: impl Into<String>, body: Option<Value>) -> Self {
        Self { method, path: path.into(), body }
    }

    pub fn request(&self, caller: &Client) -> RequestBuilder {
        let request = caller.request(self.method.clone(), &self.path);
        match &self.body {
            Some(body) => request.json(body),
            None => request,
        }
    }
}

/// What takes a person's token. The read by code takes none.
pub fn public_operations() -> Vec<Operation> {
    let (id, object) = (guid(), guid());
    let title = json!({"Title": "x", "Description": null});
    vec![
        Operation::new(Method::GET, SELECTIONS, None),
        Operation::new(Method::POST, SELECTIONS, Some(json!({"Title": "x"}))),
        Operation::new(Method::POST, FROM_FAVORITES, Some(json!({}))),
        Operation::new(Method::PUT, format!("{SELECTIONS}/{id}"), Some(title)),
        Operation::new(Method::PUT, format!("{SELECTIONS}/{id}/items"), Some(json!({"Items": []}))),
        Operation::new(Method::DELETE, format!("{SELECTIONS}/{id}"), None),
        Operation::new(Method::GET, FAVORITES, None),
        Operation::new(Method::PUT, format!("{FAVORITES}/{object}"), None),
        Operation::new(Method::DELETE, format!("{FAVORITES}/{object}"), None),
    ]
}

/// What takes a machine's token, and whose.
pub fn internal_operations() -> Vec<(&'static str, Operation)> {
    let id = guid();
    let take = json!({"PostId": guid(), "ActorUserId": guid()});
    let selection = format!("/api/v1/internal/selections/{id}");
    let snapshot = format!("/api/v1/internal/snapshots/{id}");
    let by_owner = format!("/api/v1/internal/selections/by-owner/{id}");
    let detach = json!({"Reason": "PostDeleted"});
    vec![
        ("news", Operation::new(Method::POST, format!("{selection}/snapshots"), Some(take))),
        ("news", Operation::new(Method::POST, format!("{snapshot}/detach"), Some(detach))),
        ("news", Operation::new(Method::GET, snapshot, None)),
        ("crm", Operation::new(Method::GET, selection, None)),
        ("crm", Operation::new(Method::GET, by_owner, None)),
    ]
}

#[track_caller]
fn assert_unauthorized(answer: Answer, why: &str) {
    assert_eq!(answer.status, 401, "{why}: {}", answer.text);
    assert_eq!(answer.header("www-authenticate"), "Bearer", "{why}");
    answer.expect_problem(401, "SELECTIONS_UNAUTHORIZED");
}

/// The two lists above leave nothing out that the services document.
#[tokio::test]
async fn the_table_of_operations_is_complete() {
    let (_, user) = service().user();
    for (caller, tested) in
        [(user, public_operations().len() + 1), (service().machine("crm"), internal_operations().len())]
    {
        let document = caller.get("/docs/selections/openapi.json").await.expect(200);
        let paths = document["paths"].as_object().unwrap().values();
        let methods = ["get", "post", "put", "patch", "delete"];
        let documented: usize =
            paths.map(|path| methods.iter().filter(|method| path.get(**method).is_some()).count()).sum();
        assert_eq!(documented, tested);
    }
}

/// Authentication: nobody lists, changes or marks anything.
#[tokio::test]
async fn nobody_uses_what_needs_a_token() {
    for operation in public_operations() {
        let answer = send(operation.request(&service().guest())).await;
        assert_unauthorized(answer, &operation.path);
    }
    for (_, operation) in internal_operations() {
        let answer = send(operation.request(&service().at_internal(None))).await;
        assert_unauthorized(answer, &operation.path);
    }
}

/// Conventions, Token: each flaw is refused by every operation of the public port.
#[tokio::test]
async fn no_forged_token_is_taken_from_a_person() {
    let tokens = forged::tokens(&Claims::user(guid()));
    for operation in public_operations() {
        for (flaw, token) in &tokens {
            let answer = send(operation.request(&service().bearer(token))).await;
            assert_unauthorized(answer, &format!("{flaw} at {}", operation.path));
        }
    }
}

/// Conventions, Token: each flaw is refused by every operation of the internal port.
#[tokio::test]
async fn no_forged_token_is_taken_from_a_machine() {
    for (client, operation) in internal_operations() {
        for (flaw, token) in forged::tokens(&Claims::client(client)) {
            let answer = send(operation.request(&service().at_internal(Some(token)))).await;
            assert_unauthorized(answer, &format!("{flaw} at {}", operation.path));
        }
    }
}

/// Authentication: a machine is no person.
#[tokio::test]
async fn a_machine_token_is_worth_nothing_at_the_public_port() {
    let mut dressed_up = Claims::client("news");
    dressed_up.sub = guid().to_string();
    for claims in [Claims::client("news"), Claims::client("crm"), dressed_up] {
        let caller = service().caller(&claims);
        for operation in public_operations() {
            assert_unauthorized(send(operation.request(&caller)).await, &operation.path);
        }
    }
}

/// Authentication: a person is no machine, not even one whose token says so.
#[tokio::test]
async fn a_persons_token_is_worth_nothing_at_the_internal_port() {
    let mut dressed_up = Claims::user(guid());
    dressed_up.client_id = Some("news".to_owned());
    for claims in [Claims::user(guid()), dressed_up] {
        let caller = service().at_internal(Some(issuer().token(&claims).unwrap()));
        for (_, operation) in internal_operations() {
            assert_unauthorized(send(operation.request(&caller)).await, &operation.path);
        }
    }
}

/// Selections: internal routes accept only the caller that the contract names for each.
#[tokio::test]
async fn each_internal_route_has_one_caller() {
    let mut nameless = Claims::client("news");
    nameless.client_id = None;
    let mut loud = Claims::client("NEWS");
    loud = loud.permission("news").permission("crm");
    for (client, operation) in internal_operations() {
        let others = ["news", "crm", "chessboard", "news ", ""].into_iter().filter(|other| *other != client);
        for claims in others.map(Claims::client).chain([nameless.clone(), loud.clone()]) {
            let caller = service().at_internal(Some(issuer().token(&claims).unwrap()));
            let answer = send(operation.request(&caller)).await;
            assert_eq!(answer.status, 403, "{:?} at {}", claims.client_id, operation.path);
            answer.expect_problem(403, "SELECTIONS_FORBIDDEN");
        }
        let named = send(operation.request(&service().machine(client))).await;
        assert!(![401, 403].contains(&named.status), "{client} at {}: {}", operation.path, named.text);
    }
}

/// Conventions, Check order: 401 before anything of the body.
#[tokio::test]
async fn nobody_learns_what_is_wrong_with_a_body() {
    let bodies = [("application/json", "{"), ("text/plain", "x"), ("application/json", "{}")];
    let huge = "x".repeat(300 * 1024);
    for operation in public_operations().iter().filter(|operation| operation.body.is_some()) {
        for (kind, body) in bodies.into_iter().chain([("application/json", huge.as_str())]) {
            let request = service().guest().request(operation.method.clone(), &operation.path);
            let answer = send(request.header("content-type", kind).body(body.to_owned())).await;
            assert_unauthorized(answer, &operation.path);
        }
    }
}

/// Conventions, Check order: 403 before anything of the body.
#[tokio::test]
async fn the_wrong_machine_learns_nothing_of_its_body_either() {
    let crm = service().machine("crm");
    for (client, operation) in internal_operations() {
        if client == "news" && operation.body.is_some() {
            for (kind, body) in [("application/json", "{"), ("text/plain", "x")] {
                let request = crm.request(operation.method.clone(), &operation.path);
                let answer = send(request.header("content-type", kind).body(body)).await;
                answer.expect_problem(403, "SELECTIONS_FORBIDDEN");
            }
        }
    }
}

/// Conventions, Check order: the body is looked at before the selection is looked for.
#[tokio::test]
async fn a_bad_body_is_told_before_a_missing_selection() {
    let (_, user) = service().user();
    let answer =
        user.put(&format!("{SELECTIONS}/{}", guid()), json!({"Title": "", "Description": null})).await;
    answer.expect_refusal("SELECTIONS_VALIDATION_FAILED", "/Title", "too_short");
}

/// Conventions, Token: clocks may differ by 30 seconds, in both directions.
#[tokio::test]
async fn clocks_may_differ_by_half_a_minute() {
    let now = runtime::clock::now();
    let token = |nbf: OffsetDateTime, exp: OffsetDateTime| {
        let claims = json!({
            "iss": issuer().url(), "aud": "platform", "sub": guid(), "permissions": [],
            "nbf": nbf.unix_timestamp(), "exp": exp.unix_timestamp(),
        });
        issuer().sign(&claims).unwrap()
    };
    let (hour, skew) = (Duration::HOUR, Duration::seconds(20));
    for tolerated in [token(now - hour, now - skew), token(now + skew, now + hour)] {
        service().bearer(&tolerated).get(SELECTIONS).await.expect(200);
    }
}

/// Conventions, Token: `nbf` need not be there, and `aud` may name several.
#[tokio::test]
async fn a_token_may_be_for_several_audiences() {
    let exp = (runtime::clock::now() + Duration::HOUR).unix_timestamp();
    let claims = json!({"iss": issuer().url(), "aud": ["other", "platform"], "sub": guid(), "exp": exp});
    let token = issuer().sign(&claims).unwrap();
    service().bearer(&token).get(SELECTIONS).await.expect(200);
}

/// A person whose `sub` is no Guid is nobody that selections knows.
#[tokio::test]
async fn a_subject_that_is_no_guid_is_unauthorized() {
    let mut claims = Claims::user(guid());
    claims.sub = "somebody".to_owned();
    assert_unauthorized(service().caller(&claims).get(SELECTIONS).await, "no Guid");
}

/// RFC 9110: the scheme is case-insensitive; another scheme is no token.
#[tokio::test]
async fn the_scheme_is_bearer_in_any_case() {
    let token = issuer().token(&Claims::user(guid())).unwrap();
    let get = async |value: String| {
        send(service().guest().request(Method::GET, SELECTIONS).header("authorization", value)).await
    };
    for scheme in ["Bearer", "bearer", "BEARER"] {
        get(format!("{scheme} {token}")).await.expect(200);
    }
    for other in [format!("Basic {token}"), token.clone(), format!("Bearer{token}"), "Bearer".to_owned()] {
        assert_unauthorized(get(other).await, "no bearer token");
    }
}

/// A token in the query is no credential: addresses end up in logs.
#[tokio::test]
async fn a_token_in_the_query_is_not_looked_at() {
    let token = issuer().token(&Claims::user(guid())).unwrap();
    let answer = service().guest().get(&format!("{SELECTIONS}?access_token={token}")).await;
    assert_unauthorized(answer, "in the query");
}

/// A refused request changes nothing.
#[tokio::test]
async fn what_is_refused_changes_nothing() {
    let (id, owner) = service().user();
    let selection = create_selection(&owner).await;
    for (flaw, token) in forged::tokens(&Claims::user(id)) {
        let forger = service().bearer(&token);
        assert_unauthorized(forger.delete(&crate::path(&selection)).await, flaw);
    }
    assert_eq!(crate::reread(&owner, &selection).await, selection);
}
