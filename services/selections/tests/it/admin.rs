//! Health, metrics, the API page, and how the service stops and bears an outage.

use reqwest::Method;
use selections::Service;
use serde_json::{Value, json};
use testkit::client::Client;
use testkit::deployed::Deployed;
use testkit::issuer::Claims;
use testkit::service::Running;
use testkit::signals::{self, Signal};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::{
    CREATED, SELECTIONS, create_selection, events_of, eventually, guid, items_path, open_path, reread,
    service, text, topics,
};

/// Conventions, Health: on an admin port.
#[tokio::test]
async fn the_admin_port_tells_of_health() {
    let operator = service().operator();
    for probe in ["/health/live", "/health/ready"] {
        assert_eq!(operator.get(probe).await.status, 204, "{probe}");
    }
}

/// Conventions, Health: metrics by route, never by what was asked for.
#[tokio::test]
async fn the_admin_port_tells_metrics() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    service().guest().get(&open_path(&selection)).await.expect(200);

    let metrics = service().operator().get("/metrics").await;

    assert_eq!(metrics.status, 200);
    assert!(metrics.header("content-type").starts_with("application/openmetrics-text"));
    for part in [
        "http_server_request_duration_seconds",
        "outbox_pending",
        "consumer_applied",
        "route=\"/api/v1/selections/{selection}\"",
    ] {
        assert!(metrics.text.contains(part), "{part}");
    }
    assert!(!metrics.text.contains(text(&selection["PublicCode"])));
    assert!(metrics.text.ends_with("# EOF\n"));
}

/// Conventions, Health: the public port answers 404 for them, and so does the internal one.
#[tokio::test]
async fn only_the_admin_port_tells_of_health_and_metrics() {
    let (_, owner) = service().user();
    for caller in [owner, service().guest(), service().machine("crm")] {
        for path in ["/health/live", "/health/ready", "/health", "/metrics"] {
            caller.get(path).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
        }
    }
}

/// The admin port knows nothing else.
#[tokio::test]
async fn the_admin_port_has_no_api() {
    for path in [SELECTIONS, "/api/v1/internal/snapshots/x", "/docs/selections/"] {
        assert_eq!(service().operator().get(path).await.status, 404, "{path}");
    }
}

/// Conventions, API page: every service serves its OpenAPI 3.1 document and a page to explore it.
#[tokio::test]
async fn the_api_describes_itself() {
    let guest = service().guest();

    let document = guest.get("/docs/selections/openapi.json").await.expect(200);
    assert!(text(&document["openapi"]).starts_with("3.1"));
    let paths = document["paths"].as_object().unwrap();
    let create = &paths["/api/v1/selections"]["post"];
    assert_eq!(create["operationId"], "create_selection");
    assert!(create["responses"]["201"].is_object());
    assert_eq!(create["security"], json!([{"person": []}]));
    let open = &paths["/api/v1/selections/{selection}"]["get"];
    assert_eq!(open["security"], json!([{}, {"person": []}]), "guests may open");
    assert!(
        paths.keys().all(|path| !path.contains("internal")),
        "the public document keeps to public routes"
    );

    assert_eq!(guest.get("/docs/selections").await.status, 200, "redirected to the page");
}

/// Conventions, API page: the internal port describes the internal routes.
#[tokio::test]
async fn the_internal_port_describes_itself() {
    let document = service().at_internal(None).get("/docs/selections/openapi.json").await.expect(200);
    assert!(document["paths"].as_object().unwrap().keys().all(|path| path.starts_with("/api/v1/internal/")));
}

/// SIGTERM: readiness goes false and the request in flight is finished; what it had to tell is told,
/// if not by this process then by the next.
#[tokio::test]
async fn a_stopping_service_finishes_what_it_has_begun() {
    let service = Running::start::<Service>(&[]);
    let (_, owner) = service.user();
    let operator = service.operator();
    assert_eq!(operator.get("/health/ready").await.status, 204);
    let mut in_flight = begin_creation(&owner).await;

    service.process.stop();

    let not_ready = operator.get("/health/ready").await;
    assert_eq!((not_ready.status, not_ready.text.as_str()), (503, "stopping"));
    assert_eq!(operator.get("/health/live").await.status, 204);
    in_flight.write_all(BODY).await.unwrap();
    let mut answer = String::new();
    in_flight.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("HTTP/1.1 201 Created"), "{answer}");
    let body = answer.rsplit_once("\r\n\r\n").unwrap().1;
    let created: Value = serde_json::from_str(body).unwrap();
    service.process.stopped().cancelled().await;
    let next = Running::start::<Service>(&[("DATABASE_URL", &service.database_url)]);
    assert_eq!(topics(&events_of(&next, &created).await), [CREATED]);
}

/// SIGTERM: while proxies learn of it the service goes on, and each answer ends its connection, so that no further request
/// is on its way into one that is being closed.
#[tokio::test]
async fn a_draining_service_answers_and_ends_each_connection() {
    let settings = [("HTTP_DRAIN_SECONDS", "600")];
    let mut service = Deployed::start(env!("CARGO_BIN_EXE_selections"), &["serve"], &settings).await;
    let (operator, owner) = (service.operator(), service.caller(&Claims::user(guid())));
    let terminate = |service: &Deployed| {
        signals::send(service.process.id().expect("a process that runs"), Signal::SIGTERM).unwrap();
    };
    let before = owner.get(SELECTIONS).await;
    assert_eq!((before.status, before.header("connection")), (200, ""));

    terminate(&service);

    eventually("it is not ready", async || {
        let ready = operator.get("/health/ready").await;
        ((ready.status, &*ready.text) == (503, "stopping")).then_some(())
    })
    .await;
    for _ in 0..2 {
        let after = owner.get(SELECTIONS).await;
        assert_eq!((after.status, after.header("connection")), (200, "close"));
    }
    let refused = owner.get(&format!("{SELECTIONS}/none")).await;
    assert_eq!((refused.status, refused.header("connection")), (404, "close"));
    // The second signal ends the drain.
    terminate(&service);
    assert!(service.process.wait().await.unwrap().success());
}

pub(crate) const BODY: &[u8] = b"{\"Title\":\"Spring\"}";

/// Sends a creation without its body and waits until the service asks for that.
pub(crate) async fn begin_creation(owner: &Client) -> TcpStream {
    let request = owner.request(Method::POST, SELECTIONS).build().unwrap();
    let address = request.url().socket_addrs(|| None).unwrap()[0];
    let token = request.headers()["authorization"].to_str().unwrap();
    let head = format!(
        "POST {SELECTIONS} HTTP/1.1\r\nHost: test\r\nAuthorization: {token}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n",
        BODY.len()
    );
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(head.as_bytes()).await.unwrap();
    let expected = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut answer = vec![0; expected.len()];
    connection.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, expected);
    connection
}

/// Conventions: `SERVICE_UNAVAILABLE` 503 while the database is away, nothing of the cause, and recovery by itself.
#[tokio::test]
async fn an_outage_of_the_database_is_answered_503() {
    let service = Running::start::<Service>(&[]);
    let (_, owner) = service.user();
    let selection = create_selection(&owner).await;
    let name = service.database_url.rsplit('/').next().unwrap().split('?').next().unwrap().to_owned();
    let server = testkit::required("DATABASE_URL").unwrap();
    let sql = testkit::database::connect(&server).await.unwrap();
    let allow = async |allowed: bool| {
        sql.batch_execute(&format!("alter database {name} with allow_connections {allowed}")).await.unwrap();
    };
    let unready = async |status: u16| {
        let operator = service.operator();
        eventually("readiness", async || {
            (operator.get("/health/ready").await.status == status).then_some(())
        })
        .await;
    };

    allow(false).await;
    sql.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", &[&name])
        .await
        .unwrap();
    unready(503).await;
    for refused in [
        owner.get(SELECTIONS).await,
        owner.post(SELECTIONS, json!({"Title": "x"})).await,
        service.guest().get(&open_path(&selection)).await,
    ] {
        assert!(refused.header("retry-after").parse::<u32>().is_ok_and(|seconds| seconds > 0));
        assert!(!refused.text.contains("connection") && !refused.text.contains(&name), "{}", refused.text);
        refused.expect_problem(503, "SELECTIONS_SERVICE_UNAVAILABLE");
    }
    assert_eq!(service.operator().get("/health/live").await.status, 204, "restarting it would not help");
    service.guest().get(SELECTIONS).await.expect_problem(401, "SELECTIONS_UNAUTHORIZED");

    allow(true).await;
    unready(204).await;
    assert_eq!(owner.get(SELECTIONS).await.expect(200)["TotalCount"], 1);
    let created = create_selection(&owner).await;
    assert_eq!(topics(&events_of(&service, &created).await), [CREATED]);
}

/// A change that would have to wait too long is given up, whole, and answered 503.
#[tokio::test]
async fn a_change_that_waits_too_long_is_given_up() {
    let service = Running::start::<Service>(&[("DATABASE_STATEMENT_TIMEOUT_MS", "300")]);
    let (_, owner) = service.user();
    let selection = create_selection(&owner).await;
    let sql = service.sql().await;
    sql.batch_execute("begin; select from selection for update").await.unwrap();

    let items = json!({"Items": crate::items(1)});
    let refused = owner.put(&items_path(&selection), items.clone()).await;

    assert!(refused.header("retry-after").parse::<u32>().is_ok_and(|seconds| seconds > 0));
    refused.expect_problem(503, "SELECTIONS_SERVICE_UNAVAILABLE");
    assert_eq!(reread(&owner, &selection).await, selection, "reading waits for nobody");
    sql.batch_execute("rollback").await.unwrap();
    assert_eq!(owner.put(&items_path(&selection), items).await.expect(200)["Version"], 2);
}
