//! The catalog is for anybody.

use reqwest::Method;
use testkit::client::{Client, send};
use testkit::issuer::Claims;

use crate::cat_lists::{DEVELOPERS, OBJECTS, PROJECTS};
use crate::catalog_fill::{Object, one};
use crate::own::Own;
use crate::{guid, service};

/// Each public path, of something that is there.
async fn paths() -> Vec<String> {
    let mut catalog = one();
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

/// A token that is expired or broken is treated as none; one that holds changes nothing of what is shown.
#[tokio::test]
async fn everybody_is_answered_alike() {
    for path in paths().await {
        let shown = service().guest().get(&path).await.expect(200);
        for (flaw, token) in testkit::forged::tokens(&Claims::user(guid())) {
            assert_eq!(service().bearer(&token).get(&path).await.expect(200), shown, "{flaw}: {path}");
        }
        let (_, somebody) = service().user();
        assert_eq!(somebody.get(&path).await.expect(200), shown, "{path}");
    }
}

/// What guests get has a tag, is 304 for who has it, is compressed for who takes that, and may be kept by caches that ask.
#[tokio::test]
async fn answers_to_guests_have_tags_and_are_compressed() {
    let with = async |guest: &Client, path: &str, name: &str, value: &str| {
        send(guest.request(Method::GET, path).header(name, value)).await
    };
    for path in paths().await {
        let guest = service().guest();
        let shown = guest.get(&path).await;
        let tag = shown.header("etag").to_owned();
        assert!(tag.starts_with("W/\""), "{path}: {tag}");
        assert_eq!(shown.header("cache-control"), "public, max-age=0, must-revalidate", "{path}");
        assert_eq!(shown.header("vary"), "Authorization, Accept-Encoding", "{path}");
        let again = with(&guest, &path, "If-None-Match", &tag).await;
        assert_eq!((again.status, again.text.as_str()), (304, ""), "{path}");
        assert_eq!(with(&guest, &path, "If-None-Match", "W/\"x\"").await.status, 200, "{path}");
        let (_, somebody) = service().user();
        let is_long = shown.text.len() >= 1024;
        for (caller, encoding, cache) in [
            (&guest, if is_long { "gzip" } else { "" }, "public, max-age=0, must-revalidate"),
            (&somebody, "", "no-store"),
        ] {
            let answer =
                caller.request(Method::GET, &path).header("Accept-Encoding", "gzip").send().await.unwrap();
            let header = |name: &str| answer.headers().get(name).map_or("", |value| value.to_str().unwrap());
            assert_eq!((header("content-encoding"), header("cache-control")), (encoding, cache), "{path}");
            assert_eq!(header("etag").is_empty(), cache == "no-store", "{path}");
        }
        let head = send(guest.request(Method::HEAD, &path)).await;
        assert_eq!((head.status, head.text.as_str()), (200, ""), "{path}");
    }
}

/// Conventions, Rate limits: 120 reads a minute for each guest address, for people none; `0` lifts it.
#[tokio::test]
async fn a_guest_reads_at_a_measured_pace() {
    let settings = [("GUEST_READS_PER_MINUTE", "2")];
    let limited = Own::start(&settings);
    let none = |path: &str| format!("{path}/{}", guid());
    for path in [
        none(DEVELOPERS),
        none(PROJECTS),
        none(OBJECTS),
        format!("{}/price-history", none(OBJECTS)),
        DEVELOPERS.to_owned(),
        PROJECTS.to_owned(),
        format!("{PROJECTS}/facets"),
        format!("{OBJECTS}?ProjectId={}", guid()),
        format!("{}/buildings/{}", none(PROJECTS), guid()),
    ] {
        let (guest, (_, somebody)) = (limited.guest(), limited.user());
        let mut statuses = Vec::new();
        for _ in 0..3 {
            statuses.push(guest.get(&path).await.status == 429);
            assert_ne!(somebody.get(&path).await.status, 429);
        }
        assert_eq!(statuses, [false, false, true], "{path}");
        let stopped = guest.get(&path).await;
        assert!(stopped.header("retry-after").parse::<u64>().is_ok_and(|wait| (1..=60).contains(&wait)));
        stopped.expect_problem(429, "RATE_LIMITED");
    }
}

/// Only reading is for anybody.
#[tokio::test]
async fn the_catalog_is_only_read() {
    for path in [DEVELOPERS.to_owned(), PROJECTS.to_owned(), format!("{PROJECTS}/facets"), OBJECTS.to_owned()]
    {
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
            let refused = send(service().guest().request(method, &path)).await;
            assert_eq!(refused.header("allow"), "GET, HEAD", "{path}");
            refused.expect_problem(405, "METHOD_NOT_ALLOWED");
        }
    }
}
