//! One trace: a request, the message that tells of it, whoever consumes a message of that trace.

use reqwest::Method;
use serde_json::json;
use testkit::client::send;
use testkit::collector::hex;
use testkit::deployed::Deployed;
use testkit::issuer::Claims;

use crate::consumer::object;
use crate::{CREATED, OBJECT_UPSERTED, SELECTIONS, guid, service, text};

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
