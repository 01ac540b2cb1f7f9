//! Whose webhooks are believed.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::send;
use testkit::guid;
use testkit::livekit::{KEY, LiveKit, SECRET, sha256, sign, sign_as};

use crate::calls::{Line, WEBHOOK, seconds, start, state};

/// A webhook that has somebody Joined.
fn joined(id: uuid::Uuid, user: uuid::Uuid) -> Value {
    json!({
        "event": "participant_joined", "id": format!("EV_{}", guid()), "createdAt": seconds(0).to_string(),
        "room": {"name": id}, "participant": {"sid": "PA_1", "identity": user},
    })
}

/// Section 5, heard: HS256 with the secret, `iss`, in time, and the body's SHA-256; with or without `Bearer`.
#[tokio::test]
async fn a_webhook_is_believed_by_its_signature() {
    let line = Line::new().await;
    let [_, agent, manager] = line.people();
    let id = line.ring(None).await;
    let body = joined(id, agent).to_string();
    let good =
        || json!({"iss": KEY, "nbf": seconds(0), "exp": seconds(300), "sha256": sha256(body.as_bytes())});
    let with = |member: &str, value: Value| sign_as(&crate::with(good(), member, value), SECRET);
    let without = |member: &str| sign_as(&crate::without(good(), member), SECRET);
    let unsigned = format!("{}.", sign_as(&good(), SECRET).rsplit_once('.').unwrap().0);
    let person = testkit::service::issuer().token(&crate::holder(agent, None, &[])).unwrap();
    for (flaw, authorization) in [
        ("of another secret", sign_as(&good(), "another secret, which is as long")),
        ("of another key", with("iss", json!("APIother"))),
        ("without a key", without("iss")),
        ("expired", with("exp", json!(seconds(-60)))),
        ("without an expiry", without("exp")),
        ("not valid yet", with("nbf", json!(seconds(60)))),
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
        let answer = line.post_webhook(&body, Some(&authorization)).await;
        assert_eq!(answer.status, 401, "{flaw}");
        answer.expect_problem(401, "UNAUTHORIZED");
    }
    line.post_webhook(&body, None).await.expect_problem(401, "UNAUTHORIZED");
    // Before the body is parsed.
    line.post_webhook("{ no JSON", Some(&with("sha256", json!(sha256(b"{}")))))
        .await
        .expect_problem(401, "UNAUTHORIZED");
    assert_eq!(line.card(id).await["Version"], 1);

    line.post_webhook(&body, Some(&sign(body.as_bytes()))).await.expect(200);
    assert_eq!(state(&line.card(id).await, agent), "Joined");
    for scheme in ["Bearer", "bearer"] {
        let body = joined(id, manager).to_string();
        line.post_webhook(&body, Some(&format!("{scheme} {}", sign(body.as_bytes())))).await.expect(200);
        assert_eq!(state(&line.card(id).await, manager), "Joined");
        line.act(manager, id, "leave").await.expect(200);
    }
}

/// Section 5, heard: any content type, at most 64 KiB; 400 for no JSON, 200 for all else.
#[tokio::test]
async fn what_is_signed_is_heard_whatever_it_says() {
    let line = Line::new().await;
    let id = line.ring(None).await;
    for body in ["", "{", "nope", "{\"event\": \"room_started\"} x", "\u{1}"] {
        let answer = line.post_webhook(body, Some(&sign(body.as_bytes()))).await;
        answer.expect_problem(400, "VALIDATION_FAILED");
    }
    let agent = line.deal.agent();
    for told in [
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
        assert_eq!(line.hear(&told).await.status, 200, "{told}");
    }
    assert_eq!(line.card(id).await["Version"], 1, "nothing of it concerned this conference");

    let told = |length: usize| format!("{{\"event\": \"{}\"}}", "x".repeat(length - 13));
    let largest = told(64 * 1024);
    line.post_webhook(&largest, Some(&sign(largest.as_bytes()))).await.expect(200);
    let larger = told(64 * 1024 + 1);
    line.post_webhook(&larger, Some(&sign(larger.as_bytes()))).await.expect_problem(413, "PAYLOAD_TOO_LARGE");
    for kind in ["application/json", "text/plain", "application/webhook+json; charset=utf-16"] {
        let body = joined(id, guid()).to_string();
        let request = line.service.guest().request(Method::POST, WEBHOOK).header("content-type", kind);
        let request = request.header("authorization", sign(body.as_bytes())).body(body);
        assert_eq!(send(request).await.status, 200, "{kind}");
    }
}

/// Conventions, rate limits: signed callbacks are neither guests nor people.
#[tokio::test]
async fn nobody_limits_how_often_livekit_tells() {
    let livekit = LiveKit::start();
    let own = start(&livekit, &[("ACTOR_REQUESTS_PER_MINUTE", "1")]);
    let line = Line { service: &own, deal: crate::Deal::new(), chat: guid() };
    for _ in 0..20 {
        line.hear(&json!({"event": "room_started"})).await.expect(200);
    }
}
