//! The limit of expensive requests.

use testkit::expensive;

use crate::{guid, start};

/// RULE-ALL-105: boards, columns, lists and exports share one limit of a user.
#[tokio::test]
async fn user_above_limit_of_expensive_requests_gets_429() {
    let limited = start(&expensive::SETTINGS);
    let id = guid();
    let paths = [
        "/api/v1/crm/board",
        &format!("/api/v1/crm/board/columns/{id}"),
        "/api/v1/crm/deals",
        &format!("/api/platform-manager/crm/board?TenantId={id}"),
        &format!("/api/platform-manager/crm/board/columns/{id}"),
        "/api/platform-manager/crm/deals",
        "/api/platform-manager/crm/status-overrides",
        "/api/v1/crm/exports/deals",
        "/api/platform-manager/crm/exports/deals",
        "/api/platform-manager/crm/exports/status-overrides",
    ];
    expensive::check(&limited, &paths, "/api/v1/crm/pipeline-steps").await;
}
