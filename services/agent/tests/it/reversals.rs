//! What the platform rejects and reverses: section 5.

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::guid;
use uuid::Uuid;

use crate::owed::{Owed, Written, accrual, balances, cabinet, decider, pay_one, payer, to};
use crate::{ACCRUAL_CHANGED, Deal, PLATFORM, accruals_of, id_of, money, pay, rub, service};

fn at(id: Uuid, what: &str) -> String {
    format!("{PLATFORM}/commission-accruals/{id}/{what}")
}

fn why() -> Value {
    json!({"Comment": "дважды"})
}

async fn reject(id: Uuid) -> Value {
    decider(service()).post(&at(id, "reject"), why()).await.expect(200)
}

async fn reverse(id: Uuid) -> Value {
    decider(service()).post(&at(id, "reverse"), why()).await.expect(200)
}

async fn open_request(agent: Uuid, base: Written) -> Value {
    let path = format!("/api/v1/my/commission-accruals/{}/adjustment-requests", base.id);
    let body = json!({"Reason": "Other", "RequestedAmount": money(150, "RUB"), "Comment": "x"});
    cabinet(service(), agent).post(&path, body).await.expect(201)
}

/// What is not paid is rejected with what adjusts it, and open requests about it are closed.
#[tokio::test]
async fn an_accrual_is_rejected_with_what_adjusts_it() {
    let (service, agent) = (service(), guid());
    for status in ["Pending", "Approved"] {
        let base = Owed { status, ..Owed::to(agent, 100) }.write(service).await;
        let correction = Owed { status, ..Owed::to(agent, 30) }.adjusting(base).write(service).await;
        open_request(agent, base).await;
        let rejected = reject(base.id).await;
        assert_eq!((&rejected["Status"], &rejected["Version"]), (&json!("Rejected"), &json!(2)));
        let request = &rejected["AdjustmentRequest"];
        assert_eq!((&request["Status"], &request["DecisionComment"]), (&json!("Rejected"), &Value::Null));
        assert_eq!(request["Version"], 2);
        assert_eq!(accrual(service, agent, correction.id).await["Status"], "Rejected");
        assert_eq!(reject(base.id).await, rejected, "nothing changes");
        for id in [base.id, correction.id] {
            let events = service.published(id).await;
            let [event] = &events[..] else { panic!("one event: {events:?}") };
            assert_eq!(event.topic, ACCRUAL_CHANGED);
            assert_eq!((&event.payload["From"], &event.payload["To"]), (&json!(status), &json!("Rejected")));
        }
    }
    assert_eq!(balances(service, agent, "RUB").await["Total"], 0);
    let sql = service.sql().await;
    let stored = "select count(*) from accrual where agent_user_id = $1::text::uuid and decision_comment = 'дважды' \
                  and decided_by_user_id is not null";
    assert_eq!(sql.query_one(stored, &[&agent.to_string()]).await.unwrap().get::<_, i64>(0), 4);
}

/// An adjustment is rejected by itself.
#[tokio::test]
async fn an_adjustment_is_rejected_alone() {
    let (service, agent) = (service(), guid());
    let base = Owed::to(agent, 100).write(service).await;
    let correction = Owed::to(agent, 30).adjusting(base).write(service).await;
    reject(correction.id).await;
    assert_eq!(accrual(service, agent, base.id).await["Status"], "Approved");
    assert_eq!(balances(service, agent, "RUB").await["Total"], 100);
}

/// What is in a payout, paid, undone, or adjusted by what is in a payout is not rejected.
#[tokio::test]
async fn what_is_in_a_payout_is_not_rejected() {
    let (service, agent) = (service(), guid());
    let decider = decider(service);
    let refused = async |id: Uuid| {
        decider.post(&at(id, "reject"), why()).await.expect_problem(409, "AGENT_ACCRUAL_NOT_REJECTABLE")
    };
    let base = Owed::to(agent, 100).pending().write(service).await;
    let adjusting = Owed::to(agent, 30).adjusting(base).write(service).await;
    let made = pay_one(service, agent).await;
    refused(adjusting.id).await;
    refused(base.id).await;
    payer(service).post(&to(&made, "confirm"), json!({})).await.expect(200);
    refused(adjusting.id).await;
    refused(base.id).await;
    let reversal = reverse(adjusting.id).await;
    refused(id_of(&reversal["Id"])).await;
    refused(adjusting.id).await;
    assert_eq!(reject(base.id).await["Status"], "Rejected", "what adjusts it does not stand any more");
}

/// What is in a payout is reversed, with what adjusts it; the debt lowers the next payout.
#[tokio::test]
async fn what_was_paid_is_reversed() {
    let (service, agent) = (service(), guid());
    let base = Owed::to(agent, 100).write(service).await;
    let adjusting = Owed::to(agent, 30).adjusting(base).write(service).await;
    let made = pay_one(service, agent).await;
    payer(service).post(&to(&made, "confirm"), json!({})).await.expect(200);
    let waiting = Owed::to(agent, 7).adjusting(base).write(service).await;
    let reversal = reverse(base.id).await;
    let shown = accrual(service, agent, base.id).await;
    for (member, value) in [
        ("Kind", json!("Reversal")),
        ("Status", json!("Approved")),
        ("Amount", money(-100, "RUB")),
        ("BaseAmount", shown["BaseAmount"].clone()),
        ("RateBps", shown["RateBps"].clone()),
        ("DealId", shown["DealId"].clone()),
        ("ReversesAccrualId", json!(base.id)),
        ("AdjustsAccrualId", Value::Null),
        ("PayoutId", Value::Null),
        ("PaidAt", Value::Null),
        ("Version", json!(1)),
        ("ApprovedAt", reversal["EarnedAt"].clone()),
    ] {
        assert_eq!(reversal[member], value, "{member}");
    }
    assert_eq!((&shown["Status"], &shown["Version"]), (&json!("Paid"), &json!(3)), "INV-AGT-7");
    assert_eq!(reverse(base.id).await, reversal, "there is one already");
    assert_eq!(accrual(service, agent, adjusting.id).await["Status"], "Paid");
    assert_eq!(accrual(service, agent, waiting.id).await["Status"], "Reversed", "it is in no payout");
    let sums = balances(service, agent, "RUB").await;
    assert_eq!(
        (&sums["Total"], &sums["Approved"], &sums["Outstanding"]),
        (&json!(0), &json!(-130), &json!(-130))
    );

    Owed::to(agent, 200).write(service).await;
    let next = pay_one(service, agent).await;
    assert_eq!((&next["Gross"], &next["AccrualsCount"]), (&money(70, "RUB"), &json!(3)));
}

/// A reversal closes what is open about it: there is nothing left to adjust.
#[tokio::test]
async fn a_reversal_closes_open_requests() {
    let (service, agent) = (service(), guid());
    let base = Owed::to(agent, 100).write(service).await;
    pay_one(service, agent).await;
    let open = open_request(agent, base).await;
    reverse(base.id).await;
    let request = accrual(service, agent, base.id).await["AdjustmentRequest"].clone();
    assert_eq!((&request["Id"], &request["Status"]), (&open["Id"], &json!("Rejected")));
    assert_eq!((&request["DecisionComment"], &request["Version"]), (&Value::Null, &json!(2)));
    let path = format!("{PLATFORM}/adjustment-requests/{}/approve", id_of(&open["Id"]));
    let late = decider(service).post(&path, json!({})).await;
    late.expect_problem(409, "AGENT_ADJUSTMENT_ALREADY_DECIDED");
}

/// A payout that fails after the reversal gives back both, which come to nothing.
#[tokio::test]
async fn what_was_reversed_and_not_paid_comes_to_nothing() {
    let (service, agent) = (service(), guid());
    let base = Owed::to(agent, 100).write(service).await;
    let made = pay_one(service, agent).await;
    let reversal = reverse(base.id).await;
    payer(service).post(&to(&made, "cancel"), json!({})).await.expect(200);
    let decider = decider(service);
    decider.post(&at(base.id, "reject"), why()).await.expect_problem(409, "AGENT_ACCRUAL_NOT_REJECTABLE");
    assert_eq!(reverse(base.id).await, reversal);
    let sums = balances(service, agent, "RUB").await;
    assert_eq!((&sums["Total"], &sums["Approved"]), (&json!(0), &json!(0)));
    Owed::to(agent, 1).write(service).await;
    assert_eq!(pay_one(service, agent).await["AccrualsCount"], 3);
}

/// A Reversal is not reversed, and what is in no payout is rejected instead; what is not there is not found.
#[tokio::test]
async fn what_is_in_no_payout_is_not_reversed() {
    let (service, agent) = (service(), guid());
    let decider = decider(service);
    let refused = async |id: Uuid| {
        decider.post(&at(id, "reverse"), why()).await.expect_problem(409, "AGENT_ACCRUAL_NOT_REVERSIBLE")
    };
    let approved = Owed::to(agent, 100).write(service).await;
    let pending = Owed::to(agent, 100).pending().write(service).await;
    refused(approved.id).await;
    refused(pending.id).await;
    pay_one(service, agent).await;
    let reversal = id_of(&reverse(approved.id).await["Id"]);
    refused(reversal).await;
    reject(pending.id).await;
    refused(pending.id).await;
    for what in ["reject", "reverse"] {
        for id in [guid(), Uuid::nil()] {
            decider.post(&at(id, what), why()).await.expect_problem(404, "AGENT_ACCRUAL_NOT_FOUND");
        }
        let path = format!("{PLATFORM}/commission-accruals/x/{what}");
        decider.post(&path, why()).await.expect_problem(404, "NOT_FOUND");
        for (body, code) in [
            (json!({}), "required"),
            (json!({"Comment": " "}), "too_short"),
            (json!({"Comment": "я".repeat(2001)}), "too_long"),
            (json!({"Comment": "\0"}), "forbidden_character"),
        ] {
            decider.post(&at(guid(), what), body).await.expect_refusal("VALIDATION_FAILED", "/Comment", code);
        }
    }
}

/// Has an agent ask about a Base and the platform grant so much in whole: what makes it so.
async fn grant(agent: Uuid, base: Written, whole: i64) -> Uuid {
    let asked = open_request(agent, base).await;
    let path = format!("{PLATFORM}/adjustment-requests/{}/approve", id_of(&asked["Id"]));
    let decided = decider(service()).post(&path, json!({"Amount": rub(whole)})).await.expect(200);
    id_of(&decided["ResultAccrualId"])
}

/// INV-AGT-4: what lowers a sale stays where the rest would come to more than the sale did; the Base goes with all of it.
#[tokio::test]
async fn what_is_left_of_a_sale_is_no_more_than_it_came_to() {
    let (service, agent) = (service(), guid());
    let decider = decider(service);
    let total = async || balances(service, agent, "RUB").await["Total"].clone();
    let base = Owed::to(agent, 100).write(service).await;
    grant(agent, base, 1_000).await;
    let lowers = grant(agent, base, 999).await;
    let raises = grant(agent, base, 1_000).await;
    let refused = decider.post(&at(lowers, "reject"), why()).await;
    refused.expect_problem(409, "AGENT_ACCRUAL_NOT_REJECTABLE");
    pay_one(service, agent).await;
    let refused = decider.post(&at(lowers, "reverse"), why()).await;
    refused.expect_problem(409, "AGENT_ACCRUAL_NOT_REVERSIBLE");
    assert_eq!(total().await, 1_000);
    reverse(raises).await;
    reverse(lowers).await;
    assert_eq!(total().await, 1_000);
    reverse(base.id).await;
    assert_eq!(total().await, 0);

    // What a deal came to at its completion may be more than what it began with.
    let developer = guid();
    pay(developer, 10_000).await;
    let mut deal = Deal::new(agent, developer, rub(1_000));
    deal.bring_to("Sale", "2026-05-01T10:00:00Z").await;
    deal.amount = rub(5_000);
    deal.bring_to("Completed", "2026-06-01T10:00:00Z").await;
    let accruals = accruals_of(deal.id).await;
    let base = accruals.iter().find(|accrual| accrual["Kind"] == "Base").unwrap();
    let base = Written { id: id_of(&base["Id"]), deal: deal.id };
    let lowers = grant(agent, base, 1_000).await;
    assert_eq!(total().await, 1_000);
    reject(lowers).await;
    assert_eq!(total().await, 5_000);
}

/// INV-AGT-3: of reversals that race there is one, and all are told of it.
#[tokio::test]
async fn of_reversals_that_race_there_is_one() {
    let (service, agent) = (service(), guid());
    let base = Owed::to(agent, 100).write(service).await;
    pay_one(service, agent).await;
    let callers: Vec<_> = std::iter::repeat_with(|| decider(service)).take(10).collect();
    let path = at(base.id, "reverse");
    let answers = join_all(callers.iter().map(|caller| caller.post(&path, why()))).await;
    let first = answers[0].body.clone();
    for answer in answers {
        assert_eq!(answer.expect(200), first);
    }
    assert_eq!(balances(service, agent, "RUB").await["Total"], 0);
}

/// Rejections and runs that race: what was rejected is in no payout, and what is in one was not rejected.
#[tokio::test]
async fn what_is_rejected_while_a_run_takes_it_is_one_or_the_other() {
    let service = service();
    for _ in 0..5 {
        let agent = guid();
        let owed = Owed::to(agent, 100).write_all(service, 8).await;
        let rejections = async {
            let decider = decider(service);
            let paths: Vec<_> = owed.iter().map(|accrual| at(accrual.id, "reject")).collect();
            join_all(paths.iter().map(|path| decider.post(path, why()))).await
        };
        let run = crate::owed::pay(service, crate::owed::run_of(&[agent]));
        let (answers, (_, made)) = futures_util::future::join(rejections, run).await;
        let rejected = answers.iter().filter(|answer| answer.status == 200).count();
        let paid = made.first().map_or(0, |payout| payout["AccrualsCount"].as_u64().unwrap());
        let sums = balances(service, agent, "RUB").await;
        assert_eq!(sums["InPayout"], 100 * paid);
        assert_eq!(sums["Total"], 100 * (8 - u64::try_from(rejected).unwrap()));
    }
}
