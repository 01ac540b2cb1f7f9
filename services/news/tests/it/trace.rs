//! One trace: the request in news, its call of selections, the message on Kafka.

use std::fmt::Write;
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use testkit::client::send;
use testkit::faults::{Fault, Faults};
use testkit::issuer::{CLIENTS, Claims};
use testkit::service::issuer;
use testkit::{database, required};
use tokio::process::{Child, Command};

use crate::{
    MANAGE_OWN, POSTS, PUBLISHED, author, between, blocks_path, content, embed, eventually, guid, selections,
    service, taking, text,
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

/// The binary as it is deployed, with a collector.
struct Deployed {
    _child: Child,
    public: SocketAddr,
    collector: Faults,
}

impl Deployed {
    async fn start() -> Self {
        let collector = Faults::before("http://127.0.0.1:1");
        collector.on("/v1/traces", Fault::Answer(200, String::new()));
        // Below those that the system hands out, or a service that starts meanwhile could get them.
        let free = || {
            let mut ports = std::iter::repeat_with(|| 20_000 + rand::random::<u16>() % 10_000);
            ports.find_map(|port| TcpListener::bind(("127.0.0.1", port)).ok()).unwrap().local_addr().unwrap()
        };
        let (public, admin) = (free(), free());
        let database = database::create().await.unwrap();
        let command = |role: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_news"));
            command
                .args((!role.is_empty()).then_some(role))
                .env("DATABASE_URL", &database)
                .env("KAFKA_BROKERS", required("KAFKA_BROKERS").unwrap())
                .env("AUTH_ISSUER", issuer().url())
                .env("SELECTIONS_URL", between().url())
                .env("CLIENT_SECRET", CLIENTS[0].1)
                .env("PUBLIC_LISTEN", public.to_string())
                .env("ADMIN_LISTEN", admin.to_string())
                .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url())
                .env("OTEL_BSP_SCHEDULE_DELAY", "100")
                .stdout(Stdio::null())
                .kill_on_drop(true);
            command
        };
        assert!(command("migrate").status().await.unwrap().success());
        let child = command("").spawn().unwrap();
        let http = reqwest::ClientBuilder::new().build().unwrap();
        eventually("news is ready", async || {
            let ready = http.get(format!("http://{admin}/health/ready")).send().await.ok()?;
            ready.status().is_success().then_some(())
        })
        .await;
        Self { _child: child, public, collector }
    }

    fn request(&self, method: Method, path: &str, token: &str, traceparent: &str) -> RequestBuilder {
        let http = reqwest::ClientBuilder::new().build().unwrap();
        let request = http.request(method, format!("http://{}{path}", self.public)).bearer_auth(token);
        request.header("traceparent", traceparent)
    }

    /// The spans of a trace, as the collector has them.
    fn spans(&self, trace: &str) -> Vec<Span> {
        let exports = self
            .collector
            .calls("/v1/traces")
            .into_iter()
            .map(|call| ExportTraceServiceRequest::decode(call.raw.as_slice()).expect("OTLP"));
        let scopes = exports.flat_map(|export| export.resource_spans).flat_map(|spans| spans.scope_spans);
        scopes.flat_map(|scope| scope.spans).filter(|span| hex(&span.trace_id) == trace).collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("memory");
        hex
    })
}

/// The span of this name, once the collector has it.
async fn span_named(news: &Deployed, trace: &str, name: &str) -> Span {
    eventually(name, async || news.spans(trace).into_iter().find(|span| span.name == name)).await
}

/// Seen by a collector: the request, below it the call, whose id selections gets; the publication, whose
/// id the message has.
#[tokio::test]
async fn a_collector_sees_one_trace() {
    let news = Deployed::start().await;
    let id = guid();
    let claims = Claims::user(id).permission(MANAGE_OWN);
    let token = issuer().token(&claims).unwrap();
    let (parent, trace) = traceparent();
    let call = async |method: Method, path: &str, body: Value| {
        send(news.request(method, path, &token, &parent).json(&body)).await
    };
    let items = json!([{"PropertyObjectId": guid()}]);
    let owner = selections().caller(&claims);
    let selection = owner.post("/api/v1/selections", json!({"Title": "x", "Items": items})).await.expect(201)
        ["Id"]
        .take();
    let post = call(Method::POST, POSTS, json!({"Title": "x"})).await.expect(201)["Id"].take();
    let post = text(&post);
    call(Method::PUT, &blocks_path(post), content([embed(text(&selection))])).await.expect(200);
    call(Method::POST, &format!("{POSTS}/{post}/publish"), Value::Null).await.expect(200);

    let edit = span_named(&news, &trace, "PUT /api/v1/posts/{post_id}/blocks").await;
    assert_eq!(hex(&edit.parent_span_id), "00f067aa0ba902b7");
    let take = between().calls(taking(text(&selection))).remove(0);
    let (of, called_from) = parts(&take.headers["traceparent"]);
    assert_eq!(of, trace);
    let called = eventually("the span of the call", async || {
        news.spans(&trace).into_iter().find(|span| hex(&span.span_id) == called_from)
    })
    .await;
    assert_eq!(called.parent_span_id, edit.span_id);

    let published = span_named(&news, &trace, "POST /api/v1/posts/{post_id}/publish").await;
    let event = service().bus().events_until(post, PUBLISHED).await.remove(0);
    assert_eq!(parts(&event.headers["traceparent"]), (trace, hex(&published.span_id)));
}
