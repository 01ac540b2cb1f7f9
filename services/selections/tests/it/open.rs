//! Opening a selection by its code: anybody may, at a measured pace.

use std::time::Instant;

use futures_util::future::join_all;
use reqwest::Method;
use selections::Service;
use serde_json::json;
use testkit::client::{Answer, Client, send};
use testkit::service::Running;

use crate::{
    FAVORITES, FROM_FAVORITES, SELECTIONS, create_selection, favorite, guid, items, items_path, mark,
    members, objects, open_path, path, service, snapshot_path, snapshots_path, text,
};

/// A code that nobody has: random ones do not meet.
fn unknown_code() -> String {
    guid().simple().to_string()[..12].to_owned()
}

async fn open(caller: &Client, code: &str) -> Answer {
    caller.get(&format!("{SELECTIONS}/{code}")).await
}

/// Selections: the read by code has neither `Id`, `OwnerUserId` nor `Version`.
#[tokio::test]
async fn an_opened_selection_shows_neither_id_owner_nor_version() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let (_, somebody) = service().user();
    for caller in [service().guest(), somebody, owner] {
        let opened = caller.get(&open_path(&selection)).await.expect(200);
        assert_eq!(
            members(&opened),
            ["CreatedAt", "Description", "Items", "ItemsCount", "PublicCode", "Title", "UpdatedAt",]
        );
        for (name, value) in opened.as_object().unwrap() {
            assert_eq!(*value, selection[name], "{name}");
        }
    }
}

#[tokio::test]
async fn an_opened_selection_is_the_current_one() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    owner.put(&path(&selection), json!({"Title": "Summer", "Description": "Sea"})).await.expect(200);
    let changed = owner.put(&items_path(&selection), json!({"Items": items(5)})).await.expect(200);
    let opened = service().guest().get(&open_path(&selection)).await.expect(200);
    for seen in ["Title", "Description", "Items", "ItemsCount", "UpdatedAt"] {
        assert_eq!(opened[seen], changed[seen], "{seen}");
    }
}

/// Selections: codes are compared case-sensitively.
#[tokio::test]
async fn a_code_in_another_case_opens_nothing() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let code = text(&selection["PublicCode"]);
    let swap = |c: char| if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
    let other: String = code.chars().map(swap).collect();
    assert_ne!(code, other);
    open(&owner, &other).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    open(&owner, code).await.expect(200);
}

/// Routing: whatever is no Guid is a code, and most of it opens nothing.
#[tokio::test]
async fn what_is_neither_guid_nor_code_is_not_found() {
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
    for around in ["%20", "x", "/"] {
        let answer = caller.get(&format!("{}{around}", open_path(&selection))).await;
        answer.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }
}

/// Routing: in the shared segment a Guid is an id, which may be changed but not opened.
#[tokio::test]
async fn a_guid_is_not_opened() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let id = text(&selection["Id"]);
    for caller in [&owner, &service().guest()] {
        for segment in [id, &id.to_uppercase(), &id.replace('-', ""), &guid().to_string()] {
            let answer = open(caller, segment).await;
            assert_eq!(answer.header("allow"), "PUT, DELETE");
            answer.expect_problem(405, "SELECTIONS_METHOD_NOT_ALLOWED");
        }
    }
}

/// Routing: changes are addressed by id; a code is not one, not even to the owner.
#[tokio::test]
async fn a_code_changes_nothing() {
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

/// A token that does not hold makes a guest of its bearer, since guests may open.
#[tokio::test]
async fn a_bad_token_opens_as_a_guest() {
    let (id, owner) = service().user();
    let selection = create_selection(&owner).await;
    for (flaw, token) in testkit::forged::tokens(&testkit::issuer::Claims::user(id)) {
        let answer = service().bearer(&token).get(&open_path(&selection)).await;
        assert_eq!(answer.status, 200, "{flaw}");
    }
}

/// Authentication: `selections.public-open.enabled` closes the read by code. Every other operation answers as before.
#[tokio::test]
async fn the_flag_closes_the_read_by_code_alone() {
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
    owner.delete(&favorite(object)).await.expect(204);
    owner.delete(&path(&selection)).await.expect(204);
}

/// Conventions, Rate limits: ten misses a minute for each guest address; codes that exist still open.
#[tokio::test]
async fn a_guest_who_guesses_codes_is_stopped() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let guest = service().guest();
    for _ in 0..10 {
        open(&guest, &unknown_code()).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }

    let stopped = open(&guest, &unknown_code()).await;

    let wait: u64 = stopped.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    stopped.expect_problem(429, "SELECTIONS_RATE_LIMITED");
    guest.get(&open_path(&selection)).await.expect(200);
    open(&guest, "no-code").await.expect_problem(429, "SELECTIONS_RATE_LIMITED");
    let another = service().guest();
    open(&another, &unknown_code()).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
}

/// Conventions, Rate limits: 120 reads a minute for each guest address.
#[tokio::test]
async fn a_guest_who_reads_too_much_is_stopped() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let (guest, another) = (service().guest(), service().guest());
    let started = Instant::now();

    let answers = join_all((0..200).map(async |_| guest.get(&open_path(&selection)).await)).await;

    let (opened, stopped): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 200);
    let regained = started.elapsed().as_millis() / 500 + 1;
    assert!((120..=120 + regained).contains(&(opened.len() as u128)), "{} were opened", opened.len());
    for answer in stopped {
        assert!(answer.header("retry-after").parse::<u64>().is_ok_and(|wait| (1..=60).contains(&wait)));
        answer.expect_problem(429, "SELECTIONS_RATE_LIMITED");
    }
    another.get(&open_path(&selection)).await.expect(200);
}

/// Conventions, Rate limits: on by default for guests alone.
#[tokio::test]
async fn a_signed_in_reader_is_not_limited() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let (_, reader) = service().user();
    for answer in join_all((0..30).map(|_| reader.get("/api/v1/selections/AAAAAAAAAAAA"))).await {
        answer.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }
    for answer in join_all((0..150).map(async |_| reader.get(&open_path(&selection)).await)).await {
        answer.expect(200);
    }
}

/// Conventions, Rate limits: the limits are configuration, and 0 lifts them.
#[tokio::test]
async fn the_limits_of_guests_are_configured() {
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
    for answer in join_all((0..150).map(|_| open(&guest, "AAAAAAAAAAAA"))).await {
        answer.expect_problem(404, "SELECTIONS_NOT_FOUND");
    }
}

/// A guest cannot pass for another by forging the header that proxies set.
#[tokio::test]
async fn a_forged_address_does_not_lift_the_limit() {
    let settings = [("GUEST_READS_PER_MINUTE", "3"), ("TRUSTED_PROXIES", "192.0.2.0/24")];
    let service = Running::start::<Service>(&settings);
    let statuses = async {
        let mut statuses = Vec::new();
        for _ in 0..4 {
            statuses.push(open(&service.guest(), "AAAAAAAAAAAA").await.status);
        }
        statuses
    };
    assert_eq!(statuses.await, [404, 404, 404, 429], "each guest of this client names an address of its own");
}

/// Conventions, Rate limits: an address is one, with a port or without, and however IPv6 writes it.
#[tokio::test]
async fn an_address_counts_once_however_a_proxy_writes_it() {
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

/// HTTP: a target of another form than a path is no way around the routes.
#[tokio::test]
async fn a_percent_encoded_code_is_the_same_code() {
    let (_, owner) = service().user();
    let selection = create_selection(&owner).await;
    let (first, rest) = text(&selection["PublicCode"]).split_at(1);
    let encoded = format!("%{:02X}{rest}", first.as_bytes()[0]);
    let request = service().guest().request(Method::GET, &format!("{SELECTIONS}/{encoded}"));
    assert_eq!(send(request).await.expect(200)["PublicCode"], selection["PublicCode"]);
}

/// Conventions, Rate limits: per actor, in configuration; whoever is signed in counts as one wherever they are.
#[tokio::test]
async fn the_limit_of_actors_is_configured() {
    let limited = Running::start::<Service>(&[("ACTOR_REQUESTS_PER_MINUTE", "3")]);
    let ((_, owner), (_, another)) = (limited.user(), limited.user());
    for _ in 0..3 {
        owner.get("/api/v1/selections").await.expect(200);
    }

    let stopped = owner.get("/api/v1/favorites").await;

    assert!(stopped.header("retry-after").parse::<u64>().is_ok_and(|wait| (1..=60).contains(&wait)));
    stopped.expect_problem(429, "SELECTIONS_RATE_LIMITED");
    owner.get("/api/v1/selections/AAAAAAAAAAAA").await.expect_problem(429, "SELECTIONS_RATE_LIMITED");
    another.get("/api/v1/selections").await.expect(200);
}

/// Routing: the one word in the shared segment that is neither id nor code names its own method.
#[tokio::test]
async fn from_favorites_is_only_posted_to() {
    let (_, owner) = service().user();
    for method in [Method::GET, Method::PUT, Method::PATCH] {
        let refused = send(owner.request(method, "/api/v1/selections/from-favorites")).await;
        assert_eq!(refused.header("allow"), "POST");
        refused.expect_problem(405, "SELECTIONS_METHOD_NOT_ALLOWED");
    }
}

/// What many guests share, one of them makes anew.
#[tokio::test]
async fn guests_do_not_notice_that_their_connections_were_cut() {
    let service = Running::start::<Service>(&[]);
    let (_, owner) = service.user();
    let path = open_path(&create_selection(&owner).await);
    let sql = service.sql().await;
    let cut = "select pg_terminate_backend(pid) from pg_stat_activity \
        where datname = current_database() and pid <> pg_backend_pid()";
    for _ in 0..5 {
        // Enough to come to every worker.
        for answer in join_all((0..20).map(async |_| service.guest().get(&path).await)).await {
            answer.expect(200);
        }
        sql.batch_execute(cut).await.unwrap();
    }
}

/// Those behind a lookup that does not come back are told so in time, and the next ones do not stand behind it.
#[tokio::test]
async fn guests_do_not_wait_behind_a_lookup_that_is_stuck() {
    let service = Running::start::<Service>(&[("DATABASE_STATEMENT_TIMEOUT_MS", "60000")]);
    let (_, owner) = service.user();
    let path = open_path(&create_selection(&owner).await);
    let sql = service.sql().await;
    sql.batch_execute("begin; lock table selection in access exclusive mode").await.unwrap();
    for answer in join_all((0..20).map(async |_| service.guest().get(&path).await)).await {
        answer.expect_problem(503, "SELECTIONS_SERVICE_UNAVAILABLE");
    }
    sql.batch_execute("rollback").await.unwrap();
    for answer in join_all((0..20).map(async |_| service.guest().get(&path).await)).await {
        answer.expect(200);
    }
}
