//! Concurrent requests.

use futures_util::future::{join, join_all, join3};
use serde_json::json;
use testkit::client::Response;
use testkit::held::HeldLocks;

use crate::{
    ACCESS_REVOKED, EMPLOYEES, ROLE_ASSIGNED, ROLES, STATUS_CHANGED, SUSPENDED, UPSERTED, add_role, count,
    create_tenant, each, email, employee_path, guid, list, operator, published, remove_role, service, text,
    topics,
};

/// Number of repetitions of a race with more than one outcome.
const ROUNDS: usize = 8;

/// INV-IDN-003, RULE-ALL-031: of ten concurrent suspensions, one returns 200 with one pair of
/// events, and nine return 409.
#[tokio::test]
async fn one_of_ten_concurrent_tenant_suspensions_succeeds() {
    let tenant = create_tenant("Developer").await;
    let callers: [_; 10] = std::array::from_fn(|_| operator());
    let path = tenant.path("/suspend");
    let responses = join_all(callers.iter().map(|caller| caller.post(&path, json!({})))).await;
    assert_eq!((count(&responses, 200), count(&responses, 409)), (1, 9));
    assert_eq!(
        topics(&published(service(), tenant.0).await),
        [UPSERTED, UPSERTED, SUSPENDED, ACCESS_REVOKED]
    );
    assert_eq!(tenant.actions().await, ["TenantCreated", "TenantSuspended"]);
}

/// INV-IDN-003, RULE-IDN-053, RULE-EVT-002: concurrent changes publish each version once, and the
/// second of two changes that wait for one lock gets a conflict.
#[tokio::test]
async fn concurrent_changes_publish_each_version_once() {
    let tenant = create_tenant("Developer").await;
    let callers: [_; 10] = std::array::from_fn(|_| operator());
    let changes = callers.iter().enumerate().map(|(at, caller)| {
        let path = tenant.path("");
        async move { caller.put(&path, json!({"Name": format!("name {at}")})).await }
    });
    let responses = join_all(changes).await;
    let (done, lost) = (count(&responses, 200), count(&responses, 409));
    assert_eq!((done >= 1, done + lost), (true, 10));
    for response in responses.into_iter().filter(|response| response.status == 409) {
        response.expect_problem(409, "IDENTITY_CONCURRENCY_CONFLICT");
    }
    let lock = format!("select from tenant where id = '{}' for update", tenant.0);
    let held = HeldLocks::lock(service(), &lock).await;
    let change = async |name: &str| operator().put(&tenant.path(""), json!({"Name": name})).await;
    let (first, second) = held.queue(HeldLocks::ANY, change("first"), change("second")).await;
    assert_eq!(first.expect(200)["Version"], done + 2);
    second.expect_problem(409, "IDENTITY_CONCURRENCY_CONFLICT");
    // The broker received the events in this order.
    let events = service().published(tenant.0).await;
    let versions: Vec<_> = events.iter().map(|event| &event.payload["Version"]).collect();
    assert_eq!(json!(versions), json!((1..=done + 2).collect::<Vec<_>>()));
}

/// INV-IDN-004, RULE-IDN-047: of two concurrent employments of one user, one returns 201 and one
/// returns 409.
#[tokio::test]
async fn one_of_two_concurrent_employments_succeeds() {
    for _ in 0..ROUNDS {
        let (one, other) = (create_tenant("Developer").await, create_tenant("Agency").await);
        let user = guid();
        let employ = async |path: String| {
            operator().post(&path, json!({"UserId": user, "Name": "x", "Email": email()})).await
        };
        let (first, second) =
            join(employ(one.path("/administrators")), employ(other.path("/administrators"))).await;
        let responses = [first, second];
        assert_eq!((count(&responses, 201), count(&responses, 409)), (1, 1));
        for response in responses.into_iter().filter(|response| response.status == 409) {
            response.expect_problem(409, "IDENTITY_USER_ALREADY_EMPLOYED");
        }
    }
}

/// INV-IDN-008: two requests that each remove one of the last two administrators wait for one lock.
/// The first succeeds and the second gets 409. The test covers each pair of ways to remove an
/// administrator.
#[tokio::test]
async fn one_of_the_last_two_administrators_remains() {
    let ways = ["role", "suspension", "removal", "platform"];
    for (at, one) in ways.iter().enumerate() {
        for other in &ways[at..] {
            let tenant = create_tenant("Developer").await;
            let (first, second) = (tenant.admin().await.id, tenant.admin().await.id);
            let remove = async |way: &str, user| -> Response {
                let (outside_admin, path) = (tenant.outside_admin(), employee_path(user));
                match way {
                    "role" => remove_role(&outside_admin, user, 1).await,
                    "suspension" => outside_admin.post(&format!("{path}/suspend"), json!({})).await,
                    "removal" => outside_admin.delete(&path).await,
                    _ => operator().delete(&tenant.path(&format!("/employees/{user}"))).await,
                }
            };
            let lock = format!("select from tenant where id = '{}' for update", tenant.0);
            let held = HeldLocks::lock(service(), &lock).await;
            let (one_response, other_response) =
                held.queue(HeldLocks::ANY, remove(one, first), remove(other, second)).await;
            let responses = [one_response, other_response];
            assert_ne!(responses[0].status, 409, "{one} was first");
            assert_eq!(count(&responses, 409), 1, "{one} and {other}: {responses:?}");
            for response in responses.into_iter().filter(|response| response.status == 409) {
                response.expect_problem(409, "IDENTITY_LAST_ADMIN");
            }
        }
    }
}

/// INV-IDN-009: if two administrators concurrently remove each other's role, the second request
/// gets 403.
#[tokio::test]
async fn second_of_two_mutual_role_removals_is_forbidden() {
    for _ in 0..ROUNDS {
        let tenant = create_tenant("Agency").await;
        tenant.admin().await;
        let (one, other) = (tenant.admin().await, tenant.admin().await);
        let (first, second) =
            join(remove_role(&one.client, other.id, 6), remove_role(&other.client, one.id, 6)).await;
        let responses = [first, second];
        assert_eq!((count(&responses, 204), count(&responses, 403)), (1, 1), "{responses:?}");
    }
}

/// INV-IDN-006: a grant that waits for the actor's loss of role, suspension or removal is refused.
#[tokio::test]
async fn grant_after_the_actors_loss_of_permission_is_refused() {
    for (loss, entry, status) in [
        ("role", "RoleRemoved", 204),
        ("suspension", "EmployeeSuspended", 200),
        ("removal", "EmployeeRemoved", 204),
        ("platform", "EmployeeRemoved", 204),
    ] {
        let tenant = create_tenant("Developer").await;
        let (_remaining, loser) = (tenant.admin().await, tenant.admin().await);
        let (bob, outside_admin) = (tenant.employee().await, tenant.outside_admin());
        let take_away = async || match loss {
            "role" => remove_role(&outside_admin, loser.id, 1).await,
            "suspension" => {
                outside_admin.post(&format!("{}/suspend", employee_path(loser.id)), json!({})).await
            }
            "removal" => outside_admin.delete(&employee_path(loser.id)).await,
            _ => operator().delete(&tenant.path(&format!("/employees/{}", loser.id))).await,
        };
        let lock = format!("select from tenant where id = '{}' for update", tenant.0);
        let held = HeldLocks::lock(service(), &lock).await;
        let second = async {
            held.wait_for(1, HeldLocks::ANY).await;
            take_away().await
        };
        let third = async {
            held.wait_for(2, HeldLocks::ANY).await;
            add_role(&loser.client, bob, 3).await
        };
        let release = async {
            held.wait_for(3, HeldLocks::ANY).await;
            held.release().await;
        };
        let (early, lost, late, ()) = tokio::join!(add_role(&loser.client, bob, 2), second, third, release);
        early.expect(204);
        lost.expect(status);
        late.expect_problem(403, "FORBIDDEN");
        let actions = tenant.actions().await;
        let after_grant = actions.iter().rev().take_while(|action| *action != "RoleAssigned");
        let after_grant: Vec<_> = after_grant.map(String::as_str).collect();
        let expected = if entry == "EmployeeRemoved" { vec![entry, "RoleRemoved"] } else { vec![entry] };
        assert_eq!(after_grant, expected, "{loss}");
        let roles = outside_admin.get(&format!("{ROLES}/{bob}/roles")).await.expect(200);
        assert_eq!(each(&roles["Items"], "Code"), [&json!("developer-manager")]);
    }
}

/// INV-IDN-010, RULE-ALL-031: ten equal concurrent adds return 204 and leave one entry and one
/// event.
#[tokio::test]
async fn ten_concurrent_adds_of_a_role_write_one_entry_and_event() {
    let tenant = create_tenant("Agency").await;
    let bob = tenant.employee().await;
    let callers: [_; 10] = std::array::from_fn(|_| tenant.outside_admin());
    let responses = join_all(callers.iter().map(|caller| add_role(caller, bob, 7))).await;
    assert_eq!(count(&responses, 204), 10);
    let assigned = tenant.actions().await.into_iter().filter(|action| action == "RoleAssigned");
    assert_eq!(assigned.count(), 1);
    assert_eq!(topics(&published(service(), bob).await), [STATUS_CHANGED, ROLE_ASSIGNED]);
}

/// INV-IDN-011: `EmployeesCount` is exact after any mix of concurrent creates and removals.
#[tokio::test]
async fn employees_count_is_exact_after_concurrent_changes() {
    let tenant = create_tenant("Agency").await;
    let outside_admin = tenant.outside_admin();
    let mut employees = Vec::new();
    for _ in 0..6 {
        employees.push(tenant.employee().await);
    }
    let joining =
        join_all((0..10).map(|_| outside_admin.post(EMPLOYEES, json!({"Name": "x", "Email": email()}))));
    let paths: Vec<_> = employees.iter().map(|user| employee_path(*user)).collect();
    let leaving = join_all(paths.iter().chain(&paths).map(|path| outside_admin.delete(path)));
    let (joined, left) = join(joining, leaving).await;
    assert_eq!((count(&joined, 201), count(&left, 204), count(&left, 404)), (10, 6, 6));
    let all = outside_admin.get(EMPLOYEES).await.expect(200);
    assert_eq!((&all["TotalCount"], list(&all["Items"]).len()), (&json!(10), 10));
    assert_eq!(tenant.read().await["EmployeesCount"], 10);
}

/// RULE-IDN-010: an update without `Version` gets a conflict if a concurrent update was first. The
/// last two updates wait for one lock.
#[tokio::test]
async fn second_concurrent_update_of_an_employee_gets_a_conflict() {
    let tenant = create_tenant("Agency").await;
    let (outside_admin, path) = (tenant.outside_admin(), employee_path(tenant.employee().await));
    let changes =
        (0..10).map(|at| outside_admin.put(&path, json!({"Name": format!("name {at}"), "Email": email()})));
    let responses = join_all(changes).await;
    let (done, lost) = (count(&responses, 200), count(&responses, 409));
    assert_eq!((done >= 1, done + lost), (true, 10));
    for response in responses.into_iter().filter(|response| response.status == 409) {
        response.expect_problem(409, "IDENTITY_CONCURRENCY_CONFLICT");
    }
    let lock = format!("select from tenant where id = '{}' for update", tenant.0);
    let held = HeldLocks::lock(service(), &lock).await;
    let change = async |name: &str| outside_admin.put(&path, json!({"Name": name, "Email": email()})).await;
    let (first, second) = held.queue(HeldLocks::ANY, change("first"), change("second")).await;
    assert_eq!(first.expect(200)["Version"], done + 2);
    second.expect_problem(409, "IDENTITY_CONCURRENCY_CONFLICT");
    let updated = tenant.actions().await.into_iter().filter(|action| action == "EmployeeUpdated");
    assert_eq!(updated.count(), done + 1);
}

/// RULE-IDN-011: of ten concurrent suspensions, one returns 200 with one entry and one event, and
/// nine return 409.
#[tokio::test]
async fn one_of_ten_concurrent_employee_suspensions_succeeds() {
    let tenant = create_tenant("Agency").await;
    let (outside_admin, bob) = (tenant.outside_admin(), tenant.employee().await);
    let path = format!("{}/suspend", employee_path(bob));
    let responses = join_all((0..10).map(|_| outside_admin.post(&path, json!({})))).await;
    assert_eq!((count(&responses, 200), count(&responses, 409)), (1, 9));
    for response in responses.into_iter().filter(|response| response.status == 409) {
        response.expect_problem(409, "IDENTITY_EMPLOYEE_INVALID_TRANSITION");
    }
    assert_eq!(tenant.actions().await, ["TenantCreated", "EmployeeCreated", "EmployeeSuspended"]);
    let events = published(service(), bob).await;
    assert_eq!(topics(&events), [STATUS_CHANGED, STATUS_CHANGED, ACCESS_REVOKED]);
    let statuses: Vec<_> = events[..2].iter().map(|event| &event.payload["To"]).collect();
    assert_eq!(statuses, [&json!("Active"), &json!("Suspended")]);
}

/// RULE-IDN-022: the changes of one company have one order, and none follows its suspension.
#[tokio::test]
async fn no_employment_follows_a_concurrent_suspension() {
    for _ in 0..ROUNDS {
        let tenant = create_tenant("Agency").await;
        let (operator, outside_admin, bob) = (operator(), tenant.outside_admin(), tenant.employee().await);
        let path = tenant.path("/suspend");
        let joining =
            join_all((0..6).map(|_| outside_admin.post(EMPLOYEES, json!({"Name": "x", "Email": email()}))));
        let (joined, given, suspended) =
            join3(joining, add_role(&outside_admin, bob, 7), operator.post(&path, json!({}))).await;
        suspended.expect(200);
        assert_eq!(tenant.actions().await.last().map(String::as_str), Some("TenantSuspended"));
        assert_eq!(tenant.read().await["EmployeesCount"], 1 + count(&joined, 201));
        let late = joined.into_iter().filter(|response| response.status != 201);
        for response in late.chain((given.status != 204).then_some(given)) {
            response.expect_problem(409, "IDENTITY_TENANT_NOT_ACTIVE");
        }
    }
}

/// RULE-IDN-022: while one company is locked, another can be changed, by its administrators and by
/// the platform.
#[tokio::test]
async fn changes_of_different_companies_do_not_wait() {
    let platform = create_tenant("Platform").await;
    let (held, free) = (create_tenant("Agency").await, create_tenant("Agency").await);
    let admin = platform.admin().await;
    let sql = service().sql().await;
    sql.batch_execute(&format!("begin; select from tenant where id = '{}' for update", held.0))
        .await
        .unwrap();
    let path = held.path("/suspend");
    let stuck = async { admin.client.post(&path, json!({})).await };
    let rest = async {
        admin.client.post(&free.path("/suspend"), json!({})).await.expect(200);
        add_role(&free.outside_admin(), guid(), 7).await.expect_problem(404, "IDENTITY_USER_NOT_FOUND");
        sql.batch_execute("rollback").await.unwrap();
    };
    let (stuck, ()) = join(stuck, rest).await;
    stuck.expect(200);
}

/// RULE-IDN-022: transactions lock companies in the order of their ids, so mutual changes of two
/// companies do not deadlock.
#[tokio::test]
async fn mutual_changes_of_two_companies_do_not_deadlock() {
    let (one, other) = (create_tenant("Platform").await, create_tenant("Platform").await);
    let (of_one, of_other) = (one.admin().await, other.admin().await);
    for at in 0..ROUNDS {
        let name = json!({"Name": format!("name {at}")});
        let (first, second) =
            join(of_one.client.put(&other.path(""), name.clone()), of_other.client.put(&one.path(""), name))
                .await;
        assert_eq!(
            (text(&first.expect(200)["Status"]), text(&second.expect(200)["Status"])),
            ("Active", "Active")
        );
    }
}
