//! Concurrent requests.

use std::collections::BTreeSet;

use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use testkit::client::{Client, Response};
use uuid::Uuid;

use crate::{
    BOOKING_CREATED, CANCELLED, COMPLETED, CREATED, Deal, MANAGE, MANAGE_OWN, OWN, PLATFORM, STAGE_CHANGED,
    contract, count, create_deal, create_deal_of, create_developer, create_object, creation_body, each,
    eventually, guid, id_of, list, manager, payloads, platform, service, steps, topics, user_with, with,
    without,
};

/// The number of concurrent callers.
const CALLERS: usize = 10;
/// The number of repeats of a race whose result depends on its order.
const ROUNDS: usize = 6;

/// Returns callers with open connections.
async fn callers(count: usize) -> Vec<Client> {
    let callers: Vec<_> = std::iter::repeat_with(platform).take(count).collect();
    join_all(
        callers.iter().map(async |caller| drop(caller.get(&format!("{PLATFORM}/deals?PageSize=1")).await)),
    )
    .await;
    callers
}

pub fn is_conflict(response: &Response, code: &str) -> bool {
    response.status == 409 && response.body["code"] == code
}

/// Asserts that each response is a success with `status`, or a conflict with one of the codes.
#[track_caller]
fn assert_refused(responses: &[Response], status: u16, codes: &[&str]) {
    for response in responses.iter().filter(|response| response.status != status) {
        assert!(
            codes.iter().any(|code| is_conflict(response, code)),
            "{} {}",
            response.status,
            response.text
        );
    }
}

/// Returns the versions of a timeline's changes, oldest first, each once.
pub fn versions(timeline: &[Value]) -> Vec<i64> {
    let mut versions: Vec<_> = timeline.iter().map(|row| row["RowVersion"].as_i64().unwrap()).collect();
    versions.dedup();
    versions
}

/// Sends requests while another transaction has the deal locked.
///
/// All requests have read the deal before the first one writes.
async fn send_while_locked<O>(deal: &Deal, requests: impl IntoIterator<Item: Future<Output = O>>) -> Vec<O> {
    let requests: Vec<_> = requests.into_iter().collect();
    let count = i64::try_from(requests.len()).unwrap();
    let (blocker, watcher) = (service().sql().await, service().sql().await);
    let blocker_pid: i32 = blocker.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    let lock = format!("begin; select from deal where id = '{}' for update", deal.id);
    blocker.batch_execute(&lock).await.unwrap();
    let waiting = "with recursive waiting as (select $1::int as pid union select a.pid from pg_stat_activity a \
        join waiting on waiting.pid = any(pg_blocking_pids(a.pid))) select count(*) - 1 from waiting";
    let release = async {
        eventually("the changes to wait", async || {
            let found: i64 = watcher.query_one(waiting, &[&blocker_pid]).await.unwrap().get(0);
            (found == count).then_some(())
        })
        .await;
        blocker.batch_execute("rollback").await.unwrap();
    };
    join(join_all(requests), release).await.0
}

/// INV-BKG-1, RULE-CRM-037: one of several concurrent bookings of an object returns 201, and the
/// others are refused.
#[tokio::test]
async fn only_one_concurrent_booking_of_an_object_succeeds() {
    let developer = create_developer().await;
    let callers = callers(CALLERS).await;
    for _ in 0..ROUNDS {
        let object = create_object(developer).await;
        let deals: Vec<_> = join_all((0..CALLERS).map(|_| create_deal_of(developer, object))).await;
        let book =
            async |(caller, deal): (&Client, &Deal)| caller.post(&deal.path("/booking"), json!({})).await;
        let responses = join_all(std::iter::zip(&callers, &deals).map(book)).await;
        assert_eq!(count(&responses, 201), 1, "{responses:?}");
        assert_refused(&responses, 201, &["CRM_PROPERTY_OBJECT_ALREADY_BOOKED"]);
        for (deal, response) in std::iter::zip(&deals, &responses) {
            let (status, version) = if response.status == 201 { ("Booking", 2) } else { ("Application", 1) };
            let found = deal.read().await;
            assert_eq!((&found["Status"], &found["RowVersion"]), (&json!(status), &json!(version)));
            assert_eq!(deal.timeline().await.len(), if version == 2 { 3 } else { 1 });
        }
    }
}

/// INV-BKG-1, RULE-CRM-037: one of several concurrent bookings of a deal returns 201, and the
/// others are refused.
#[tokio::test]
async fn only_one_concurrent_booking_of_a_deal_succeeds() {
    let callers = callers(CALLERS).await;
    let deal = create_deal().await;
    let path = deal.path("/booking");
    let responses = join_all(callers.iter().map(|caller| caller.post(&path, json!({})))).await;
    assert_eq!(count(&responses, 201), 1, "{responses:?}");
    assert_refused(&responses, 201, &["CRM_DEAL_BOOKING_ALREADY_ACTIVE", "CRM_DEAL_CONFLICT"]);
    assert_eq!(topics(&deal.events().await), [CREATED, STAGE_CHANGED, BOOKING_CREATED]);
    assert_eq!(deal.row_version().await, 2);
}

/// RULE-CRM-038, RULE-ALL-031: one of several concurrent changes with the same `RowVersion`
/// succeeds. The others are no-ops or refused.
#[tokio::test]
async fn only_one_concurrent_change_with_one_row_version_succeeds() {
    let callers = callers(CALLERS).await;
    for _ in 0..ROUNDS {
        let deal = create_deal().await;
        callers[0].put(&deal.path("/contract"), contract()).await.expect(200);
        let overrides = callers.iter().enumerate().map(|(at, caller)| {
            let target = ["Booking", "Sale", "Cancelled"][at % 3];
            let body = json!({"TargetStatus": target, "Comment": "x", "RowVersion": 2});
            async move { (target, caller.post(&deal.path("/override-status"), body).await) }
        });
        let responses = join_all(overrides).await;
        let found = deal.read().await;
        assert_eq!(found["RowVersion"], 3);
        for (target, response) in responses {
            let is_target = found["Status"] == target;
            let expected = is_target && response.status == 200 && response.body["RowVersion"] == 3;
            assert!(expected || is_conflict(&response, "CRM_DEAL_CONFLICT"), "{target}: {}", response.text);
        }
        // The creation, the contract data, and two rows of the override that succeeded.
        assert_eq!(deal.timeline().await.len(), 4);
    }
}

/// RULE-CRM-024, RULE-CRM-038: one of two overrides that read the same version is written, also
/// without `RowVersion`. The other one returns 409 and writes nothing.
#[tokio::test]
async fn only_one_override_that_read_one_version_is_written() {
    let callers = callers(2).await;
    for row_version in [Value::Null, json!(1)] {
        let deal = create_deal().await;
        let overrides = std::iter::zip(&callers, ["Booking", "Cancelled"]).map(|(caller, target)| {
            let body = json!({"TargetStatus": target, "Comment": target, "RowVersion": row_version});
            async move { caller.post(&deal.path("/override-status"), body).await }
        });
        let responses = send_while_locked(&deal, overrides).await;
        assert_eq!(count(&responses, 200), 1, "{responses:?}");
        assert_refused(&responses, 200, &["CRM_DEAL_CONFLICT"]);
        let written = responses.iter().find(|response| response.status == 200).unwrap();
        let found = deal.read().await;
        assert_eq!((&found["Status"], &found["RowVersion"]), (&written.body["Status"], &json!(2)));
        let timeline = deal.timeline().await;
        let comment = json!({"Text": found["Status"]});
        assert_eq!((timeline.len(), &timeline[2]["Payload"]), (3, &comment));
        let is_cancelled = found["Status"] == "Cancelled";
        let expected: &[&str] =
            if is_cancelled { &[CREATED, STAGE_CHANGED, CANCELLED] } else { &[CREATED, STAGE_CHANGED] };
        assert_eq!(topics(&deal.events().await), expected);
    }
}

/// RULE-CRM-038, RULE-ALL-031: every 200 is in the timeline, in one order without a gap, and is
/// published in that order. The others get 409. In every second round all changes read the same
/// version.
#[tokio::test]
async fn concurrent_changes_without_a_row_version_are_never_lost_silently() {
    let callers = callers(CALLERS).await;
    for round in 0..ROUNDS {
        let deal = create_deal().await;
        let changes = callers.iter().map(|caller| {
            let agent = guid();
            async move { (agent, caller.put(&deal.path("/agent"), json!({"AgentUserId": agent})).await) }
        });
        let is_locked = round % 2 == 0;
        let responses =
            if is_locked { send_while_locked(&deal, changes).await } else { join_all(changes).await };
        let done: BTreeSet<_> = responses
            .iter()
            .filter(|(_, response)| response.status == 200)
            .map(|(agent, _)| *agent)
            .collect();
        assert!(if is_locked { done.len() == 1 } else { !done.is_empty() }, "{responses:?}");
        assert_refused(
            &responses.into_iter().map(|(_, response)| response).collect::<Vec<_>>(),
            200,
            &["CRM_DEAL_CONFLICT"],
        );
        let timeline = deal.timeline().await;
        let last = i64::try_from(done.len()).unwrap() + 1;
        assert_eq!(versions(&timeline), (1..=last).collect::<Vec<_>>());
        let agents: Vec<_> =
            timeline[1..].iter().map(|row| id_of(&row["Payload"]["ToAgentUserId"])).collect();
        assert_eq!(agents.iter().copied().collect::<BTreeSet<_>>(), done);
        for (before, after) in std::iter::zip(&timeline[1..], &timeline[2..]) {
            assert_eq!(after["Payload"]["FromAgentUserId"], before["Payload"]["ToAgentUserId"]);
        }
        let found = deal.read().await;
        assert_eq!((&found["AgentUserId"], &found["RowVersion"]), (&json!(agents.last()), &json!(last)));
        let arrived = service().published(deal.id).await;
        assert_eq!((arrived.len(), payloads(&arrived, CREATED).len()), (done.len() + 1, 1));
        let changes = payloads(&arrived, STAGE_CHANGED)
            .into_iter()
            .map(|change| (change["RowVersion"].as_i64().unwrap(), id_of(&change["AgentUserId"])));
        assert_eq!(changes.collect::<Vec<_>>(), (2..=last).zip(agents).collect::<Vec<_>>());
    }
}

/// INV-DEAL-10, RULE-CRM-039: completions of one object are serialized.
#[tokio::test]
async fn only_one_concurrent_completion_of_an_object_succeeds() {
    let developer = create_developer().await;
    for _ in 0..ROUNDS {
        let object = create_object(developer).await;
        let mut deals = Vec::new();
        for _ in 0..5 {
            let deal = create_deal_of(developer, object).await;
            deal.bring_to("Sale").await;
            deals.push((manager(developer), deal));
        }
        let complete = async |(by, deal): &(Client, Deal)| {
            by.post(&deal.own("/complete"), json!({"RegistryRecordNumber": "77:01"})).await
        };
        let responses = join_all(deals.iter().map(complete)).await;
        assert_eq!(count(&responses, 200), 1, "{responses:?}");
        assert_refused(&responses, 200, &["CRM_PROPERTY_OBJECT_NOT_AVAILABLE"]);
    }
}

/// RULE-CRM-039: a booking and a completion of one object are serialized. The second one is refused
/// because of the first.
#[tokio::test]
async fn booking_and_completion_of_one_object_exclude_each_other() {
    let developer = create_developer().await;
    let (arbiter, seller) = (platform(), manager(developer));
    for _ in 0..ROUNDS * 2 {
        let object = create_object(developer).await;
        let (to_book, to_complete) =
            (create_deal_of(developer, object).await, create_deal_of(developer, object).await);
        to_complete.bring_to("Sale").await;
        let (booked, completed) = join(
            arbiter.post(&to_book.path("/booking"), json!({})),
            seller.post(&to_complete.own("/complete"), json!({"RegistryRecordNumber": "x"})),
        )
        .await;
        match (booked.status, completed.status) {
            (201, 409) => drop(completed.expect_problem(409, "CRM_PROPERTY_OBJECT_ALREADY_BOOKED")),
            (409, 200) => drop(booked.expect_problem(409, "CRM_PROPERTY_OBJECT_NOT_AVAILABLE")),
            _ => panic!("{} and {}", booked.text, completed.text),
        }
    }
}

/// INV-BKG-1, RULE-CRM-037: concurrent bookings and cancellations leave no Active booking on a
/// Cancelled deal.
#[tokio::test]
async fn concurrent_cancellation_also_ends_the_booking() {
    let callers = callers(4).await;
    for _ in 0..ROUNDS {
        let deal = create_deal().await;
        let (booking, cancel) = (deal.path("/booking"), deal.path("/cancel"));
        let responses = join_all([
            callers[0].post(&booking, json!({})),
            callers[1].post(&cancel, json!({"Reason": "x"})),
            callers[2].post(&booking, json!({})),
            callers[3].post(&cancel, json!({"Reason": "y"})),
        ])
        .await;
        assert!(count(&responses, 200) + count(&responses, 201) >= 1, "{responses:?}");
        let found = deal.read().await;
        let active = "select count(*) from booking where deal_id = $1::text::uuid and status = 'Active'";
        let active: i64 =
            service().sql().await.query_one(active, &[&deal.id.to_string()]).await.unwrap().get(0);
        let is_cancelled = found["Status"] == "Cancelled";
        assert_eq!(is_cancelled, count(&responses, 200) >= 1, "{found} {responses:?}");
        assert_eq!(active, i64::from(!is_cancelled), "INV-BKG-1: {found}");
        assert_eq!(
            versions(&deal.timeline().await),
            (1..=found["RowVersion"].as_i64().unwrap()).collect::<Vec<_>>()
        );
    }
}

/// RULE-CRM-042: one of several concurrent repeats returns 201 and the others 200, in each route
/// family.
#[tokio::test]
async fn concurrent_repeats_of_a_creation_create_one_deal() {
    let developer = create_developer().await;
    let object = create_object(developer).await;
    for (family, permissions) in [(PLATFORM, [MANAGE]), (OWN, [MANAGE_OWN])] {
        for _ in 0..ROUNDS {
            let claims = user_with(Some(developer), &permissions);
            let callers: Vec<_> =
                std::iter::repeat_with(|| service().caller(&claims)).take(CALLERS).collect();
            let body = with(creation_body(object).await, "RequestId", guid().to_string());
            let path = format!("{family}/deals");
            let responses = join_all(callers.iter().map(|caller| caller.post(&path, body.clone()))).await;
            assert_eq!((count(&responses, 201), count(&responses, 200)), (1, CALLERS - 1), "{responses:?}");
            let bodies: Vec<_> = responses.into_iter().map(|response| response.body).collect();
            let ids: BTreeSet<_> = each(&bodies, "DealId").into_iter().map(id_of).collect();
            assert_eq!(ids.len(), 1);
            let deal = Deal { id: *ids.first().unwrap(), object, developer };
            assert_eq!(deal.timeline().await.len(), 1);
            assert_eq!(topics(&deal.events().await), [CREATED]);
        }
    }
}

/// RULE-CRM-042: a repeat returns the existing deal even if the receiving step of new deals is
/// archived concurrently.
#[tokio::test]
async fn repeated_creation_succeeds_while_its_step_is_archived() {
    for _ in 0..ROUNDS {
        let developer = create_developer().await;
        let object = create_object(developer).await;
        let path = format!("{PLATFORM}/pipeline-steps?TenantId={developer}");
        let known = steps(developer).await;
        // A new step replaces the receiving step of new deals.
        let replaced = |step: &Value| {
            let is_receiving = step["Group"] == "Application" && step["IsDefault"] == true;
            if is_receiving { without(with(step.clone(), "Name", "elsewhere"), "Id") } else { step.clone() }
        };
        let live: Vec<_> = known.iter().map(replaced).collect();
        let (seller, planner) = (platform(), platform());
        let body = with(creation_body(object).await, "RequestId", guid().to_string());
        let deals = format!("{PLATFORM}/deals");
        let create = || seller.post(&deals, body.clone());
        let steps = json!({"Steps": live});
        let (responses, archived) =
            join(join_all([create(), create(), create()]), planner.put(&path, steps)).await;
        archived.expect(200);
        for lost in responses.iter().filter(|response| ![200, 201].contains(&response.status)) {
            assert!(is_conflict(lost, "CRM_DEAL_CONFLICT"), "{}", lost.text);
        }
        assert!(count(&responses, 201) <= 1, "{responses:?}");
        let created = create().await;
        assert_eq!(created.status, if count(&responses, 201) == 1 { 200 } else { 201 }, "{}", created.text);
    }
}

/// RULE-CRM-043: one of several concurrent changes with the same `Version` succeeds. Without
/// `Version` every 200 has a version of its own.
#[tokio::test]
async fn concurrent_pipeline_changes_are_never_lost_silently() {
    let developer = create_developer().await;
    let path = format!("{PLATFORM}/pipeline-steps?TenantId={developer}");
    let callers = callers(CALLERS).await;
    let known = steps(developer).await;
    let mut version = 1;
    for is_versioned in [true, false, true] {
        let changes = callers.iter().enumerate().map(|(at, caller)| {
            let first = with(known[0].clone(), "Name", format!("{at} {is_versioned} {version}"));
            let items: Vec<_> = [first].into_iter().chain(known[1..].iter().cloned()).collect();
            let body = json!({"Steps": items, "Version": is_versioned.then_some(version)});
            let path = &path;
            async move { caller.put(path, body).await }
        });
        let responses = join_all(changes).await;
        let done = count(&responses, 200);
        assert!(if is_versioned { done == 1 } else { done >= 1 }, "{responses:?}");
        assert_refused(&responses, 200, &["CRM_PIPELINE_CONFLICT"]);
        let mut versions_written: Vec<_> = responses
            .iter()
            .filter(|response| response.status == 200)
            .map(|response| response.body["Version"].as_i64().unwrap())
            .collect();
        versions_written.sort_unstable();
        let last = version + i64::try_from(done).unwrap();
        assert_eq!(versions_written, (version + 1..=last).collect::<Vec<_>>());
        version = last;
    }
    assert_eq!(platform().get(&path).await.expect(200)["Version"], version);
}

/// RULE-CRM-043: deals stay in an archived step, and no deal enters it.
#[tokio::test]
async fn deal_never_enters_a_step_that_is_archived_concurrently() {
    for _ in 0..ROUNDS {
        let deal = create_deal().await;
        let known = steps(deal.developer).await;
        let second = known[1].clone();
        let left: Vec<_> = known.iter().filter(|step| step["Id"] != second["Id"]).cloned().collect();
        let (seller, planner) = (platform(), platform());
        let archive = format!("{PLATFORM}/pipeline-steps?TenantId={}", deal.developer);
        let (moved, archived) = join(
            seller.post(&deal.path("/move-step"), json!({"StepId": second["Id"]})),
            planner.put(&archive, json!({"Steps": left})),
        )
        .await;
        let archived = archived.expect(200);
        let former = list(&archived["Steps"]).iter().find(|step| step["Id"] == second["Id"]).unwrap();
        assert!(!former["ArchivedAt"].is_null());
        if moved.status != 200 {
            let is_archived = moved.status == 422 && moved.body["code"] == "CRM_DEAL_STEP_NOT_FOUND";
            assert!(is_archived || is_conflict(&moved, "CRM_DEAL_CONFLICT"), "{}", moved.text);
            assert_eq!(deal.row_version().await, 1);
        }
        // A deal that entered the step before it was archived may leave it.
        let back = platform().post(&deal.path("/move-step"), json!({"StepId": known[0]["Id"]})).await;
        back.expect(200);
        platform()
            .post(&deal.path("/move-step"), json!({"StepId": second["Id"]}))
            .await
            .expect_problem(422, "CRM_DEAL_STEP_NOT_FOUND");
    }
}

/// RULE-CRM-039, RULE-EVT-016: a completion is published once, however often it is repeated.
#[tokio::test]
async fn concurrent_completions_of_a_deal_are_published_once() {
    let deal = create_deal().await;
    deal.bring_to("Sale").await;
    let callers: Vec<_> = std::iter::repeat_with(|| manager(deal.developer)).take(CALLERS).collect();
    let path = deal.own("/complete");
    let responses =
        join_all(callers.iter().map(|by| by.post(&path, json!({"RegistryRecordNumber": "77"})))).await;
    assert!(count(&responses, 200) >= 1, "{responses:?}");
    assert_refused(&responses, 200, &["CRM_DEAL_CONFLICT"]);
    assert_eq!(topics(&deal.events().await), [CREATED, STAGE_CHANGED, STAGE_CHANGED, COMPLETED]);
    let rows = deal.timeline().await;
    assert_eq!(rows.iter().filter(|row| row["Kind"] == "DealCompleted").count(), 1);
    let ids: BTreeSet<Uuid> = rows.iter().map(|row| id_of(&row["Id"])).collect();
    assert_eq!(ids.len(), rows.len());
}
