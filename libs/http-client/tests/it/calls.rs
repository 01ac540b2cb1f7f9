//! Retries, the limit of concurrent calls and the circuit breaker.

use std::time::Duration;

use futures_util::future::join_all;
use http_client::{CallError, Config, Method};
use runtime::Env;
use serde_json::{Value, json};
use testkit::faults::Fault;
use tokio::time::{sleep, timeout};

use crate::Setup;

const DISCOVERY: &str = "/.well-known/openid-configuration";

/// Sends a call that gets `fault` at every attempt. Returns the number of attempts.
async fn count_attempts(fault: Fault) -> usize {
    let setup = Setup::new();
    setup.called.inject("/", fault);
    setup.client.post::<Value>("/it", &json!({})).await.unwrap_err();
    setup.called.calls("/it").len()
}

/// RULE-ALL-040: a call without a response, or with status 429, 502, 503 or 504, is retried twice.
#[tokio::test]
async fn call_with_transient_failure_has_three_attempts() {
    for fault in [
        Fault::problem(503, "SERVICE_UNAVAILABLE"),
        Fault::problem(429, "RATE_LIMITED"),
        Fault::Respond(502, String::new()),
        Fault::Respond(503, String::new()),
        Fault::Respond(504, String::new()),
        Fault::Drop,
        Fault::Truncate,
        Fault::Garbage,
    ] {
        assert_eq!(count_attempts(fault.clone()).await, 3, "{fault:?}");
    }
}

/// RULE-ALL-040: no other response is retried.
#[tokio::test]
async fn call_with_any_other_response_has_one_attempt() {
    for fault in [
        Fault::problem(500, "INTERNAL_ERROR"),
        Fault::Respond(408, String::new()),
        Fault::problem(409, "CONCURRENCY_CONFLICT"),
        Fault::problem(404, "NOT_FOUND"),
        Fault::Respond(200, "<html>".to_owned()),
    ] {
        assert_eq!(count_attempts(fault.clone()).await, 1, "{fault:?}");
    }
}

/// RULE-ALL-040: the timeout of an attempt includes the request for the token.
#[tokio::test]
async fn timeout_of_an_attempt_covers_the_token() {
    let setup = Setup::new();
    // Each response alone is within the timeout. Both together exceed it.
    for path in [DISCOVERY, "/token"] {
        setup.issuer.inject_next(1, path, Fault::Delay(Duration::from_secs(3)));
    }
    setup.client.get::<Value>("/it").await.unwrap();
    // The first attempt times out before its call is sent.
    assert_eq!((setup.issuer.calls(DISCOVERY).len(), setup.called.calls("/it").len()), (2, 1));
}

/// RULE-ALL-041: a rejected token is replaced once.
#[tokio::test]
async fn call_with_rejected_token_is_repeated_with_a_new_token() {
    let setup = Setup::new();
    setup.called.inject_next(1, "/", Fault::problem(401, "UNAUTHORIZED"));
    setup.client.post::<Value>("/it", &json!({})).await.unwrap();
    let tokens: Vec<_> =
        setup.called.calls("/it").into_iter().map(|call| call.headers["authorization"].clone()).collect();
    assert!(tokens.len() == 2 && tokens[0] != tokens[1]);

    setup.called.inject("/", Fault::problem(401, "UNAUTHORIZED"));
    let refused = setup.client.get::<Value>("/again").await.unwrap_err();
    assert!(matches!(refused, CallError::Refused { status, .. } if status == 401), "{refused}");
    assert_eq!(setup.called.calls("/again").len(), 2);
}

/// RULE-ALL-041: at most 64 calls are in flight. Further calls fail after a short wait.
#[tokio::test]
async fn concurrent_calls_are_limited() {
    let setup = Setup::new();
    setup.called.inject("/", Fault::HangAfterHeaders);
    let call = async |path: &str| timeout(Duration::from_secs(2), setup.client.get::<Value>(path)).await;
    let calls = join_all((0..100).map(async |_| call("/slow").await)).await;
    let failed = calls.iter().filter(|call| matches!(call, Ok(Err(CallError::Unavailable(_))))).count();
    assert_eq!((failed, setup.called.calls("/slow").len()), (36, 64));

    setup.called.inject("/", Fault::Respond(200, "{}".to_owned()));
    for result in join_all((0..64).map(async |_| call("/fast").await)).await {
        result.unwrap().unwrap();
    }
}

/// RULE-ALL-041: while the called service recovers, the breaker permits three probes instead of all
/// calls.
#[tokio::test]
async fn half_open_breaker_permits_three_calls() {
    let setup = Setup::new();
    setup.called.inject("/", Fault::problem(500, "INTERNAL_ERROR"));
    for _ in 0..10 {
        setup.client.get::<Value>("/down").await.unwrap_err();
    }
    setup.client.get::<Value>("/open").await.unwrap_err();
    assert_eq!(setup.called.calls("/open").len(), 0);

    sleep(Duration::from_secs(2)).await;
    setup.called.inject("/", Fault::HangAfterHeaders);
    let call = async || timeout(Duration::from_secs(1), setup.client.get::<Value>("/probe")).await;
    let calls = join_all((0..20).map(async |_| call().await)).await;
    let failed = calls.iter().filter(|call| matches!(call, Ok(Err(CallError::Unavailable(_))))).count();
    assert_eq!((failed, setup.called.calls("/probe").len()), (17, 3));

    setup.called.inject("/", Fault::Respond(200, "{}".to_owned()));
    setup.client.get::<Value>("/up").await.unwrap();
    for result in join_all((0..20).map(async |_| setup.client.get::<Value>("/up").await)).await {
        result.unwrap();
    }
}

/// RULE-ALL-040: an exchange with another server returns every response below 500, and reports
/// others as unavailable.
#[tokio::test]
async fn exchange_returns_each_response_below_500() {
    let setup = Setup::new();
    for status in [200, 201, 204, 404, 409] {
        setup.called.inject("/", Fault::Respond(status, "text".to_owned()));
        let response = setup.client.exchange(Method::PUT, "/it", Some(&json!({"a": 1}))).await.unwrap();
        assert_eq!(response.0, status);
    }
    let call = &setup.called.calls("/it")[0];
    assert_eq!((call.method.as_str(), &call.body), ("PUT", &json!({"a": 1})));
    setup.called.inject("/", Fault::Respond(500, "text".to_owned()));
    let failed = setup.client.exchange(Method::DELETE, "/it", None::<&Value>).await.unwrap_err();
    assert!(matches!(failed, CallError::Unavailable(_)), "{failed}");
}

/// RULE-ALL-074: an API of the issuer is optional. It needs a secret, and https outside loopback.
#[test]
fn optional_settings_are_checked_if_the_url_is_set() {
    let read = |url: &'static str, secret: &'static str| {
        let mut env = Env::new(move |name| match name {
            "AUTH_ISSUER" => Some("https://issuer".to_owned()),
            "API_URL" => Some(url.to_owned()),
            "CLIENT_SECRET" => Some(secret.to_owned()),
            _ => None,
        });
        let config = Config::read_optional(&mut env, "API_URL", "URL of an API", "caller");
        env.finish(config).map(|config| config.is_some()).map_err(|error| error.to_string())
    };
    assert_eq!((read("", ""), read("", "x"), read("https://api", "x")), (Ok(false), Ok(false), Ok(true)));
    assert!(read("https://api", "").unwrap_err().contains("it needs CLIENT_SECRET"));
    assert!(read("http://api", "x").unwrap_err().contains("https://"));
}
