//! Repeats of creating requests with `Idempotency-Key`.

use reqwest::header::LOCATION;
use serde_json::json;

use super::{Case, IDEMPOTENCY_KEY, Operation, callers, fault, operations, parse};
use crate::client::{Response, send};
use crate::service::Running;

/// Sends each creating request of users twice with one key, and then another body with this key.
///
/// The repeat must get the first response, and the other body 422. A `Location` must be that of the
/// new entity.
///
/// # Panics
/// If a response differs, or an operation does not document the header.
pub async fn check(service: &Running, table: &str, prepare: impl AsyncFn(&str) -> Case) {
    let (columns, rows) = parse(table);
    let mut faults = Vec::new();
    for operation in operations(service).await {
        assert_eq!(operation.takes_key, operation.creates, "{}: documents {IDEMPOTENCY_KEY}", operation.id);
        if !operation.creates {
            continue;
        }
        let (_, row) = rows.iter().find(|(id, _)| *id == operation.id).expect("a row");
        let authorized = row.iter().position(|status| *status < 300).expect("each row has a success");
        let case = prepare(&operation.id).await;
        let (_, token) = callers(columns[authorized], &case, columns[authorized]).swap_remove(0);
        let found = find_fault(service, &operation, token.as_deref(), case).await;
        faults.extend(found.map(|fault| format!("{}: {fault}", operation.id)));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

async fn find_fault(
    service: &Running,
    operation: &Operation,
    token: Option<&str>,
    mut case: Case,
) -> Option<String> {
    let key = crate::guid().to_string();
    let call = async |case: &Case| {
        let request = operation.request(service, token, case).header(IDEMPOTENCY_KEY, &key);
        send(request.json(&case.body)).await
    };
    let first = call(&case).await;
    let repeat = call(&case).await;
    let shown = |response: &Response| {
        let type_and_location =
            ["content-type", LOCATION.as_str()].map(|name| response.header(name).to_owned());
        (response.status, type_and_location, response.text.clone())
    };
    if first.status != 201 {
        return fault(&first, 201);
    }
    let location = first.header(LOCATION.as_str());
    if !location.is_empty() {
        // The caller may lack the permission to read what it has created.
        let read = service.bearer(token.unwrap_or_default()).get(location).await;
        if ![200, 403].contains(&read.status) {
            return Some(format!("{} {} at the location", read.status, read.text));
        }
    }
    if shown(&repeat) != shown(&first) {
        return Some(format!("{:?} to the repeat of {:?}", shown(&repeat), shown(&first)));
    }
    case.body["Other"] = json!("a member that the operation ignores");
    let other = call(&case).await;
    let is_refused = other.body["code"].as_str().is_some_and(|code| code.ends_with("IDEMPOTENCY_KEY_REUSED"));
    if is_refused {
        fault(&other, 422)
    } else {
        Some(format!("{} {} to another body", other.status, other.text))
    }
}
