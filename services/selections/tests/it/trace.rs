//! One trace: a request, the message that tells of it, whoever consumes a message of that trace.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;
use testkit::client::send;
use testkit::collector::hex;
use testkit::deployed::Deployed;
use testkit::issuer::Claims;

use crate::consumer::object;
use crate::{CREATED, OBJECT_UPSERTED, SELECTIONS, eventually, guid, service, text};

/// Seen by a collector: the request, whose span the relayed message names; and below the span that a
/// message names, its consumer's. The message goes from one to the other by the test, as it would
/// between two services.
#[tokio::test]
async fn a_collector_sees_a_consumer_in_the_trace_of_its_message() {
    let selections = Deployed::start(env!("CARGO_BIN_EXE_selections"), &[], &[]).await;
    let owner = selections.caller(&Claims::user(guid()));
    let trace = guid().simple().to_string();
    let request = owner.request(Method::POST, SELECTIONS).json(&json!({"Title": "x"}));
    let request = request.header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
    let selection = send(request).await.expect(201);
    let told = service().bus().events_until(text(&selection["Id"]), CREATED).await.remove(0);

    let id = guid();
    let headers = [
        ("ce_id", guid().to_string()),
        ("ce_sequence", "1".to_owned()),
        ("traceparent", told.headers["traceparent"].clone()),
    ];
    let (key, payload) = (id.to_string(), object(id, 1, "12").to_string());
    service().bus().publish_raw(OBJECT_UPSERTED, key.as_bytes(), &headers, payload.as_bytes()).await;

    let span = async |name: &str| selections.collector.span(&trace, |span| span.name == name).await;
    let requested = span("POST /api/v1/selections").await;
    assert_eq!(hex(&requested.parent_span_id), "00f067aa0ba902b7");
    assert_eq!(told.headers["traceparent"], format!("00-{trace}-{}-01", hex(&requested.span_id)));
    let consumed = span(&format!("consume {OBJECT_UPSERTED}")).await;
    assert_eq!(consumed.parent_span_id, requested.span_id);
}

/// What is not sampled is not sent, and has an id all the same: for the caller, and for whoever the message reaches.
#[tokio::test]
async fn a_trace_that_is_not_sampled_has_its_id_everywhere() {
    let sampler = [("OTEL_TRACES_SAMPLER", "always_off")];
    let selections = Deployed::start(env!("CARGO_BIN_EXE_selections"), &[], &sampler).await;
    let owner = selections.caller(&Claims::user(guid()));
    let problem = owner.get("/api/v1/nowhere").await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    let trace_id = u128::from_str_radix(text(&problem["traceId"]), 16).expect("hexadecimal");
    assert_ne!(trace_id, 0);

    let trace = guid().simple().to_string();
    let request = owner.request(Method::POST, SELECTIONS).json(&json!({"Title": "x"}));
    let request = request.header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
    let selection = send(request).await.expect(201);
    let told = service().bus().events_until(text(&selection["Id"]), CREATED).await.remove(0);
    let traceparent: Vec<_> = told.headers["traceparent"].split('-').collect();
    assert_eq!((traceparent[1], traceparent[3]), (&*trace, "00"));
    assert_ne!(traceparent[2], "00f067aa0ba902b7", "the request's own span");
}

/// Traces: anybody's trace is continued; whether it is sampled is for trusted proxies to say, and for strangers the
/// sampler decides as where no trace has come.
#[tokio::test]
async fn whether_a_trace_is_sampled_is_for_trusted_callers_to_say() {
    let (nobody, proxy) = (("TRUSTED_PROXIES", "192.0.2.0/24"), ("TRUSTED_PROXIES", "127.0.0.0/8"));
    let (on, off) = ("parentbased_always_on", "parentbased_always_off");
    for (trusted, sampler, said, sampled) in [
        (nobody, off, "01", "00"),
        (nobody, on, "00", "01"),
        (proxy, off, "01", "01"),
        (proxy, on, "00", "00"),
    ] {
        let settings = [trusted, ("OTEL_TRACES_SAMPLER", sampler)];
        let selections = Deployed::start(env!("CARGO_BIN_EXE_selections"), &[], &settings).await;
        let owner = selections.caller(&Claims::user(guid()));
        let trace = guid().simple().to_string();
        let request = owner.request(Method::POST, SELECTIONS).json(&json!({"Title": "x"}));
        let request = request.header("traceparent", format!("00-{trace}-00f067aa0ba902b7-{said}"));
        let selection = send(request).await.expect(201);
        let told = service().bus().events_until(text(&selection["Id"]), CREATED).await.remove(0);
        let traceparent: Vec<_> = told.headers["traceparent"].split('-').collect();
        assert_eq!((traceparent[1], traceparent[3]), (&*trace, sampled), "{trusted:?} {sampler}");
    }
}

/// Requests that are under way at once keep their traces apart.
#[tokio::test]
async fn requests_at_once_keep_their_traces_apart() {
    let owner = service().caller(&Claims::user(guid()));
    let ask = async |_| {
        let trace = guid().simple().to_string();
        // What waits for the database lets others in between.
        let request = owner.request(Method::DELETE, &format!("{SELECTIONS}/{}", guid()));
        let request = request.header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
        let problem = send(request).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
        assert_eq!(problem["traceId"], trace);
    };
    join_all((0..64).map(ask)).await;
}

/// A `traceparent` that is none, or of a trace of zeros, is ignored: the answer and the message have a trace of their own.
#[tokio::test]
async fn a_traceparent_that_is_broken_is_ignored() {
    let (_, owner) = service().user();
    let trace = guid().simple().to_string();
    for broken in [
        String::new(),
        trace.clone(),
        format!("00-{trace}"),
        format!("00-{trace}-00f067aa0ba902b7-01-more"),
        format!("ff-{trace}-00f067aa0ba902b7-01"),
        format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
        format!("00-{trace}-{}-01", "0".repeat(16)),
        format!("00-{}-00f067aa0ba902b7-01", "x".repeat(32)),
        format!("00-{trace}0-00f067aa0ba902b7-01"),
    ] {
        let request = owner.request(Method::GET, "/api/v1/nowhere").header("traceparent", &broken);
        let problem = send(request).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
        let trace_id = text(&problem["traceId"]);
        assert!(u128::from_str_radix(trace_id, 16).is_ok_and(|id| id != 0), "{broken}: {trace_id}");
        assert_ne!(trace_id, trace, "{broken}");

        let request = owner.request(Method::POST, SELECTIONS).json(&json!({"Title": "x"}));
        let selection = send(request.header("traceparent", &broken)).await.expect(201);
        let told = service().bus().events_until(text(&selection["Id"]), CREATED).await.remove(0);
        let told_of = told.headers["traceparent"].split('-').nth(1).unwrap().to_owned();
        assert!(u128::from_str_radix(&told_of, 16).is_ok_and(|id| id != 0), "{broken}: {told_of}");
        assert_ne!(told_of, trace, "{broken}");
    }
}

/// A service that traces nothing passes the trace of its caller on as it came.
#[tokio::test]
async fn without_traces_that_of_the_caller_is_passed_on() {
    let disabled = [("OTEL_SDK_DISABLED", "true")];
    let selections = Deployed::start(env!("CARGO_BIN_EXE_selections"), &[], &disabled).await;
    let owner = selections.caller(&Claims::user(guid()));
    let traceparent = format!("00-{}-00f067aa0ba902b7-01", guid().simple());
    let request = owner.request(Method::POST, SELECTIONS).json(&json!({"Title": "x"}));
    let selection = send(request.header("traceparent", &traceparent)).await.expect(201);
    let told = service().bus().events_until(text(&selection["Id"]), CREATED).await.remove(0);
    assert_eq!(told.headers["traceparent"], traceparent);
}

/// A line of the log names its trace, and what failed where; whose request it was stays out of it, and of the span.
#[tokio::test]
async fn a_failure_is_found_in_the_log_by_its_trace() {
    let nobody = [("AUTH_ISSUER", "http://127.0.0.1:1")];
    let selections = Deployed::start(env!("CARGO_BIN_EXE_selections"), &["serve"], &nobody).await;
    let owner = guid();
    let caller = selections.caller(&Claims::user(owner));
    let problem = caller
        .get(&format!("{SELECTIONS}?Page=7"))
        .await
        .expect_problem(503, "SELECTIONS_SERVICE_UNAVAILABLE");
    let line = eventually("the line", async || {
        selections.log().into_iter().find(|line| line["message"] == "a request failed")
    })
    .await;
    assert_eq!((&line["level"], &line["target"]), (&json!("ERROR"), &json!("web::middleware")));
    assert_eq!((&line["method"], &line["route"]), (&json!("GET"), &json!(SELECTIONS)));
    assert_eq!(line["trace_id"], problem["traceId"]);
    assert!(line["timestamp"].is_string() && line["cause"].is_string(), "{line}");
    let span = selections.collector.span(text(&problem["traceId"]), |_| true).await;
    assert_eq!(span.status.as_ref().map(|status| &*status.message), Some("503 SERVICE_UNAVAILABLE"));
    let mut known: Vec<_> = span.attributes.iter().map(|attribute| &*attribute.key).collect();
    known.sort_unstable();
    assert_eq!(known, ["http.request.method", "http.response.status_code", "http.route"]);
    for personal in [owner.to_string(), "Page=7".to_owned(), "Bearer".to_owned()] {
        assert!(!line.to_string().contains(&personal), "{line}");
    }
}
