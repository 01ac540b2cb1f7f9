//! Load shedding at the listeners and at the database.

use std::collections::BTreeSet;

use futures_util::future::{join, join_all};
use reqwest::Method;
use selections::Service;
use serde_json::{Value, json};
use testkit::client::{Client, Response, send};
use testkit::service::Running;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::admin::{BODY, send_creation_head};
use crate::{SELECTIONS, create_selection, eventually, guid, path};

/// Starts a service that admits `limit` requests at a time. Its statements wait 60 s for a lock.
fn start(limit: &str) -> Running {
    let settings = [("HTTP_MAX_REQUESTS_UNDER_WAY", limit), ("DATABASE_STATEMENT_TIMEOUT_MS", "60000")];
    Running::start::<Service>(&settings)
}

/// Blocks every read of selections until the client is dropped.
async fn lock(service: &Running) -> tokio_postgres::Client {
    let sql = service.sql().await;
    sql.batch_execute("begin; lock table selection in access exclusive mode").await.unwrap();
    sql
}

async fn metric(service: &Running, name: &str) -> u64 {
    let metrics = service.operator().get("/metrics").await.text;
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is not among {metrics}")).parse().unwrap()
}

async fn in_flight(service: &Running) -> u64 {
    metric(service, "http_server_active_requests{listener=\"public\"}").await
}

async fn wait_for_in_flight(service: &Running, count: u64) {
    eventually(&format!("{count} requests are in flight"), async || {
        (in_flight(service).await == count).then_some(())
    })
    .await;
}

#[track_caller]
fn expect_shed(response: &Response) {
    assert_eq!(response.status, 503, "{}", response.text);
    assert!(["1", "2", "3"].contains(&response.header("retry-after")), "{:?}", response.headers);
    assert_eq!(response.header("content-type"), "application/problem+json");
    assert_eq!(response.body["code"], "SELECTIONS_SERVICE_UNAVAILABLE");
    assert_eq!(response.body["title"], "The service is temporarily unavailable");
    assert_eq!(response.body["traceId"], Value::Null, "a shed request has no trace");
}

/// Sends the head of a request, with further header lines.
async fn send_head(caller: &Client, method: Method, headers: &str) -> TcpStream {
    send_head_and(caller, method, &format!("{headers}\r\n")).await
}

/// Sends the first lines of a request and `rest`.
async fn send_head_and(caller: &Client, method: Method, rest: &str) -> TcpStream {
    let request = caller.request(method.clone(), SELECTIONS).build().unwrap();
    let address = request.url().socket_addrs(|| None).unwrap()[0];
    let token = request.headers()["authorization"].to_str().unwrap();
    let head = format!("{method} {SELECTIONS} HTTP/1.1\r\nHost: test\r\nAuthorization: {token}\r\n{rest}");
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(head.as_bytes()).await.unwrap();
    connection
}

/// Reads the next response of a connection, which stays open.
async fn read_response(connection: &mut TcpStream) -> String {
    let mut response = String::new();
    let mut buffer = [0; 4096];
    // The body is one line of JSON.
    while !response.ends_with('}') {
        let length = connection.read(&mut buffer).await.unwrap();
        assert_ne!(length, 0, "closed after {response:?}");
        response.push_str(std::str::from_utf8(&buffer[..length]).unwrap());
    }
    response
}

/// RULE-ALL-044: requests above the limit are shed and counted, and the others are served.
#[tokio::test]
async fn requests_above_the_limit_are_shed() {
    let service = start("3");
    let (_, owner) = service.user();
    create_selection(&owner).await;
    let lock = lock(&service).await;
    let overload = async {
        wait_for_in_flight(&service, 3).await;
        for response in join_all((0..100).map(|_| owner.get(SELECTIONS))).await {
            expect_shed(&response);
        }
        expect_shed(&owner.post(SELECTIONS, json!({"Title": "x"})).await);
        assert_eq!(in_flight(&service).await, 3, "a shed request has no slot");
        let name = "http_server_requests_shed_total{listener=\"public\",queue=\"listener\"}";
        assert_eq!(metric(&service, name).await, 101);
        drop(lock);
    };

    let (served, ()) = join(join_all((0..3).map(|_| owner.get(SELECTIONS))), overload).await;

    for response in served {
        assert_eq!(response.expect(200)["TotalCount"], 1);
    }
    owner.get(SELECTIONS).await.expect(200);
    assert_eq!(in_flight(&service).await, 0);
}

/// RULE-ALL-044: a shed request causes no work, and the admin and internal ports still respond.
#[tokio::test]
async fn full_listener_sheds_before_any_work() {
    let service = start("1");
    let (_, owner) = service.user();
    let lock = lock(&service).await;
    let overload = async {
        wait_for_in_flight(&service, 1).await;
        expect_shed(&service.guest().get(SELECTIONS).await);
        expect_shed(&service.bearer("nonsense").get(SELECTIONS).await);
        let mut unread = send_head(&owner, Method::POST, "Content-Length: 1000\r\n").await;
        let mut response = String::new();
        unread.read_to_string(&mut response).await.unwrap();
        assert!(response.starts_with("HTTP/1.1 503 "), "{response}");

        for probe in ["/health/live", "/health/ready"] {
            assert_eq!(service.operator().get(probe).await.status, 204, "{probe}");
        }
        let unknown = format!("/api/v1/internal/snapshots/{}", guid());
        assert_eq!(
            service.machine("news").get(&unknown).await.status,
            404,
            "the internal listener has its own slots"
        );
        drop(lock);
    };

    let (served, ()) = join(owner.get(SELECTIONS), overload).await;

    served.expect(200);
}

/// RULE-ALL-046: if a request is refused before its body is read, its connection stays open once
/// the body has arrived.
#[tokio::test]
async fn refused_request_keeps_its_connection() {
    let service = start("1");
    let (_, owner) = service.user();
    let lock = lock(&service).await;
    let requests = async {
        wait_for_in_flight(&service, 1).await;
        let body = "Content-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"Title\":\"x\"}";
        let mut connection = send_head_and(&owner, Method::POST, body).await;
        assert!(read_response(&mut connection).await.starts_with("HTTP/1.1 503 "), "shed");
        let request = format!("POST {SELECTIONS} HTTP/1.1\r\nHost: test\r\n{body}");
        connection.write_all(request.as_bytes()).await.unwrap();
        assert!(read_response(&mut connection).await.starts_with("HTTP/1.1 503 "), "shed again");
        drop(lock);
        connection
    };
    let (served, mut connection) = join(owner.get(SELECTIONS), requests).await;
    served.expect(200);

    let request = format!("POST {SELECTIONS} HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\n{{}}");
    connection.write_all(request.as_bytes()).await.unwrap();
    assert!(read_response(&mut connection).await.starts_with("HTTP/1.1 401 "), "no token");
    connection.write_all(request.as_bytes()).await.unwrap();
    assert!(
        read_response(&mut connection).await.starts_with("HTTP/1.1 401 "),
        "no token, on the same connection"
    );
}

/// RULE-ALL-072: the response to a shed request has the CORS headers too.
#[tokio::test]
async fn page_of_an_allowed_origin_reads_a_shed_response() {
    let origin = "https://example.org";
    let settings = [("HTTP_MAX_REQUESTS_UNDER_WAY", "1"), ("DATABASE_STATEMENT_TIMEOUT_MS", "60000")];
    let settings = [&settings[..], &[("CORS_ALLOWED_ORIGINS", origin)]].concat();
    let service = Running::start::<Service>(&settings);
    let (_, owner) = service.user();
    let lock = lock(&service).await;
    let requests = async {
        wait_for_in_flight(&service, 1).await;
        let refused = send(owner.request(Method::GET, SELECTIONS).header("origin", origin)).await;
        expect_shed(&refused);
        assert_eq!(refused.header("access-control-allow-origin"), origin);
        assert_eq!(
            (refused.header("cache-control"), refused.header("x-content-type-options")),
            ("no-store", "nosniff")
        );
        drop(lock);
    };
    let (served, ()) = join(owner.get(SELECTIONS), requests).await;
    served.expect(200);
}

/// RULE-ALL-045: a request that fails frees its slot.
#[tokio::test]
async fn failed_request_frees_its_slot() {
    let service = start("1");
    let (_, owner) = service.user();
    for _ in 0..3 {
        service.guest().get(SELECTIONS).await.expect_problem(401, "SELECTIONS_UNAUTHORIZED");
        owner.post(SELECTIONS, json!({})).await.expect_problem(400, "SELECTIONS_VALIDATION_FAILED");
        let unknown = path(&json!({"Id": guid()}));
        owner.delete(&unknown).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }
    assert_eq!(in_flight(&service).await, 0);
}

/// RULE-ALL-045: a reset connection ends its request. After an ordinary close, the request frees
/// its slot when it ends.
#[tokio::test]
async fn broken_connection_frees_its_slot() {
    let service = start("1");
    let (_, owner) = service.user();
    let lock = lock(&service).await;
    let broken = send_head(&owner, Method::GET, "").await;
    wait_for_in_flight(&service, 1).await;
    broken.set_zero_linger().unwrap();
    drop(broken);
    wait_for_in_flight(&service, 0).await;

    let closed = send_head(&owner, Method::GET, "").await;
    wait_for_in_flight(&service, 1).await;
    drop((closed, lock));
    wait_for_in_flight(&service, 0).await;
}

/// RULE-ALL-045: a request whose body has not arrived has no slot.
#[tokio::test]
async fn slow_sender_has_no_slot() {
    let service = start("1");
    let (_, owner) = service.user();
    let mut slow = send_creation_head(&owner).await;

    eventually("another request is admitted", async || {
        (owner.get(SELECTIONS).await.status == 200).then_some(())
    })
    .await;

    slow.write_all(BODY).await.unwrap();
    let mut response = String::new();
    slow.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 201 "), "{response}");
    assert_eq!(in_flight(&service).await, 0);
}

/// RULE-ALL-044: while too many requests wait for a database connection, further ones are shed.
#[tokio::test]
async fn long_database_queue_does_not_grow() {
    let settings = [("DATABASE_POOL_SIZE", "1"), ("DATABASE_STATEMENT_TIMEOUT_MS", "60000")];
    let service = Running::start::<Service>(&settings);
    let (_, owner) = service.user();
    create_selection(&owner).await;
    let lock = lock(&service).await;
    let shed = "http_server_requests_shed_total{listener=\"public\",queue=\"database\"}";
    let watching = async {
        // One request has the connection and sixteen wait. One more is admitted if two threads
        // check the queue concurrently.
        eventually("the other requests are shed", async || {
            (metric(&service, shed).await >= 32).then_some(())
        })
        .await;
        drop(lock);
    };

    let (responses, ()) = join(join_all((0..50).map(|_| owner.get(SELECTIONS))), watching).await;

    let (served, refused): (Vec<_>, Vec<_>) =
        responses.into_iter().partition(|response| response.status == 200);
    assert!(!served.is_empty() && refused.len() >= 32, "{} served, {} refused", served.len(), refused.len());
    let mut delays = BTreeSet::new();
    for response in &refused {
        assert_eq!(response.status, 503, "{}", response.text);
        delays.insert(response.header("retry-after"));
    }
    // Equal delays of 32 clients have a probability of 3⁻³¹.
    assert!(delays.len() > 1 && delays.is_subset(&BTreeSet::from(["1", "2", "3"])), "{delays:?}");
    let again = async || (owner.get(SELECTIONS).await.status == 200).then_some(());
    eventually("the next requests are served", again).await;
}
