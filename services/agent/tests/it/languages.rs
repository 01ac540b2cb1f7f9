//! The languages of problems.

use reqwest::{Method, RequestBuilder};
use serde_json::json;
use testkit::guid;
use testkit::languages::code_in_each_language;

use crate::{MY, PLATFORM, cabinet, commissions, payouts, service};

/// RULE-ALL-010: problems are in the caller's language, with each invalid member.
#[tokio::test]
async fn problem_is_in_the_callers_language() {
    let (agent, guest, id) = (cabinet(guid()), service().guest(), guid());
    let (commissions, payouts) = (commissions(), payouts());
    let accrual = format!("{MY}/commission-accruals/{id}/adjustment-requests");
    let requests_of = |below: &str| format!("{PLATFORM}/adjustment-requests/{id}/{below}");
    let payout = format!("{PLATFORM}/payouts/{id}/send");
    let run = format!("{PLATFORM}/payout-runs/{id}");
    let adjust = |body| agent.request(Method::POST, &accrual).json(&body);
    let adjustment = json!({"Reason": "WrongAmount", "Comment": ""});
    let requests: [(&dyn Fn() -> RequestBuilder, &str); 8] = [
        (&|| guest.request(Method::GET, &format!("{MY}/payouts")), "UNAUTHORIZED"),
        (&|| agent.request(Method::GET, &format!("{PLATFORM}/payouts")), "FORBIDDEN"),
        (&|| guest.request(Method::GET, "/api/v1/my/nowhere"), "NOT_FOUND"),
        (&|| adjust(adjustment.clone()), "VALIDATION_FAILED"),
        (
            &|| commissions.request(Method::PUT, &format!("{PLATFORM}/commission-rates")).json(&json!({})),
            "VALIDATION_FAILED",
        ),
        (
            &|| commissions.request(Method::POST, &requests_of("reject")).json(&json!({"Comment": "x"})),
            "AGENT_ADJUSTMENT_NOT_FOUND",
        ),
        (&|| payouts.request(Method::POST, &payout), "AGENT_PAYOUT_NOT_FOUND"),
        (&|| payouts.request(Method::GET, &run), "AGENT_PAYOUT_RUN_NOT_FOUND"),
    ];
    for (request, code) in requests {
        assert_eq!(code_in_each_language(request).await, code);
    }
}
