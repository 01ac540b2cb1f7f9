//! Repeats of creating requests with `Idempotency-Key`.

use reqwest::header::LOCATION;
use serde_json::json;

use super::{Case, IDEMPOTENCY_KEY, Operation, callers, fault, operations, parse};
use crate::client::{Response, send};
use crate::service::Running;

/// Sends each creating request of users twice with one key, and then another body with this key.
///
/// The repeat must get the first response, and the other body 422. A `GET` of a `Location` must
/// return 200 or 403. Returns the operations whose first response has no `Location`.
///
/// # Panics
/// If a response differs, or an operation does not document the header.
pub async fn check(service: &Running, table: &str, prepare: impl AsyncFn(&str) -> Case) -> Vec<String> {
    let (columns, rows) = parse(table);
    let (mut faults, mut without_location) = (Vec::new(), Vec::new());
    for operation in operations(service).await {
        assert_eq!(operation.takes_key, operation.creates, "{}: documents {IDEMPOTENCY_KEY}", operation.id);
        if !operation.creates {
            continue;
        }
        let (_, row) = rows.iter().find(|(id, _)| *id == operation.id).expect("a row");
        let authorized = row.iter().position(|status| *status < 300).expect("each row has a success");
        let case = prepare(&operation.id).await;
        let (_, token) = callers(columns[authorized], &case, columns[authorized]).swap_remove(0);
        match check_operation(service, &operation, token.as_deref(), case).await {
            Ok(true) => {}
            Ok(false) => without_location.push(operation.id),
            Err(fault) => faults.push(format!("{}: {fault}", operation.id)),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    without_location
}

/// Returns true if the first response has a `Location`.
///
/// # Errors
/// A description of the unexpected response.
async fn check_operation(
    service: &Running,
    operation: &Operation,
    token: Option<&str>,
    mut case: Case,
) -> Result<bool, String> {
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
    if let Some(fault) = fault(&first, 201) {
        return Err(fault);
    }
    let location = first.header(LOCATION.as_str());
    if !location.is_empty() {
        // The caller may lack the permission to read what it has created.
        let read = service.bearer(token.unwrap_or_default()).get(location).await;
        if ![200, 403].contains(&read.status) {
            return Err(format!("{} {} at the location", read.status, read.text));
        }
    }
    if shown(&repeat) != shown(&first) {
        return Err(format!("{:?} to the repeat of {:?}", shown(&repeat), shown(&first)));
    }
    case.body["Other"] = json!("a member that the operation ignores");
    let other = call(&case).await;
    let is_refused = other.body["code"].as_str().is_some_and(|code| code.ends_with("IDEMPOTENCY_KEY_REUSED"));
    if other.status != 422 || !is_refused {
        return Err(format!("{} {} to another body", other.status, other.text));
    }
    Ok(!location.is_empty())
}
