//! The read of a selection by its code, and its limits.

use std::time::Instant;

use futures_util::future::join_all;
use reqwest::Method;
use selections::Service;
use serde_json::json;
use testkit::client::{Client, Response, send};
use testkit::guests;
use testkit::service::Running;

use crate::{
    FAVORITES, FROM_FAVORITES, SELECTIONS, create_selection, favorite_path, guid, items, items_path, mark,
    members, objects, open_path, path, service, snapshot_path, snapshots_path, text, without_cards,
};

/// Returns a random code that opens nothing.
fn unknown_code() -> String {
    guid().simple().to_string()[..12].to_owned()
}

async fn open(caller: &Client, code: &str) -> Response {
    caller.get(&format!("{SELECTIONS}/{code}")).await
}

/// RULE-SEL-004: the read by code has neither `Id`, `OwnerUserId` nor `Version`.
#[tokio::test]
async fn open_selection_has_no_id_owner_or_version() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let (_, stranger) = service().user();
    for caller in [service().guest(), stranger, owner] {
        let opened = caller.get(&open_path(&selection)).await.expect(200);
        assert_eq!(
            members(&opened),
            ["CreatedAt", "Description", "Items", "ItemsCount", "PublicCode", "Title", "UpdatedAt",]
        );
        for (name, value) in opened.as_object().unwrap() {
            if name != "Items" {
                assert_eq!(*value, selection[name], "{name}");
            }
        }
        assert_eq!(without_cards(&opened), selection["Items"]);
    }
}

/// RULE-SEL-004: the read by code returns the selection after its last change.
#[tokio::test]
async fn open_selection_is_the_current_one() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    owner.put(&path(&selection), json!({"Title": "Summer", "Description": "Sea"})).await.expect(200);
    let changed = owner.put(&items_path(&selection), json!({"Items": items(5)})).await.expect(200);
    let opened = service().guest().get(&open_path(&selection)).await.expect(200);
    for member in ["Title", "Description", "ItemsCount", "UpdatedAt"] {
        assert_eq!(opened[member], changed[member], "{member}");
    }
    assert_eq!(without_cards(&opened), changed["Items"]);
}

/// INV-SEL-005: codes are compared case-sensitively.
#[tokio::test]
async fn code_in_another_case_opens_nothing() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let code = text(&selection["PublicCode"]);
    let swap = |c: char| if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
    let other: String = code.chars().map(swap).collect();
    assert_ne!(code, other);
    open(&owner, &other).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    open(&owner, code).await.expect(200);
}

/// RULE-SEL-014, RULE-SEL-037: every text that is not a Guid is a code, and an unknown code returns
/// 404.
#[tokio::test]
async fn segment_without_guid_or_code_is_not_found() {
    let (_, caller) = service().user();
    let code = unknown_code();
    let too_long = "x".repeat(2000);
    for segment in [
        &code,
        &code[..11],
        &format!("{code}x"),
        "",
        "x",
        "..%2F..%2Fx",
        "%00",
        "%D0%B6",
        "AAAA-AAAA-AA",
        "AAAAAAAAAAA%20",
        "AAAAAAAAAAA%0A",
        "'%20or%201=1%20-",
        &too_long,
    ] {
        open(&caller, segment).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    for suffix in ["%20", "x", "/"] {
        let response = caller.get(&format!("{}{suffix}", open_path(&selection))).await;
        response.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }
}

/// RULE-SEL-014: in the shared segment a Guid in any spelling is an id, which can be changed but
/// not opened.
#[tokio::test]
async fn guid_cannot_be_opened() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let id = text(&selection["Id"]);
    for caller in [&owner, &service().guest()] {
        for segment in [id, &id.to_uppercase(), &id.replace('-', ""), &guid().to_string()] {
            let response = open(caller, segment).await;
            assert_eq!(response.header("allow"), "PUT, DELETE");
            response.expect_problem(405, "SELECTIONS_METHOD_NOT_ALLOWED");
        }
    }
}

/// RULE-SEL-014: changes need the id; a code returns 404 even to the owner.
#[tokio::test]
async fn code_cannot_change_a_selection() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let by_code = open_path(&selection);
    for refused in [
        owner.put(&by_code, json!({"Title": "x", "Description": null})).await,
        owner.put(&format!("{by_code}/items"), json!({"Items": []})).await,
        owner.delete(&by_code).await,
    ] {
        refused.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }
    assert_eq!(crate::reread(&owner, &selection).await, selection);
}

/// RULE-SEL-004: an invalid token makes the caller a guest.
#[tokio::test]
async fn invalid_token_opens_as_a_guest() {
    let (id, owner) = service().user();
    let selection = create_selection(&owner).await;
    for (flaw, token) in testkit::forged::tokens(&testkit::issuer::Claims::user(id)) {
        let response = service().bearer(&token).get(&open_path(&selection)).await;
        assert_eq!(response.status, 200, "{flaw}");
    }
}

/// RULE-SEL-018: `selections.public-open.enabled` disables the read by code and no other operation.
#[tokio::test]
async fn flag_disables_only_the_read_by_code() {
    let service = Running::start::<Service>(&[("SELECTIONS_PUBLIC_OPEN_ENABLED", "false")]);
    let (id, owner) = service.user();
    let selection = create_selection(&owner).await;

    for caller in [service.guest(), owner.clone()] {
        caller.get(&open_path(&selection)).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }
    let by_id = service.guest().get(&path(&selection)).await;
    by_id.expect_problem(405, "SELECTIONS_METHOD_NOT_ALLOWED");

    let described = json!({"Title": "Summer", "Description": "Sea"});
    owner.put(&path(&selection), described).await.expect(200);
    let changed = owner.put(&items_path(&selection), json!({"Items": items(1)})).await.expect(200);
    assert_eq!(owner.get(SELECTIONS).await.expect(200)["Items"], json!([changed]));

    let (news, crm) = (service.machine("news"), service.machine("crm"));
    let internal = path(&selection).replace("/v1/", "/v1/internal/");
    assert_eq!(crm.get(&internal).await.expect(200), changed);
    let of_owner = crm.get(&format!("/api/v1/internal/selections/by-owner/{id}")).await.expect(200);
    assert_eq!(of_owner["Items"], json!([changed]));
    let body = json!({"PostId": guid(), "ActorUserId": id});
    let snapshot = news.post(&snapshots_path(&selection), body).await.expect(201);
    let snapshot_path = snapshot_path(&snapshot);
    assert_eq!(news.get(&snapshot_path).await.expect(200)["Title"], "Summer");
    news.post(&format!("{snapshot_path}/detach"), json!({"Reason": "PostDeleted"})).await.expect(200);

    let object = guid();
    mark(&owner, object).await;
    assert_eq!(objects(&owner.get(FAVORITES).await.expect(200)), [object]);
    assert_eq!(objects(&owner.post(FROM_FAVORITES, json!({})).await.expect(201)), [object]);
    owner.delete(&favorite_path(object)).await.expect(204);
    owner.delete(&path(&selection)).await.expect(204);
}

/// RULE-SEL-026, RULE-ALL-027: a guest address has ten misses a minute, and existing codes still
/// open.
#[tokio::test]
async fn guest_who_guesses_codes_is_rate_limited() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let guest = service().guest();
    for _ in 0..10 {
        open(&guest, &unknown_code()).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }

    let refused = open(&guest, &unknown_code()).await;

    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    refused.expect_problem(429, "SELECTIONS_RATE_LIMITED");
    guest.get(&open_path(&selection)).await.expect(200);
    open(&guest, "no-code").await.expect_problem(429, "SELECTIONS_RATE_LIMITED");
    let another = service().guest();
    open(&another, &unknown_code()).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
}

/// RULE-SEL-026, RULE-ALL-026, RULE-ALL-027: a guest address has 120 reads a minute.
#[tokio::test]
async fn guest_with_too_many_reads_is_rate_limited() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let (guest, another) = (service().guest(), service().guest());
    let started = Instant::now();

    let responses = join_all((0..200).map(async |_| guest.get(&open_path(&selection)).await)).await;

    let (opened, refused): (Vec<_>, Vec<_>) =
        responses.into_iter().partition(|response| response.status == 200);
    // 120 reads a minute are one read every 500 ms.
    let regained = started.elapsed().as_millis() / 500 + 1;
    assert!((120..=120 + regained).contains(&(opened.len() as u128)), "{} were opened", opened.len());
    for response in refused {
        assert!(response.header("retry-after").parse::<u64>().is_ok_and(|wait| (1..=60).contains(&wait)));
        response.expect_problem(429, "SELECTIONS_RATE_LIMITED");
    }
    another.get(&open_path(&selection)).await.expect(200);
}

/// RULE-ALL-026: each operation that is open to guests counts against their limit.
#[tokio::test]
async fn guest_above_limit_gets_429_from_each_operation() {
    guests::check(&Running::start::<Service>(&guests::SETTINGS), &[("selection", "AAAAAAAAAAAA")]).await;
}

/// RULE-SEL-026: users have no read limit and no miss limit by default.
#[tokio::test]
async fn signed_in_reader_is_not_limited() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let (_, reader) = service().user();
    for response in join_all((0..30).map(|_| reader.get("/api/v1/selections/AAAAAAAAAAAA"))).await {
        response.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }
    for response in join_all((0..150).map(async |_| reader.get(&open_path(&selection)).await)).await {
        response.expect(200);
    }
}

/// RULE-SEL-026: the limits are settings, and 0 disables them.
#[tokio::test]
async fn guest_limits_are_configurable() {
    let settings = [("GUEST_READS_PER_MINUTE", "3"), ("GUEST_MISSES_PER_MINUTE", "0")];
    let service = Running::start::<Service>(&settings);
    let guest = service.guest();
    for _ in 0..3 {
        open(&guest, &unknown_code()).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }
    open(&guest, &unknown_code()).await.expect_problem(429, "SELECTIONS_RATE_LIMITED");

    let unlimited =
        Running::start::<Service>(&[("GUEST_READS_PER_MINUTE", "0"), ("GUEST_MISSES_PER_MINUTE", "0")]);
    let guest = unlimited.guest();
    for response in join_all((0..150).map(|_| open(&guest, "AAAAAAAAAAAA"))).await {
        response.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }
}

/// RULE-SEL-026: an untrusted client cannot choose the address that is counted.
#[tokio::test]
async fn forged_address_does_not_lift_the_limit() {
    let settings = [("GUEST_READS_PER_MINUTE", "3"), ("TRUSTED_PROXIES", "192.0.2.0/24")];
    let service = Running::start::<Service>(&settings);
    let statuses = async {
        let mut statuses = Vec::new();
        for _ in 0..4 {
            statuses.push(open(&service.guest(), "AAAAAAAAAAAA").await.status);
        }
        statuses
    };
    assert_eq!(statuses.await, [404, 404, 404, 429], "each guest sends another address");
}

/// RULE-SEL-026: an address is the same with and without a port and in every notation of IPv6.
#[tokio::test]
async fn address_in_any_notation_counts_once() {
    let service = Running::start::<Service>(&[("GUEST_READS_PER_MINUTE", "3")]);
    let mut statuses = Vec::new();
    for address in ["203.0.113.9", "203.0.113.9:4711", "::ffff:203.0.113.9", "[::ffff:203.0.113.9]:5"] {
        let request = service.guest().request(Method::GET, &format!("{SELECTIONS}/AAAAAAAAAAAA"));
        let (client, request) = request.build_split();
        let mut request = request.unwrap();
        request.headers_mut().insert("x-forwarded-for", address.parse().unwrap());
        statuses.push(client.execute(request).await.unwrap().status().as_u16());
    }
    assert_eq!(statuses, [404, 404, 404, 429]);
}

/// RULE-SEL-004: percent-encoding does not change a code.
#[tokio::test]
async fn percent_encoded_code_is_the_same_code() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let (first, rest) = text(&selection["PublicCode"]).split_at(1);
    let encoded = format!("%{:02X}{rest}", first.as_bytes()[0]);
    let request = service().guest().request(Method::GET, &format!("{SELECTIONS}/{encoded}"));
    assert_eq!(send(request).await.expect(200)["PublicCode"], selection["PublicCode"]);
}

/// RULE-ALL-026, RULE-ALL-027: a user has one limit over all addresses and operations.
#[tokio::test]
async fn user_limit_is_configurable() {
    let limited = Running::start::<Service>(&[("ACTOR_REQUESTS_PER_MINUTE", "3")]);
    let ((_, owner), (_, another)) = (limited.user(), limited.user());
    for _ in 0..3 {
        owner.get("/api/v1/selections").await.expect(200);
    }

    let refused = owner.get("/api/v1/favorites").await;

    assert!(refused.header("retry-after").parse::<u64>().is_ok_and(|wait| (1..=60).contains(&wait)));
    refused.expect_problem(429, "SELECTIONS_RATE_LIMITED");
    owner.get("/api/v1/selections/AAAAAAAAAAAA").await.expect_problem(429, "SELECTIONS_RATE_LIMITED");
    another.get("/api/v1/selections").await.expect(200);
}

/// RULE-SEL-014: the segment `from-favorites` is neither id nor code, and allows only `POST`.
#[tokio::test]
async fn from_favorites_allows_only_post() {
    let (_, owner) = service().user();
    for method in [Method::GET, Method::PUT, Method::PATCH] {
        let refused = send(owner.request(method, "/api/v1/selections/from-favorites")).await;
        assert_eq!(refused.header("allow"), "POST");
        refused.expect_problem(405, "SELECTIONS_METHOD_NOT_ALLOWED");
    }
}

/// RULE-ALL-032: a cut connection to the database does not fail a guest's read.
#[tokio::test]
async fn cut_database_connection_does_not_fail_guests() {
    let service = Running::start::<Service>(&[]);
    let (_, owner) = service.user();
    let path = open_path(&create_selection(&owner).await);
    let sql = service.sql().await;
    let terminate = "select pg_terminate_backend(pid) from pg_stat_activity \
        where datname = current_database() and pid <> pg_backend_pid()";
    for _ in 0..5 {
        // Enough requests to use the connection of every worker.
        for response in join_all((0..20).map(async |_| service.guest().get(&path).await)).await {
            response.expect(200);
        }
        sql.batch_execute(terminate).await.unwrap();
    }
}

/// RULE-ALL-032: guests that wait for a stuck lookup get 503 in time, and later guests do not wait
/// for it.
#[tokio::test]
async fn stuck_lookup_does_not_block_later_guests() {
    let service = Running::start::<Service>(&[("DATABASE_STATEMENT_TIMEOUT_MS", "60000")]);
    let (_, owner) = service.user();
    let path = open_path(&create_selection(&owner).await);
    let sql = service.sql().await;
    sql.batch_execute("begin; lock table selection in access exclusive mode").await.unwrap();
    for response in join_all((0..20).map(async |_| service.guest().get(&path).await)).await {
        response.expect_problem(503, "SELECTIONS_SERVICE_UNAVAILABLE");
    }
    sql.batch_execute("rollback").await.unwrap();
    for response in join_all((0..20).map(async |_| service.guest().get(&path).await)).await {
        response.expect(200);
    }
}
