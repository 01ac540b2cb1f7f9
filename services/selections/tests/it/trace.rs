//! Traces over requests, events and consumers, and logs with their trace.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;
use testkit::client::send;
use testkit::collector::hex;
use testkit::deployed::Deployed;
use testkit::issuer::Claims;

use crate::consumer::object;
use crate::{CREATED, OBJECT_UPSERTED, SELECTIONS, eventually, guid, service, text};

/// RULE-NWS-018, RULE-ALL-039: a collector gets the spans of the request and the consumer. The
/// parent of the consumer's span is the span that the message names.
#[tokio::test]
async fn consumer_continues_the_trace_of_its_message() {
    let selections = Deployed::start(env!("CARGO_BIN_EXE_selections"), &[], &[]).await;
    let owner = selections.caller(&Claims::user(guid()));
    let trace = guid().simple().to_string();
    let request = owner.request(Method::POST, SELECTIONS).json(&json!({"Title": "x"}));
    let request = request.header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
    let selection = send(request).await.expect(201);
    let event = service().bus().events_until(text(&selection["Id"]), CREATED).await.remove(0);

    let id = guid();
    let headers = [
        ("ce_id", guid().to_string()),
        ("ce_sequence", "1".to_owned()),
        ("traceparent", event.headers["traceparent"].clone()),
    ];
    let (key, payload) = (id.to_string(), object(id, 1, "12").to_string());
    service().bus().publish_raw(OBJECT_UPSERTED, key.as_bytes(), &headers, payload.as_bytes()).await;

    let span = async |name: &str| selections.collector.span(&trace, |span| span.name == name).await;
    let requested = span("POST /api/v1/selections").await;
    assert_eq!(hex(&requested.parent_span_id), "00f067aa0ba902b7");
    assert_eq!(event.headers["traceparent"], format!("00-{trace}-{}-01", hex(&requested.span_id)));
    let consumed = span(&format!("consume {OBJECT_UPSERTED}")).await;
    assert_eq!(consumed.parent_span_id, requested.span_id);
}

/// RULE-ALL-042: a trace that is not sampled is not exported, but problems and events have its id.
#[tokio::test]
async fn unsampled_trace_has_an_id_in_responses_and_events() {
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
    let event = service().bus().events_until(text(&selection["Id"]), CREATED).await.remove(0);
    let traceparent: Vec<_> = event.headers["traceparent"].split('-').collect();
    assert_eq!((traceparent[1], traceparent[3]), (&*trace, "00"));
    assert_ne!(traceparent[2], "00f067aa0ba902b7", "the request's own span");
}

/// RULE-ALL-042: every trace is continued, but only trusted proxies set its sampling flag.
#[tokio::test]
async fn only_trusted_callers_control_sampling() {
    let (untrusted, trusted_proxy) =
        (("TRUSTED_PROXIES", "192.0.2.0/24"), ("TRUSTED_PROXIES", "127.0.0.0/8"));
    let (on, off) = ("parentbased_always_on", "parentbased_always_off");
    for (proxies, sampler, flag, expected) in [
        (untrusted, off, "01", "00"),
        (untrusted, on, "00", "01"),
        (trusted_proxy, off, "01", "01"),
        (trusted_proxy, on, "00", "00"),
    ] {
        let settings = [proxies, ("OTEL_TRACES_SAMPLER", sampler)];
        let selections = Deployed::start(env!("CARGO_BIN_EXE_selections"), &[], &settings).await;
        let owner = selections.caller(&Claims::user(guid()));
        let trace = guid().simple().to_string();
        let request = owner.request(Method::POST, SELECTIONS).json(&json!({"Title": "x"}));
        let request = request.header("traceparent", format!("00-{trace}-00f067aa0ba902b7-{flag}"));
        let selection = send(request).await.expect(201);
        let event = service().bus().events_until(text(&selection["Id"]), CREATED).await.remove(0);
        let traceparent: Vec<_> = event.headers["traceparent"].split('-').collect();
        assert_eq!((traceparent[1], traceparent[3]), (&*trace, expected), "{proxies:?} {sampler}");
    }
}

/// RULE-ALL-042: concurrent requests keep separate traces.
#[tokio::test]
async fn concurrent_requests_keep_separate_traces() {
    let owner = service().caller(&Claims::user(guid()));
    let send_one = async |_| {
        let trace = guid().simple().to_string();
        // Other requests run during the wait for the database.
        let request = owner.request(Method::DELETE, &format!("{SELECTIONS}/{}", guid()));
        let request = request.header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
        let problem = send(request).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
        assert_eq!(problem["traceId"], trace);
    };
    join_all((0..64).map(send_one)).await;
}

/// RULE-ALL-043: response and event have a trace of their own if `traceparent` is broken.
#[tokio::test]
async fn broken_traceparent_is_ignored() {
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
        format!("00-{trace}-00f067aa0ba902b7-001"),
        format!("00-{trace}-00f067aa0ba902b7-1"),
        format!("000-{trace}-00f067aa0ba902b7-01"),
        format!("00-{trace}-0f067440b4902b7-01"),
        format!("00-{trace}-000f067aa0ba902b7-01"),
        format!("00-{trace}-00F067440B4902B7-01"),
    ] {
        let request = owner.request(Method::GET, "/api/v1/nowhere").header("traceparent", &broken);
        let problem = send(request).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
        let trace_id = text(&problem["traceId"]);
        assert!(u128::from_str_radix(trace_id, 16).is_ok_and(|id| id != 0), "{broken}: {trace_id}");
        assert_ne!(trace_id, trace, "{broken}");

        let request = owner.request(Method::POST, SELECTIONS).json(&json!({"Title": "x"}));
        let selection = send(request.header("traceparent", &broken)).await.expect(201);
        let event = service().bus().events_until(text(&selection["Id"]), CREATED).await.remove(0);
        let trace_of_event = event.headers["traceparent"].split('-').nth(1).unwrap().to_owned();
        assert!(
            u128::from_str_radix(&trace_of_event, 16).is_ok_and(|id| id != 0),
            "{broken}: {trace_of_event}"
        );
        assert_ne!(trace_of_event, trace, "{broken}");
    }
}

/// RULE-ALL-043: a new trace begins if a request has several `traceparent` headers.
#[tokio::test]
async fn several_traceparents_are_ignored() {
    let (_, owner) = service().user();
    let [one, other] = [guid(), guid()].map(|trace| trace.simple().to_string());
    for second in [&one, &other] {
        let request = owner.request(Method::GET, "/api/v1/nowhere");
        let request = request.header("traceparent", format!("00-{one}-00f067aa0ba902b7-01"));
        let request = request.header("traceparent", format!("00-{second}-00f067aa0ba902b7-01"));
        let problem = send(request).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
        assert!(problem["traceId"] != *one && problem["traceId"] != *other, "{problem}");
    }
}

/// RULE-ALL-043: a message with a broken `traceparent` or with several is consumed in a new trace.
#[tokio::test]
async fn broken_traceparent_of_a_message_is_ignored() {
    let selections = Deployed::start(env!("CARGO_BIN_EXE_selections"), &[], &[]).await;
    let [broken, first, valid] = [guid(), guid(), guid()].map(|trace| trace.simple().to_string());
    let traceparent = |trace: &str, flags: &str| format!("00-{trace}-00f067aa0ba902b7-{flags}");
    let received = [
        vec![traceparent(&broken, "001")],
        vec![traceparent(&first, "01"), traceparent(&broken, "01")],
        vec![traceparent(&valid, "01")],
    ];
    let id = guid();
    // Messages of one key are consumed in their order.
    for (version, traceparents) in (1..).zip(received) {
        let mut headers = vec![("ce_id", guid().to_string()), ("ce_sequence", version.to_string())];
        headers.extend(traceparents.into_iter().map(|trace| ("traceparent", trace)));
        let (key, payload) = (id.to_string(), object(id, version, "12").to_string());
        service().bus().publish_raw(OBJECT_UPSERTED, key.as_bytes(), &headers, payload.as_bytes()).await;
    }
    let consumed = format!("consume {OBJECT_UPSERTED}");
    selections.collector.span(&valid, |span| span.name == consumed).await;
    let ignored: Vec<_> = selections
        .collector
        .all()
        .map(|span| hex(&span.trace_id))
        .filter(|id| [&broken, &first].contains(&id))
        .collect();
    assert!(ignored.is_empty(), "{ignored:?}");
}

/// RULE-ALL-042: a service without tracing passes the caller's trace on unchanged.
#[tokio::test]
async fn service_without_tracing_passes_the_callers_trace_on() {
    let disabled = [("OTEL_SDK_DISABLED", "true")];
    let selections = Deployed::start(env!("CARGO_BIN_EXE_selections"), &[], &disabled).await;
    let owner = selections.caller(&Claims::user(guid()));
    let traceparent = format!("00-{}-00f067aa0ba902b7-01", guid().simple());
    let request = owner.request(Method::POST, SELECTIONS).json(&json!({"Title": "x"}));
    let selection = send(request.header("traceparent", &traceparent)).await.expect(201);
    let event = service().bus().events_until(text(&selection["Id"]), CREATED).await.remove(0);
    assert_eq!(event.headers["traceparent"], traceparent);
}

/// RULE-ALL-037: a log line has the trace id and the cause, and neither line nor span identifies
/// the user.
#[tokio::test]
async fn failure_is_logged_with_its_trace_id() {
    let no_issuer = [("AUTH_ISSUER", "http://127.0.0.1:1")];
    let selections = Deployed::start(env!("CARGO_BIN_EXE_selections"), &["serve"], &no_issuer).await;
    let owner = guid();
    let caller = selections.caller(&Claims::user(owner));
    let problem = caller
        .get(&format!("{SELECTIONS}?Page=7"))
        .await
        .expect_problem(503, "SELECTIONS_SERVICE_UNAVAILABLE");
    let line = eventually("the log line is written", async || {
        selections.log().into_iter().find(|line| line["message"] == "failed to handle a request")
    })
    .await;
    assert_eq!((&line["level"], &line["target"]), (&json!("ERROR"), &json!("web::observe")));
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
