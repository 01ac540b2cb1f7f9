//! Revoked access: tokens that are older than a loss of rights.

use selections::Service;
use serde_json::{Value, json};
use testkit::access::losses::revoke;
use testkit::client::Client;
use testkit::issuer::Claims;
use testkit::service::{Running, issuer};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::{SELECTIONS, create_selection, eventually, guid, service, text};

const TOPIC: &str = "platform.identity.access-revoked.v1";
const UNAUTHORIZED: &str = "SELECTIONS_UNAUTHORIZED";

/// Returns a client whose token was issued at this time.
fn caller(on: &Running, claims: &Claims, issued_at: OffsetDateTime) -> Client {
    on.bearer(&issuer().token_issued_at(claims, issued_at.unix_timestamp()).unwrap())
}

/// Publishes a revocation of a user with this sequence.
async fn publish(user: Uuid, sequence: i64, not_before: OffsetDateTime) {
    let not_before = not_before.format(&Rfc3339).unwrap();
    let payload = json!({"SubjectKind": "User", "SubjectId": user, "NotBefore": not_before});
    service().bus().publish(TOPIC, user, sequence, &payload).await;
}

/// Waits until the consumer has processed this message of a key.
async fn wait_for_consumer(key: &str, sequence: i64) {
    let sql = service().sql().await;
    eventually("the message is processed", async || {
        let seen = "select count(*) from inbox where topic = $1 and key = $2 and sequence >= $3";
        let seen: i64 = sql.query_one(seen, &[&TOPIC, &key, &sequence]).await.unwrap().get(0);
        (seen > 0).then_some(())
    })
    .await;
}

/// Waits until the listeners have read every revocation that the consumer has stored.
async fn wait_until_revocations_are_read(on: &Running) {
    let (user, marker) = on.user();
    revoke(on, "User", user, runtime::clock::now()).await;
    wait_until_unauthorized(&marker).await;
}

async fn wait_until_unauthorized(caller: &Client) {
    eventually("the end of the token", async || (caller.get(SELECTIONS).await.status == 401).then_some(()))
        .await;
}

/// RULE-ALL-075: a token that was issued up to the second of the revocation is rejected. A token of
/// the next second is accepted.
#[tokio::test]
async fn revoked_token_is_unauthorized_and_a_later_one_is_accepted() {
    let (user, now) = (Claims::user(guid()).company(guid()), runtime::clock::now());
    let not_before = now.replace_millisecond(500).unwrap() - Duration::seconds(60);
    let [before, same_second, after] =
        [-1, 0, 1].map(|seconds| caller(service(), &user, not_before + Duration::seconds(seconds)));
    for valid in [&before, &same_second, &after] {
        valid.get(SELECTIONS).await.expect(200);
    }
    revoke(service(), "User", user.sub.parse().unwrap(), not_before).await;
    wait_until_unauthorized(&before).await;
    before.get(SELECTIONS).await.expect_problem(401, UNAUTHORIZED);
    same_second.get(SELECTIONS).await.expect_problem(401, UNAUTHORIZED);
    after.get(SELECTIONS).await.expect(200);
    service().caller(&user).get(SELECTIONS).await.expect(200);
    let colleague = Claims::user(guid()).company(user.company_id.unwrap());
    caller(service(), &colleague, not_before).get(SELECTIONS).await.expect(200);
}

/// RULE-ALL-075, RULE-SEL-008: a revoked user is a guest where guests may read.
#[tokio::test]
async fn revoked_user_reads_as_a_guest() {
    let (user, owner) = service().user();
    let selection = create_selection(&owner).await;
    revoke(service(), "User", user, runtime::clock::now()).await;
    wait_until_unauthorized(&owner).await;
    owner.get(&format!("{SELECTIONS}/{}", text(&selection["PublicCode"]))).await.expect(200);
    owner.delete(&crate::path(&selection)).await.expect_problem(401, UNAUTHORIZED);
}

/// RULE-ALL-075: the revocation of a company ends the tokens that name it, and no others.
#[tokio::test]
async fn company_revocation_ends_the_tokens_that_name_the_company() {
    let (company, user) = (guid(), guid());
    let now = runtime::clock::now();
    let of = |user: Uuid, company: Option<Uuid>| {
        caller(service(), &Claims { company_id: company, ..Claims::user(user) }, now)
    };
    let (employee, colleague) = (of(user, Some(company)), of(guid(), Some(company)));
    revoke(service(), "Company", company, now).await;
    wait_until_unauthorized(&employee).await;
    colleague.get(SELECTIONS).await.expect_problem(401, UNAUTHORIZED);
    for unconcerned in [of(user, None), of(user, Some(guid())), of(guid(), None)] {
        unconcerned.get(SELECTIONS).await.expect(200);
    }
    // A later token of the company.
    caller(service(), &Claims::user(user).company(company), now + Duration::SECOND)
        .get(SELECTIONS)
        .await
        .expect(200);
}

/// RULE-ALL-076: a repeated, late or reordered revocation neither restores nor revokes a token.
#[tokio::test]
async fn repeated_or_reordered_revocation_changes_nothing() {
    let (user, now) = (guid(), runtime::clock::now());
    let [first, second] = [60, 30].map(|ago| now - Duration::seconds(ago));
    let old = caller(service(), &Claims::user(user), second);
    let fresh = caller(service(), &Claims::user(user), second + Duration::SECOND);
    publish(user, 20, second).await;
    wait_until_unauthorized(&old).await;
    // A repeat, an earlier event that arrives late, and an earlier time under a later sequence.
    publish(user, 20, second).await;
    publish(user, 10, first).await;
    publish(user, 30, first).await;
    wait_for_consumer(&user.to_string(), 30).await;
    wait_until_revocations_are_read(service()).await;
    old.get(SELECTIONS).await.expect_problem(401, UNAUTHORIZED);
    fresh.get(SELECTIONS).await.expect(200);
    // A later revocation ends the later token, too.
    publish(user, 40, second + Duration::SECOND).await;
    wait_until_unauthorized(&fresh).await;
}

/// RULE-ALL-076: a revocation with a time in the past applies to tokens issued up to that time: two
/// minutes ago, and the issue time of the oldest valid token.
#[tokio::test]
async fn revocation_holds_although_clocks_differ_by_minutes() {
    let now = runtime::clock::now();
    // The oldest valid token was issued 59 minutes and 30 seconds ago.
    for ago in [120, 3570] {
        let (user, not_before) = (guid(), now - Duration::seconds(ago));
        let old = caller(service(), &Claims::user(user), not_before);
        let fresh = caller(service(), &Claims::user(user), not_before + Duration::SECOND);
        old.get(SELECTIONS).await.expect(200);
        revoke(service(), "User", user, not_before).await;
        wait_until_unauthorized(&old).await;
        fresh.get(SELECTIONS).await.expect(200);
    }
}

/// RULE-ALL-076, RULE-EVT-046: a revocation of an unknown subject has no effect. A malformed one
/// becomes a dead letter, and a later one of its subject is applied. A tombstone deletes the
/// revocation.
#[tokio::test]
async fn unknown_subject_malformed_message_and_tombstone_are_handled() {
    let sql = service().sql().await;
    for kind in ["User", "Company"] {
        revoke(service(), kind, guid(), runtime::clock::now()).await;
    }
    let (malformed, caller) = service().user();
    let payload = json!({"SubjectKind": "Robot", "SubjectId": malformed, "NotBefore": "soon"});
    service().bus().publish(TOPIC, malformed, 1, &payload).await;
    wait_for_consumer(&malformed.to_string(), 1).await;
    let dead = "select count(*) from dead_letter where key = $1 and consumer like 'selections.access%'";
    let dead: i64 = sql.query_one(dead, &[&malformed.to_string()]).await.unwrap().get(0);
    assert_eq!(dead, 1);

    let user = malformed;
    publish(user, 2, runtime::clock::now()).await;
    wait_until_unauthorized(&caller).await;
    service().bus().publish_tombstone(TOPIC, user, 3).await;
    eventually("the tombstone is applied", async || {
        (caller.get(SELECTIONS).await.status == 200).then_some(())
    })
    .await;
    let left = "select count(*) from access_revocation where subject_id::text = $1";
    let left: i64 = sql.query_one(left, &[&user.to_string()]).await.unwrap().get(0);
    assert_eq!(left, 0);
}

/// RULE-ALL-076: a replica knows the revocations before it accepts requests.
#[tokio::test]
async fn new_replica_rejects_revoked_tokens_from_the_first_request_on() {
    let (user, old) = service().user();
    revoke(service(), "User", user, runtime::clock::now()).await;
    wait_until_unauthorized(&old).await;
    let replica = Running::start::<Service>(&[("DATABASE_URL", &service().database_url)]);
    let token = issuer().token_issued_at(&Claims::user(user), runtime::clock::now().unix_timestamp() - 60);
    replica.bearer(&token.unwrap()).get(SELECTIONS).await.expect_problem(401, UNAUTHORIZED);
    replica.user().1.get(SELECTIONS).await.expect(200);
}

/// RULE-ALL-076: a replica that has never read the revocations verifies no token.
#[tokio::test]
async fn replica_without_a_first_read_of_revocations_rejects_every_token() {
    let first = Running::start::<Service>(&[]);
    let (user, old) = first.user();
    revoke(&first, "User", user, runtime::clock::now()).await;
    wait_until_unauthorized(&old).await;
    let sql = first.sql().await;
    sql.batch_execute("alter table access_revocation rename to revocation_away").await.unwrap();
    let replica = Running::start::<Service>(&[("DATABASE_URL", &first.database_url)]);
    let token = issuer().token_issued_at(&Claims::user(user), runtime::clock::now().unix_timestamp() - 60);
    let revoked_there = replica.bearer(&token.unwrap());
    for caller in [&revoked_there, &replica.user().1] {
        caller.get(SELECTIONS).await.expect_problem(503, "SELECTIONS_SERVICE_UNAVAILABLE");
    }
    sql.batch_execute("alter table revocation_away rename to access_revocation").await.unwrap();
    eventually("the first read", async || {
        (replica.user().1.get(SELECTIONS).await.status == 200).then_some(())
    })
    .await;
    revoked_there.get(SELECTIONS).await.expect_problem(401, UNAUTHORIZED);
}

/// RULE-ALL-076: a service that cannot read revocations continues to apply those that it has read,
/// and its metric shows their age.
#[tokio::test]
async fn service_that_cannot_read_revocations_applies_the_last_ones() {
    let service = Running::start::<Service>(&[]);
    let (user, revoked) = service.user();
    revoke(&service, "User", user, runtime::clock::now()).await;
    wait_until_unauthorized(&revoked).await;
    let age = async || {
        let metrics = service.operator().get("/metrics").await.text;
        let line = metrics.lines().find(|line| line.starts_with("access_revocations_age_seconds ")).unwrap();
        line.split_once(' ').unwrap().1.parse::<f64>().unwrap()
    };
    assert!(age().await < 1.0, "just read");
    let sql = service.sql().await;
    sql.batch_execute("alter table access_revocation rename to revocation_away").await.unwrap();
    eventually("a growing age", async || (age().await > 3.0).then_some(())).await;
    revoked.get(SELECTIONS).await.expect_problem(401, UNAUTHORIZED);
    let created = service.user().1.post(SELECTIONS, json!({"Title": "x"})).await.expect(201);
    assert_ne!(created["Id"], Value::Null);
    sql.batch_execute("alter table revocation_away rename to access_revocation").await.unwrap();
    eventually("a new read", async || (age().await < 1.0).then_some(())).await;
}
