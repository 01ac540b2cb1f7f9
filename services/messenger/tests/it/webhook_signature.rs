//! Signatures and contents of webhooks.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::send;
use testkit::guid;
use testkit::livekit::{KEY, LiveKit, SECRET, sha256, sign, sign_as};

use crate::fixture::{ConferenceFixture, WEBHOOK, state, unix_seconds};
use crate::media_service::start;

/// Returns a webhook that makes a user Joined.
fn joined_webhook(id: uuid::Uuid, user: uuid::Uuid) -> Value {
    json!({
        "event": "participant_joined", "id": format!("EV_{}", guid()), "createdAt": unix_seconds(0).to_string(),
        "room": {"name": id}, "participant": {"sid": "PA_1", "identity": user},
    })
}

/// RULE-MSG-054, RULE-ALL-049: a webhook needs HS256 with the secret, the right `iss`, valid times
/// and the body's SHA-256. `Bearer` is optional.
#[tokio::test]
async fn webhook_needs_a_valid_signature() {
    let fixture = ConferenceFixture::new().await;
    let [_, agent, manager] = fixture.users();
    let id = fixture.ring(None).await;
    let body = joined_webhook(id, agent).to_string();
    let good = || json!({"iss": KEY, "nbf": unix_seconds(0), "exp": unix_seconds(300), "sha256": sha256(body.as_bytes())});
    let with = |claim: &str, value: Value| sign_as(&crate::with(good(), claim, value), SECRET);
    let without = |claim: &str| sign_as(&crate::without(good(), claim), SECRET);
    let unsigned = format!("{}.", sign_as(&good(), SECRET).rsplit_once('.').unwrap().0);
    let person = testkit::service::issuer().token(&crate::claims_with(agent, None, &[])).unwrap();
    for (flaw, authorization) in [
        ("of another secret", sign_as(&good(), "another secret, which is as long")),
        ("of another key", with("iss", json!("APIother"))),
        ("without a key", without("iss")),
        ("expired", with("exp", json!(unix_seconds(-60)))),
        ("without an expiry", without("exp")),
        ("not valid yet", with("nbf", json!(unix_seconds(60)))),
        ("of another body", with("sha256", json!(sha256(b"{}")))),
        ("of the hash in hex", with("sha256", json!("00".repeat(32)))),
        ("without a hash", without("sha256")),
        ("with no text for a hash", with("sha256", json!(1))),
        ("without its signature", unsigned),
        ("of a person", person),
        ("of another scheme", format!("Basic {}", sign(body.as_bytes()))),
        ("nonsense", "nonsense".to_owned()),
        ("empty", String::new()),
    ] {
        let response = fixture.post_webhook(&body, Some(&authorization)).await;
        assert_eq!(response.status, 401, "{flaw}");
        response.expect_problem(401, "UNAUTHORIZED");
    }
    fixture.post_webhook(&body, None).await.expect_problem(401, "UNAUTHORIZED");
    // The hash is checked before the body is parsed.
    fixture
        .post_webhook("{ no JSON", Some(&with("sha256", json!(sha256(b"{}")))))
        .await
        .expect_problem(401, "UNAUTHORIZED");
    assert_eq!(fixture.conference(id).await["Version"], 1);

    fixture.post_webhook(&body, Some(&sign(body.as_bytes()))).await.expect(200);
    assert_eq!(state(&fixture.conference(id).await, agent), "Joined");
    for scheme in ["Bearer", "bearer"] {
        let body = joined_webhook(id, manager).to_string();
        fixture.post_webhook(&body, Some(&format!("{scheme} {}", sign(body.as_bytes())))).await.expect(200);
        assert_eq!(state(&fixture.conference(id).await, manager), "Joined");
        fixture.act(manager, id, "leave").await.expect(200);
    }
}

/// RULE-MSG-054: a signed webhook has any content type and at most 64 KiB. A body that is not JSON
/// is 400, and any other body is 200.
#[tokio::test]
async fn signed_webhook_is_accepted_with_any_content() {
    let fixture = ConferenceFixture::new().await;
    let id = fixture.ring(None).await;
    for body in ["", "{", "nope", "{\"event\": \"room_started\"} x", "\u{1}"] {
        let response = fixture.post_webhook(body, Some(&sign(body.as_bytes()))).await;
        response.expect_problem(400, "VALIDATION_FAILED");
    }
    let agent = fixture.deal.agent();
    for webhook in [
        json!(null),
        json!([]),
        json!("participant_joined"),
        json!({}),
        json!({"event": 1}),
        json!({"event": "room_started", "room": {"name": id}}),
        json!({"event": "participant_joined"}),
        json!({"event": "participant_joined", "room": {"name": "lobby"}, "participant": {"identity": agent}}),
        json!({"event": "participant_joined", "room": {"name": guid()}, "participant": {"identity": agent}}),
        json!({"event": "participant_joined", "room": {"name": id}, "participant": {"identity": "a bot"}}),
        json!({"event": "participant_left", "room": {"name": id}, "participant": [agent]}),
        json!({"event": "participant_connection_aborted", "room": {"name": id}, "participant": {"identity": agent}}),
        json!({"event": "participant_left", "room": {"name": id}, "createdAt": "-1", "participant": {"identity": agent}}),
        json!({"event": "room_finished", "room": {"name": id}, "createdAt": 1}),
        json!({"event": "room_finished", "room": {"name": guid()}, "id": "\u{0}"}),
    ] {
        assert_eq!(fixture.send_webhook(&webhook).await.status, 200, "{webhook}");
    }
    assert_eq!(fixture.conference(id).await["Version"], 1, "no webhook changed the conference");

    // The JSON around the text has 13 bytes.
    let body_of = |length: usize| format!("{{\"event\": \"{}\"}}", "x".repeat(length - 13));
    let largest = body_of(64 * 1024);
    fixture.post_webhook(&largest, Some(&sign(largest.as_bytes()))).await.expect(200);
    let larger = body_of(64 * 1024 + 1);
    fixture
        .post_webhook(&larger, Some(&sign(larger.as_bytes())))
        .await
        .expect_problem(413, "PAYLOAD_TOO_LARGE");
    for kind in ["application/json", "text/plain", "application/webhook+json; charset=utf-16"] {
        let body = joined_webhook(id, guid()).to_string();
        let request = fixture.service.guest().request(Method::POST, WEBHOOK).header("content-type", kind);
        let request = request.header("authorization", sign(body.as_bytes())).body(body);
        assert_eq!(send(request).await.status, 200, "{kind}");
    }
}

/// RULE-MSG-054, RULE-ALL-049: webhooks do not count for the rate limit of users.
#[tokio::test]
async fn webhook_has_no_rate_limit() {
    let livekit = LiveKit::start();
    let own = start(&livekit, &[("ACTOR_REQUESTS_PER_MINUTE", "1")]);
    let fixture = ConferenceFixture { service: &own, deal: crate::Deal::new(), chat: guid() };
    for _ in 0..20 {
        fixture.send_webhook(&json!({"event": "room_started"})).await.expect(200);
    }
}
