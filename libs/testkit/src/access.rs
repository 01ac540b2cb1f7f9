//! Access tests: calls every documented operation of a service as every kind of caller.
//!
//! A table of the service has a row for each operation, a column for each kind of caller, and the
//! expected status in each cell.

pub mod losses;
pub mod repeats;

use futures_util::{StreamExt, stream};
use reqwest::{Method, RequestBuilder};
use serde_json::Value;
use uuid::Uuid;

use crate::client::{Response, send};
use crate::forged;
use crate::issuer::{CLIENTS, Claims};
use crate::service::{Running, issuer};

const IDEMPOTENCY_KEY: &str = "Idempotency-Key";
/// Number of operations that are checked at the same time. A check mostly waits for responses.
const CONCURRENCY: usize = 4;

/// A request that succeeds for an authorized caller, and the users who send it.
pub struct Case {
    /// Path parameters by their names in the document, and query parameters, which begin with a
    /// capital letter.
    pub parameters: Vec<(&'static str, String)>,
    /// `null` sends no body.
    pub body: Value,
    /// Users of the columns. All users of one column expect the same status.
    pub people: Vec<(&'static str, Vec<Claims>)>,
}

/// The expected response to the empty id, which is the nil UUID, in a path.
#[derive(Clone, Copy)]
pub enum EmptyId {
    /// The response to an unknown id.
    Unknown,
    /// `400`, unless the caller is refused with 401 or 403.
    Refused,
    /// `400` in these operations, the response to an unknown id in all others.
    RefusedIn(&'static [&'static str]),
    /// `404` in these operations, which accept every other id.
    NotFoundIn(&'static [&'static str]),
}

impl EmptyId {
    /// Returns the status and the code if they differ from those for an unknown id.
    fn expected(self, operation: &str) -> Option<(u16, &'static str)> {
        let refused = (400, "VALIDATION_FAILED");
        match self {
            Self::Unknown => None,
            Self::Refused => Some(refused),
            Self::RefusedIn(operations) => operations.contains(&operation).then_some(refused),
            Self::NotFoundIn(operations) => operations.contains(&operation).then_some((404, "NOT_FOUND")),
        }
    }
}

/// Calls [`check_with`] for a service that treats the empty id as an unknown id.
///
/// # Panics
/// Under the conditions of [`check_with`].
pub async fn check(service: &Running, table: &str, prepare: impl AsyncFn(&str) -> Case) {
    check_with(service, table, EmptyId::Unknown, prepare).await;
}

/// Calls every operation as the caller of every column, at the port that documents the operation.
///
/// A column names users of the case, or one of these:
/// - `guest`: no token.
/// - `forged`: every token of [`forged::tokens`], forged for the authorized caller.
/// - A name in [`CLIENTS`]: that machine.
/// - `other machines`: machine tokens whose client id is similar, unknown, empty or missing.
///
/// The authorized caller is the caller of the first column with a success. After each refusal this
/// caller sends the same request and must succeed: the refusal depended on the caller and changed
/// nothing.
///
/// The function also checks these rules:
/// - A refusal because of the token (401, or 403 for a machine) is sent before the body is read.
/// - The other port returns 404 for the operation.
/// - An id that does not parse gets 404, unless the caller gets 401 or 403.
/// - The permission that the document names is required, and is enough to avoid `FORBIDDEN`.
/// - The example of a body in the document is valid.
///
/// # Panics
/// If a response differs from the table, or the rows differ from the documented operations.
pub async fn check_with(
    service: &Running,
    table: &str,
    empty_id: EmptyId,
    prepare: impl AsyncFn(&str) -> Case,
) {
    let (columns, rows) = parse(table);
    let operations = operations(service).await;
    let mut documented: Vec<_> = operations.iter().map(|operation| operation.id.as_str()).collect();
    let mut expected: Vec<_> = rows.iter().map(|(id, _)| *id).collect();
    documented.sort_unstable();
    expected.sort_unstable();
    assert_eq!(expected, documented, "rows of the table, and documented operations");

    let check_some = async |operations: &[Operation]| {
        let checks = operations.iter().map(|operation| {
            let (_, row) = rows.iter().find(|(id, _)| *id == operation.id).expect("compared above");
            operation.check_row(service, &columns, row, empty_id, &prepare)
        });
        stream::iter(checks).buffer_unordered(CONCURRENCY).collect::<Vec<_>>().await.concat()
    };
    // With Keycloak, the second half uses tokens under a new signing key.
    let (first, second) = operations.split_at(operations.len() / 2);
    let mut faults = check_some(first).await;
    if let Some(realm) = issuer().realm() {
        realm.rotate().await;
    }
    faults.extend(check_some(second).await);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Returns the columns, and the statuses of each operation in the order of the columns.
fn parse(table: &str) -> (Vec<&str>, Vec<(&str, Vec<u16>)>) {
    let mut lines = table.lines().map(str::trim).filter(|line| !line.is_empty());
    let columns: Vec<_> = lines.next().expect("a head").split('|').skip(1).map(str::trim).collect();
    let rows = lines.map(|line| {
        let mut cells = line.split('|').map(str::trim);
        let id = cells.next().expect("a first cell");
        let statuses: Vec<u16> = cells.map(|cell| cell.parse().expect("a status")).collect();
        assert_eq!(statuses.len(), columns.len(), "{id}: a status for each column");
        (id, statuses)
    });
    let rows = rows.collect();
    (columns, rows)
}

#[derive(Clone)]
struct Operation {
    id: String,
    method: Method,
    path: String,
    internal: bool,
    /// True for a `POST` of users with the response 201.
    creates: bool,
    takes_key: bool,
    /// The permissions, one of which the document requires.
    any_of: Vec<String>,
    /// The example of the body, `null` without one.
    example: Value,
}

/// Reads the operations from the documents of both ports.
async fn operations(service: &Running) -> Vec<Operation> {
    let mut ports = vec![(false, service.guest())];
    if service.has_internal() {
        ports.push((true, service.internal_client(None)));
    }
    let mut operations = Vec::new();
    for (internal, port) in ports {
        let document = port.get(&format!("/docs/{}/openapi.json", service.name)).await.expect(200);
        for (path, item) in document["paths"].as_object().expect("paths") {
            for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
                if let Some(operation) = item.get(method.as_str().to_lowercase())
                    // Signed callbacks have no token.
                    && operation.pointer("/security/0/signature").is_none()
                {
                    let id = operation["operationId"].as_str().expect("an id").to_owned();
                    let creates =
                        method == Method::POST && !internal && operation.pointer("/responses/201").is_some();
                    let mut parameters = operation["parameters"].as_array().into_iter().flatten();
                    let takes_key = parameters.any(|parameter| parameter["name"] == IDEMPOTENCY_KEY);
                    let path = path.clone();
                    let any_of = operation["x-permission"].as_array().into_iter().flatten();
                    let any_of = any_of.filter_map(Value::as_str).map(str::to_owned).collect();
                    let example = operation["requestBody"]["content"]["application/json"]["example"].clone();
                    let operation =
                        Operation { id, method, path, internal, creates, takes_key, any_of, example };
                    operations.push(operation);
                }
            }
        }
    }
    operations
}

impl Operation {
    /// Calls the operation as the caller of every column. Returns each unexpected response.
    async fn check_row(
        &self,
        service: &Running,
        columns: &[&str],
        row: &[u16],
        empty_id: EmptyId,
        prepare: &impl AsyncFn(&str) -> Case,
    ) -> Vec<String> {
        let mut faults = Vec::new();
        let first_success = row.iter().position(|status| *status < 300).expect("each row has a success");
        let (authorized, success) = (columns[first_success], row[first_success]);
        for (column, status) in columns.iter().zip(row) {
            let mut case = prepare(&self.id).await;
            for index in 0..callers(column, &case, authorized).len() {
                if index > 0 && *status < 300 {
                    // The previous caller has already performed the operation.
                    case = prepare(&self.id).await;
                }
                let (name, token) = callers(column, &case, authorized).swap_remove(index);
                let mut found = vec![fault(&self.call(service, token.as_deref(), &case).await, *status)];
                if index == 0 {
                    found.extend(
                        self.call_malformed(service, token.as_deref(), &case, *status, empty_id).await,
                    );
                }
                let found = found.into_iter().flatten();
                faults.extend(found.map(|fault| format!("{} as {name}: {fault}", self.id)));
            }
            if *status >= 300 {
                let (name, token) = callers(authorized, &case, authorized).swap_remove(0);
                let found = fault(&self.call(service, token.as_deref(), &case).await, success);
                faults.extend(found.map(|fault| format!("{} as {name} after {column}: {fault}", self.id)));
            }
        }
        faults.extend(self.check_permission(service, prepare, authorized, success).await);
        faults.extend(self.check_example(service, prepare, authorized).await);
        faults
    }

    /// Builds the request without its body.
    fn request(&self, service: &Running, token: Option<&str>, case: &Case) -> RequestBuilder {
        let caller = match (self.internal, token) {
            (true, token) => service.internal_client(token.map(str::to_owned)),
            (false, Some(token)) => service.bearer(token),
            (false, None) => service.guest(),
        };
        let (query, values): (Vec<_>, Vec<_>) =
            case.parameters.iter().partition(|(name, _)| name.starts_with(char::is_uppercase));
        let path = values
            .iter()
            .fold(self.path.clone(), |path, (name, value)| path.replace(&format!("{{{name}}}"), value));
        assert!(!path.contains('{'), "{}: the case lacks a parameter of {path}", self.id);
        let query: Vec<_> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        caller.request(self.method.clone(), &format!("{path}?{}", query.join("&")))
    }

    async fn call(&self, service: &Running, token: Option<&str>, case: &Case) -> Response {
        let request = self.request(service, token, case);
        send(if case.body.is_null() { request } else { request.json(&case.body) }).await
    }

    /// Sends malformed variants of the request, and sends the request to the other port. Returns
    /// each unexpected response.
    async fn call_malformed(
        &self,
        service: &Running,
        token: Option<&str>,
        case: &Case,
        status: u16,
        empty_id: EmptyId,
    ) -> Vec<Option<String>> {
        let mut found = Vec::new();
        if status == 401 || self.internal && status == 403 {
            // Above the default limit of a body, which is 256 KiB.
            let huge = "x".repeat(300 * 1024);
            for (kind, body) in [("application/json", "{"), ("text/plain", "x"), ("application/json", &huge)]
            {
                let request = self.request(service, token, case).header("content-type", kind);
                found.push(fault(&send(request.body(body.to_owned())).await, status));
            }
        }
        found.extend(self.call_with_other_ids(service, token, case, empty_id).await);
        if service.has_internal() {
            let at_other_port = Self { internal: !self.internal, ..self.clone() };
            let found_there = fault(&at_other_port.call(service, token, case).await, 404);
            found.push(found_there.map(|fault| format!("{fault} at the other port")));
        }
        found
    }
}

impl Operation {
    /// Sends the request twice as the authorized caller: without the documented permission, and
    /// with this permission only. Returns each unexpected response.
    ///
    /// Does nothing with a real issuer, which has only the users of the table.
    async fn check_permission(
        &self,
        service: &Running,
        prepare: &impl AsyncFn(&str) -> Case,
        authorized: &str,
        success: u16,
    ) -> Vec<String> {
        if self.any_of.is_empty() || issuer().realm().is_some() {
            return Vec::new();
        }
        let name_of = |permission: &str| permission.split('@').next().unwrap_or_default().to_owned();
        let names: Vec<_> = self.any_of.iter().map(|permission| name_of(permission)).collect();
        let mut faults = Vec::new();
        for (is_listed, status) in [(false, 403), (true, success)] {
            let case = prepare(&self.id).await;
            let mut caller = claims(authorized, &case).swap_remove(0);
            caller.permissions.retain(|permission| names.contains(&name_of(permission)) == is_listed);
            let token = issuer().token(&caller).expect("a token");
            let response = self.call(service, Some(&token), &case).await;
            // Some operations give permissions to other users. A caller who lacks one of these
            // permissions gets 403 with another code.
            let is_other_rule = is_listed && response.status == 403 && response.body["code"] != "FORBIDDEN";
            let fault = fault(&response, status).filter(|_| !is_other_rule);
            faults.extend(fault.map(|fault| format!("{} with {:?}: {fault}", self.id, caller.permissions)));
        }
        faults
    }
}

impl Operation {
    /// Sends the example of the document as the authorized caller. Returns each invalid member.
    ///
    /// The ids in the path are unknown, so the request is refused after its body is checked.
    async fn check_example(
        &self,
        service: &Running,
        prepare: &impl AsyncFn(&str) -> Case,
        authorized: &str,
    ) -> Vec<String> {
        if self.example.is_null() {
            return Vec::new();
        }
        let mut case = prepare(&self.id).await;
        let (_, token) = callers(authorized, &case, authorized).swap_remove(0);
        case.body = self.example.clone();
        for (name, value) in &mut case.parameters {
            let is_id = Uuid::parse_str(value).is_ok() || *name == EXTERNAL_ID;
            if is_id && self.path.contains(&format!("{{{name}}}")) {
                *value = Uuid::from_u128(rand::random()).to_string();
            }
        }
        let response = self.call(service, token.as_deref(), &case).await;
        if response.body["code"].as_str().is_none_or(|code| !code.ends_with("VALIDATION_FAILED")) {
            return Vec::new();
        }
        let errors = response.body["errors"].as_array().into_iter().flatten();
        // The time of an example passes.
        let is_past = |error: &Value| {
            error["code"] == "out_of_bounds"
                && error["field"].as_str().is_some_and(|field| field.ends_with("At"))
        };
        let invalid = errors.filter(|error| !is_past(error));
        invalid.map(|error| format!("{}: the example is invalid: {error}", self.id)).collect()
    }
}

/// A path segment that does not parse as an id.
const MALFORMED_ID: &str = "no-id";

/// The path parameter that takes any text and may name a new entity.
const EXTERNAL_ID: &str = "external_id";

impl Operation {
    /// Sends the request with a malformed id and with the empty id. Returns each unexpected
    /// response.
    ///
    /// The expected status for a malformed id is 404. If an unknown id gets 401, it is 401. If an
    /// unknown id gets 403, it is 403 or 404.
    async fn call_with_other_ids(
        &self,
        service: &Running,
        token: Option<&str>,
        case: &Case,
        empty_id: EmptyId,
    ) -> Vec<Option<String>> {
        let mut found = Vec::new();
        for (at, (name, _)) in case.parameters.iter().enumerate() {
            if !self.path.contains(&format!("{{{name}}}")) || *name == EXTERNAL_ID {
                continue;
            }
            let call_with = async |id: String| {
                let mut parameters = case.parameters.clone();
                parameters[at].1 = id;
                let case = Case { parameters, body: case.body.clone(), people: Vec::new() };
                self.call(service, token, &case).await
            };
            let unknown = call_with(Uuid::from_u128(rand::random()).to_string()).await;
            let malformed = call_with(MALFORMED_ID.to_owned()).await;
            let expected = match (unknown.status, malformed.status) {
                (401, _) => 401,
                // A permission is checked before the id is parsed. A rule about the data is checked
                // afterwards.
                (403, status) if status != 404 => 403,
                _ => 404,
            };
            found.push(
                fault(&malformed, expected).map(|fault| format!("{fault} with {MALFORMED_ID} for {name}")),
            );
            let empty = call_with(Uuid::nil().to_string()).await;
            let as_unknown = (unknown.status, unknown.body["code"].as_str().unwrap_or_default());
            let may_differ = !matches!(unknown.status, 401 | 403);
            let expected = empty_id.expected(&self.id).filter(|_| may_differ).unwrap_or(as_unknown);
            let differs = (empty.status, empty.body["code"].as_str().unwrap_or_default()) != expected;
            found.push(differs.then(|| {
                format!(
                    "{} with the empty id for {name}, {} with an unknown id",
                    empty.status, unknown.status
                )
            }));
        }
        found
    }
}

/// Returns the callers of a column, each with a description and a token.
fn callers(column: &str, case: &Case, authorized: &str) -> Vec<(String, Option<String>)> {
    let signed = |claims: Vec<Claims>| {
        let issued =
            claims.into_iter().filter(|claims| issuer().realm().is_none_or(|realm| realm.can_issue(claims)));
        let tokens = issued.map(|claims| {
            let token = issuer().token(&claims).expect("a token");
            (format!("{column} ({:?}, {:?})", claims.company_id, claims.permissions), Some(token))
        });
        tokens.collect()
    };
    match column {
        "guest" => vec![(column.to_owned(), None)],
        "forged" => {
            let authorized = claims(authorized, case).swap_remove(0);
            let tokens = forged::tokens(&authorized).into_iter();
            tokens.map(|(flaw, token)| (format!("forged, {flaw}"), Some(token))).collect()
        }
        _ => signed(claims(column, case)),
    }
}

fn claims(column: &str, case: &Case) -> Vec<Claims> {
    let machines = CLIENTS.map(|(client, _)| client);
    if machines.contains(&column) {
        return vec![Claims::client(column)];
    }
    if column == "other machines" {
        let mut nameless = Claims::client(machines[0]);
        nameless.client_id = None;
        let near_misses =
            machines.into_iter().flat_map(|client| [client.to_uppercase(), format!("{client} ")]);
        let others =
            near_misses.chain(["chessboard".to_owned(), String::new()]).map(|id| Claims::client(&id));
        let others = others.chain([nameless]);
        // The tokens have each machine's name as a permission, which must not grant the machine's
        // access.
        return others.map(|claims| machines.into_iter().fold(claims, Claims::permission)).collect();
    }
    let users = case.people.iter().find(|(name, _)| *name == column);
    users.unwrap_or_else(|| panic!("the case has no users for the column {column}")).1.clone()
}

/// Describes a response that lacks the expected status or its code.
fn fault(response: &Response, status: u16) -> Option<String> {
    let code = response.body["code"].as_str().unwrap_or_default();
    let has_code = match status {
        401 => code.ends_with("UNAUTHORIZED") && response.header("www-authenticate") == "Bearer",
        403 => code.ends_with("FORBIDDEN"),
        404 => code.ends_with("NOT_FOUND"),
        _ => true,
    };
    (response.status != status || !has_code)
        .then(|| format!("{} {} instead of {status}", response.status, response.text))
}
