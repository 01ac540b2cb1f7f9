//! Rejections of requests about profiles, and their order.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::dev_profile::wait_for_company;
use crate::{
    ADMIN, MANAGE, MANAGE_ALL, ME, administrator, create_developer, create_published_developer, each, guid,
    highlights, manager, path, profile, read_developer, service, text, user_claims, with, without,
};

/// RULE-CHS-002: an invalid member returns 400 with its name, for each operation that takes a
/// profile.
#[tokio::test]
async fn invalid_profile_member_is_rejected() {
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
        ("Website", json!("http://."), "bad_url"),
        ("Website", json!("http://localhost:8080/"), "bad_url"),
        ("Website", json!("http://127.0.0.1/"), "bad_url"),
        ("Website", json!("http://[::1]/"), "bad_url"),
        ("Website", json!("https://intranet"), "bad_url"),
        ("Website", json!("https://exam\u{200b}ple.org"), "bad_url"),
        ("Website", json!(""), "too_short"),
        ("Website", json!(format!("https://example.org/{}", "a".repeat(237))), "too_long"),
        ("ContactPhone", json!("12"), "bad_phone"),
        ("ContactPhone", json!("+999123456789"), "bad_phone"),
        ("ContactPhone", json!("call me"), "bad_phone"),
        ("ContactPhone", json!("+7 495 123-45-6"), "bad_phone"),
        ("ContactPhone", json!("+7 495 123-45-67, Анна"), "bad_phone"),
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
        ("ContactEmail", json!("user@127.0.0.1"), "bad_email"),
        ("ContactEmail", json!("user@example.123"), "bad_email"),
        ("ContactEmail", json!("\"<script>alert(1)</script>\"@example.org"), "bad_email"),
        ("ContactEmail", json!("anna\u{200b}@example.org"), "bad_email"),
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
        administrator().put(&path(id, ""), body.clone()).await.expect_refusal(
            "VALIDATION_FAILED",
            &field,
            reason,
        );
        let body = with(body, "CompanyId", json!(guid()));
        administrator().post(ADMIN, body).await.expect_refusal("VALIDATION_FAILED", &field, reason);
    }
    for (member, bound) in [
        ("Name", json!("я".repeat(256))),
        ("LegalName", json!("")),
        ("Description", json!("🏠".repeat(4000))),
        ("Website", json!(format!("https://example.org/{}", "a".repeat(236)))),
        ("FoundedYear", json!(1900)),
        ("FoundedYear", json!(2100)),
    ] {
        let written = manager(id).put(ME, with(profile(), member, bound.clone())).await.expect(200);
        assert_eq!(written[member], bound, "{member}");
    }
}

/// RULE-CHS-002: contacts of unusual but valid form are accepted. A phone number is stored in
/// E.164, an e-mail address in normalization form C, and a web address as sent.
#[tokio::test]
async fn unusual_valid_contact_is_accepted() {
    let id = create_developer().await;
    for (member, sent, stored) in [
        ("ContactPhone", "+74951234567", "+74951234567"),
        ("ContactPhone", "495.123.45.67", "+74951234567"),
        ("ContactPhone", "(+7) 495 123–45\u{a0}67", "+74951234567"),
        ("ContactPhone", "8 800 555-35-35", "+78005553535"),
        ("ContactPhone", "+1 (202) 555-0123", "+12025550123"),
        ("ContactPhone", "\u{202d}+7 495 123-45-67\u{202c}", "+74951234567"),
        ("ContactPhone", "\u{200e}8 495 123-45-67\n", "+74951234567"),
        ("ContactPhone", "\u{ff0b}7 495 123-45-67", "+74951234567"),
        ("ContactPhone", "tel:+7-495-123-45-67", "+74951234567"),
        ("ContactPhone", "+7 [495] 123-45-67", "+74951234567"),
        ("ContactPhone", "+7 495 123-45-67 доб. 5", "+74951234567"),
        ("Website", "HTTP://Example.org:8080/a?b=c#d", "HTTP://Example.org:8080/a?b=c#d"),
        ("Website", "https://пример.рф/о-нас", "https://пример.рф/о-нас"),
        ("Website", "https://xn--e1afmkfd.xn--p1ai", "https://xn--e1afmkfd.xn--p1ai"),
        ("Website", "https://example.org/@name?mail=a@b", "https://example.org/@name?mail=a@b"),
        ("ContactEmail", "Anna.B+sales@mail.example.co", "Anna.B+sales@mail.example.co"),
        ("ContactEmail", "иван@пример.рф", "иван@пример.рф"),
        ("ContactEmail", "серге\u{438}\u{306}@пример.рф", "сергей@пример.рф"),
    ] {
        let written = manager(id).put(ME, with(profile(), member, sent)).await.expect(200);
        assert_eq!(written[member], stored, "{sent}");
        assert_eq!(read_developer(id).await[member], stored, "{sent}");
    }
    let longest = format!("{}@{}.org", "a".repeat(64), "b".repeat(63));
    let longest = with(profile(), "ContactEmail", longest);
    let written = manager(id).put(ME, longest.clone()).await.expect(200);
    assert_eq!(written["ContactEmail"], longest["ContactEmail"]);
}

/// RULE-CHS-002: highlights out of bounds are rejected and never rounded.
#[tokio::test]
async fn invalid_highlights_are_rejected() {
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
    let max = json!({
        "ContractVersion": 1, "ObjectsDeliveredCount": 2_147_483_647, "ObjectsInProgressCount": null,
        "YearsOnMarket": 200, "ReliabilityValue": 1000, "ReliabilityMax": 1000, "AwardTitles": vec!["x"; 20],
    });
    let written = manager(id).put(ME, with(profile(), "Highlights", max.clone())).await.expect(200);
    assert_eq!(written["Highlights"], max);
}

/// RULE-CHS-056: an award title with an e-mail address, a phone number or a secret is rejected, and
/// the response does not repeat it. Years, areas, prices and distances are accepted.
#[tokio::test]
async fn confidential_award_title_is_rejected() {
    let id = create_developer().await;
    let titled =
        |titles: &[&str]| with(profile(), "Highlights", with(highlights(), "AwardTitles", json!(titles)));
    for (title, reason) in [
        ("write to anna@example.org", "personal_data"),
        ("anna@example.org...or call", "personal_data"),
        ("call +7 495 123-45-67", "personal_data"),
        ("Звоните 8 (495) 123-45-67", "personal_data"),
        ("Звоните 8 (495) 123-45-67, Анна Иванова", "personal_data"),
        ("+7 [495] 123-45-67", "personal_data"),
        ("\u{202d}8 916 123-45-67\u{202c}", "personal_data"),
        ("Лучший дом 2025 84951234567", "personal_data"),
        // The two parts keep scanners for secrets from reporting this file.
        (concat!("sk_", "live_4eC39HqLyjWDarjtT1zdp7dc"), "secret"),
        (concat!("AKIA", "IOSFODNN7EXAMPLE"), "secret"),
        ("Bearer mF_9.B5f-4.1JqM2cdd0vKQ", "secret"),
        ("-----BEGIN PRIVATE KEY-----", "secret"),
        ("d41d8cd98f00b204e9800998ecf8427e", "secret"),
    ] {
        let body = titled(&["Лучший дом 2025", title]);
        let field = "/Highlights/AwardTitles/1";
        for refused in [
            manager(id).put(ME, body.clone()).await,
            administrator().put(&path(id, ""), body.clone()).await,
            administrator().post(ADMIN, with(body.clone(), "CompanyId", json!(guid()))).await,
        ] {
            assert!(!refused.text.contains(title), "{title}");
            refused.expect_refusal("VALIDATION_FAILED", field, reason);
        }
    }
    let harmless = [
        "Green Zoom A+ (2021-2022-2023)",
        "5+ 2020-2021-2022",
        "ТОП 500+ 2020 2021 2022",
        "Class A+ 2015 - 2016 - 2017",
        "Urban Awards + 2013 2014 2015 2016",
        "Green+ 2012-2013-2014",
        "Сделка на 9 161 234 567 ₽",
        "150 000 м² в 2020–2023, 1200 м до метро",
    ];
    let written = manager(id).put(ME, titled(&harmless)).await.expect(200);
    assert_eq!(written["Highlights"]["AwardTitles"], json!(harmless));
}

/// RULE-CHS-002: a 400 lists every invalid member and no value.
#[tokio::test]
async fn every_invalid_member_is_reported_without_value() {
    let id = create_developer().await;
    let body = json!({
        "Name": "", "LogoFileId": "secret", "Website": "secret", "ContactPhone": "secret", "ContactEmail": "secret",
        "FoundedYear": 1, "Highlights": {"ContractVersion": 7, "AwardTitles": [1]},
    });
    let problem = manager(id).put(ME, body).await.expect_problem(400, "VALIDATION_FAILED");
    let mut fields: Vec<_> = each(&problem["errors"], "field").into_iter().map(text).collect();
    fields.sort_unstable();
    let all = [
        "/ContactEmail",
        "/ContactPhone",
        "/FoundedYear",
        "/Highlights/AwardTitles/0",
        "/Highlights/ContractVersion",
        "/LogoFileId",
        "/Name",
        "/Website",
    ];
    assert_eq!(fields, all);
    assert!(!problem.to_string().contains("secret"));
}

/// RULE-CHS-010, RULE-CHS-013: the order is 401, 403, 400, 404, no change, `Version`, then the
/// operation's own codes.
#[tokio::test]
async fn developer_rejections_follow_order() {
    let unpermitted = service().caller(&user_claims(Some(guid()), &[]));
    unpermitted.put(ME, json!("x")).await.expect_problem(403, "FORBIDDEN");
    service().guest().put(ME, json!("x")).await.expect_problem(401, "UNAUTHORIZED");
    let missing = guid();
    let broken = with(profile(), "Name", "");
    manager(missing).put(ME, broken.clone()).await.expect_problem(400, "VALIDATION_FAILED");
    administrator().put(&path(missing, ""), broken).await.expect_problem(400, "VALIDATION_FAILED");
    for response in [
        manager(missing).put(ME, profile()).await,
        administrator().put(&path(missing, ""), profile()).await,
        manager(missing).get(ME).await,
        manager(missing).get(&format!("{ME}/events")).await,
        administrator().get(&path(missing, "/events")).await,
        administrator().post(&path(missing, "/publish"), json!({"Version": 7})).await,
        administrator().post(&path(missing, "/release"), json!({"Version": 7})).await,
        administrator().delete(&path(missing, "")).await,
    ] {
        response.expect_problem(404, "CHESSBOARD_DEVELOPER_NOT_FOUND");
    }
    let id = create_published_developer().await;
    for operation in ["/publish", "/hide", "/withdraw", "/release"] {
        let stale = administrator().post(&path(id, operation), json!({"Version": 1})).await;
        stale.expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
        administrator().post(&path(id, operation), json!({"Version": "1"})).await.expect_refusal(
            "VALIDATION_FAILED",
            "/Version",
            "invalid_type",
        );
    }
    let stale = with(profile(), "Version", 1);
    administrator().put(&path(id, ""), stale).await.expect_problem(409, "CHESSBOARD_CONCURRENCY_CONFLICT");
    assert_eq!(read_developer(id).await["Version"], 3);
    administrator()
        .post(&path(id, "/publish"), json!({"Version": 3}))
        .await
        .expect_problem(409, "CHESSBOARD_DEVELOPER_INVALID_TRANSITION");
}

/// RULE-CHS-010: a malformed id in a path returns 404, after 401 and 403 and before the body is
/// checked.
#[tokio::test]
async fn malformed_id_returns_404() {
    let id = create_developer().await;
    let unpermitted = service().caller(&user_claims(Some(id), &[]));
    let projects = "/api/v1/developers/projects";
    for (by, path) in [
        (administrator(), format!("{ADMIN}/x")),
        (manager(id), format!("{projects}/x")),
        (manager(id), format!("{projects}/{id}/buildings/x")),
        (manager(id), format!("{projects}/{id}/buildings/{id}/property-objects/x")),
    ] {
        service().guest().put(&path, json!("x")).await.expect_problem(401, "UNAUTHORIZED");
        unpermitted.put(&path, json!("x")).await.expect_problem(403, "FORBIDDEN");
        by.put(&path, json!("x")).await.expect_problem(404, "NOT_FOUND");
    }
}

/// INV-DEV-1, RULE-CHS-003, RULE-CHS-014, RULE-CHS-015, RULE-CHS-016: the order is an unknown
/// company or another type, a live profile, then the external id of another profile.
#[tokio::test]
async fn creation_rejections_follow_order() {
    let unknown = json!({"CompanyId": guid(), "ExternalChessboardDeveloperId": guid()});
    administrator().post(ADMIN, unknown).await.expect_problem(422, "CHESSBOARD_DEVELOPER_COMPANY_NOT_FOUND");
    let agency = guid();
    crate::publish_company(&with(crate::company_event(agency, "Active", 1), "Type", "Agency")).await;
    wait_for_company(agency, 1).await;
    let (live, owner) = (create_developer().await, create_developer().await);
    administrator()
        .post(ADMIN, json!({"CompanyId": agency}))
        .await
        .expect_problem(422, "CHESSBOARD_DEVELOPER_COMPANY_NOT_FOUND");
    let external_id = guid();
    administrator().delete(&path(owner, "")).await.expect(204);
    let created = json!({"CompanyId": owner, "ExternalChessboardDeveloperId": external_id});
    administrator().post(ADMIN, created).await.expect(201);
    administrator().delete(&path(owner, "")).await.expect(204);
    let taken = json!({"CompanyId": live, "ExternalChessboardDeveloperId": external_id});
    administrator()
        .post(ADMIN, taken.clone())
        .await
        .expect_problem(409, "CHESSBOARD_DEVELOPER_ALREADY_EXISTS");
    administrator().delete(&path(live, "")).await.expect(204);
    administrator().post(ADMIN, taken).await.expect_problem(409, "CHESSBOARD_DEVELOPER_TALENT_DUPLICATE");
    for member in ["CompanyId", "ExternalChessboardDeveloperId"] {
        let empty = with(json!({"CompanyId": live}), member, json!(Uuid::nil()));
        let refused = administrator().post(ADMIN, empty).await;
        refused.expect_refusal("VALIDATION_FAILED", &format!("/{member}"), "empty_id");
    }
    administrator().post(ADMIN, json!({})).await.expect_refusal(
        "VALIDATION_FAILED",
        "/CompanyId",
        "required",
    );
}

/// RULE-CHS-010, RULE-ALL-050: `me` requires a company in the token, and organization scope grants
/// nothing on administrator routes.
#[tokio::test]
async fn organization_scope_is_refused_on_administrator_routes() {
    let id = create_developer().await;
    service().caller(&user_claims(None, &[MANAGE_ALL])).get(ME).await.expect_problem(403, "FORBIDDEN");
    service().caller(&user_claims(Some(id), &[MANAGE_ALL])).get(ME).await.expect(200);
    service()
        .caller(&user_claims(Some(id), &[MANAGE]))
        .get(&path(id, ""))
        .await
        .expect_problem(403, "FORBIDDEN");
}

/// RULE-CHS-004: all invalid parameters of the list are reported together by name.
#[tokio::test]
async fn invalid_list_parameters_are_reported() {
    let query = "Status=draft&SyncSource=&IncludeDeleted=yes&Sort=Status&Page=0&PageSize=101";
    let problem =
        administrator().get(&format!("{ADMIN}?{query}")).await.expect_problem(400, "VALIDATION_FAILED");
    let mut fields: Vec<_> = each(&problem["errors"], "field").into_iter().map(text).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["/IncludeDeleted", "/Page", "/PageSize", "/Sort", "/Status", "/SyncSource"]);
    let long = "a".repeat(201);
    administrator().get(&format!("{ADMIN}?Query={long}")).await.expect_refusal(
        "VALIDATION_FAILED",
        "/Query",
        "too_long",
    );
}
