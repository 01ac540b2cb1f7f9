//! The limit of expensive requests.

use testkit::expensive;

use crate::{guid, start};

/// RULE-ALL-105: requests of a user for statistics and statements count for one limit.
#[tokio::test]
async fn user_above_limit_of_expensive_requests_gets_429() {
    let limited = start(&expensive::SETTINGS);
    let id = guid();
    let paths = [
        "/api/v1/my/agent-performance",
        &format!("/api/v1/my/payouts/{id}/statement?Format=Csv"),
        &format!("/api/platform-manager/agent/payouts/{id}/statement"),
    ];
    expensive::check(&limited, &paths, "/api/v1/my/commission-summary").await;
}
