//! Checks of access after a loss of rights. They call every operation with a token from before the
//! loss, and with a fresh token.

use std::collections::{HashMap, HashSet};

use futures_util::{StreamExt, stream};
use serde_json::json;
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::{CONCURRENCY, Case, Operation, claims, fault, operations, parse};
use crate::eventually;
use crate::issuer::{CLIENTS, Claims};
use crate::service::{Running, issuer};

const TOPIC: &str = "platform.identity.access-revoked.v1";
/// The permission that identity gives to every user who is not a suspended employee.
const BASELINE: &str = "news.posts.manage-own";

/// The age of the old tokens and of the revocations, in seconds. Other tests that share a company
/// with the cases use younger tokens, which stay valid.
const OLD_TOKEN_SECONDS: i64 = 600;
const REVOCATION_SECONDS: i64 = 300;

/// A way to lose rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    Suspended,
    Removed,
    RoleLost,
    CompanySuspended,
}

impl Loss {
    const ALL: [Self; 4] = [Self::Suspended, Self::Removed, Self::RoleLost, Self::CompanySuspended];

    /// Returns the column of the loss.
    fn name(self) -> &'static str {
        match self {
            Self::Suspended => "suspended",
            Self::Removed => "removed",
            Self::RoleLost => "role lost",
            Self::CompanySuspended => "company suspended",
        }
    }

    /// Returns the claims that identity gives after the loss.
    fn claims_after(self, before: &Claims) -> Claims {
        let (company_id, permissions) = match self {
            Self::Suspended => (None, Vec::new()),
            Self::Removed | Self::CompanySuspended => (None, vec![BASELINE.to_owned()]),
            Self::RoleLost => (before.company_id, vec![BASELINE.to_owned()]),
        };
        Claims { company_id, permissions, ..before.clone() }
    }
}

/// A prepared request of an authorized user who loses rights.
struct Attempt {
    operation: Operation,
    loss: Loss,
    case: Case,
    claims: Claims,
    old_token: String,
    as_guest: u16,
    /// The status for a token that is not valid any more.
    as_forged: u16,
    success: u16,
}

impl Attempt {
    /// Returns the status for a fresh token: success if guests succeed or no permission was lost,
    /// else 403.
    fn default_status(&self) -> u16 {
        if self.as_guest < 300 {
            return self.as_guest;
        }
        let after = self.loss.claims_after(&self.claims);
        let is_unchanged = self.claims.permissions.iter().all(|held| after.permissions.contains(held));
        if is_unchanged { self.success } else { 403 }
    }

    fn describe(&self, token: &str, fault: &str) -> String {
        format!("{}, {}, {token} token: {fault}", self.operation.id, self.loss.name())
    }
}

/// Calls every operation of users after each [`Loss`] of its authorized caller, in a service that
/// consumes revocations.
///
/// A request with the old token gets the status for a forged one. A request with the fresh token
/// gets 403 if the caller has lost a permission, and succeeds otherwise. `exceptions` is a table
/// with other statuses for fresh tokens. Its columns are the losses.
///
/// # Panics
/// If a response differs.
pub async fn check(service: &Running, table: &str, exceptions: &str, prepare: impl AsyncFn(&str) -> Case) {
    check_with(service, table, exceptions, prepare, async |_| ()).await;
}

/// Calls [`check`] for a service that also consumes other events of a loss. `lose` publishes them
/// for these losses, and waits for their effects.
///
/// # Panics
/// If a response differs.
pub async fn check_with(
    service: &Running,
    table: &str,
    exceptions: &str,
    prepare: impl AsyncFn(&str) -> Case,
    lose: impl AsyncFn(&[(Loss, Claims)]),
) {
    let attempts = prepare_attempts(service, table, OLD_TOKEN_SECONDS, prepare).await;
    let losses: Vec<_> = attempts.iter().map(|attempt| (attempt.loss, attempt.claims.clone())).collect();
    lose(&losses).await;
    let not_before = runtime::clock::now() - Duration::seconds(REVOCATION_SECONDS);
    let mut subjects = HashSet::new();
    for Attempt { loss, claims, .. } in &attempts {
        let (kind, subject) = match loss {
            Loss::CompanySuspended => ("Company", claims.company_id.expect("a company")),
            _ => ("User", claims.sub.parse().expect("a user")),
        };
        if subjects.insert(subject) {
            revoke(service, kind, subject, not_before).await;
        }
    }
    wait_for_revocations(service, subjects.len(), not_before, &attempts).await;
    let faults = check_attempts(service, &attempts, exceptions, |attempt, _| attempt.as_forged).await;
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Calls every operation of users after each [`Loss`], in the service that keeps the rights.
///
/// `lose` causes the loss. Requests with both tokens get the response for the current claims. The
/// old token has an `iat` that is `age` seconds ago.
///
/// # Panics
/// If a response differs.
pub async fn check_at_source(
    service: &Running,
    table: &str,
    exceptions: &str,
    age: i64,
    prepare: impl AsyncFn(&str) -> Case,
    lose: impl AsyncFn(Loss, &Claims),
) {
    let attempts = prepare_attempts(service, table, age, prepare).await;
    for Attempt { loss, claims, .. } in &attempts {
        lose(*loss, claims).await;
    }
    // A token that was issued in the second of the loss is revoked, too.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let faults = check_attempts(service, &attempts, exceptions, |_, fresh| fresh).await;
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Waits until the service rejects the tokens of these revocations.
async fn wait_for_revocations(
    service: &Running,
    count: usize,
    not_before: OffsetDateTime,
    attempts: &[Attempt],
) {
    let (sql, not_before) = (service.sql().await, text(not_before));
    eventually("all revocations", async || {
        let stored = "select count(*) from access_revocation where not_before = $1::text::timestamptz";
        let stored: i64 = sql.query_one(stored, &[&not_before]).await.expect("a count").get(0);
        (usize::try_from(stored) == Ok(count)).then_some(())
    })
    .await;
    // The service reads this revocation together with the others, or after them.
    let last = Claims::user(crate::guid());
    let token = issuer().token(&last).expect("a token");
    revoke(service, "User", last.sub.parse().expect("a user"), runtime::clock::now()).await;
    let probe = attempts.iter().find(|attempt| attempt.as_guest == 401).expect("an operation of users");
    eventually("the end of the old tokens", async || {
        let response = probe.operation.call(service, Some(&token), &probe.case).await;
        (response.status == 401).then_some(())
    })
    .await;
}

fn text(time: OffsetDateTime) -> String {
    time.format(&Rfc3339).expect("a time")
}

/// Publishes a revocation, as identity does.
///
/// # Panics
/// If the broker rejects the message.
pub async fn revoke(service: &Running, kind: &str, subject: Uuid, not_before: OffsetDateTime) {
    let not_before = text(not_before);
    let payload = json!({"SubjectKind": kind, "SubjectId": subject, "NotBefore": not_before});
    service.bus().publish(TOPIC, subject, sequence(), &payload).await;
}

/// Returns a `ce_sequence` that grows with time.
fn sequence() -> i64 {
    i64::try_from(runtime::clock::now().unix_timestamp_nanos() / 1000).expect("microseconds")
}

/// Prepares a request for each loss of the authorized caller of each operation of users.
async fn prepare_attempts(
    service: &Running,
    table: &str,
    age: i64,
    prepare: impl AsyncFn(&str) -> Case,
) -> Vec<Attempt> {
    let (columns, rows) = parse(table);
    let is_machine = |column: &str| CLIENTS.iter().any(|(client, _)| *client == column);
    let column = |name: &str| columns.iter().position(|column| *column == name).expect("a column");
    let (guest, forged) = (column("guest"), column("forged"));
    let operations = operations(service).await;
    let rows = operations.iter().map(|operation| {
        let (_, row) = rows.iter().find(|(id, _)| *id == operation.id).expect("a row");
        let authorized = row.iter().position(|status| *status < 300).expect("each row has a success");
        (operation, row, authorized)
    });
    let of_users = rows.filter(|(_, _, authorized)| !is_machine(columns[*authorized]));
    let losses = of_users.flat_map(|row| Loss::ALL.map(|loss| (row, loss)));
    let attempts = losses.map(async |((operation, row, authorized), loss)| {
        let case = prepare(&operation.id).await;
        let mut claims = claims(columns[authorized], &case).swap_remove(0);
        // Only employees lose rights, and an employee has a company.
        claims.company_id.get_or_insert_with(crate::guid);
        let issued_at = runtime::clock::now().unix_timestamp() - age;
        let old_token = issuer().token_issued_at(&claims, issued_at).expect("a token");
        Attempt {
            operation: operation.clone(),
            loss,
            case,
            claims,
            old_token,
            as_guest: row[guest],
            as_forged: row[forged],
            success: row[authorized],
        }
    });
    stream::iter(attempts).buffered(CONCURRENCY).collect().await
}

/// Sends each request with the old token, then with a fresh one. Returns each unexpected response.
async fn check_attempts(
    service: &Running,
    attempts: &[Attempt],
    exceptions: &str,
    old_status: impl Fn(&Attempt, u16) -> u16,
) -> Vec<String> {
    let exceptions = exceptions_of(exceptions);
    let checks = attempts.iter().map(async |attempt| {
        let Attempt { operation, loss, case, claims, old_token, .. } = attempt;
        let exception = exceptions.get(&(operation.id.as_str(), loss.name()));
        let fresh_status = exception.copied().unwrap_or_else(|| attempt.default_status());
        let response = operation.call(service, Some(old_token), case).await;
        let old = fault(&response, old_status(attempt, fresh_status));
        let old = old.map(|fault| attempt.describe("old", &fault));
        let token = issuer().token(&loss.claims_after(claims)).expect("a token");
        let fresh = fault(&operation.call(service, Some(&token), case).await, fresh_status);
        let fresh = fresh.map(|fault| attempt.describe("fresh", &fault));
        old.into_iter().chain(fresh).collect::<Vec<_>>()
    });
    stream::iter(checks).buffer_unordered(CONCURRENCY).collect::<Vec<_>>().await.concat()
}

/// Returns the statuses of a table by operation and column.
fn exceptions_of(table: &str) -> HashMap<(&str, &str), u16> {
    if table.trim().is_empty() {
        return HashMap::new();
    }
    let (columns, rows) = parse(table);
    assert_eq!(columns, Loss::ALL.map(Loss::name), "the columns of the losses");
    let cells = rows.into_iter().flat_map(|(operation, statuses)| {
        let columns = columns.clone();
        columns.into_iter().zip(statuses).map(move |(column, status)| ((operation, column), status))
    });
    cells.collect()
}
