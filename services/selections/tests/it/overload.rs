//! More requests than a service can take: those above its limits are told at once to come again, the others
//! are answered.

use futures_util::future::{join, join_all};
use reqwest::Method;
use selections::Service;
use serde_json::{Value, json};
use testkit::client::{Answer, Client, send};
use testkit::service::Running;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::admin::{BODY, begin_creation};
use crate::{SELECTIONS, create_selection, eventually, guid, path};

/// A service of its own that takes `limit` requests at once. Its statements wait for a lock as long as it takes.
fn start(limit: &str) -> Running {
    let settings = [("HTTP_MAX_REQUESTS_UNDER_WAY", limit), ("DATABASE_STATEMENT_TIMEOUT_MS", "60000")];
    Running::start::<Service>(&settings)
}

/// Keeps whoever reads selections waiting until it is dropped.
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

async fn under_way(service: &Running) -> u64 {
    metric(service, "http_server_active_requests{listener=\"public\"}").await
}

async fn until_under_way(service: &Running, count: u64) {
    eventually(&format!("{count} are under way"), async || (under_way(service).await == count).then_some(()))
        .await;
}

#[track_caller]
fn expect_shed(answer: &Answer) {
    assert_eq!((answer.status, answer.header("retry-after")), (503, "1"), "{}", answer.text);
    assert_eq!(answer.header("content-type"), "application/problem+json");
    assert_eq!(answer.body["code"], "SELECTIONS_SERVICE_UNAVAILABLE");
    assert_eq!(answer.body["title"], "The service is unavailable for a moment");
    assert_eq!(answer.body["traceId"], Value::Null, "nothing was begun for it");
}

/// The head of a request; the test sends the rest, or nothing.
async fn begin(caller: &Client, method: Method, more: &str) -> TcpStream {
    begin_with(caller, method, &format!("{more}\r\n")).await
}

/// The first lines of a request, and what is to follow.
async fn begin_with(caller: &Client, method: Method, rest: &str) -> TcpStream {
    let request = caller.request(method.clone(), SELECTIONS).build().unwrap();
    let address = request.url().socket_addrs(|| None).unwrap()[0];
    let token = request.headers()["authorization"].to_str().unwrap();
    let head = format!("{method} {SELECTIONS} HTTP/1.1\r\nHost: test\r\nAuthorization: {token}\r\n{rest}");
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(head.as_bytes()).await.unwrap();
    connection
}

/// The next answer of a connection, which stays open.
async fn answer(connection: &mut TcpStream) -> String {
    let mut answer = String::new();
    let mut buffer = [0; 4096];
    // The body is one line of JSON.
    while !answer.ends_with('}') {
        let length = connection.read(&mut buffer).await.unwrap();
        assert_ne!(length, 0, "closed after {answer:?}");
        answer.push_str(std::str::from_utf8(&buffer[..length]).unwrap());
    }
    answer
}

/// Overload: as many requests as fit are answered, those above are shed, and counted.
#[tokio::test]
async fn requests_above_the_limit_are_shed() {
    let service = start("3");
    let (_, owner) = service.user();
    create_selection(&owner).await;
    let lock = lock(&service).await;
    let flooding = async {
        until_under_way(&service, 3).await;
        for answer in join_all((0..100).map(|_| owner.get(SELECTIONS))).await {
            expect_shed(&answer);
        }
        expect_shed(&owner.post(SELECTIONS, json!({"Title": "x"})).await);
        assert_eq!(under_way(&service).await, 3, "who is shed leaves nothing behind");
        let name = "http_server_requests_shed_total{listener=\"public\",queue=\"listener\"}";
        assert_eq!(metric(&service, name).await, 101);
        drop(lock);
    };

    let (taken, ()) = join(join_all((0..3).map(|_| owner.get(SELECTIONS))), flooding).await;

    for answer in taken {
        assert_eq!(answer.expect(200)["TotalCount"], 1);
    }
    owner.get(SELECTIONS).await.expect(200);
    assert_eq!(under_way(&service).await, 0);
}

/// Overload: nothing is done for a request that is shed; who watches the service and the other services get through.
#[tokio::test]
async fn a_full_listener_sheds_before_anything_else() {
    let service = start("1");
    let (_, owner) = service.user();
    let lock = lock(&service).await;
    let flooding = async {
        until_under_way(&service, 1).await;
        expect_shed(&service.guest().get(SELECTIONS).await);
        expect_shed(&service.bearer("nonsense").get(SELECTIONS).await);
        let mut unread = begin(&owner, Method::POST, "Content-Length: 1000\r\n").await;
        let mut answer = String::new();
        unread.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");

        for probe in ["/health/live", "/health/ready"] {
            assert_eq!(service.operator().get(probe).await.status, 204, "{probe}");
        }
        let unknown = format!("/api/v1/internal/snapshots/{}", guid());
        assert_eq!(service.machine("news").get(&unknown).await.status, 404, "it has a listener of its own");
        drop(lock);
    };

    let (taken, ()) = join(owner.get(SELECTIONS), flooding).await;

    taken.expect(200);
}

/// Overload: a request that is refused before its body is read keeps its connection, if the body is there: under
/// pressure nobody has to connect anew.
#[tokio::test]
async fn who_is_refused_keeps_the_connection() {
    let service = start("1");
    let (_, owner) = service.user();
    let lock = lock(&service).await;
    let asking = async {
        until_under_way(&service, 1).await;
        let body = "Content-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"Title\":\"x\"}";
        let mut connection = begin_with(&owner, Method::POST, body).await;
        assert!(answer(&mut connection).await.starts_with("HTTP/1.1 503 "), "shed");
        let request = format!("POST {SELECTIONS} HTTP/1.1\r\nHost: test\r\n{body}");
        connection.write_all(request.as_bytes()).await.unwrap();
        assert!(answer(&mut connection).await.starts_with("HTTP/1.1 503 "), "shed once more");
        drop(lock);
        connection
    };
    let (taken, mut connection) = join(owner.get(SELECTIONS), asking).await;
    taken.expect(200);

    let request = format!("POST {SELECTIONS} HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\n{{}}");
    connection.write_all(request.as_bytes()).await.unwrap();
    assert!(answer(&mut connection).await.starts_with("HTTP/1.1 401 "), "nobody is signed in");
    connection.write_all(request.as_bytes()).await.unwrap();
    assert!(answer(&mut connection).await.starts_with("HTTP/1.1 401 "), "nobody is signed in, still");
}

/// Overload: pages of other origins hear of it, too.
#[tokio::test]
async fn a_page_reads_that_it_was_shed() {
    let origin = "https://example.org";
    let settings = [("HTTP_MAX_REQUESTS_UNDER_WAY", "1"), ("DATABASE_STATEMENT_TIMEOUT_MS", "60000")];
    let settings = [&settings[..], &[("CORS_ALLOWED_ORIGINS", origin)]].concat();
    let service = Running::start::<Service>(&settings);
    let (_, owner) = service.user();
    let lock = lock(&service).await;
    let asking = async {
        until_under_way(&service, 1).await;
        let refused = send(owner.request(Method::GET, SELECTIONS).header("origin", origin)).await;
        expect_shed(&refused);
        assert_eq!(refused.header("access-control-allow-origin"), origin);
        assert_eq!(
            (refused.header("cache-control"), refused.header("x-content-type-options")),
            ("no-store", "nosniff")
        );
        drop(lock);
    };
    let (taken, ()) = join(owner.get(SELECTIONS), asking).await;
    taken.expect(200);
}

/// Overload: whatever becomes of a request, its place is free afterwards.
#[tokio::test]
async fn a_request_that_fails_gives_its_place_back() {
    let service = start("1");
    let (_, owner) = service.user();
    for _ in 0..3 {
        service.guest().get(SELECTIONS).await.expect_problem(401, "SELECTIONS_UNAUTHORIZED");
        owner.post(SELECTIONS, json!({})).await.expect_problem(400, "SELECTIONS_VALIDATION_FAILED");
        let unknown = path(&json!({"Id": guid()}));
        owner.delete(&unknown).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }
    assert_eq!(under_way(&service).await, 0);
}

/// Overload: a connection that breaks takes its request along; a caller that only closes its side may still be
/// reading, and its request ends as any other.
#[tokio::test]
async fn a_caller_that_hangs_up_gives_its_place_back() {
    let service = start("1");
    let (_, owner) = service.user();
    let lock = lock(&service).await;
    let broken = begin(&owner, Method::GET, "").await;
    until_under_way(&service, 1).await;
    broken.set_zero_linger().unwrap();
    drop(broken);
    until_under_way(&service, 0).await;

    let closed = begin(&owner, Method::GET, "").await;
    until_under_way(&service, 1).await;
    drop((closed, lock));
    until_under_way(&service, 0).await;
}

/// Overload: a request whose body is waited for keeps nobody out.
#[tokio::test]
async fn who_sends_slowly_has_no_place() {
    let service = start("1");
    let (_, owner) = service.user();
    let mut slow = begin_creation(&owner).await;

    eventually("others get in", async || (owner.get(SELECTIONS).await.status == 200).then_some(())).await;

    slow.write_all(BODY).await.unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert_eq!(under_way(&service).await, 0);
}

/// Overload: while many wait for a connection to the database, nobody else is let in.
#[tokio::test]
async fn a_long_queue_for_the_database_grows_no_longer() {
    let settings = [("DATABASE_POOL_SIZE", "1"), ("DATABASE_STATEMENT_TIMEOUT_MS", "60000")];
    let service = Running::start::<Service>(&settings);
    let (_, owner) = service.user();
    create_selection(&owner).await;
    let lock = lock(&service).await;
    let shed = "http_server_requests_shed_total{listener=\"public\",queue=\"database\"}";
    let watching = async {
        // One has the connection, sixteen wait; one more gets in if two threads look at the queue at once.
        eventually("the rest is shed", async || (metric(&service, shed).await >= 32).then_some(())).await;
        drop(lock);
    };

    let (answers, ()) = join(join_all((0..50).map(|_| owner.get(SELECTIONS))), watching).await;

    let (taken, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 200);
    assert!(
        !taken.is_empty() && refused.len() >= 32,
        "{} were taken, {} refused",
        taken.len(),
        refused.len()
    );
    for answer in refused {
        assert_eq!((answer.status, answer.header("retry-after")), (503, "1"), "{}", answer.text);
    }
    let again = async || (owner.get(SELECTIONS).await.status == 200).then_some(());
    eventually("the next ones are taken", again).await;
}
