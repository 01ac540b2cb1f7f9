//! What is refused of profiles, and in which order.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    ADMIN, MANAGE, MANAGE_ALL, ME, create_developer, create_published_developer, each, guid, highlights,
    holder, manager, operator, path, profile, read, service, text, with, without,
};

/// Section 1: each member within its bounds, on `PUT` of the manager, of the platform, and on `POST A`.
#[tokio::test]
async fn each_member_is_within_its_bounds() {
    let id = create_developer().await;
    let cases: &[(&str, Value, &str)] = &[
        ("Name", json!(""), "too_short"),
        ("Name", json!("я".repeat(257)), "too_long"),
        ("Name", json!("a\0b"), "forbidden_character"),
        ("Name", json!(1), "invalid_type"),
        ("LegalName", json!("я".repeat(513)), "too_long"),
        ("Description", json!("я".repeat(4001)), "too_long"),
        ("LogoFileId", json!(Uuid::nil()), "empty_id"),
        ("LogoFileId", json!("x"), "invalid_type"),
        ("Website", json!("example.org"), "bad_url"),
        ("Website", json!("ftp://example.org"), "bad_url"),
        ("Website", json!("javascript:alert(1)"), "bad_url"),
        ("Website", json!("//example.org"), "bad_url"),
        ("Website", json!("https://example.org/a b"), "bad_url"),
        ("Website", json!(" https://example.org"), "bad_url"),
        ("Website", json!("https://"), "bad_url"),
        ("Website", json!("https://example.org@evil.example/"), "bad_url"),
        ("Website", json!("https://user:secret@example.org"), "bad_url"),
        ("Website", json!(""), "too_short"),
        ("Website", json!(format!("https://example.org/{}", "a".repeat(237))), "too_long"),
        ("ContactPhone", json!("12"), "bad_phone"),
        ("ContactPhone", json!("+999123456789"), "bad_phone"),
        ("ContactPhone", json!("call me"), "bad_phone"),
        ("ContactPhone", json!("+7 495 123-45-6"), "bad_phone"),
        ("ContactPhone", json!("+7 495 123-45-67 доб. 5"), "bad_phone"),
        ("ContactPhone", json!("+7 495 123-45-67,+7"), "bad_phone"),
        ("ContactPhone", json!(74_951_234_567_i64), "invalid_type"),
        ("ContactPhone", json!("1".repeat(33)), "too_long"),
        ("ContactEmail", json!("anna@example"), "bad_email"),
        ("ContactEmail", json!("anna"), "bad_email"),
        ("ContactEmail", json!(" anna@example.org"), "bad_email"),
        ("ContactEmail", json!("a b@example.org"), "bad_email"),
        ("ContactEmail", json!("a@b@example.org"), "bad_email"),
        ("ContactEmail", json!("Anna <anna@example.org>"), "bad_email"),
        ("ContactEmail", json!("anna@[192.0.2.1]"), "bad_email"),
        ("ContactEmail", json!("anna@example..org"), "bad_email"),
        ("ContactEmail", json!(""), "too_short"),
        ("FoundedYear", json!(1899), "out_of_range"),
        ("FoundedYear", json!(2101), "out_of_range"),
        ("FoundedYear", json!(2000.5), "invalid_type"),
        ("Highlights", json!([]), "invalid_type"),
    ];
    for (member, value, reason) in cases {
        let body = with(profile(), member, value.clone());
        let field = format!("/{member}");
        manager(id).put(ME, body.clone()).await.expect_refusal("VALIDATION_FAILED", &field, reason);
        operator().put(&path(id, ""), body.clone()).await.expect_refusal("VALIDATION_FAILED", &field, reason);
        let body = with(body, "CompanyId", json!(guid()));
        operator().post(ADMIN, body).await.expect_refusal("VALIDATION_FAILED", &field, reason);
    }
    for (member, largest) in [
        ("Name", json!("я".repeat(256))),
        ("LegalName", json!("")),
        ("Description", json!("🏠".repeat(4000))),
        ("Website", json!(format!("https://example.org/{}", "a".repeat(236)))),
        ("FoundedYear", json!(1900)),
        ("FoundedYear", json!(2100)),
    ] {
        let written = manager(id).put(ME, with(profile(), member, largest.clone())).await.expect(200);
        assert_eq!(written[member], largest, "{member}");
    }
}

/// Section 1: contacts of unusual form are accepted where the form is valid. A phone number is stored in E.164, the others as they were sent.
/// A quoted local part of an e-mail address is one of them.
#[tokio::test]
async fn contacts_of_unusual_but_valid_form_are_accepted() {
    let id = create_developer().await;
    for (member, sent, stored) in [
        ("ContactPhone", "+74951234567", "+74951234567"),
        ("ContactPhone", "495.123.45.67", "+74951234567"),
        ("ContactPhone", "(+7) 495 123–45\u{a0}67", "+74951234567"),
        ("ContactPhone", "8 800 555-35-35", "+78005553535"),
        ("ContactPhone", "+1 (202) 555-0123", "+12025550123"),
        ("Website", "HTTP://Example.org:8080/a?b=c#d", "HTTP://Example.org:8080/a?b=c#d"),
        ("Website", "https://пример.рф/о-нас", "https://пример.рф/о-нас"),
        ("Website", "https://xn--e1afmkfd.xn--p1ai", "https://xn--e1afmkfd.xn--p1ai"),
        ("Website", "https://example.org/@name?mail=a@b", "https://example.org/@name?mail=a@b"),
        ("ContactEmail", "Anna.B+sales@mail.example.co", "Anna.B+sales@mail.example.co"),
        ("ContactEmail", "иван@пример.рф", "иван@пример.рф"),
        ("ContactEmail", "\"anna b\"@example.org", "\"anna b\"@example.org"),
    ] {
        let written = manager(id).put(ME, with(profile(), member, sent)).await.expect(200);
        assert_eq!(written[member], stored, "{sent}");
        assert_eq!(read(id).await[member], stored, "{sent}");
    }
    let longest = format!("{}@{}.org", "a".repeat(64), "b".repeat(63));
    let longest = with(profile(), "ContactEmail", longest);
    let written = manager(id).put(ME, longest.clone()).await.expect(200);
    assert_eq!(written["ContactEmail"], longest["ContactEmail"]);
}

/// Section 1, Highlights: whole, never rounded; none of the awards tells of a person.
#[tokio::test]
async fn highlights_are_within_their_bounds() {
    let id = create_developer().await;
    let award = |title: &str| json!([title]);
    for (member, value, field, reason) in [
        ("ContractVersion", json!(2), "/ContractVersion", "out_of_range"),
        ("ObjectsDeliveredCount", json!(-1), "/ObjectsDeliveredCount", "out_of_range"),
        ("ObjectsInProgressCount", json!(2_147_483_648_i64), "/ObjectsInProgressCount", "out_of_range"),
        ("YearsOnMarket", json!(201), "/YearsOnMarket", "out_of_range"),
        ("ReliabilityMax", json!(0), "/ReliabilityMax", "out_of_bounds"),
        ("ReliabilityMax", json!(1000.1), "/ReliabilityMax", "out_of_bounds"),
        ("ReliabilityMax", Value::Null, "/ReliabilityMax", "invalid_type"),
        ("ReliabilityValue", json!(9.55), "/ReliabilityValue", "too_precise"),
        ("ReliabilityValue", json!(-0.1), "/ReliabilityValue", "out_of_bounds"),
        ("ReliabilityValue", json!(10.1), "/ReliabilityValue", "out_of_bounds"),
        ("AwardTitles", json!(vec!["x"; 21]), "/AwardTitles", "too_many"),
        ("AwardTitles", award(&"я".repeat(257)), "/AwardTitles/0", "too_long"),
        ("AwardTitles", award("write to anna@example.org"), "/AwardTitles/0", "personal_data"),
        ("AwardTitles", award("anna@example.org...or call"), "/AwardTitles/0", "personal_data"),
        ("AwardTitles", award("call +7 495 123-45-67"), "/AwardTitles/0", "personal_data"),
    ] {
        let body = with(profile(), "Highlights", with(highlights(), member, value));
        let refused = manager(id).put(ME, body).await;
        refused.expect_refusal("VALIDATION_FAILED", &format!("/Highlights{field}"), reason);
    }
    for member in ["ContractVersion", "AwardTitles"] {
        let body = with(profile(), "Highlights", without(highlights(), member));
        manager(id).put(ME, body).await.expect_refusal(
            "VALIDATION_FAILED",
            &format!("/Highlights/{member}"),
            "required",
        );
    }
    for member in ["Highlights", "Name"] {
        let body = without(profile(), member);
        manager(id).put(ME, body).await.expect_refusal(
            "VALIDATION_FAILED",
            &format!("/{member}"),
            "required",
        );
    }
    let most = json!({
        "ContractVersion": 1, "ObjectsDeliveredCount": 2_147_483_647, "ObjectsInProgressCount": null,
        "YearsOnMarket": 200, "ReliabilityValue": 1000, "ReliabilityMax": 1000, "AwardTitles": vec!["x"; 20],
    });
    let written = manager(id).put(ME, with(profile(), "Highlights", most.clone())).await.expect(200);
    assert_eq!(written["Highlights"], most);
}

/// Conventions: all that is wrong with the values of a body is told at once, and no value is repeated.
#[tokio::test]
async fn every_faulty_member_is_told_and_no_value() {
    let id = create_developer().await;
    let body = json!({
        "Name": "", "LogoFileId": "geheim", "Website": "geheim", "ContactPhone": "geheim", "ContactEmail": "geheim",
        "FoundedYear": 1, "Highlights": {"ContractVersion": 7, "AwardTitles": [1, "geheim@example.org"]},
    });
    let problem = manager(id).put(ME, body).await.expect_problem(400, "VALIDATION_FAILED");
    let mut told: Vec<_> = each(&problem["errors"], "field").into_iter().map(text).collect();
    told.sort_unstable();
    let all = [
        "/ContactEmail",
        "/ContactPhone",
        "/FoundedYear",
        "/Highlights/AwardTitles/0",
        "/Highlights/AwardTitles/1",
        "/Highlights/ContractVersion",
        "/LogoFileId",
        "/Name",
        "/Website",
    ];
    assert_eq!(told, all);
    assert!(!problem.to_string().contains("geheim"));
}

/// Section 6: 401, 403, 400 of the request alone, 404, a `PUT` that changes nothing, the Version, then the operation's own.
#[tokio::test]
async fn refusals_come_in_their_order() {
    let nobody = service().caller(&holder(Some(guid()), &[]));
    nobody.put(ME, json!("x")).await.expect_problem(403, "FORBIDDEN");
    service().guest().put(ME, json!("x")).await.expect_problem(401, "UNAUTHORIZED");
    let missing = guid();
    let broken = with(profile(), "Name", "");
    manager(missing).put(ME, broken.clone()).await.expect_problem(400, "VALIDATION_FAILED");
    operator().put(&path(missing, ""), broken).await.expect_problem(400, "VALIDATION_FAILED");
    for answer in [
        manager(missing).put(ME, profile()).await,
        operator().put(&path(missing, ""), profile()).await,
        manager(missing).get(ME).await,
        manager(missing).get(&format!("{ME}/events")).await,
        operator().get(&path(missing, "/events")).await,
        operator().post(&path(missing, "/publish"), json!({"Version": 7})).await,
        operator().post(&path(missing, "/release"), json!({"Version": 7})).await,
        operator().delete(&path(missing, "")).await,
    ] {
        answer.expect_problem(404, "CHESSBOARD_DEVELOPER_NOT_FOUND");
    }
    let id = create_published_developer().await;
    for made in ["/publish", "/hide", "/withdraw", "/release"] {
        let stale = operator().post(&path(id, made), json!({"Version": 1})).await;
        stale.expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
        operator().post(&path(id, made), json!({"Version": "1"})).await.expect_refusal(
            "VALIDATION_FAILED",
            "/Version",
            "invalid_type",
        );
    }
    let stale = with(profile(), "Version", 1);
    operator().put(&path(id, ""), stale).await.expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
    assert_eq!(read(id).await["Version"], 3);
    operator()
        .post(&path(id, "/publish"), json!({"Version": 3}))
        .await
        .expect_problem(409, "CHESSBOARD_DEVELOPER_INVALID_TRANSITION");
}

/// Conventions: a Guid of a path that does not parse is 404, after 401 and 403, whatever the body.
#[tokio::test]
async fn what_is_no_id_is_not_found() {
    let id = create_developer().await;
    let nobody = service().caller(&holder(Some(id), &[]));
    let projects = "/api/v1/developers/projects";
    for (by, path) in [
        (operator(), format!("{ADMIN}/x")),
        (manager(id), format!("{projects}/x")),
        (manager(id), format!("{projects}/{id}/buildings/x")),
        (manager(id), format!("{projects}/{id}/buildings/{id}/property-objects/x")),
    ] {
        service().guest().put(&path, json!("x")).await.expect_problem(401, "UNAUTHORIZED");
        nobody.put(&path, json!("x")).await.expect_problem(403, "FORBIDDEN");
        by.put(&path, json!("x")).await.expect_problem(404, "NOT_FOUND");
    }
}

/// Section 6, `POST A`: unknown or of another Type, then live, then the outside id, which is refused where it is empty.
#[tokio::test]
async fn creations_are_refused_in_their_order() {
    let unknown = json!({"CompanyId": guid(), "ExternalChessboardDeveloperId": guid()});
    operator().post(ADMIN, unknown).await.expect_problem(422, "CHESSBOARD_DEVELOPER_COMPANY_NOT_FOUND");
    let agency = guid();
    crate::tell_company(&with(crate::company(agency, "Active", 1), "Type", "Agency")).await;
    let (live, holder) = (create_developer().await, create_developer().await);
    operator()
        .post(ADMIN, json!({"CompanyId": agency}))
        .await
        .expect_problem(422, "CHESSBOARD_DEVELOPER_COMPANY_NOT_FOUND");
    let outside = guid();
    operator().delete(&path(holder, "")).await.expect(204);
    let made = json!({"CompanyId": holder, "ExternalChessboardDeveloperId": outside});
    operator().post(ADMIN, made).await.expect(201);
    operator().delete(&path(holder, "")).await.expect(204);
    let taken = json!({"CompanyId": live, "ExternalChessboardDeveloperId": outside});
    operator().post(ADMIN, taken.clone()).await.expect_problem(409, "CHESSBOARD_DEVELOPER_ALREADY_EXISTS");
    operator().delete(&path(live, "")).await.expect(204);
    operator().post(ADMIN, taken).await.expect_problem(409, "CHESSBOARD_DEVELOPER_TALENT_DUPLICATE");
    for member in ["CompanyId", "ExternalChessboardDeveloperId"] {
        let empty = with(json!({"CompanyId": live}), member, json!(Uuid::nil()));
        let refused = operator().post(ADMIN, empty).await;
        refused.expect_refusal("VALIDATION_FAILED", &format!("/{member}"), "empty_id");
    }
    operator().post(ADMIN, json!({})).await.expect_refusal("VALIDATION_FAILED", "/CompanyId", "required");
}

/// Section 2: without a company in the token `me` is 403; the organization scope gives nothing on the admin routes.
#[tokio::test]
async fn scopes_reach_as_far_as_they_say() {
    let id = create_developer().await;
    service().caller(&holder(None, &[MANAGE_ALL])).get(ME).await.expect_problem(403, "FORBIDDEN");
    service().caller(&holder(Some(id), &[MANAGE_ALL])).get(ME).await.expect(200);
    service().caller(&holder(Some(id), &[MANAGE])).get(&path(id, "")).await.expect_problem(403, "FORBIDDEN");
}

/// Filters and paging of the list are refused by name, together.
#[tokio::test]
async fn faulty_queries_are_refused() {
    let query = "Status=draft&SyncSource=&IncludeDeleted=yes&Sort=Status&Page=0&PageSize=101";
    let problem = operator().get(&format!("{ADMIN}?{query}")).await.expect_problem(400, "VALIDATION_FAILED");
    let mut told: Vec<_> = each(&problem["errors"], "field").into_iter().map(text).collect();
    told.sort_unstable();
    assert_eq!(told, ["/IncludeDeleted", "/Page", "/PageSize", "/Sort", "/Status", "/SyncSource"]);
    let long = "a".repeat(201);
    operator().get(&format!("{ADMIN}?Query={long}")).await.expect_refusal(
        "VALIDATION_FAILED",
        "/Query",
        "too_long",
    );
}
