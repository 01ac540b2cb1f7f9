//! The limit of expensive requests.

use identity::Service;
use testkit::service::Running;
use testkit::{expensive, guid};

/// RULE-ALL-105: searches of companies and lists of employees share one limit of a user.
#[tokio::test]
async fn user_above_limit_of_expensive_requests_gets_429() {
    let limited = Running::start::<Service>(&expensive::SETTINGS);
    let id = guid();
    let paths = [
        "/api/identity/admin/tenants/search",
        "/api/identity/admin/tenants/lookup",
        "/api/identity/employees",
        &format!("/api/identity/admin/tenants/{id}/employees"),
    ];
    expensive::check(&limited, &paths, "/api/identity/roles").await;
}
