//! Callers of every operation, and the form of a token.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::access::{self, Case, losses, repeats};
use testkit::client::{Response, send};
use testkit::issuer::Claims;
use testkit::service::issuer;
use time::{Duration, OffsetDateTime};

use crate::{SELECTIONS, collaborator_path, create_selection, guid, mark, service, take_snapshot, text};

/// Status of each operation for each caller.
///
/// Another user's selection counts as missing, whatever permissions the caller has, unless its
/// owner has named the caller as a collaborator.
const TABLE: &str = "
    operation                       | owner | collaborator | colleague | manager | stranger | guest | forged | news | crm | other machines
    list_selections                 |  200  |     200      |    200    |   200   |   200    |  401  |  401   | 401  | 401 |      401
    create_selection                |  201  |     201      |    201    |   201   |   201    |  401  |  401   | 401  | 401 |      401
    create_selection_from_favorites |  201  |     201      |    201    |   201   |   201    |  401  |  401   | 401  | 401 |      401
    open_selection                  |  200  |     200      |    200    |   200   |   200    |  200  |  200   | 200  | 200 |      200
    update_selection                |  200  |     200      |    404    |   404   |   404    |  401  |  401   | 401  | 401 |      401
    replace_selection_items         |  200  |     200      |    404    |   404   |   404    |  401  |  401   | 401  | 401 |      401
    delete_selection                |  204  |     404      |    404    |   404   |   404    |  401  |  401   | 401  | 401 |      401
    duplicate_selection             |  201  |     201      |    404    |   404   |   404    |  401  |  401   | 401  | 401 |      401
    add_selection_item              |  200  |     200      |    404    |   404   |   404    |  401  |  401   | 401  | 401 |      401
    remove_selection_item           |  200  |     200      |    404    |   404   |   404    |  401  |  401   | 401  | 401 |      401
    get_selection_details           |  200  |     200      |    404    |   404   |   404    |  401  |  401   | 401  | 401 |      401
    list_selection_changes          |  200  |     200      |    404    |   404   |   404    |  401  |  401   | 401  | 401 |      401
    replace_selection_link          |  200  |     404      |    404    |   404   |   404    |  401  |  401   | 401  | 401 |      401
    list_shared_selections          |  200  |     200      |    200    |   200   |   200    |  401  |  401   | 401  | 401 |      401
    list_collaborators              |  200  |     404      |    404    |   404   |   404    |  401  |  401   | 401  | 401 |      401
    add_collaborator                |  204  |     404      |    404    |   404   |   404    |  401  |  401   | 401  | 401 |      401
    remove_collaborator             |  204  |     404      |    404    |   404   |   404    |  401  |  401   | 401  | 401 |      401
    list_favorites                  |  200  |     200      |    200    |   200   |   200    |  401  |  401   | 401  | 401 |      401
    add_favorite                    |  204  |     204      |    204    |   204   |   204    |  401  |  401   | 401  | 401 |      401
    remove_favorite                 |  204  |     204      |    204    |   204   |   204    |  401  |  401   | 401  | 401 |      401
    take_snapshot                   |  401  |     401      |    401    |   401   |   401    |  401  |  401   | 201  | 403 |      403
    detach_snapshot                 |  401  |     401      |    401    |   401   |   401    |  401  |  401   | 200  | 403 |      403
    get_snapshot                    |  401  |     401      |    401    |   401   |   401    |  401  |  401   | 200  | 403 |      403
    get_selection                   |  401  |     401      |    401    |   401   |   401    |  401  |  401   | 403  | 200 |      403
    list_selections_of_owner        |  401  |     401      |    401    |   401   |   401    |  401  |  401   | 403  | 200 |      403
";

/// Prepares a selection with a snapshot and a favorite, and a request for the operation.
async fn prepare(operation: &str) -> Case {
    let (id, company, collaborator) = (guid(), guid(), guid());
    let owner = Claims::user(id).company(company);
    let colleague = Claims::user(guid()).company(company);
    let manager =
        Claims::user(guid()).permission("crm.deals.manage@platform").permission("news.posts.manage@platform");
    let people = [
        ("owner", owner),
        ("collaborator", Claims::user(collaborator)),
        ("colleague", colleague),
        ("manager", manager),
        ("stranger", Claims::user(guid())),
    ];
    let object = guid();
    for (_, person) in &people {
        mark(&service().caller(person), object).await;
    }
    let owner = service().caller(&people[0].1);
    let selection = create_selection(&owner).await;
    owner.put(&collaborator_path(&selection, collaborator), Value::Null).await.expect(204);
    let snapshot = take_snapshot(&selection, guid()).await.expect(201);
    // The path of `open_selection` has the code of the selection, other paths have its id.
    let member = if operation == "open_selection" { "PublicCode" } else { "Id" };
    Case {
        parameters: vec![
            ("selection", text(&selection[member]).to_owned()),
            ("selection_id", text(&selection["Id"]).to_owned()),
            ("snapshot_id", text(&snapshot["SnapshotId"]).to_owned()),
            ("owner_user_id", id.to_string()),
            ("property_object_id", object.to_string()),
            ("user_id", guid().to_string()),
        ],
        body: match operation {
            "create_selection" => json!({"Title": "x"}),
            "create_selection_from_favorites" | "duplicate_selection" => json!({}),
            "update_selection" => json!({"Title": "x", "Description": null}),
            "replace_selection_items" => json!({"Items": []}),
            "replace_selection_link" => json!({"IsEnabled": false, "ExpiresAt": null}),
            "take_snapshot" => json!({"PostId": guid(), "ActorUserId": id}),
            "detach_snapshot" => json!({"Reason": "PostDeleted"}),
            _ => Value::Null,
        },
        people: people.map(|(name, claims)| (name, vec![claims])).to_vec(),
    }
}

#[track_caller]
fn assert_unauthorized(response: Response, why: &str) {
    assert_eq!(response.status, 401, "{why}: {}", response.text);
    assert_eq!(response.header("www-authenticate"), "Bearer", "{why}");
    response.expect_problem(401, "SELECTIONS_UNAUTHORIZED");
}

/// RULE-SEL-004, RULE-SEL-008, RULE-SEL-009, RULE-SEL-010, RULE-SEL-011, RULE-SEL-012,
/// RULE-SEL-015, RULE-SEL-016, RULE-SEL-017, RULE-SEL-023, RULE-ALL-012, RULE-ALL-013,
/// RULE-ALL-047, RULE-ALL-048, RULE-ALL-050, RULE-ALL-073: each caller gets the status of the
/// table, and each kind of invalid token is rejected.
#[tokio::test]
async fn every_operation_returns_the_status_of_the_table() {
    access::check(service(), TABLE, prepare).await;
}

/// RULE-SEL-016: the body is checked before the selection is read.
#[tokio::test]
async fn invalid_body_precedes_missing_selection() {
    let (_, user) = service().user();
    let response =
        user.put(&format!("{SELECTIONS}/{}", guid()), json!({"Title": "", "Description": null})).await;
    response.expect_refusal("SELECTIONS_VALIDATION_FAILED", "/Title", "too_short");
}

/// RULE-ALL-047: clocks may differ by 30 seconds in both directions.
#[tokio::test]
async fn clock_skew_of_half_a_minute_is_tolerated() {
    // The service starts first, because its start would use up the tolerance.
    let service = service();
    let now = runtime::clock::now();
    let token = |nbf: OffsetDateTime, exp: OffsetDateTime| {
        let claims = json!({
            "iss": issuer().url(), "aud": "platform", "sub": guid(), "permissions": [],
            "iat": nbf.unix_timestamp(), "nbf": nbf.unix_timestamp(), "exp": exp.unix_timestamp(),
        });
        issuer().sign(&claims).unwrap()
    };
    // A slow request has ten of the 30 seconds left.
    let (hour, skew) = (Duration::HOUR, Duration::seconds(20));
    for tolerated in [token(now - hour, now - skew), token(now + skew, now + hour)] {
        service.bearer(&tolerated).get(SELECTIONS).await.expect(200);
    }
}

/// RULE-SEL-015, RULE-ALL-047: `nbf` may be absent, and `aud` may name several audiences.
#[tokio::test]
async fn token_for_several_audiences_is_accepted() {
    let iat = runtime::clock::now().unix_timestamp();
    let (iss, aud, exp) = (issuer().url(), ["other", "platform"], iat + 3600);
    let claims = json!({"iss": iss, "aud": aud, "sub": guid(), "iat": iat, "exp": exp});
    let token = issuer().sign(&claims).unwrap();
    service().bearer(&token).get(SELECTIONS).await.expect(200);
}

/// RULE-ALL-047: the times of a token may have fractions of a second. An expired token, a future
/// one, a too long lifetime and times that are not numbers are refused.
#[tokio::test]
async fn fractional_times_of_a_token_are_accepted() {
    let now = runtime::clock::now().unix_timestamp();
    let token = |iat: Value, exp: Value| {
        let claims = json!({"iss": issuer().url(), "aud": "platform", "sub": guid(), "iat": iat, "exp": exp});
        issuer().sign(&claims).unwrap()
    };
    let at = |seconds: i64| -> Value { format!("{}.5", now + seconds).parse().unwrap() };
    for (iat, exp) in [(json!(now), at(600)), (at(-1), json!(now + 600)), (at(0), at(3600))] {
        service().bearer(&token(iat, exp)).get(SELECTIONS).await.expect(200);
    }
    for (iat, exp) in [
        (at(-600), at(-61)),
        (at(60), at(600)),
        (at(0), at(3602)),
        (at(0), json!(1e300)),
        (json!("1"), at(60)),
    ] {
        let why = format!("{iat} to {exp}");
        assert_unauthorized(service().bearer(&token(iat, exp)).get(SELECTIONS).await, &why);
    }
}

/// RULE-ALL-047: a token that requires an extension of JWS is refused.
#[tokio::test]
async fn token_with_an_extension_is_refused() {
    let now = runtime::clock::now().unix_timestamp();
    let claims =
        json!({"iss": issuer().url(), "aud": "platform", "sub": guid(), "iat": now, "exp": now + 600});
    let kid = issuer().key_id();
    for (extension, is_accepted) in [
        (json!({}), true),
        (json!({"typ": "JWT", "x-unknown": 1}), true),
        (json!({"crit": ["x"], "x": 1}), false),
        (json!({"crit": ["exp"]}), false),
        (json!({"crit": []}), false),
        (json!({"crit": ["b64"], "b64": false}), false),
        (json!({"b64": false}), false),
        (json!({"b64": true}), false),
    ] {
        let mut header = json!({"alg": "ES256", "kid": kid});
        header.as_object_mut().unwrap().extend(extension.as_object().unwrap().clone());
        let token = issuer().sign_with(&serde_json::from_value(header).unwrap(), &claims).unwrap();
        let response = service().bearer(&token).get(SELECTIONS).await;
        if is_accepted {
            response.expect(200);
        } else {
            assert_unauthorized(response, &extension.to_string());
        }
    }
}

/// RULE-SEL-015, RULE-ALL-047: a token whose `sub` is not a Guid is refused.
#[tokio::test]
async fn subject_without_guid_is_unauthorized() {
    let mut claims = Claims::user(guid());
    claims.sub = "no-guid".to_owned();
    assert_unauthorized(service().caller(&claims).get(SELECTIONS).await, "no Guid");
}

/// RULE-SEL-015, RULE-ALL-047: the scheme is case-insensitive (RFC 9110), and another scheme is not
/// a token.
#[tokio::test]
async fn bearer_scheme_in_any_case_is_accepted() {
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

/// RULE-SEL-015, RULE-ALL-047: a token in the query is not a credential, because logs record
/// URLs.
#[tokio::test]
async fn token_in_the_query_is_ignored() {
    let token = issuer().token(&Claims::user(guid())).unwrap();
    let response = service().guest().get(&format!("{SELECTIONS}?access_token={token}")).await;
    assert_unauthorized(response, "in the query");
}

/// RULE-ALL-075, RULE-ALL-077: after each loss of rights, a request with the old token gets the
/// response that a guest gets. A selection belongs to its owner, with or without a company.
#[tokio::test]
async fn every_operation_refuses_the_token_from_before_a_loss_of_rights() {
    losses::check(service(), TABLE, "", prepare).await;
}

/// RULE-ALL-081, RULE-ALL-082, RULE-ALL-095: each creating operation accepts `Idempotency-Key`. A
/// repeat returns the first response, and another body is refused. Each response has `Location`.
#[tokio::test]
async fn every_creating_operation_returns_its_first_response_to_a_repeat() {
    assert_eq!(repeats::check(service(), TABLE, prepare).await, [""; 0], "operations without `Location`");
}
