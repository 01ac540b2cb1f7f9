//! The languages of problems.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use testkit::guid;
use testkit::languages::code_in_each_language;

use crate::{OWN, PLATFORM, create_deal, manager, platform, service};

/// RULE-ALL-010: problems are in the caller's language, and so is the error of each invalid member.
#[tokio::test]
async fn problem_is_in_the_callers_language() {
    let deal = create_deal().await;
    let (platform, own, guest) = (platform(), manager(deal.developer), service().guest());
    let (missing, object) = (guid(), guid());
    let deals = format!("{PLATFORM}/deals");
    let post = |below: &str, body: &Value| {
        platform.request(Method::POST, &format!("{deals}/{}/{below}", deal.id)).json(body)
    };
    let override_to = |status: &str, version: i64| {
        post("override-status", &json!({"TargetStatus": status, "Comment": "x", "RowVersion": version}))
    };
    let booking = format!("{deals}/{}/booking", deal.id);
    let prolong = json!({"ExpiresAt": "2000-01-01T00:00:00Z"});
    let requests: [(&dyn Fn() -> RequestBuilder, &str); 11] = [
        (&|| guest.request(Method::GET, &deals), "UNAUTHORIZED"),
        (&|| own.request(Method::GET, &deals), "FORBIDDEN"),
        (&|| guest.request(Method::GET, "/api/v1/crm/nowhere"), "NOT_FOUND"),
        (&|| platform.request(Method::POST, &deals).json(&json!({})), "VALIDATION_FAILED"),
        (&|| platform.request(Method::PUT, &booking).json(&prolong), "VALIDATION_FAILED"),
        (&|| post("override-status", &json!({"TargetStatus": "Sale", "Comment": " "})), "VALIDATION_FAILED"),
        (&|| own.request(Method::GET, &format!("{OWN}/deals/{missing}")), "CRM_DEAL_NOT_FOUND"),
        (&|| override_to("Completed", 1), "CRM_DEAL_STATUS_OVERRIDE_FORBIDDEN"),
        (&|| override_to("Sale", 1), "CRM_DEAL_CONTRACT_TYPE_REQUIRED"),
        (&|| override_to("Cancelled", 77), "CRM_DEAL_CONFLICT"),
        (
            &|| {
                platform
                    .request(Method::POST, &deals)
                    .json(&json!({"PropertyObjectId": object, "ClientUserId": missing}))
            },
            "CRM_PROPERTY_OBJECT_NOT_FOUND",
        ),
    ];
    for (request, code) in requests {
        assert_eq!(code_in_each_language(request).await, code);
    }
}
