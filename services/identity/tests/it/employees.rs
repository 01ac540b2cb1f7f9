//! Employees of the caller's company.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::{Client, send};

use crate::{
    EMPLOYEES, add_role, count, create_tenant, each, email, employee_path, guid, list, operator, role,
    service, text, with,
};

/// RULE-IDN-010: `POST` returns an active employee with a new id and no role.
#[tokio::test]
async fn created_employee_is_active_without_roles() {
    let tenant = create_tenant("Agency").await;
    let address = format!("Anna.{}@Example.ORG", guid().simple());
    let created = tenant
        .outside_admin()
        .post(EMPLOYEES, json!({"Name": " Анна ", "Email": format!(" {address}\n")}))
        .await
        .expect(201);
    assert_eq!((text(&created["Name"]), text(&created["Email"])), ("Анна", &*address));
    assert_eq!(
        (text(&created["Status"]), &created["RoleCodes"], &created["Version"]),
        ("Active", &json!([]), &json!(1))
    );
    assert_eq!(text(&created["CompanyId"]), tenant.0.to_string());
    let path = employee_path(text(&created["Id"]).parse().unwrap());
    assert_eq!(tenant.outside_admin().get(&path).await.expect(200), created);
    assert_eq!(tenant.read().await["EmployeesCount"], 1);
    assert_eq!(tenant.read().await["Version"], 1, "a change of the count does not change the version");
}

/// RULE-IDN-010: a 400 lists every invalid member.
#[tokio::test]
async fn invalid_employee_body_lists_every_member() {
    let outside_admin = create_tenant("Agency").await.outside_admin();
    for (body, expected) in [
        (json!({}), vec!["/Email required", "/Name required"]),
        (json!({"Name": "", "Email": "anna"}), vec!["/Email bad_email", "/Name too_short"]),
        (json!({"Name": "a\0b", "Email": 5}), vec!["/Email invalid_type", "/Name forbidden_character"]),
        (
            json!({"Name": "x".repeat(257), "Email": format!("{}@example.org", "x".repeat(250))}),
            vec!["/Email too_long", "/Name too_long"],
        ),
    ] {
        let problem =
            outside_admin.post(EMPLOYEES, body.clone()).await.expect_problem(400, "VALIDATION_FAILED");
        let mut listed: Vec<_> = list(&problem["errors"])
            .iter()
            .map(|error| format!("{} {}", text(&error["field"]), text(&error["code"])))
            .collect();
        listed.sort();
        assert_eq!(listed, expected, "{body}");
    }
}

/// RULE-IDN-010: `PUT` replaces all members, and an identical body changes nothing. The version is
/// checked before the e-mail address.
#[tokio::test]
async fn update_replaces_name_and_email() {
    let tenant = create_tenant("Agency").await;
    let (outside_admin, path) = (tenant.outside_admin(), employee_path(tenant.employee().await));
    let before = outside_admin.get(&path).await.expect(200);
    let same = json!({"Name": before["Name"], "Email": before["Email"], "Version": 99});
    assert_eq!(outside_admin.put(&path, same).await.expect(200), before);

    let upper_case = text(&before["Email"]).to_uppercase();
    let after = outside_admin
        .put(&path, json!({"Name": "Борис", "Email": upper_case, "Version": 1}))
        .await
        .expect(200);
    assert_eq!(
        (text(&after["Email"]), &after["Version"]),
        (&*upper_case, &json!(2)),
        "the address is returned as written"
    );
    let taken = email();
    outside_admin.post(EMPLOYEES, json!({"Name": "x", "Email": taken})).await.expect(201);
    let stale = json!({"Name": "x", "Email": taken, "Version": 1});
    outside_admin.put(&path, stale.clone()).await.expect_problem(409, "IDENTITY_CONCURRENCY_CONFLICT");
    let current = with(stale, "Version", 2);
    outside_admin.put(&path, current).await.expect_problem(409, "IDENTITY_EMPLOYEE_EMAIL_TAKEN");
}

/// INV-IDN-005, RULE-IDN-048: an address belongs to one employee of a company, in any letter case,
/// and is free in another.
#[tokio::test]
async fn email_is_unique_in_a_company_in_any_letter_case() {
    let (tenant, other) = (create_tenant("Agency").await, create_tenant("Agency").await);
    let address = email();
    let body = json!({"Name": "x", "Email": address});
    let created = tenant.outside_admin().post(EMPLOYEES, body.clone()).await.expect(201);
    let upper_case = json!({"Name": "y", "Email": address.to_uppercase()});
    tenant
        .outside_admin()
        .post(EMPLOYEES, upper_case.clone())
        .await
        .expect_problem(409, "IDENTITY_EMPLOYEE_EMAIL_TAKEN");
    other.outside_admin().post(EMPLOYEES, upper_case.clone()).await.expect(201);
    tenant.outside_admin().delete(&employee_path(text(&created["Id"]).parse().unwrap())).await.expect(204);
    tenant.outside_admin().post(EMPLOYEES, upper_case).await.expect(201);
}

/// INV-IDN-011, RULE-IDN-011, RULE-IDN-049: suspension and activation keep the roles. A repeated
/// transition is refused before the version is checked.
#[tokio::test]
async fn suspension_and_activation_keep_roles() {
    let tenant = create_tenant("Developer").await;
    let (outside_admin, bob) = (tenant.outside_admin(), tenant.employee().await);
    add_role(&outside_admin, bob, 9).await.expect(204);
    let call =
        async |to: &str, body: Value| outside_admin.post(&format!("{}/{to}", employee_path(bob)), body).await;
    let invalid = "IDENTITY_EMPLOYEE_INVALID_TRANSITION";
    call("activate", json!({"Version": 9})).await.expect_problem(409, invalid);
    call("suspend", json!({"Version": 9})).await.expect_problem(409, "IDENTITY_CONCURRENCY_CONFLICT");
    let suspended = call("suspend", json!({"Version": 1})).await.expect(200);
    assert_eq!(
        (text(&suspended["Status"]), &suspended["RoleCodes"], &suspended["Version"]),
        ("Suspended", &json!(["content-editor"]), &json!(2))
    );
    call("suspend", json!({})).await.expect_problem(409, invalid);
    assert_eq!(tenant.read().await["EmployeesCount"], 1, "INV-IDN-011");
    assert_eq!(call("activate", json!({})).await.expect(200)["Status"], "Active");
}

/// RULE-IDN-011: a removal erases the row, and a repeated one returns 404. Another company can then
/// employ the user.
#[tokio::test]
async fn removed_employee_is_erased_and_can_be_employed_again() {
    let (tenant, next) = (create_tenant("Developer").await, create_tenant("Agency").await);
    let bob = tenant.employee().await;
    add_role(&tenant.outside_admin(), bob, 9).await.expect(204);
    tenant.outside_admin().delete(&employee_path(bob)).await.expect(204);
    tenant.outside_admin().delete(&employee_path(bob)).await.expect_problem(404, "IDENTITY_USER_NOT_FOUND");
    assert_eq!(tenant.read().await["EmployeesCount"], 0);
    let sql = service().sql().await;
    for (table, key) in [("employee", "id"), ("employee_role", "user_id")] {
        let rows = sql.query(&format!("select from {table} where {key} = '{bob}'"), &[]).await.unwrap();
        assert!(rows.is_empty(), "{table}");
    }
    let body = json!({"UserId": bob, "Name": "Борис", "Email": email()});
    operator().post(&next.path("/administrators"), body).await.expect(201);
}

/// RULE-IDN-011, RULE-ALL-081: a removal erases the stored responses with name and e-mail address.
/// A repeat of their requests then employs no user.
#[tokio::test]
async fn removed_employee_leaves_no_stored_response() {
    let tenant = create_tenant("Developer").await;
    // The last administrator cannot be removed.
    let body = json!({"Name": "x", "Email": email()});
    operator().post(&tenant.path("/administrators"), body).await.expect(201);
    let post = async |by: &Client, path: &str, key: &str, address: &str| {
        let request = by.request(Method::POST, path).header("Idempotency-Key", key);
        send(request.json(&json!({"Name": "Борис", "Email": address}))).await
    };
    for (by, path) in
        [(tenant.outside_admin(), EMPLOYEES.to_owned()), (operator(), tenant.path("/administrators"))]
    {
        let (key, address) = (guid().to_string(), email());
        let created = post(&by, &path, &key, &address).await.expect(201);
        assert_eq!(post(&by, &path, &key, &address).await.expect(201), created);
        operator().delete(&tenant.path(&format!("/employees/{}", text(&created["Id"])))).await.expect(204);
        post(&by, &path, &key, &address).await.expect_problem(422, "IDEMPOTENCY_KEY_REUSED");
        let stored = "select body from idempotent_response where key = $1";
        let row = service().sql().await.query_one(stored, &[&key]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), "", "{path}");
    }
    assert_eq!(tenant.read().await["EmployeesCount"], 1);
}

/// RULE-IDN-008, RULE-IDN-045: employees of an inactive tenant can be read but not changed.
#[tokio::test]
async fn employees_of_an_inactive_tenant_cannot_be_changed() {
    for to in ["suspend", "archive"] {
        let tenant = create_tenant("Developer").await;
        let (outside_admin, bob) = (tenant.outside_admin(), tenant.employee().await);
        let body = json!({"Name": "x", "Email": email(), "Version": 9});
        tenant.transition(to).await;
        let path = employee_path(bob);
        for response in [
            outside_admin.post(EMPLOYEES, body.clone()).await,
            outside_admin.put(&path, body).await,
            outside_admin.post(&format!("{path}/suspend"), json!({})).await,
            outside_admin.post(&format!("{path}/activate"), json!({})).await,
            outside_admin.delete(&path).await,
            add_role(&outside_admin, bob, 9).await,
        ] {
            response.expect_problem(409, "IDENTITY_TENANT_NOT_ACTIVE");
        }
        outside_admin.get(&path).await.expect(200);
        assert_eq!(list(&outside_admin.get(EMPLOYEES).await.expect(200)["Items"]).len(), 1);
        // Administrators of the platform can remove them, so that they can be employed elsewhere.
        operator().delete(&tenant.path(&format!("/employees/{bob}"))).await.expect(204);
    }
}

/// RULE-IDN-009: the list filters by any part of name or address, status and role, and sorts by
/// name or time.
#[tokio::test]
async fn list_of_employees_is_filtered_and_sorted() {
    let tenant = create_tenant("Developer").await;
    let outside_admin = tenant.outside_admin();
    let mut ids = Vec::new();
    for (name, address) in [("ёжик Ян", "hedgehog"), ("Борис 50%_", "boris"), ("анна", "ANNA.Kern")]
    {
        let body = json!({"Name": name, "Email": format!("{address}@example.org")});
        ids.push(text(&outside_admin.post(EMPLOYEES, body).await.expect(201)["Id"]).parse().unwrap());
    }
    add_role(&outside_admin, ids[2], 9).await.expect(204);
    outside_admin.post(&format!("{}/suspend", employee_path(ids[1])), json!({})).await.expect(200);
    let names = async |query: &str| -> Vec<String> {
        let page = outside_admin.get(&format!("{EMPLOYEES}?{query}")).await.expect(200);
        assert_eq!(page["TotalCount"], list(&page["Items"]).len());
        each(&page["Items"], "Name").into_iter().map(|name| text(name).to_owned()).collect()
    };
    let all = ["анна", "Борис 50%_", "ёжик Ян"];
    for (query, expected) in [
        ("", &all[..]),
        ("Sort=-Name", &["ёжик Ян", "Борис 50%_", "анна"][..]),
        ("Sort=CreatedAt", &["ёжик Ян", "Борис 50%_", "анна"][..]),
        ("Query=%20%20", &all[..]),
        ("Query=ЁЖИК", &["ёжик Ян"][..]),
        ("Query=ежик%C2%A0ян", &["ёжик Ян"][..]),
        ("Query=е%CC%88жи%E2%80%8Bк", &["ёжик Ян"][..]),
        ("Query=я", &["ёжик Ян"][..]),
        ("Query=%25_", &["Борис 50%_"][..]),
        ("Query=5%25", &[][..]),
        ("Query=kern%40EXAMPLE", &["анна"][..]),
        ("Query=example", &all[..]),
        ("Statuses=Suspended", &["Борис 50%_"][..]),
        ("Statuses=Suspended,Active", &all[..]),
        (&format!("RoleId={}", role(9)), &["анна"][..]),
        (&format!("RoleId={}", guid()), &[][..]),
        ("Query=example&Statuses=Active&Sort=-CreatedAt", &["анна", "ёжик Ян"][..]),
    ] {
        assert_eq!(names(query).await, expected, "{query}");
    }
    let page = outside_admin.get(&format!("{EMPLOYEES}?Page=2&PageSize=2")).await.expect(200);
    assert_eq!((each(&page["Items"], "Name"), &page["TotalCount"]), (vec![&json!("ёжик Ян")], &json!(3)));
    let seen = operator().get(&tenant.path("/employees?Query=АННА")).await.expect(200);
    assert_eq!(each(&seen["Items"], "Name"), [&json!("анна")]);
}

/// RULE-IDN-009: ties sort by id in both directions, and pages neither repeat nor skip an employee.
#[tokio::test]
async fn employees_with_equal_keys_sort_by_id() {
    let tenant = create_tenant("Agency").await;
    for name in ["Анна", "АННА", "анна", "аННа", "Анна"] {
        tenant.outside_admin().post(EMPLOYEES, json!({"Name": name, "Email": email()})).await.expect(201);
    }
    for sort in ["Name", "-Name"] {
        let mut ids = Vec::new();
        for page in 1..=3 {
            let query = format!("{EMPLOYEES}?Sort={sort}&PageSize=2&Page={page}");
            let found = tenant.outside_admin().get(&query).await.expect(200);
            assert_eq!(found["TotalCount"], 5);
            ids.extend(each(&found["Items"], "Id").into_iter().map(|id| text(id).to_owned()));
        }
        assert_eq!(ids.len(), 5, "{sort}");
        assert!(ids.is_sorted_by(|one, other| one < other), "{sort}: {ids:?}");
    }
}

/// INV-IDN-011: a new employee does not change the company's version, and a new role does not
/// change the employee's.
#[tokio::test]
async fn employments_and_roles_keep_version_and_update_time() {
    let tenant = create_tenant("Agency").await;
    let before = tenant.read().await;
    let (outside_admin, bob) = (tenant.outside_admin(), tenant.employee().await);
    let path = employee_path(bob);
    let before_role = outside_admin.get(&path).await.expect(200);
    add_role(&outside_admin, bob, 7).await.expect(204);
    assert_eq!(
        outside_admin.get(&path).await.expect(200),
        with(before_role.clone(), "RoleCodes", json!(["agent"]))
    );
    assert_eq!(tenant.read().await, with(before.clone(), "EmployeesCount", 1));
    crate::remove_role(&outside_admin, bob, 7).await.expect(204);
    assert_eq!(outside_admin.get(&path).await.expect(200), before_role);
    outside_admin.delete(&path).await.expect(204);
    assert_eq!(tenant.read().await, before);
}

/// RULE-IDN-009: a 400 lists every invalid parameter of the list.
#[tokio::test]
async fn invalid_list_query_lists_every_parameter() {
    let outside_admin = create_tenant("Agency").await.outside_admin();
    let query =
        format!("Query={}&Statuses=Active,,&RoleId=x&Page=0&PageSize=101&Sort=Email", "x".repeat(101));
    let problem =
        outside_admin.get(&format!("{EMPLOYEES}?{query}")).await.expect_problem(400, "VALIDATION_FAILED");
    let mut listed: Vec<_> = each(&problem["errors"], "field").into_iter().map(text).collect();
    listed.sort_unstable();
    assert_eq!(listed, ["/Page", "/PageSize", "/Query", "/RoleId", "/Sort", "/Statuses"]);
    outside_admin.get(&format!("{EMPLOYEES}?Query=a%00b")).await.expect_refusal(
        "VALIDATION_FAILED",
        "/Query",
        "forbidden_character",
    );
    outside_admin.get(&format!("{EMPLOYEES}?Page=501")).await.expect_refusal(
        "VALIDATION_FAILED",
        "/Page",
        "out_of_range",
    );
}

/// RULE-IDN-009: the list of an unknown company is empty, and the creation of an employee returns
/// 404.
#[tokio::test]
async fn unknown_company_has_no_employees() {
    let outside_admin = crate::Tenant(guid()).outside_admin();
    assert_eq!(outside_admin.get(EMPLOYEES).await.expect(200)["Items"], json!([]));
    assert_eq!(outside_admin.get("/api/identity/roles").await.expect(200)["Items"], json!([]));
    assert_eq!(outside_admin.get(crate::COMPANY_AUDIT).await.expect(200)["Items"], json!([]));
    let body = json!({"Name": "x", "Email": email()});
    outside_admin.post(EMPLOYEES, body).await.expect_problem(404, "IDENTITY_TENANT_NOT_FOUND");
}

/// INV-IDN-005: of ten concurrent creations with one e-mail address, one returns 201 and nine
/// return 409.
#[tokio::test]
async fn one_of_ten_concurrent_employees_gets_the_email() {
    let tenant = create_tenant("Agency").await;
    let callers: [_; 10] = std::array::from_fn(|_| tenant.outside_admin());
    let body = json!({"Name": "x", "Email": email()});
    let responses = join_all(callers.iter().map(|caller| caller.post(EMPLOYEES, body.clone()))).await;
    assert_eq!((count(&responses, 201), count(&responses, 409)), (1, 9));
    assert_eq!(tenant.read().await["EmployeesCount"], 1);
}
