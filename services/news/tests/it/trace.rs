//! One trace: the request in news, its call of selections, the message on Kafka.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::send;
use testkit::collector::hex;
use testkit::deployed::Deployed;
use testkit::faults::Fault;
use testkit::issuer::{CLIENTS, Claims};

use crate::{
    MANAGE_OWN, POSTS, PUBLISHED, author, between, blocks_path, content, embed, guid, selections, service,
    taking, text,
};

/// A `traceparent` of a trace of its own, and the trace's id.
fn traceparent() -> (String, String) {
    let trace = guid().simple().to_string();
    (format!("00-{trace}-00f067aa0ba902b7-01"), trace)
}

/// The trace and the span that a `traceparent` names.
fn parts(traceparent: &str) -> (String, String) {
    let parts: Vec<_> = traceparent.split('-').collect();
    (parts[1].to_owned(), parts[2].to_owned())
}

/// The blocks edit: trace propagation through the traceparent header, to every try of its call.
#[tokio::test]
async fn a_call_of_selections_carries_the_trace_of_its_request() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    between().next(1, taking(&selection), Fault::Drop);
    let (parent, trace) = traceparent();
    let request = author.news.request(Method::PUT, &blocks_path(&post)).json(&content([embed(&selection)]));
    send(request.header("traceparent", &parent)).await.expect(200);
    let calls = between().calls(taking(&selection));
    let seen: Vec<_> = calls.iter().map(|call| parts(&call.headers["traceparent"])).collect();
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|(of, span)| *of == trace && *span != "00f067aa0ba902b7"), "{seen:?}");
    assert_ne!(seen[0].1, seen[1].1, "each try has a span of its own");
}

/// A problem tells the trace that it can be found by.
#[tokio::test]
async fn a_problem_names_its_trace() {
    let (parent, trace) = traceparent();
    let request = service().guest().request(Method::GET, &format!("{POSTS}/{}", guid()));
    let problem =
        send(request.header("traceparent", &parent)).await.expect_problem(404, "NEWS_POST_NOT_FOUND");
    assert_eq!(problem["traceId"], trace);
}

/// Seen by a collector: the request, below it the call, whose id selections gets; the publication, whose
/// id the message has.
#[tokio::test]
async fn a_collector_sees_one_trace() {
    let settings = [("SELECTIONS_URL", &*between().url()), ("CLIENT_SECRET", CLIENTS[0].1)];
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
    let take = between().calls(taking(selection)).remove(0);
    let (of, called_from) = parts(&take.headers["traceparent"]);
    assert_eq!(of, trace);
    let called = news.collector.span(&trace, |span| hex(&span.span_id) == called_from).await;
    assert_eq!(called.parent_span_id, edit.span_id);

    let published = named("POST /api/v1/posts/{post_id}/publish").await;
    let event = service().bus().events_until(post, PUBLISHED).await.remove(0);
    assert_eq!(parts(&event.headers["traceparent"]), (trace, hex(&published.span_id)));
}
