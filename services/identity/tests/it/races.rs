//! What holds when requests race.

use futures_util::future::{join, join_all, join3};
use serde_json::json;
use testkit::client::Answer;
use testkit::held::Held;

use crate::{
    EMPLOYEES, ROLE_ASSIGNED, ROLES, STATUS_CHANGED, SUSPENDED, UPSERTED, add_role, count, create_tenant,
    each, email, employee_path, guid, list, operator, published, service, take_role, text, topics,
};

/// Rounds of a race whose outcome hangs on who is first.
const ROUNDS: usize = 8;

/// INV-IDN-003: of ten suspensions one is 200, with one pair of events; nine are 409.
#[tokio::test]
async fn of_ten_suspensions_one_happens() {
    let tenant = create_tenant("Developer").await;
    let callers: [_; 10] = std::array::from_fn(|_| operator());
    let path = tenant.path("/suspend");
    let answers = join_all(callers.iter().map(|caller| caller.post(&path, json!({})))).await;
    assert_eq!((count(&answers, 200), count(&answers, 409)), (1, 9));
    assert_eq!(topics(&published(service(), tenant.0).await), [UPSERTED, UPSERTED, SUSPENDED]);
    assert_eq!(tenant.actions().await, ["TenantCreated", "TenantSuspended"]);
}

/// INV-IDN-003: whatever changes race, each version is published once, and the second of two changes gets the conflict.
#[tokio::test]
async fn each_version_is_published_once_whatever_races() {
    let tenant = create_tenant("Developer").await;
    let callers: [_; 10] = std::array::from_fn(|_| operator());
    let changes = callers.iter().enumerate().map(|(at, caller)| {
        let path = tenant.path("");
        async move { caller.put(&path, json!({"Name": format!("name {at}")})).await }
    });
    let answers = join_all(changes).await;
    let (done, lost) = (count(&answers, 200), count(&answers, 409));
    assert_eq!((done >= 1, done + lost), (true, 10));
    for answer in answers.into_iter().filter(|answer| answer.status == 409) {
        answer.expect_problem(409, "IDENTITY_CONCURRENCY_CONFLICT");
    }
    assert_eq!(tenant.read().await["Version"], done + 1);
    // They arrive in this order.
    let events = service().published(tenant.0).await;
    let versions: Vec<_> = events.iter().map(|event| &event.payload["Version"]).collect();
    assert_eq!(json!(versions), json!((1..=done + 1).collect::<Vec<_>>()));
}

/// INV-IDN-004: of one person for two tenants, one is 201 and one is 409.
#[tokio::test]
async fn a_person_is_employed_once() {
    for _ in 0..ROUNDS {
        let (one, other) = (create_tenant("Developer").await, create_tenant("Agency").await);
        let user = guid();
        let employ = async |path: String| {
            operator().post(&path, json!({"UserId": user, "Name": "x", "Email": email()})).await
        };
        let (first, second) =
            join(employ(one.path("/administrators")), employ(other.path("/administrators"))).await;
        let answers = [first, second];
        assert_eq!((count(&answers, 201), count(&answers, 409)), (1, 1));
        for answer in answers.into_iter().filter(|answer| answer.status == 409) {
            answer.expect_problem(409, "IDENTITY_USER_ALREADY_EMPLOYED");
        }
    }
}

/// INV-IDN-008: the last two administrators are taken at once, in whichever ways: one is, one stays.
#[tokio::test]
async fn of_the_last_two_administrators_one_stays() {
    let ways = ["role", "suspension", "removal", "platform"];
    for (at, one) in ways.iter().enumerate() {
        for other in &ways[at..] {
            let tenant = create_tenant("Developer").await;
            let (first, second) = (tenant.admin().await.id, tenant.admin().await.id);
            let take = async |way: &str, user| -> Answer {
                let (partner, path) = (tenant.partner(), employee_path(user));
                match way {
                    "role" => take_role(&partner, user, 1).await,
                    "suspension" => partner.post(&format!("{path}/suspend"), json!({})).await,
                    "removal" => partner.delete(&path).await,
                    _ => operator().delete(&tenant.path(&format!("/employees/{user}"))).await,
                }
            };
            let (one_answer, other_answer) = join(take(one, first), take(other, second)).await;
            let answers = [one_answer, other_answer];
            assert_eq!(count(&answers, 409), 1, "{one} and {other}: {answers:?}");
            for answer in answers.into_iter().filter(|answer| answer.status == 409) {
                answer.expect_problem(409, "IDENTITY_LAST_ADMIN");
            }
        }
    }
}

/// INV-IDN-009: of two administrators who take each other's role, the second is 403.
#[tokio::test]
async fn of_two_who_take_each_others_role_one_does() {
    for _ in 0..ROUNDS {
        let tenant = create_tenant("Agency").await;
        tenant.admin().await;
        let (one, other) = (tenant.admin().await, tenant.admin().await);
        let (first, second) =
            join(take_role(&one.client, other.id, 6), take_role(&other.client, one.id, 6)).await;
        let answers = [first, second];
        assert_eq!((count(&answers, 204), count(&answers, 403)), (1, 1), "{answers:?}");
    }
}

/// INV-IDN-006: a grant that waits behind its giver's loss of the role, or behind their suspension, is refused. One before the loss
/// is kept. A giver who was removed is not covered: `actor::a_removed_administrator_is_judged_by_the_token`.
#[tokio::test]
async fn a_grant_after_its_givers_loss_of_role_or_activity_is_refused() {
    for (loss, entry, status) in [("role", "RoleRemoved", 204), ("suspension", "EmployeeSuspended", 200)] {
        let tenant = create_tenant("Developer").await;
        let (_stays, loser) = (tenant.admin().await, tenant.admin().await);
        let (bob, partner) = (tenant.employee().await, tenant.partner());
        let take_away = async || match loss {
            "role" => take_role(&partner, loser.id, 1).await,
            _ => partner.post(&format!("{}/suspend", employee_path(loser.id)), json!({})).await,
        };
        let lock = format!("select from tenant where id = '{}' for update", tenant.0);
        let held = Held::by(service(), &lock).await;
        let second = async {
            held.waiting(1, Held::ANY).await;
            take_away().await
        };
        let third = async {
            held.waiting(2, Held::ANY).await;
            add_role(&loser.client, bob, 3).await
        };
        let release = async {
            held.waiting(3, Held::ANY).await;
            held.release().await;
        };
        let (early, lost, late, ()) = tokio::join!(add_role(&loser.client, bob, 2), second, third, release);
        early.expect(204);
        lost.expect(status);
        late.expect_problem(403, "FORBIDDEN");
        let actions = tenant.actions().await;
        assert_eq!(actions[actions.len() - 2..], ["RoleAssigned", entry]);
        let roles = partner.get(&format!("{ROLES}/{bob}/roles")).await.expect(200);
        assert_eq!(each(&roles["Items"], "Code"), [&json!("developer-manager")]);
    }
}

/// INV-IDN-010: of ten equal adds all are 204, with one entry and one event.
#[tokio::test]
async fn of_ten_equal_adds_one_happens() {
    let tenant = create_tenant("Agency").await;
    let bob = tenant.employee().await;
    let callers: [_; 10] = std::array::from_fn(|_| tenant.partner());
    let answers = join_all(callers.iter().map(|caller| add_role(caller, bob, 7))).await;
    assert_eq!(count(&answers, 204), 10);
    let assigned = tenant.actions().await.into_iter().filter(|action| action == "RoleAssigned");
    assert_eq!(assigned.count(), 1);
    assert_eq!(topics(&published(service(), bob).await), [STATUS_CHANGED, ROLE_ASSIGNED]);
}

/// INV-IDN-011: the count is that of the employees after any mix of parallel creates and removals.
#[tokio::test]
async fn the_count_of_employees_is_right_whatever_races() {
    let tenant = create_tenant("Agency").await;
    let partner = tenant.partner();
    let mut there = Vec::new();
    for _ in 0..6 {
        there.push(tenant.employee().await);
    }
    let joining = join_all((0..10).map(|_| partner.post(EMPLOYEES, json!({"Name": "x", "Email": email()}))));
    let paths: Vec<_> = there.iter().map(|user| employee_path(*user)).collect();
    let leaving = join_all(paths.iter().chain(&paths).map(|path| partner.delete(path)));
    let (joined, left) = join(joining, leaving).await;
    assert_eq!((count(&joined, 201), count(&left, 204), count(&left, 404)), (10, 6, 6));
    let all = partner.get(EMPLOYEES).await.expect(200);
    assert_eq!((&all["TotalCount"], list(&all["Items"]).len()), (&json!(10), 10));
    assert_eq!(tenant.read().await["EmployeesCount"], 10);
}

/// Concurrency: an employee's changes are compared and swapped where no version is sent, too: who was second is told so.
#[tokio::test]
async fn whoever_describes_an_employee_second_is_told() {
    let tenant = create_tenant("Agency").await;
    let (partner, path) = (tenant.partner(), employee_path(tenant.employee().await));
    let changes =
        (0..10).map(|at| partner.put(&path, json!({"Name": format!("name {at}"), "Email": email()})));
    let answers = join_all(changes).await;
    let (done, lost) = (count(&answers, 200), count(&answers, 409));
    assert_eq!((done >= 1, done + lost), (true, 10));
    for answer in answers.into_iter().filter(|answer| answer.status == 409) {
        answer.expect_problem(409, "IDENTITY_CONCURRENCY_CONFLICT");
    }
    assert_eq!(partner.get(&path).await.expect(200)["Version"], done + 1);
    let updated = tenant.actions().await.into_iter().filter(|action| action == "EmployeeUpdated");
    assert_eq!(updated.count(), done);
}

/// Of ten suspensions of an employee one is 200, with one entry and one event; nine are repeats.
#[tokio::test]
async fn an_employee_is_suspended_once() {
    let tenant = create_tenant("Agency").await;
    let (partner, bob) = (tenant.partner(), tenant.employee().await);
    let path = format!("{}/suspend", employee_path(bob));
    let answers = join_all((0..10).map(|_| partner.post(&path, json!({})))).await;
    assert_eq!((count(&answers, 200), count(&answers, 409)), (1, 9));
    for answer in answers.into_iter().filter(|answer| answer.status == 409) {
        answer.expect_problem(409, "IDENTITY_EMPLOYEE_INVALID_TRANSITION");
    }
    assert_eq!(tenant.actions().await, ["TenantCreated", "EmployeeCreated", "EmployeeSuspended"]);
    let events = service().published(bob).await;
    assert_eq!(topics(&events), [STATUS_CHANGED, STATUS_CHANGED]);
    let moves: Vec<_> = events.iter().map(|event| &event.payload["To"]).collect();
    assert_eq!(moves, [&json!("Active"), &json!("Suspended")]);
}

/// Locks: what is done to a company, its employees and their roles stands in one order, and nothing after a suspension.
#[tokio::test]
async fn nobody_is_employed_after_a_suspension() {
    for _ in 0..ROUNDS {
        let tenant = create_tenant("Agency").await;
        let (operator, partner, bob) = (operator(), tenant.partner(), tenant.employee().await);
        let path = tenant.path("/suspend");
        let joining =
            join_all((0..6).map(|_| partner.post(EMPLOYEES, json!({"Name": "x", "Email": email()}))));
        let (joined, given, suspended) =
            join3(joining, add_role(&partner, bob, 7), operator.post(&path, json!({}))).await;
        suspended.expect(200);
        assert_eq!(tenant.actions().await.last().map(String::as_str), Some("TenantSuspended"));
        assert_eq!(tenant.read().await["EmployeesCount"], 1 + count(&joined, 201));
        let late = joined.into_iter().filter(|answer| answer.status != 201);
        for answer in late.chain((given.status != 204).then_some(given)) {
            answer.expect_problem(409, "IDENTITY_TENANT_NOT_ACTIVE");
        }
    }
}

/// Companies never wait for each other: while one is held, another is changed, also by its own administrators at the
/// platform.
#[tokio::test]
async fn companies_do_not_wait_for_each_other() {
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
        add_role(&free.partner(), guid(), 7).await.expect_problem(404, "IDENTITY_USER_NOT_FOUND");
        sql.batch_execute("rollback").await.unwrap();
    };
    let (stuck, ()) = join(stuck, rest).await;
    stuck.expect(200);
}

/// Locks are taken by id: administrators of two companies of the operator who change each other's do not block.
#[tokio::test]
async fn two_companies_that_change_each_other_do_not_block() {
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
