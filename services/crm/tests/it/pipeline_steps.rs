//! Pipelines of developers.

use serde_json::{Value, json};
use testkit::client::Response;
use testkit::issuer::Claims;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use crate::rows::{deal_row, insert_deals};
use crate::{
    CARE, DEVELOPER_UPSERTED, MANAGE, MANAGE_OWN, OWN, PIPELINE_OWN, PLATFORM, READ_OWN, create_developer,
    developer, each, guid, list, manager, platform, publish, publish_developer, service, start, steps, text,
    user_with, with, without,
};

const STEPS: &str = "/pipeline-steps";

async fn read(developer: Uuid) -> Value {
    let all = platform().get(&format!("{PLATFORM}{STEPS}?TenantId={developer}")).await.expect(200);
    let own = manager(developer).get(&format!("{OWN}{STEPS}")).await.expect(200);
    assert_eq!(all, own, "both route families return the same");
    all
}

async fn put(developer: Uuid, body: &Value) -> Response {
    manager(developer).put(&format!("{OWN}{STEPS}"), body.clone()).await
}

/// Replaces the live steps.
async fn put_steps(developer: Uuid, steps: &[Value]) -> Value {
    put(developer, &json!({"Steps": steps})).await.expect(200)
}

/// Returns the item of a request that keeps a step.
fn listed(step: &Value) -> Value {
    json!({"Id": step["Id"], "Group": step["Group"], "Name": step["Name"], "IsDefault": step["IsDefault"]})
}

fn new(group: &str, name: &str) -> Value {
    json!({"Group": group, "Name": name})
}

fn names(steps: &Value) -> Vec<&str> {
    each(list(steps), "Name").into_iter().map(text).collect()
}

fn live(pipeline: &Value) -> Vec<Value> {
    list(&pipeline["Steps"]).iter().filter(|step| step["ArchivedAt"].is_null()).cloned().collect()
}

/// RULE-CRM-052: the default pipeline has seven steps, two of Application and of Contract. The
/// first step of each group is its default.
#[tokio::test]
async fn new_developer_has_the_default_pipeline() {
    let developer = create_developer().await;
    let pipeline = read(developer).await;
    assert_eq!(
        (&pipeline["TenantId"], &pipeline["DeveloperName"], &pipeline["Version"]),
        (&json!(developer), &json!("Ромашка"), &json!(1))
    );
    let steps = list(&pipeline["Steps"]);
    let groups = ["Application", "Application", "Booking", "Contract", "Contract", "Completed", "Cancelled"];
    assert_eq!(each(steps, "Group"), groups);
    assert_eq!(
        each(steps, "IsDefault"),
        [true, false, true, true, false, true, true].map(|is| json!(is)).iter().collect::<Vec<_>>()
    );
    assert_eq!(
        each(steps, "SortOrder"),
        (0..7).map(|at| json!(at)).collect::<Vec<_>>().iter().collect::<Vec<_>>()
    );
    assert_eq!(names(&pipeline["Steps"])[..2], ["New", "Negotiation"]);
    assert!(steps.iter().all(|step| step["TenantId"] == json!(developer) && step["ArchivedAt"].is_null()));
}

/// RULE-CRM-052: the step names come from the message file of the default language.
#[tokio::test]
async fn default_pipeline_uses_the_default_language() {
    let russian = start(&[("DEFAULT_LANGUAGE", "ru")]);
    let id = guid();
    publish(&russian, DEVELOPER_UPSERTED, "Id", &developer(id)).await;
    let by = russian.caller(&user_with(None, &[CARE]));
    let path = format!("{PLATFORM}{STEPS}?TenantId={id}");
    let pipeline = by.get(&path).await.expect(200);
    let expected = ["Новая", "Переговоры", "Бронь", "Договор", "Регистрация", "Завершена", "Отменена"];
    assert_eq!(names(&pipeline["Steps"]), expected);
}

/// RULE-CRM-052: only the first event of a developer creates the default pipeline.
#[tokio::test]
async fn later_developer_event_keeps_the_pipeline() {
    let developer_id = create_developer().await;
    let before = put_steps(developer_id, &[new("Application", "one")]).await;
    publish_developer(&with(developer(developer_id), "Name", "Лютик")).await;
    assert_eq!(read(developer_id).await, with(before, "DeveloperName", "Лютик"));
}

/// RULE-CRM-053: the new order is by group, then as sent, with `SortOrder` 0..N-1. A listed step
/// keeps its id, and an omitted step becomes archived.
#[tokio::test]
async fn replacement_makes_the_sent_steps_live() {
    let developer = create_developer().await;
    let before = steps(developer).await;
    let wanted = [
        new("Cancelled", "lost"),
        listed(&before[3]),
        with(listed(&before[1]), "Name", "\u{2003}Талк \u{a0}\n"),
        new("Completed", "done"),
        with(new("Application", "first"), "IsDefault", true),
        with(new("Contract", "signed"), "IsDefault", Value::Null),
    ];
    let after = put_steps(developer, &wanted).await;
    assert_eq!(after, read(developer).await);
    assert_eq!(after["Version"], 2);
    let live = live(&after);
    let got = json!(
        live.iter()
            .map(|step| json!([step["Group"], step["Name"], step["SortOrder"], step["IsDefault"]]))
            .collect::<Vec<_>>()
    );
    let contract = text(&before[3]["Name"]);
    assert_eq!(
        got,
        json!([
            ["Application", "Талк", 0, false],
            ["Application", "first", 1, true],
            ["Contract", contract, 2, true],
            ["Contract", "signed", 3, false],
            ["Completed", "done", 4, false],
            ["Cancelled", "lost", 5, false],
        ])
    );
    assert_eq!((&live[0]["Id"], &live[2]["Id"]), (&before[1]["Id"], &before[3]["Id"]));
    let archived: Vec<_> = list(&after["Steps"])[6..].iter().map(|step| &step["Id"]).collect();
    let mut expected: Vec<_> = [0, 2, 4, 5, 6].map(|at: usize| &before[at]["Id"]).to_vec();
    let by_text = |id: &&Value| text(id).to_owned();
    expected.sort_by_key(by_text);
    let mut sorted = archived.clone();
    sorted.sort_by_key(by_text);
    assert_eq!(sorted, expected, "omitted steps are archived");
    assert!(
        list(&after["Steps"])[6..]
            .iter()
            .all(|step| step["ArchivedAt"].is_string() && step["IsDefault"] == false)
    );
}

/// RULE-CRM-053: one replacement may move the default of a group to another step, in either order.
/// A group may have no default.
#[tokio::test]
async fn default_step_can_be_swapped() {
    let developer = create_developer().await;
    let before = steps(developer).await;
    // The steps 0 and 3 are the first ones of Application and Contract.
    let all = |is_first: bool| -> Vec<Value> {
        let swapped = |step: &Value| match text(&step["Group"]) {
            "Application" | "Contract" => with(
                listed(step),
                "IsDefault",
                (step["SortOrder"] == 0 || step["SortOrder"] == 3) == is_first,
            ),
            _ => listed(step),
        };
        before.iter().map(swapped).collect()
    };
    for (is_first, version) in [(false, 2), (true, 3), (false, 4)] {
        let after = put_steps(developer, &all(is_first)).await;
        assert_eq!(
            (&after["Steps"][0]["IsDefault"], &after["Steps"][1]["IsDefault"]),
            (&json!(is_first), &json!(!is_first))
        );
        assert_eq!(after["Version"], version);
    }
    let none: Vec<Value> = before.iter().map(|step| without(listed(step), "IsDefault")).collect();
    let after = put_steps(developer, &none).await;
    assert!(list(&after["Steps"]).iter().all(|step| step["IsDefault"] == false));
}

/// RULE-CRM-053: the `Id` of an archived step makes it live again, together with the deals in it.
#[tokio::test]
async fn archived_step_is_restored_by_its_id() {
    let developer = create_developer().await;
    let before = steps(developer).await;
    let deal = insert_deals(&[deal_row(&before[0])]).await[0];
    put_steps(developer, &[listed(&before[1])]).await;
    let view = platform().get(&format!("{PLATFORM}/deals/{deal}")).await.expect(200);
    assert_eq!((&view["StepId"], &view["StepName"]), (&before[0]["Id"], &before[0]["Name"]), "deals stay");
    let back =
        put_steps(developer, &[with(listed(&before[0]), "Name", "restored"), listed(&before[1])]).await;
    assert_eq!(back["Version"], 3);
    let first = &back["Steps"][0];
    assert_eq!(
        (&first["Id"], &first["Name"], &first["ArchivedAt"]),
        (&before[0]["Id"], &json!("restored"), &Value::Null)
    );
    assert_eq!(first["IsDefault"], true);
}

/// RULE-CRM-053: archived steps are listed newest first, at most 100. Steps beyond can be restored
/// too.
#[tokio::test]
async fn response_shows_at_most_100_archived_steps() {
    let developer = create_developer().await;
    let before = steps(developer).await;
    let fill = |round: usize| (0..50).map(|at| new("Booking", &format!("{round}-{at}"))).collect::<Vec<_>>();
    for round in 0..3 {
        put_steps(developer, &fill(round)).await;
    }
    let after = read(developer).await;
    let shown = list(&after["Steps"]);
    assert_eq!((live(&after).len(), shown.len()), (50, 150));
    let archived: Vec<&str> = shown[50..].iter().map(|step| text(&step["Name"])).collect();
    assert!(archived[..50].iter().all(|name| name.starts_with("1-")), "{archived:?}");
    assert!(archived[50..].iter().all(|name| name.starts_with("0-")), "{archived:?}");
    let back = put_steps(developer, &[listed(&before[6])]).await;
    assert_eq!(back["Steps"][0]["Id"], before[6]["Id"]);
    assert_eq!(list(&back["Steps"]).len(), 101);
}

/// RULE-CRM-053: an identical replacement returns 200 with any `Version`, and writes nothing.
#[tokio::test]
async fn identical_replacement_changes_nothing() {
    let developer = create_developer().await;
    let before = read(developer).await;
    let same: Vec<Value> = list(&before["Steps"]).iter().map(listed).collect();
    for version in [Value::Null, json!(1), json!(7), json!(-1)] {
        let body = json!({"Steps": same, "Version": version});
        assert_eq!(put(developer, &body).await.expect(200), before);
    }
    let in_other_order: Vec<Value> = [6, 5, 3, 4, 2, 0, 1].map(|at: usize| same[at].clone()).to_vec();
    assert_eq!(
        put_steps(developer, &in_other_order).await,
        before,
        "the order between groups does not matter"
    );
}

/// RULE-CRM-053, RULE-CRM-062: a `Version` other than the current one is 409.
#[tokio::test]
async fn stale_version_is_a_conflict() {
    let developer = create_developer().await;
    let body = |name: &str, version: i64| json!({"Steps": [new("Booking", name)], "Version": version});
    assert_eq!(put(developer, &body("one", 1)).await.expect(200)["Version"], 2);
    for version in [1, 3, 0, i64::MAX] {
        put(developer, &body("two", version)).await.expect_problem(409, "CRM_PIPELINE_CONFLICT");
    }
    assert_eq!(put(developer, &body("two", 2)).await.expect(200)["Version"], 3);
}

/// RULE-CRM-053, RULE-CRM-061: permission, body, developer, step, group and version are checked in
/// this order.
#[tokio::test]
async fn replacement_with_several_faults_reports_the_first() {
    let (developer, other) = (create_developer().await, create_developer().await);
    let before = steps(developer).await;
    let foreign_step = listed(&steps(other).await[0]);
    let moved = with(listed(&before[0]), "Group", "Booking");
    let faulty = json!({"Steps": [foreign_step.clone(), with(moved.clone(), "Name", " ")], "Version": 9});
    let unknown = json!({"Steps": [foreign_step, with(moved.clone(), "Name", "y")], "Version": 9});
    let fixed = json!({"Steps": [moved], "Version": 9});
    let stale = json!({"Steps": [new("Booking", "x")], "Version": 9});
    let reader = service().caller(&user_with(Some(developer), &[READ_OWN, MANAGE_OWN]));
    reader.put(&format!("{OWN}{STEPS}"), faulty.clone()).await.expect_problem(403, "FORBIDDEN");
    let stranger = manager(guid());
    stranger.put(&format!("{OWN}{STEPS}"), faulty.clone()).await.expect_problem(400, "VALIDATION_FAILED");
    stranger
        .put(&format!("{OWN}{STEPS}"), unknown.clone())
        .await
        .expect_problem(404, "CRM_DEVELOPER_NOT_FOUND");
    for (by, path) in [
        (manager(developer), format!("{OWN}{STEPS}")),
        (platform(), format!("{PLATFORM}{STEPS}?TenantId={developer}")),
    ] {
        by.put(&path, faulty.clone()).await.expect_refusal("VALIDATION_FAILED", "/Steps/1/Name", "too_short");
        by.put(&path, unknown.clone()).await.expect_problem(422, "CRM_DEAL_STEP_NOT_FOUND");
        by.put(&path, fixed.clone()).await.expect_problem(422, "CRM_PIPELINE_STEP_GROUP_FIXED");
        by.put(&path, stale.clone()).await.expect_problem(409, "CRM_PIPELINE_CONFLICT");
    }
    let foreign = json!({"Steps": [with(new("Booking", "x"), "Id", json!(guid()))]});
    put(developer, &foreign).await.expect_problem(422, "CRM_DEAL_STEP_NOT_FOUND");
    // The group of an archived step is fixed as well.
    put_steps(developer, &[new("Booking", "x")]).await;
    put(developer, &fixed).await.expect_problem(422, "CRM_PIPELINE_STEP_GROUP_FIXED");
    assert_eq!(read(developer).await["Version"], 2);
}

/// INV-STP-1, RULE-CRM-053: each error names its field and never the value. Duplicate ids, names
/// and defaults are refused, and the bounds are inclusive.
#[tokio::test]
async fn invalid_replacement_is_refused() {
    let developer = create_developer().await;
    let before = steps(developer).await;
    let one = listed(&before[0]);
    let many = |count: usize| (0..count).map(|at| new("Booking", &at.to_string())).collect::<Vec<_>>();
    let is_default = |step: Value| with(step, "IsDefault", true);
    for (steps, field, code) in [
        (json!([]), "/Steps", "too_few"),
        (json!(many(51)), "/Steps", "too_many"),
        (json!(null), "/Steps", "invalid_type"),
        (json!([one, with(one.clone(), "Name", "x")]), "/Steps/1/Id", "duplicate"),
        (json!([new("Booking", "a"), new("Contract", "\ta ")]), "/Steps/1/Name", "duplicate"),
        (
            json!([is_default(new("Booking", "a")), is_default(new("Booking", "b"))]),
            "/Steps/1/IsDefault",
            "duplicate",
        ),
        (json!([with(new("Booking", "a"), "Id", Uuid::nil().to_string())]), "/Steps/0/Id", "empty_id"),
        (json!([with(new("Booking", "a"), "Id", "x")]), "/Steps/0/Id", "invalid_type"),
        (json!([new("Sale", "a")]), "/Steps/0/Group", "unknown_value"),
        (json!([without(new("Booking", "a"), "Group")]), "/Steps/0/Group", "required"),
        (json!([without(new("Booking", "a"), "Name")]), "/Steps/0/Name", "required"),
        (json!([new("Booking", "\u{2003}\n")]), "/Steps/0/Name", "too_short"),
        (json!([new("Booking", &"ё".repeat(101))]), "/Steps/0/Name", "too_long"),
        (json!([new("Booking", "a\0b")]), "/Steps/0/Name", "forbidden_character"),
        (json!([with(new("Booking", "a"), "IsDefault", "true")]), "/Steps/0/IsDefault", "invalid_type"),
    ] {
        let body = json!({"Steps": steps});
        let refused = put(developer, &body).await;
        assert!(!refused.text.contains("ёё"), "{}", refused.text);
        refused.expect_refusal("VALIDATION_FAILED", field, code);
        let path = format!("{PLATFORM}{STEPS}?TenantId={developer}");
        platform().put(&path, body).await.expect_refusal("VALIDATION_FAILED", field, code);
    }
    put(developer, &json!({"Steps": [one], "Version": "1"})).await.expect_refusal(
        "VALIDATION_FAILED",
        "/Version",
        "invalid_type",
    );
    assert_eq!(steps(developer).await, before, "nothing was stored");
    let most = [many(49), vec![new("Application", &format!(" {} ", "ё".repeat(100)))]].concat();
    assert_eq!(live(&put_steps(developer, &most).await).len(), 50);
    // Names are case-sensitive, and each group may have a default.
    put_steps(developer, &[is_default(new("Booking", "a")), is_default(new("Contract", "A"))]).await;
}

/// RULE-CRM-054, RULE-CRM-059: platform routes take the developer from the query.
#[tokio::test]
async fn platform_routes_require_a_tenant() {
    let body = json!({"Steps": [new("Booking", "x")]});
    let path = |query: &str| format!("{PLATFORM}{STEPS}{query}");
    for (query, code) in [
        ("", "required"),
        ("?TenantId=x", "invalid_type"),
        ("?TenantId=00000000-0000-0000-0000-000000000000", "empty_id"),
    ] {
        platform().get(&path(query)).await.expect_refusal("VALIDATION_FAILED", "/TenantId", code);
        platform().put(&path(query), body.clone()).await.expect_refusal(
            "VALIDATION_FAILED",
            "/TenantId",
            code,
        );
    }
    let unknown = path(&format!("?TenantId={}", guid()));
    platform().get(&unknown).await.expect_problem(404, "CRM_DEVELOPER_NOT_FOUND");
    platform().put(&unknown, body.clone()).await.expect_problem(404, "CRM_DEVELOPER_NOT_FOUND");
    let developer = create_developer().await;
    let put = platform().put(&path(&format!("?TenantId={developer}")), body).await.expect(200);
    assert_eq!(put, read(developer).await);
}

/// RULE-CRM-054: `crm.pipeline.manage-own` grants the pipeline only. A reader of deals may read
/// the steps.
#[tokio::test]
async fn pipeline_changes_need_their_own_permission() {
    let developer = create_developer().await;
    let path = format!("{OWN}{STEPS}");
    let body = json!({"Steps": steps(developer).await.iter().map(listed).collect::<Vec<_>>()});
    for (permission, company, reads, changes) in [
        (PIPELINE_OWN, Some(developer), 200, 200),
        ("crm.pipeline.manage-own@platform", Some(developer), 200, 200),
        (PIPELINE_OWN, None, 403, 403),
        (READ_OWN, Some(developer), 200, 403),
        (MANAGE_OWN, Some(developer), 200, 403),
        ("crm.deals.manage", Some(developer), 403, 403),
    ] {
        let by = service().caller(&user_with(company, &[permission]));
        assert_eq!(by.get(&path).await.status, reads, "{permission} {company:?}");
        assert_eq!(by.put(&path, body.clone()).await.status, changes, "{permission} {company:?}");
    }
    let by = service().caller(&user_with(Some(developer), &[PIPELINE_OWN]));
    by.get(&format!("{OWN}/board")).await.expect_problem(403, "FORBIDDEN");
    by.get(&format!("{OWN}/deals")).await.expect_problem(403, "FORBIDDEN");
    let by = service().caller(&user_with(None, &[CARE]));
    let all = format!("{PLATFORM}{STEPS}?TenantId={developer}");
    by.get(&all).await.expect(200);
    by.put(&all, body).await.expect_problem(403, "FORBIDDEN");
}

/// RULE-CRM-056, RULE-CRM-062: one of several concurrent replacements with the same `Version`
/// succeeds. Without `Version` several may succeed, one after the other. The others return 409.
#[tokio::test]
async fn concurrent_replacements_never_mix() {
    for version in [json!(1), Value::Null] {
        let developer = create_developer().await;
        let before = steps(developer).await;
        let replace = |at: usize| {
            let body = json!({"Steps": [listed(&before[at % 2]), new("Booking", &at.to_string())], "Version": version});
            async move { put(developer, &body).await }
        };
        let responses = futures_util::future::join_all((0..8).map(replace)).await;
        let succeeded: Vec<&Response> = responses.iter().filter(|response| response.status == 200).collect();
        let after = read(developer).await;
        assert_eq!(
            after["Version"],
            1 + i64::try_from(succeeded.len()).unwrap(),
            "each success raises the version by one"
        );
        assert!(
            succeeded.iter().any(|response| response.body == after),
            "the last success is the current pipeline"
        );
        if version.is_number() {
            assert_eq!(succeeded.len(), 1);
        }
        for refused in responses.into_iter().filter(|response| response.status != 200) {
            refused.expect_problem(409, "CRM_PIPELINE_CONFLICT");
        }
        let live = live(&after);
        assert_eq!(live.len(), 2, "the pipeline is one whole replacement");
    }
}

/// INV-STP-1: a unique index allows one default step for each group.
#[tokio::test]
async fn database_refuses_a_second_default_step() {
    let developer = create_developer().await;
    let sql = service().sql().await;
    let second = "update step set is_default = true where tenant_id = $1::text::uuid and archived_at is null";
    let error = sql.execute(second, &[&developer.to_string()]).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION));
}

/// RULE-CRM-071: a pipeline shows the user and the time of its last change, and each change has a
/// log entry with its user. A no-op and a refusal write none.
#[tokio::test]
async fn pipeline_shows_and_logs_who_changed_it() {
    let developer = create_developer().await;
    let before = read(developer).await;
    assert_eq!((&before["UpdatedByUserId"], &before["UpdatedAt"]), (&Value::Null, &Value::Null));
    let steps = live(&before);
    let renamed: Vec<_> = std::iter::once(with(listed(&steps[0]), "Name", "Заявка"))
        .chain(steps[1..].iter().map(listed))
        .collect();
    let shorter = renamed[..6].to_vec();
    let mut changers = Vec::new();
    for (number, (path, company, permission, role, desired)) in [
        (format!("{OWN}{STEPS}"), Some(developer), PIPELINE_OWN, "DeveloperManager", renamed),
        (format!("{PLATFORM}{STEPS}?TenantId={developer}"), None, MANAGE, "PlatformManager", shorter),
    ]
    .into_iter()
    .enumerate()
    {
        let user = guid();
        let claims = Claims { sub: user.to_string(), ..user_with(company, &[permission]) };
        let by = service().caller(&claims);
        let changed = by.put(&path, json!({"Steps": desired})).await.expect(200);
        assert_eq!(changed["UpdatedByUserId"], json!(user));
        assert_eq!(changed["Version"], number + 2);
        let stale = by.put(&path, json!({"Steps": [new("Booking", "x")], "Version": 1})).await;
        stale.expect_problem(409, "CRM_PIPELINE_CONFLICT");
        manager(developer).put(&format!("{OWN}{STEPS}"), json!({"Steps": desired})).await.expect(200);
        assert_eq!(read(developer).await, changed);
        changers.push(json!([number + 2, user, role]));
    }
    let sql = service().sql().await;
    let log = "select json_build_array(version, actor_user_id, actor_role)::text, changes::text from pipeline_log \
        where tenant_id = $1::text::uuid order by version";
    let rows = sql.query(log, &[&developer.to_string()]).await.unwrap();
    let parse = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
    assert_eq!(rows.iter().map(|row| parse(row.get(0))).collect::<Vec<_>>(), changers);
    let logged: Vec<Value> = rows.iter().map(|row| parse(row.get(1))).collect();
    assert_eq!(each(list(&logged[0]["Upserted"]), "Name"), ["Заявка"]);
    assert_eq!(logged[0]["Archived"], json!([]));
    assert_eq!(logged[1], json!({"Upserted": [], "Archived": [steps[6]["Id"]]}));
}

/// INV-STP-2: the database refuses update, delete and truncate of log entries.
#[tokio::test]
async fn pipeline_log_cannot_be_changed_or_removed() {
    let developer = create_developer().await;
    put_steps(developer, &[new("Booking", "x")]).await;
    let sql = service().sql().await;
    for statement in [
        "update pipeline_log set version = version where false",
        "delete from pipeline_log where false",
        "truncate pipeline_log",
    ] {
        let refused = sql.batch_execute(statement).await.unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::RESTRICT_VIOLATION), "{statement}");
    }
}
