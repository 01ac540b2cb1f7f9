//! Hostile texts: control characters, invalid Unicode, tax numbers and e-mail addresses.

use reqwest::Method;
use serde_json::json;

use crate::hostile::{INVALID, raw};
use crate::{EMPLOYEES, TENANTS, create_tenant, each, email, employee_path, operator, tax_number, text};

/// RULE-IDN-036: a control character in a text returns 400, except line breaks and tabs in
/// `Reason`.
#[tokio::test]
async fn control_characters_are_refused_except_in_reasons() {
    let tenant = create_tenant("Agency").await;
    let (outside_admin, user) = (tenant.outside_admin(), tenant.employee().await);
    let controls: Vec<char> = (0..=0x9f).filter_map(char::from_u32).filter(|c| c.is_control()).collect();
    assert_eq!(controls.len(), 65);
    for control in controls {
        let text = format!("a{control}b");
        for member in ["Name", "LegalName"] {
            let mut body = json!({"Name": "x", "Type": "Agency"});
            body[member] = json!(text);
            let field = format!("/{member}");
            operator().post(TENANTS, body.clone()).await.expect_refusal(
                INVALID,
                &field,
                "forbidden_character",
            );
            operator().put(&tenant.path(""), body).await.expect_refusal(
                INVALID,
                &field,
                "forbidden_character",
            );
        }
        for (by, path) in
            [(&outside_admin, EMPLOYEES.to_owned()), (&operator(), tenant.path("/administrators"))]
        {
            let response = by.post(&path, json!({"Name": text, "Email": email()})).await;
            response.expect_refusal(INVALID, "/Name", "forbidden_character");
            let response = by.post(&path, json!({"Name": "x", "Email": format!("{text}@example.org")})).await;
            response.expect_refusal(INVALID, "/Email", "forbidden_character");
        }
        let response = outside_admin.put(&employee_path(user), json!({"Name": text, "Email": email()})).await;
        response.expect_refusal(INVALID, "/Name", "forbidden_character");
        for to in ["suspend", "archive"] {
            if !matches!(control, '\n' | '\r' | '\t') {
                let response =
                    operator().post(&tenant.path(&format!("/{to}")), json!({"Reason": text})).await;
                response.expect_refusal(INVALID, "/Reason", "forbidden_character");
            }
        }
    }
    let reason = "a\r\n\tb\nc";
    let suspended =
        operator().post(&tenant.path("/suspend"), json!({"Reason": format!(" {reason} ")})).await.expect(200);
    assert_eq!(suspended["SuspensionReason"], reason);
    assert_eq!(tenant.entries().await.last().unwrap()["Reason"], reason);
}

/// RULE-IDN-036: a broken UTF-16 surrogate and invalid UTF-8 return 400.
#[tokio::test]
async fn invalid_unicode_is_refused() {
    let tenant = create_tenant("Agency").await;
    let outside_admin = tenant.outside_admin();
    for escape in ["\\ud800", "\\udc00", "\\udc00\\ud800", "\\ud800x"] {
        for (by, method, path, body) in [
            (
                &operator(),
                Method::POST,
                TENANTS.to_owned(),
                format!("{{\"Type\":\"Agency\",\"Name\":\"{escape}\"}}"),
            ),
            (&operator(), Method::POST, tenant.path("/suspend"), format!("{{\"Reason\":\"a{escape}\"}}")),
            (
                &outside_admin,
                Method::POST,
                EMPLOYEES.to_owned(),
                format!("{{\"Email\":\"a@b.cd\",\"Name\":\"{escape}\"}}"),
            ),
        ] {
            raw(by, method, &path, body).await.expect_problem(400, INVALID);
        }
    }
    let bytes =
        raw(&operator(), Method::POST, TENANTS, &b"{\"Type\":\"Agency\",\"Name\":\"\xff\"}"[..]).await;
    bytes.expect_refusal(INVALID, "", "malformed");
    let paired =
        raw(&operator(), Method::POST, TENANTS, "{\"Type\":\"Agency\",\"Name\":\"\\ud83c\\udfe0\"}").await;
    assert_eq!(paired.expect(201)["Name"], "🏠");
}

/// RULE-IDN-036, RULE-ALL-006: texts are trimmed, then counted in Unicode scalar values, then
/// stored.
#[tokio::test]
async fn text_is_trimmed_before_its_length_is_checked() {
    let tenant = create_tenant("Agency").await;
    let outside_admin = tenant.outside_admin();
    let of = |count: usize| "🏠".repeat(count);
    let around = |text: String| format!(" \u{a0}\u{2003}{text}\u{3000} ");
    let created = operator()
        .post(TENANTS, json!({"Name": around(of(256)), "LegalName": around(of(512)), "Type": "Agency"}))
        .await
        .expect(201);
    assert_eq!((text(&created["Name"]), text(&created["LegalName"])), (&*of(256), &*of(512)));
    let created = outside_admin
        .post(EMPLOYEES, json!({"Name": around(of(256)), "Email": around(email())}))
        .await
        .expect(201);
    assert_eq!(text(&created["Name"]), of(256));
    assert!(!text(&created["Email"]).contains(char::is_whitespace));
    let suspended =
        operator().post(&tenant.path("/suspend"), json!({"Reason": around(of(1000))})).await.expect(200);
    assert_eq!(text(&suspended["SuspensionReason"]), of(1000));
    for (name, legal_name, field, why) in [
        (of(257), of(1), "/Name", "too_long"),
        (of(1), of(513), "/LegalName", "too_long"),
        (String::new(), of(1), "/Name", "too_short"),
        (around(String::new()), of(1), "/Name", "too_short"),
        (of(1), String::new(), "/LegalName", "too_short"),
        (of(1), around(String::new()), "/LegalName", "too_short"),
    ] {
        let body = json!({"Name": name, "LegalName": legal_name, "Type": "Agency"});
        operator().post(TENANTS, body.clone()).await.expect_refusal(INVALID, field, why);
        operator().put(&tenant.path(""), body).await.expect_refusal(INVALID, field, why);
    }
    for (reason, why) in
        [(String::new(), "too_short"), (around(String::new()), "too_short"), (of(1001), "too_long")]
    {
        for to in ["suspend", "archive"] {
            let response = operator().post(&tenant.path(&format!("/{to}")), json!({"Reason": reason})).await;
            response.expect_refusal(INVALID, "/Reason", why);
        }
    }
}

/// RULE-IDN-036: `TaxNumber` has 10 or 12 ASCII digits.
#[tokio::test]
async fn tax_number_has_10_or_12_ascii_digits() {
    for wrong in [
        "",
        "1",
        "123456789",
        "12345678901",
        "1234567890123",
        " 1234567890",
        "1234567890 ",
        "123456789a",
        "-123456789",
        "+123456789",
        "１２３４５６７８９０",
        "١٢٣٤٥٦٧٨٩٠",
        "1234567.90",
        "1234567890\0",
        "1234567890\n",
    ] {
        let response =
            operator().post(TENANTS, json!({"Name": "x", "Type": "Agency", "TaxNumber": wrong})).await;
        response.expect_refusal(INVALID, "/TaxNumber", "bad_tax_number");
    }
    for wrong in [json!(1_234_567_890), json!(true), json!([]), json!({})] {
        let response =
            operator().post(TENANTS, json!({"Name": "x", "Type": "Agency", "TaxNumber": wrong})).await;
        response.expect_refusal(INVALID, "/TaxNumber", "invalid_type");
    }
    for right in [tax_number(), tax_number()[..10].to_owned()] {
        let created = operator()
            .post(TENANTS, json!({"Name": "x", "Type": "Agency", "TaxNumber": right}))
            .await
            .expect(201);
        assert_eq!(created["TaxNumber"], right);
    }
}

/// INV-IDN-005: an address is parsed and returned as it was written.
#[tokio::test]
async fn email_is_parsed_and_returned_as_written() {
    let outside_admin = create_tenant("Agency").await.outside_admin();
    for written in [
        "Anna.Smith@Example.ORG",
        "a+tag@example.org",
        "иван@пример.рф",
        "o'brien@example.org",
        "a@sub.sub.example.co",
        "x@xn--e1afmkfd.xn--p1ai",
        "_@example.org",
    ] {
        let created = outside_admin
            .post(EMPLOYEES, json!({"Name": "x", "Email": format!(" {written} ")}))
            .await
            .expect(201);
        assert_eq!(created["Email"], written);
    }
    let long = format!("{}@{}.org", "a".repeat(64), vec!["b".repeat(60); 4].join("."));
    for wrong in [
        "",
        "x",
        "@",
        "a@",
        "@example.org",
        "a@b@example.org",
        "a b@example.org",
        "a@exa mple.org",
        "a..b@example.org",
        ".a@example.org",
        "a.@example.org",
        "a@.org",
        "a@example..org",
        "a@-example.org",
        "Anna <a@example.org>",
        "a@example.org,b@example.org",
        "mailto:a@example.org ",
        "a@example.org\u{200b}",
        "a@[127.0.0.1]",
        "\"a b\"@example.org",
        long.as_str(),
    ] {
        let response = outside_admin.post(EMPLOYEES, json!({"Name": "x", "Email": wrong})).await;
        let problem = response.expect_problem(400, INVALID);
        assert_eq!(each(&problem["errors"], "field"), [&json!("/Email")], "{wrong}");
    }
}

/// INV-IDN-005: an address is unique in any letter case of any script, and free in another company.
#[tokio::test]
async fn email_is_unique_in_any_letter_case_of_any_script() {
    let (tenant, other) = (create_tenant("Agency").await, create_tenant("Agency").await);
    for (one, another) in [
        ("anna@example.org", "ANNA@Example.ORG"),
        ("иван@пример.рф", "ИВАН@ПРИМЕР.РФ"),
        ("οδος@example.org", "ΟΔΟΣ@example.org"),
        ("straße@example.org", "STRAẞE@example.org"),
    ] {
        tenant.outside_admin().post(EMPLOYEES, json!({"Name": "x", "Email": one})).await.expect(201);
        let taken = tenant.outside_admin().post(EMPLOYEES, json!({"Name": "x", "Email": another})).await;
        taken.expect_problem(409, "IDENTITY_EMPLOYEE_EMAIL_TAKEN");
        other.outside_admin().post(EMPLOYEES, json!({"Name": "x", "Email": another})).await.expect(201);
    }
    // An employee's own address in another letter case is no conflict.
    let found = tenant.outside_admin().get(&format!("{EMPLOYEES}?Query=anna")).await.expect(200);
    let path = employee_path(text(&found["Items"][0]["Id"]).parse().unwrap());
    let changed = tenant
        .outside_admin()
        .put(&path, json!({"Name": "x", "Email": "Anna@example.org"}))
        .await
        .expect(200);
    assert_eq!((&changed["Email"], &changed["Version"]), (&json!("Anna@example.org"), &json!(2)));
}
