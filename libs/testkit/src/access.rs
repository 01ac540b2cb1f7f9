//! Who may come in: every operation that a service documents, called by everybody who might call it.
//! What each is answered stands in a table of the service, with a row for each operation and a column
//! for each caller; this walk holds the two together.

use reqwest::{Method, RequestBuilder};
use serde_json::Value;
use uuid::Uuid;

use crate::client::{Answer, send};
use crate::forged;
use crate::issuer::{CLIENTS, Claims};
use crate::service::{Running, issuer};

/// A request that succeeds when the right one makes it, and the people who make it.
pub struct Case {
    /// What stands in the path, by the document's names, and in the query, whose members begin with a capital.
    pub parameters: Vec<(&'static str, String)>,
    /// `null` for none.
    pub body: Value,
    /// The people of the table; several in a column where all are to be answered alike.
    pub people: Vec<(&'static str, Vec<Claims>)>,
}

/// What the empty id is in a path.
#[derive(Clone, Copy)]
pub enum EmptyId {
    /// As any id of nothing.
    Unknown,
    /// `400`, to whoever would not be refused for who they are.
    Refused,
    /// The same in these operations alone.
    RefusedIn(&'static [&'static str]),
    /// Nobody's in these operations, which take any other: `404`.
    NobodysIn(&'static [&'static str]),
}

impl EmptyId {
    /// Status and code, where they are others than those of any id of nothing.
    fn answer(self, operation: &str) -> Option<(u16, &'static str)> {
        let refused = (400, "VALIDATION_FAILED");
        match self {
            Self::Unknown => None,
            Self::Refused => Some(refused),
            Self::RefusedIn(operations) => operations.contains(&operation).then_some(refused),
            Self::NobodysIn(operations) => operations.contains(&operation).then_some((404, "NOT_FOUND")),
        }
    }
}

/// [`check_with`], where the empty id is as any id of nothing.
///
/// # Panics
/// As that.
pub async fn check(service: &Running, table: &str, prepare: impl AsyncFn(&str) -> Case) {
    check_with(service, table, EmptyId::Unknown, prepare).await;
}

/// Calls every operation, at the port that documents it, as everybody who has a column. Beside the people of
/// the case these may be `guest`; `forged`, with every token of [`forged::tokens`] that would else speak for
/// the right caller; each machine of [`CLIENTS`] by its name; and `other machines`.
///
/// The right caller is that of the first column with a success. After each refusal they make the same request
/// and succeed: it was about the caller, and has changed nothing. Whoever is refused for who they are (401, or
/// 403 of a machine) is refused before the body is looked at, and the other port knows of no such operation. An id that
/// does not parse is not found, by whoever would not be refused for who they are.
///
/// # Panics
/// Unless all is as the table says, and it has a row for each operation and no other.
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
    assert_eq!(expected, documented, "the table's rows, and the operations of the documents");

    let mut faults = Vec::new();
    for (at, operation) in operations.iter().enumerate() {
        if at == operations.len() / 2
            && let Some(realm) = issuer().realm()
        {
            realm.rotate().await;
        }
        let (_, row) = rows.iter().find(|(id, _)| *id == operation.id).expect("compared above");
        let at = row.iter().position(|status| *status < 300).expect("somebody may do it");
        let (right, success) = (columns[at], row[at]);
        for (column, status) in columns.iter().zip(row) {
            let mut case = prepare(&operation.id).await;
            for at in 0..callers(column, &case, right).len() {
                if at > 0 && *status < 300 {
                    // The one before has done it.
                    case = prepare(&operation.id).await;
                }
                let (who, token) = callers(column, &case, right).swap_remove(at);
                let mut found = vec![fault(&operation.call(service, token.as_deref(), &case).await, *status)];
                if at == 0 {
                    found.extend(
                        operation.call_amiss(service, token.as_deref(), &case, *status, empty_id).await,
                    );
                }
                let found = found.into_iter().flatten();
                faults.extend(found.map(|fault| format!("{} as {who}: {fault}", operation.id)));
            }
            if *status >= 300 {
                let (who, token) = callers(right, &case, right).swap_remove(0);
                let found = fault(&operation.call(service, token.as_deref(), &case).await, success);
                faults
                    .extend(found.map(|fault| format!("{} as {who} after {column}: {fault}", operation.id)));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The columns, and for each operation the statuses in their order.
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
}

/// What the documents of both ports tell of.
async fn operations(service: &Running) -> Vec<Operation> {
    let mut documents = vec![(false, service.guest())];
    if service.has_internal() {
        documents.push((true, service.at_internal(None)));
    }
    let mut operations = Vec::new();
    for (internal, port) in documents {
        let document = port.get(&format!("/docs/{}/openapi.json", service.name)).await.expect(200);
        for (path, item) in document["paths"].as_object().expect("paths") {
            for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
                if let Some(operation) = item.get(method.as_str().to_lowercase())
                    // Who signs what they send shows no token.
                    && operation.pointer("/security/0/signature").is_none()
                {
                    let id = operation["operationId"].as_str().expect("an id").to_owned();
                    operations.push(Operation { id, method, path: path.clone(), internal });
                }
            }
        }
    }
    operations
}

impl Operation {
    /// Without a body.
    fn request(&self, service: &Running, token: Option<&str>, case: &Case) -> RequestBuilder {
        let caller = match (self.internal, token) {
            (true, token) => service.at_internal(token.map(str::to_owned)),
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

    async fn call(&self, service: &Running, token: Option<&str>, case: &Case) -> Answer {
        let request = self.request(service, token, case);
        send(if case.body.is_null() { request } else { request.json(&case.body) }).await
    }

    /// What is wrong when the same caller sends what nobody could understand, or asks at the other port.
    async fn call_amiss(
        &self,
        service: &Running,
        token: Option<&str>,
        case: &Case,
        status: u16,
        empty_id: EmptyId,
    ) -> Vec<Option<String>> {
        let mut found = Vec::new();
        if status == 401 || self.internal && status == 403 {
            let huge = "x".repeat(300 * 1024);
            for (kind, body) in [("application/json", "{"), ("text/plain", "x"), ("application/json", &huge)]
            {
                let request = self.request(service, token, case).header("content-type", kind);
                found.push(fault(&send(request.body(body.to_owned())).await, status));
            }
        }
        found.extend(self.call_with_other_ids(service, token, case, empty_id).await);
        if service.has_internal() {
            let elsewhere = Self { internal: !self.internal, ..self.clone() };
            let found_there = fault(&elsewhere.call(service, token, case).await, 404);
            found.push(found_there.map(|fault| format!("{fault} at the other port")));
        }
        found
    }
}

/// What is no id of anything.
const NO_ID: &str = "no-id";

impl Operation {
    /// What is wrong when the same caller puts other ids in the path: one that does not parse is not found, after 401
    /// and after whatever 403 an unknown one meets; the empty one is as any unknown one, or refused.
    async fn call_with_other_ids(
        &self,
        service: &Running,
        token: Option<&str>,
        case: &Case,
        empty_id: EmptyId,
    ) -> Vec<Option<String>> {
        let mut found = Vec::new();
        for (at, (name, _)) in case.parameters.iter().enumerate() {
            if !self.path.contains(&format!("{{{name}}}")) {
                continue;
            }
            let ask = async |id: String| {
                let mut parameters = case.parameters.clone();
                parameters[at].1 = id;
                let case = Case { parameters, body: case.body.clone(), people: Vec::new() };
                self.call(service, token, &case).await
            };
            let unknown = ask(Uuid::from_u128(rand::random()).to_string()).await;
            let refused = if matches!(unknown.status, 401 | 403) { unknown.status } else { 404 };
            let unparsable = fault(&ask(NO_ID.to_owned()).await, refused);
            found.push(unparsable.map(|fault| format!("{fault} with {NO_ID} for {name}")));
            let empty = ask(Uuid::nil().to_string()).await;
            let as_unknown = (unknown.status, unknown.body["code"].as_str().unwrap_or_default());
            let may_differ = !matches!(unknown.status, 401 | 403);
            let expected = empty_id.answer(&self.id).filter(|_| may_differ).unwrap_or(as_unknown);
            let differs = (empty.status, empty.body["code"].as_str().unwrap_or_default()) != expected;
            found.push(differs.then(|| {
                format!("{} with the empty id for {name}, {} with another", empty.status, unknown.status)
            }));
        }
        found
    }
}

/// Those who stand behind a column: what to call them, and their tokens.
fn callers(column: &str, case: &Case, right: &str) -> Vec<(String, Option<String>)> {
    let signed = |claims: Vec<Claims>| {
        let issued =
            claims.into_iter().filter(|claims| issuer().realm().is_none_or(|realm| realm.issues(claims)));
        let tokens = issued.map(|claims| {
            let token = issuer().token(&claims).expect("a token");
            (format!("{column} ({:?}, {:?})", claims.company_id, claims.permissions), Some(token))
        });
        tokens.collect()
    };
    match column {
        "guest" => vec![(column.to_owned(), None)],
        "forged" => {
            let right = claims(right, case).swap_remove(0);
            let tokens = forged::tokens(&right).into_iter();
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
        // Nor does a machine become another by a permission of that name.
        let others = others.chain([nameless]);
        return others.map(|claims| machines.into_iter().fold(claims, Claims::permission)).collect();
    }
    let person = case.people.iter().find(|(name, _)| *name == column);
    person.unwrap_or_else(|| panic!("nobody stands behind the column {column}")).1.clone()
}

/// What is wrong with an answer that should have this status.
fn fault(answer: &Answer, status: u16) -> Option<String> {
    let code = answer.body["code"].as_str().unwrap_or_default();
    let told = match status {
        401 => code.ends_with("UNAUTHORIZED") && answer.header("www-authenticate") == "Bearer",
        403 => code.ends_with("FORBIDDEN"),
        404 => code.ends_with("NOT_FOUND"),
        _ => true,
    };
    (answer.status != status || !told)
        .then(|| format!("{} {} instead of {status}", answer.status, answer.text))
}
