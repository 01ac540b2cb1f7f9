//! What is tried again, what is not, and how many calls are under way.

use std::time::Duration;

use futures_util::future::join_all;
use http_client::CallError;
use serde_json::{Value, json};
use testkit::faults::Fault;
use tokio::time::{sleep, timeout};

use crate::Scene;

/// Sends a call that gets `fault` each time, and returns how often it was tried.
async fn tries(fault: Fault) -> usize {
    let scene = Scene::new();
    scene.called.on("/", fault);
    scene.client.post::<Value>("/it", &json!({})).await.unwrap_err();
    scene.called.calls("/it").len()
}

/// Limits: a call that is not answered, or answered 503 or 429, is tried again twice.
#[tokio::test]
async fn a_call_that_fails_for_a_moment_is_tried_three_times() {
    for fault in [
        Fault::problem(503, "SERVICE_UNAVAILABLE"),
        Fault::problem(429, "RATE_LIMITED"),
        Fault::Answer(503, String::new()),
        Fault::Drop,
        Fault::BreakOff,
        Fault::Garbage,
    ] {
        assert_eq!(tries(fault.clone()).await, 3, "{fault:?}");
    }
}

/// Conventions, Repeating: no other answer may be tried again, also not that of a gateway before the service.
#[tokio::test]
async fn a_call_with_any_other_answer_is_tried_once() {
    for fault in [
        Fault::problem(500, "INTERNAL_ERROR"),
        Fault::Answer(502, String::new()),
        Fault::Answer(504, String::new()),
        Fault::Answer(408, String::new()),
        Fault::problem(409, "CONCURRENCY_CONFLICT"),
        Fault::problem(404, "NOT_FOUND"),
        Fault::Answer(200, "<html>".to_owned()),
    ] {
        assert_eq!(tries(fault.clone()).await, 1, "{fault:?}");
    }
}

/// What must not be done twice is sent once, whatever becomes of it.
#[tokio::test]
async fn what_must_not_be_repeated_is_sent_once() {
    for fault in [
        Fault::problem(503, "SERVICE_UNAVAILABLE"),
        Fault::problem(429, "RATE_LIMITED"),
        Fault::Drop,
        Fault::BreakOff,
    ] {
        let scene = Scene::new();
        scene.called.on("/", fault.clone());
        scene.client.post_once::<Value>("/it", &json!({"Once": true})).await.unwrap_err();
        let calls = scene.called.calls("/it");
        assert_eq!((calls.len(), &calls[0].body), (1, &json!({"Once": true})), "{fault:?}");
    }
    let scene = Scene::new();
    scene.client.post_once::<Value>("/it", &json!({})).await.unwrap();
}

/// A token that is refused is replaced, once: with another token it is another request.
#[tokio::test]
async fn a_call_is_made_anew_with_another_token() {
    let scene = Scene::new();
    scene.called.next(1, "/", Fault::problem(401, "UNAUTHORIZED"));
    scene.client.post_once::<Value>("/it", &json!({})).await.unwrap();
    let tokens: Vec<_> =
        scene.called.calls("/it").into_iter().map(|call| call.headers["authorization"].clone()).collect();
    assert!(tokens.len() == 2 && tokens[0] != tokens[1]);

    scene.called.on("/", Fault::problem(401, "UNAUTHORIZED"));
    let refused = scene.client.get::<Value>("/again").await.unwrap_err();
    assert!(matches!(refused, CallError::Refused { status, .. } if status == 401), "{refused}");
    assert_eq!(scene.called.calls("/again").len(), 2);
}

/// However many want to call, so many do; the others wait a moment, and are told then.
#[tokio::test]
async fn calls_under_way_are_bounded() {
    let scene = Scene::new();
    scene.called.on("/", Fault::HangAfterHeaders);
    let call = async |path: &str| timeout(Duration::from_secs(2), scene.client.get::<Value>(path)).await;
    let calls = join_all((0..100).map(async |_| call("/slow").await)).await;
    let told = calls.iter().filter(|call| matches!(call, Ok(Err(CallError::Unavailable(_))))).count();
    assert_eq!((told, scene.called.calls("/slow").len()), (36, 64));

    scene.called.on("/", Fault::Answer(200, "{}".to_owned()));
    for answer in join_all((0..64).map(async |_| call("/fast").await)).await {
        answer.unwrap().unwrap();
    }
}

/// A service that comes back is not met by all who waited for it: a few see how it is.
#[tokio::test]
async fn a_half_open_breaker_lets_a_few_through() {
    let scene = Scene::new();
    scene.called.on("/", Fault::problem(500, "INTERNAL_ERROR"));
    for _ in 0..10 {
        scene.client.get::<Value>("/down").await.unwrap_err();
    }
    scene.client.get::<Value>("/open").await.unwrap_err();
    assert_eq!(scene.called.calls("/open").len(), 0);

    sleep(Duration::from_secs(2)).await;
    scene.called.on("/", Fault::HangAfterHeaders);
    let call = async || timeout(Duration::from_secs(1), scene.client.get::<Value>("/probe")).await;
    let calls = join_all((0..20).map(async |_| call().await)).await;
    let told = calls.iter().filter(|call| matches!(call, Ok(Err(CallError::Unavailable(_))))).count();
    assert_eq!((told, scene.called.calls("/probe").len()), (17, 3));

    scene.called.on("/", Fault::Answer(200, "{}".to_owned()));
    scene.client.get::<Value>("/up").await.unwrap();
    for answer in join_all((0..20).map(async |_| scene.client.get::<Value>("/up").await)).await {
        answer.unwrap();
    }
}
