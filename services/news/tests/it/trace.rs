//! One trace over the request, its calls to selections and its events.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::send;
use testkit::collector::hex;
use testkit::deployed::Deployed;
use testkit::faults::Fault;
use testkit::issuer::{CLIENTS, Claims};

use crate::detach::detach_path;
use crate::{
    MANAGE_OWN, POSTS, PUBLISHED, author, blocks_path, content, embed, guid, proxy, selections, service,
    take_path, text, wait_until_detached,
};

/// Returns a new `traceparent` and the id of its trace.
fn traceparent() -> (String, String) {
    let trace = guid().simple().to_string();
    (format!("00-{trace}-00f067aa0ba902b7-01"), trace)
}

/// Returns the trace and the span of a `traceparent`.
fn parts(traceparent: &str) -> (String, String) {
    let parts: Vec<_> = traceparent.split('-').collect();
    (parts[1].to_owned(), parts[2].to_owned())
}

/// RULE-NWS-018, RULE-ALL-039: each attempt of a call has its own span in the trace of the request.
#[tokio::test]
async fn calls_to_selections_carry_the_trace_of_the_request() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    proxy().inject_next(1, take_path(&selection), Fault::Drop);
    let (parent, trace) = traceparent();
    let request = author.news.request(Method::PUT, &blocks_path(&post)).json(&content([embed(&selection)]));
    send(request.header("traceparent", &parent)).await.expect(200);
    let calls = proxy().calls(take_path(&selection));
    let seen: Vec<_> = calls.iter().map(|call| parts(&call.headers["traceparent"])).collect();
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|(id, span)| *id == trace && *span != "00f067aa0ba902b7"), "{seen:?}");
    assert_ne!(seen[0].1, seen[1].1, "each attempt has its own span");
}

/// RULE-NWS-018, RULE-ALL-039: the detachment after an edit belongs to the trace of the edit.
#[tokio::test]
async fn detachment_carries_the_trace_of_its_edit() {
    let author = author();
    let (post, snapshot) = author.embed(&author.create_selection().await).await;
    proxy().inject_next(1, detach_path(&snapshot), Fault::problem(409, "SELECTIONS_CONCURRENCY_CONFLICT"));
    let (parent, trace) = traceparent();
    let request = author.news.request(Method::PUT, &blocks_path(&post)).json(&content([]));
    send(request.header("traceparent", &parent)).await.expect(200);
    wait_until_detached(&snapshot).await;
    let calls = proxy().calls(detach_path(&snapshot));
    let seen: Vec<_> = calls.iter().map(|call| parts(&call.headers["traceparent"]).0).collect();
    assert_eq!(seen, [trace.clone(), trace]);
}

/// RULE-NWS-044, RULE-ALL-039: `traceId` is the id of the request's trace.
#[tokio::test]
async fn problem_has_its_trace_id() {
    let (parent, trace) = traceparent();
    let request = service().guest().request(Method::GET, &format!("{POSTS}/{}", guid()));
    let problem =
        send(request.header("traceparent", &parent)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    assert_eq!(problem["traceId"], trace);
}

/// RULE-NWS-018, RULE-ALL-039: a collector gets one trace of the edit, its call and the
/// publication.
#[tokio::test]
async fn one_trace_spans_request_call_and_event() {
    let settings = [("SELECTIONS_URL", &*proxy().url()), ("CLIENT_SECRET", CLIENTS[0].1)];
    let news = Deployed::start(env!("CARGO_BIN_EXE_news"), &[], &settings).await;
    let claims = Claims::user(guid()).permission(MANAGE_OWN);
    let (author, owner) = (news.caller(&claims), selections().caller(&claims));
    let (parent, trace) = traceparent();
    let call = async |method: Method, path: &str, body: Value| {
        send(author.request(method, path).header("traceparent", &parent).json(&body)).await
    };
    let items = json!([{"PropertyObjectId": guid()}]);
    let selection = owner.post("/api/v1/selections", json!({"Title": "x", "Items": items})).await.expect(201);
    let selection = text(&selection["Id"]);
    let post = call(Method::POST, POSTS, json!({"Title": "x"})).await.expect(201);
    let post = text(&post["Id"]);
    call(Method::PUT, &blocks_path(post), content([embed(selection)])).await.expect(200);
    call(Method::POST, &format!("{POSTS}/{post}/publish"), Value::Null).await.expect(200);

    let named = async |name: &str| news.collector.span(&trace, |span| span.name == name).await;
    let edit = named("PUT /api/v1/posts/{post_id}/blocks").await;
    assert_eq!(hex(&edit.parent_span_id), "00f067aa0ba902b7");
    let take = proxy().calls(take_path(selection)).remove(0);
    let (id, caller_span) = parts(&take.headers["traceparent"]);
    assert_eq!(id, trace);
    let called = news.collector.span(&trace, |span| hex(&span.span_id) == caller_span).await;
    assert_eq!(called.parent_span_id, edit.span_id);

    let published = named("POST /api/v1/posts/{post_id}/publish").await;
    let event = service().bus().events_until(post, PUBLISHED).await.remove(0);
    assert_eq!(parts(&event.headers["traceparent"]), (trace, hex(&published.span_id)));
}
