//! The languages of problems.

use reqwest::{Method, RequestBuilder};
use serde_json::json;
use testkit::guid;
use testkit::languages::code_in_each_language;

use crate::{ADMIN, ME, administrator, create_developer, manager, path, profile, service, with};

/// RULE-ALL-010: problems are in the caller's language, with each invalid member.
#[tokio::test]
async fn problem_is_in_the_callers_language() {
    let (id, other) = (create_developer().await, guid());
    let (administrator, manager, guest) = (administrator(), manager(id), service().guest());
    let create = |body| administrator.request(Method::POST, ADMIN).json(&body);
    let update = |body| manager.request(Method::PUT, ME).json(&body);
    let missing = format!("/api/v1/developers/projects/{other}");
    let contacts = json!({"Website": "x", "ContactPhone": "1", "ContactEmail": "x", "FoundedYear": 1});
    let mut invalid = with(profile(), "Name", "");
    invalid.as_object_mut().unwrap().extend(contacts.as_object().unwrap().clone());
    let requests: [(&dyn Fn() -> RequestBuilder, &str); 11] = [
        (&|| guest.request(Method::GET, ADMIN), "UNAUTHORIZED"),
        (&|| manager.request(Method::GET, ADMIN), "FORBIDDEN"),
        (&|| guest.request(Method::GET, "/api/v1/nowhere"), "NOT_FOUND"),
        (&|| guest.request(Method::DELETE, ME), "METHOD_NOT_ALLOWED"),
        (&|| manager.request(Method::PUT, ME).body("x"), "UNSUPPORTED_MEDIA_TYPE"),
        (&|| update(invalid.clone()), "VALIDATION_FAILED"),
        (&|| update(with(profile(), "Version", 77)), "CHESSBOARD_CONCURRENCY_CONFLICT"),
        (&|| administrator.request(Method::GET, &path(other, "")), "CHESSBOARD_DEVELOPER_NOT_FOUND"),
        (&|| create(json!({"CompanyId": other})), "CHESSBOARD_DEVELOPER_COMPANY_NOT_FOUND"),
        (&|| create(json!({"CompanyId": id})), "CHESSBOARD_DEVELOPER_ALREADY_EXISTS"),
        (&|| manager.request(Method::GET, &missing), "CHESSBOARD_PROJECT_NOT_FOUND"),
    ];
    for (request, code) in requests {
        assert_eq!(code_in_each_language(request).await, code);
    }
}
