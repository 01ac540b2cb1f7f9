//! The limit of guest reads.

use serde_json::{Value, json};

use crate::client::Response;
use crate::guid;
use crate::service::Running;

/// The settings of a service in which a guest address has one read a minute.
pub const SETTINGS: [(&str, &str); 1] = [("GUEST_READS_PER_MINUTE", "1")];

/// Checks that each operation that is open to guests counts against the limit of a service that
/// runs with [`SETTINGS`], and that users have no such limit.
///
/// `parameters` are values of path parameters by name, and query parameters, which begin with a
/// capital letter. Other path parameters are unknown ids.
///
/// # Panics
/// If an operation does not count, or if no operation is open to guests.
pub async fn check(service: &Running, parameters: &[(&str, &str)]) {
    let document = service.guest().get(&format!("/docs/{}/openapi.json", service.name)).await.expect(200);
    let items = document["paths"].as_object().expect("paths");
    let is_open = |item: &Value| {
        let callers = item["get"]["security"].as_array();
        callers.is_some_and(|callers| callers.contains(&json!({})))
    };
    let open: Vec<_> = items.iter().filter(|(_, item)| is_open(item)).map(|(path, _)| path).collect();
    assert!(!open.is_empty(), "no operation is open to guests");
    for template in open {
        let path = fill(template, parameters);
        let (guest, (_, user)) = (service.guest(), service.user());
        assert_ne!(guest.get(&path).await.status, 429, "{path}");
        assert_is_limited(&guest.get(&path).await, &path);
        for _ in 0..2 {
            assert_ne!(user.get(&path).await.status, 429, "{path} by a user");
        }
    }
}

/// Returns the path with values of its parameters, and the query.
fn fill(template: &str, parameters: &[(&str, &str)]) -> String {
    let (query, values): (Vec<_>, Vec<_>) =
        parameters.iter().partition(|(name, _)| name.starts_with(char::is_uppercase));
    let segments = template.split('/').map(|segment| {
        let Some(name) = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
            return segment.to_owned();
        };
        let value = values.iter().find(|(of, _)| *of == name);
        value.map_or_else(|| guid().to_string(), |(_, value)| (*value).to_owned())
    });
    let query: Vec<_> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{}?{}", segments.collect::<Vec<_>>().join("/"), query.join("&"))
}

fn assert_is_limited(response: &Response, path: &str) {
    assert_eq!(response.status, 429, "{path}: {}", response.text);
    let wait = response.header("retry-after").parse::<u64>();
    assert!(wait.is_ok_and(|wait| (1..=60).contains(&wait)), "{path}");
    let code = response.body["code"].as_str().unwrap_or_default();
    assert!(code.ends_with("RATE_LIMITED"), "{path}: {code}");
}
