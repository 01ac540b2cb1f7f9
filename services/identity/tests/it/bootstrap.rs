//! The command `identity bootstrap`.

use std::process::Stdio;

use serde_json::json;
use testkit::issuer::Claims;
use testkit::service::{Running, issuer};
use tokio::process::Command;

use crate::{
    ADMIN_PERMISSIONS, AUDIT, ROLE_ASSIGNED, ROLES, STATUS_CHANGED, TENANTS, claims_with, each, guid,
    published, text, topics,
};

/// Runs a command of the binary beside a running service and returns its output, or its error.
pub async fn run(database_url: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_identity"));
    command.args(arguments).env("DATABASE_URL", database_url).env("AUTH_ISSUER", issuer().url());
    command.env("KAFKA_BROKERS", testkit::required("KAFKA_BROKERS").unwrap()).env("LOG", "off");
    let output = command.stdin(Stdio::null()).output().await.unwrap();
    let decode = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(decode(output.stdout)) } else { Err(decode(output.stderr)) }
}

/// RULE-IDN-018: the command creates the first administrator, who can create companies; a
/// second run fails.
#[tokio::test]
async fn bootstrap_creates_the_first_administrator_once() {
    let identity = Running::start::<identity::Service>(&[]);
    let user = guid();
    let id = user.to_string();
    let arguments = ["bootstrap", "--user", &id, "--name", " Ольга ", "--email", "olga@example.org"];
    run(&identity.database_url, &arguments).await.unwrap();

    let claims =
        identity.machine("issuer").get(&format!("/api/v1/internal/users/{user}/claims")).await.expect(200);
    assert_eq!(
        claims["Permissions"],
        json!(
            [crate::ADMIN_PERMISSIONS.as_slice(), &["news.posts.manage-own"]]
                .concat()
                .into_iter()
                .collect::<std::collections::BTreeSet<_>>()
        )
    );
    let company: uuid::Uuid = text(&claims["CompanyId"]).parse().unwrap();
    let admin = crate::ADMIN_PERMISSIONS
        .iter()
        .fold(Claims::user(user).company(company), |claims, permission| claims.permission(*permission));
    let admin = identity.caller(&admin);
    let created = admin.get(&format!("{TENANTS}/{company}")).await.expect(200);
    assert_eq!(
        (text(&created["Type"]), text(&created["Name"]), &created["EmployeesCount"]),
        ("Platform", "Platform", &json!(1))
    );
    let page = admin.get(&format!("{AUDIT}?ActorUserId={user}")).await.expect(200);
    assert_eq!(
        each(&page["Items"], "Action"),
        [&json!("RoleAssigned"), &json!("EmployeeCreated"), &json!("TenantCreated")]
    );
    let events = published(&identity, user).await;
    assert_eq!(topics(&events), [STATUS_CHANGED, ROLE_ASSIGNED]);
    assert!(events.iter().all(|event| event.payload["ByUserId"] == json!(user)), "{events:?}");
    admin.post(TENANTS, json!({"Name": "x", "Type": "Agency"})).await.expect(201);

    let again = ["bootstrap", "--user", &guid().to_string(), "--name", "x", "--email", "x@example.org"];
    let refused = run(&identity.database_url, &again).await.unwrap_err();
    assert!(refused.contains("already has an administrator"), "{refused}");
}

/// RULE-IDN-018: one of two concurrent commands creates a company.
#[tokio::test]
async fn one_of_two_concurrent_bootstraps_succeeds() {
    let identity = Running::start::<identity::Service>(&[]);
    let ids = [guid().to_string(), guid().to_string()];
    let arguments = |id| ["bootstrap", "--user", id, "--name", "x", "--email", "x@example.org"];
    let (one, other) = (arguments(ids[0].as_str()), arguments(ids[1].as_str()));
    let (one, other) = tokio::join!(run(&identity.database_url, &one), run(&identity.database_url, &other));
    assert_eq!([one.is_ok(), other.is_ok()].iter().filter(|done| **done).count(), 1, "{one:?} {other:?}");
}

/// RULE-IDN-018: the command succeeds beside a company of the operator that has no administrator.
#[tokio::test]
async fn company_without_administrator_does_not_block_bootstrap() {
    let identity = Running::start::<identity::Service>(&[]);
    let operator = identity.caller(&claims_with(None, &ADMIN_PERMISSIONS));
    operator.post(TENANTS, json!({"Name": "x", "Type": "Platform"})).await.expect(201);
    let user = guid();
    let id = user.to_string();
    let person = ["bootstrap", "--user", &id, "--name", "x", "--email", "x@example.org"];
    run(&identity.database_url, &[&person[..], &["--company", "y"]].concat()).await.unwrap();
    let found = operator.get(&format!("{TENANTS}/search?Types=Platform&Sort=Name")).await.expect(200);
    assert_eq!(each(&found["Items"], "Name"), [&json!("x"), &json!("y")]);
    assert_eq!(each(&found["Items"], "EmployeesCount"), [&json!(0), &json!(1)]);
    let held = identity.caller(&Claims::user(user)).get(&format!("{ROLES}/{user}/roles")).await.expect(200);
    assert_eq!(each(&held["Items"], "Code"), [&json!("platform-admin")]);
    assert_eq!(each(&held["Items"], "AssignedByUserId"), [&json!(user)]);
}

/// RULE-IDN-018: the error of an invalid argument leaves out the value.
#[tokio::test]
async fn invalid_argument_is_refused_without_its_value() {
    let identity = Running::start::<identity::Service>(&[]);
    let id = guid().to_string();
    for (name, address, wrong) in [("", "a@b.cd", "--name"), ("x", "no-at-sign", "--email")] {
        let arguments = ["bootstrap", "--user", &id, "--name", name, "--email", address];
        let refused = run(&identity.database_url, &arguments).await.unwrap_err();
        assert!(refused.contains(wrong) && !refused.contains("no-at-sign"), "{refused}");
    }
}
