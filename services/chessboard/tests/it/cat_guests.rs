//! Guests of the catalog: tokens, entity tags, compression and rate limits.

use chessboard::Service;
use reqwest::Method;
use serde_json::json;
use testkit::client::{Client, send};
use testkit::dedicated::DedicatedService;
use testkit::issuer::Claims;
use testkit::service::Running;
use testkit::{eventually, guests};

use crate::cat_index::wait_for_index;
use crate::cat_lists::{DEVELOPERS, OBJECTS, PROJECTS};
use crate::catalog_fill::{Object, single_building_catalog};
use crate::{guid, service};

/// Returns paths of existing resources whose responses no other test changes.
async fn paths() -> Vec<String> {
    let mut catalog = single_building_catalog();
    catalog.objects = (0..20).map(|n| Object::new(&catalog.buildings[0], &n.to_string())).collect();
    catalog.fill(service()).await;
    let (developer, project, object) =
        (catalog.developers[0].id, catalog.projects[0].id, catalog.objects[0].id);
    vec![
        format!("{DEVELOPERS}/{developer}"),
        format!("{PROJECTS}?DeveloperId={developer}"),
        format!("{PROJECTS}/facets?DeveloperId={developer}"),
        format!("{PROJECTS}/{project}"),
        format!("{PROJECTS}/{project}/buildings/{}", catalog.buildings[0].id),
        format!("{OBJECTS}?ProjectId={project}"),
        format!("{OBJECTS}/{object}"),
        format!("{OBJECTS}/{object}/price-history"),
    ]
}

/// RULE-CHS-054: a caller with an expired or broken token is a guest. A valid token changes nothing
/// in the response.
#[tokio::test]
async fn broken_token_makes_caller_a_guest() {
    for path in paths().await {
        let shown = service().guest().get(&path).await.expect(200);
        for (flaw, token) in testkit::forged::tokens(&Claims::user(guid())) {
            assert_eq!(service().bearer(&token).get(&path).await.expect(200), shown, "{flaw}: {path}");
        }
        let (_, user) = service().user();
        assert_eq!(user.get(&path).await.expect(200), shown, "{path}");
    }
}

/// RULE-CHS-054: a response to a guest has an `ETag`, may be cached, and is compressed from 1 KiB.
/// A response to a user must not be cached.
#[tokio::test]
async fn guest_response_has_etag_and_compression() {
    let get_with = async |guest: &Client, path: &str, name: &str, value: &str| {
        send(guest.request(Method::GET, path).header(name, value)).await
    };
    for path in paths().await {
        let guest = service().guest();
        let shown = guest.get(&path).await;
        let tag = shown.header("etag").to_owned();
        assert!(tag.starts_with("W/\""), "{path}: {tag}");
        assert_eq!(shown.header("cache-control"), "public, max-age=0, must-revalidate", "{path}");
        assert_eq!(shown.header("vary"), "Authorization, Accept-Encoding", "{path}");
        let again = get_with(&guest, &path, "If-None-Match", &tag).await;
        assert_eq!((again.status, again.text.as_str()), (304, ""), "{path}");
        assert_eq!(get_with(&guest, &path, "If-None-Match", "W/\"x\"").await.status, 200, "{path}");
        let (_, user) = service().user();
        let is_long = shown.text.len() >= 1024;
        for (caller, encoding, cache) in [
            (&guest, if is_long { "gzip" } else { "" }, "public, max-age=0, must-revalidate"),
            (&user, "", "no-store"),
        ] {
            let response =
                caller.request(Method::GET, &path).header("Accept-Encoding", "gzip").send().await.unwrap();
            let header =
                |name: &str| response.headers().get(name).map_or("", |value| value.to_str().unwrap());
            assert_eq!((header("content-encoding"), header("cache-control")), (encoding, cache), "{path}");
            assert_eq!(header("etag").is_empty(), cache == "no-store", "{path}");
        }
        let head = send(guest.request(Method::HEAD, &path)).await;
        assert_eq!((head.status, head.text.as_str()), (200, ""), "{path}");
    }
}

/// RULE-CHS-054, RULE-ALL-026, RULE-ALL-027: a guest above the limit gets 429 with `Retry-After`.
/// The limit does not apply to users.
#[tokio::test]
async fn guest_above_limit_gets_429() {
    let limited = DedicatedService::start::<Service>(&guests::SETTINGS);
    guests::check(&limited, &[("ProjectId", &guid().to_string())]).await;
}

/// RULE-ALL-105: searches and facets share one limit of each user. Other reads and guests do not
/// have it.
#[tokio::test]
async fn user_above_limit_of_searches_gets_429() {
    let limited = DedicatedService::start::<Service>(&[("ACTOR_EXPENSIVE_REQUESTS_PER_MINUTE", "4")]);
    let ((_, user), (_, another)) = (limited.user(), limited.user());
    let searches = [
        DEVELOPERS.to_owned(),
        PROJECTS.to_owned(),
        format!("{PROJECTS}/facets"),
        format!("{OBJECTS}?ProjectId={}", guid()),
    ];
    for path in &searches {
        user.get(path).await.expect(200);
    }
    for path in &searches {
        let refused = user.get(path).await;
        assert!(refused.header("retry-after").parse::<u64>().is_ok_and(|wait| (1..=60).contains(&wait)));
        refused.expect_problem(429, "RATE_LIMITED");
        another.get(path).await.expect(200);
        limited.guest().get(path).await.expect(200);
        assert_eq!(user.get(&format!("{PROJECTS}/{}", guid())).await.status, 404, "not expensive");
    }
    let metrics = limited.operator().get("/metrics").await;
    let counted = metrics.text.lines().any(|line| {
        line.starts_with("http_server_request_duration_seconds_count")
            && line.contains("facets")
            && line.contains("429")
    });
    assert!(counted, "{}", metrics.text);
}

/// RULE-CHS-054: the catalog returns 405 for every method that writes.
#[tokio::test]
async fn catalog_rejects_writing_methods() {
    for path in [DEVELOPERS.to_owned(), PROJECTS.to_owned(), format!("{PROJECTS}/facets"), OBJECTS.to_owned()]
    {
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
            let refused = send(service().guest().request(method, &path)).await;
            assert_eq!(refused.header("allow"), "GET, HEAD", "{path}");
            refused.expect_problem(405, "METHOD_NOT_ALLOWED");
        }
    }
}

/// RULE-ALL-120: with a read replica, a guest reads the catalog of the read replica, and a user
/// that of the primary.
#[tokio::test]
async fn guest_reads_the_catalog_from_the_replica() {
    // A second primary replaces the read replica, so that the two databases have different rows.
    let replica = Running::start::<Service>(&[]);
    let service = Running::start::<Service>(&[("DATABASE_READ_URL", &replica.database_url)]);
    let mut catalog = single_building_catalog();
    catalog.objects = vec![Object::new(&catalog.buildings[0], "1")];
    catalog.fill(&replica).await;
    let (developer, project, object) =
        (catalog.developers[0].id, catalog.projects[0].id, catalog.objects[0].id);
    let guest = service.guest();
    eventually("the read replica", async || {
        (guest.get(&format!("{DEVELOPERS}/{developer}")).await.status == 200).then_some(())
    })
    .await;
    let (_, user) = service.user();
    for path in [
        format!("{DEVELOPERS}/{developer}"),
        format!("{PROJECTS}/{project}"),
        format!("{PROJECTS}/{project}/buildings/{}", catalog.buildings[0].id),
        format!("{OBJECTS}/{object}"),
        format!("{OBJECTS}/{object}/price-history"),
    ] {
        guest.get(&path).await.expect(200);
        user.get(&path).await.expect(404);
    }
    for path in [DEVELOPERS.to_owned(), format!("{OBJECTS}?ProjectId={project}")] {
        let count = async |reader: &Client| {
            let page = reader.get(&path).await.expect(200);
            page["Items"].as_array().map(Vec::len)
        };
        assert_eq!((count(&guest).await, count(&user).await), (Some(1), Some(0)), "{path}");
    }
    // The index finds projects of the primary, and the content of the page is that of the replica.
    wait_for_index(&service.operator()).await;
    assert_eq!(guest.get(PROJECTS).await.expect(200)["TotalCount"], 0);
    catalog.fill(&service).await;
    let renamed = "update project set name = 'On the replica'";
    replica.sql().await.batch_execute(renamed).await.unwrap();
    for (reader, name) in [(&guest, "On the replica"), (&user, catalog.projects[0].name.as_str())] {
        let page = reader.get(PROJECTS).await.expect(200);
        assert_eq!((&page["TotalCount"], &page["Items"][0]["Name"]), (&json!(1), &json!(name)));
    }
    // Without the index a search of a guest reads the replica, too.
    let settings = [("DATABASE_READ_URL", replica.database_url.as_str()), ("CATALOG_INDEX_MIB", "0")];
    let service = Running::start::<Service>(&settings);
    let (guest, (_, user)) = (service.guest(), service.user());
    let facets = format!("{PROJECTS}/facets");
    for path in [PROJECTS, &facets] {
        let count = async |reader: &Client| reader.get(path).await.expect(200)["TotalCount"].clone();
        eventually("the replica", async || (count(&guest).await == 1).then_some(())).await;
        assert_eq!(count(&user).await, 0, "{path}");
    }
}
