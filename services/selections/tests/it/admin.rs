//! Health, metrics, API page, shutdown and outages.

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

/// RULE-ALL-052: the admin port serves liveness and readiness.
#[tokio::test]
async fn admin_port_reports_health() {
    let operator = service().operator();
    for probe in ["/health/live", "/health/ready"] {
        assert_eq!(operator.get(probe).await.status, 204, "{probe}");
    }
}

/// RULE-ALL-052: metrics have the route as a label and never the path of a request.
#[tokio::test]
async fn admin_port_serves_metrics() {
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

/// RULE-ALL-052: the public and the internal port return 404 for health and metrics.
#[tokio::test]
async fn public_and_internal_ports_have_no_health_or_metrics() {
    let (_, owner) = service().user();
    for caller in [owner, service().guest(), service().machine("crm")] {
        for path in ["/health/live", "/health/ready", "/health", "/metrics"] {
            caller.get(path).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
        }
    }
}

/// RULE-ALL-052: the admin port has no operations and no API page.
#[tokio::test]
async fn admin_port_has_no_api() {
    for path in [SELECTIONS, "/api/v1/internal/snapshots/x", "/docs/selections/"] {
        assert_eq!(service().operator().get(path).await.status, 404, "{path}");
    }
}

/// RULE-ALL-069: the public port serves an OpenAPI 3.1 document and an API page.
#[tokio::test]
async fn public_port_serves_its_openapi_document() {
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
        "the public document has only public routes"
    );

    assert_eq!(guest.get("/docs/selections").await.status, 200, "redirected to the API page");
}

/// RULE-ALL-069: the document of the internal port has only internal routes.
#[tokio::test]
async fn internal_port_serves_its_openapi_document() {
    let document = service().internal_client(None).get("/docs/selections/openapi.json").await.expect(200);
    assert!(document["paths"].as_object().unwrap().keys().all(|path| path.starts_with("/api/v1/internal/")));
}

/// RULE-ALL-060: after SIGTERM readiness is false, the request in flight is finished, and its event
/// is published by this process or the next.
#[tokio::test]
async fn stopping_service_finishes_its_requests_and_events() {
    let service = Running::start::<Service>(&[]);
    let (_, owner) = service.user();
    let operator = service.operator();
    assert_eq!(operator.get("/health/ready").await.status, 204);
    let mut in_flight = send_creation_head(&owner).await;

    service.process.stop();

    let not_ready = operator.get("/health/ready").await;
    assert_eq!((not_ready.status, not_ready.text.as_str()), (503, "stopping"));
    assert_eq!(operator.get("/health/live").await.status, 204);
    in_flight.write_all(BODY).await.unwrap();
    let mut response = String::new();
    in_flight.read_to_string(&mut response).await.unwrap();
    assert!(response.contains("HTTP/1.1 201 Created"), "{response}");
    let body = response.rsplit_once("\r\n\r\n").unwrap().1;
    let created: Value = serde_json::from_str(body).unwrap();
    service.process.stopped().cancelled().await;
    let next = Running::start::<Service>(&[("DATABASE_URL", &service.database_url)]);
    assert_eq!(topics(&events_of(&next, &created).await), [CREATED]);
}

/// RULE-ALL-060: during the drain each response closes its connection, so that no proxy sends a
/// request on a closing one.
#[tokio::test]
async fn draining_service_ends_each_connection_with_its_response() {
    let settings = [("HTTP_DRAIN_SECONDS", "600")];
    let mut service = Deployed::start(env!("CARGO_BIN_EXE_selections"), &["serve"], &settings).await;
    let (operator, owner) = (service.operator(), service.caller(&Claims::user(guid())));
    let terminate = |service: &Deployed| {
        signals::send(service.process.id().expect("a process that runs"), Signal::SIGTERM).unwrap();
    };
    let before = owner.get(SELECTIONS).await;
    assert_eq!((before.status, before.header("connection")), (200, ""));

    terminate(&service);

    eventually("readiness is false", async || {
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

/// Sends the head of a creation and waits until the service asks for the body.
pub(crate) async fn send_creation_head(owner: &Client) -> TcpStream {
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
    let mut response = vec![0; expected.len()];
    connection.read_exact(&mut response).await.unwrap();
    assert_eq!(response, expected);
    connection
}

/// RULE-ALL-028, RULE-ALL-052: during a database outage requests get 503, which does not name the
/// cause. The service recovers afterwards without a restart.
#[tokio::test]
async fn database_outage_returns_503() {
    let service = Running::start::<Service>(&[]);
    let (_, owner) = service.user();
    let selection = create_selection(&owner).await;
    let name = service.database_url.rsplit('/').next().unwrap().split('?').next().unwrap().to_owned();
    let server = testkit::required("DATABASE_URL").unwrap();
    let sql = testkit::database::connect(&server).await.unwrap();
    let allow = async |allowed: bool| {
        sql.batch_execute(&format!("alter database {name} with allow_connections {allowed}")).await.unwrap();
    };
    let wait_for_readiness = async |status: u16| {
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
    wait_for_readiness(503).await;
    for refused in [
        owner.get(SELECTIONS).await,
        owner.post(SELECTIONS, json!({"Title": "x"})).await,
        service.guest().get(&open_path(&selection)).await,
    ] {
        assert!(refused.header("retry-after").parse::<u32>().is_ok_and(|seconds| seconds > 0));
        assert!(!refused.text.contains("connection") && !refused.text.contains(&name), "{}", refused.text);
        refused.expect_problem(503, "SELECTIONS_SERVICE_UNAVAILABLE");
    }
    assert_eq!(service.operator().get("/health/live").await.status, 204, "a restart would not help");
    service.guest().get(SELECTIONS).await.expect_problem(401, "SELECTIONS_UNAUTHORIZED");

    allow(true).await;
    wait_for_readiness(204).await;
    assert_eq!(owner.get(SELECTIONS).await.expect(200)["TotalCount"], 1);
    let created = create_selection(&owner).await;
    assert_eq!(topics(&events_of(&service, &created).await), [CREATED]);
}

/// RULE-ALL-028: a change that waits too long for a lock returns 503 and stores nothing.
#[tokio::test]
async fn change_that_waits_too_long_returns_503() {
    let service = Running::start::<Service>(&[("DATABASE_STATEMENT_TIMEOUT_MS", "300")]);
    let (_, owner) = service.user();
    let selection = create_selection(&owner).await;
    let sql = service.sql().await;
    sql.batch_execute("begin; select from selection for update").await.unwrap();

    let items = json!({"Items": crate::items(1)});
    let refused = owner.put(&items_path(&selection), items.clone()).await;

    assert!(refused.header("retry-after").parse::<u32>().is_ok_and(|seconds| seconds > 0));
    refused.expect_problem(503, "SELECTIONS_SERVICE_UNAVAILABLE");
    assert_eq!(reread(&owner, &selection).await, selection, "a read waits for no lock");
    sql.batch_execute("rollback").await.unwrap();
    assert_eq!(owner.put(&items_path(&selection), items).await.expect(200)["Version"], 2);
}
