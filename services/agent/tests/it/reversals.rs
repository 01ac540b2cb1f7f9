//! Rejections and reversals of accruals.

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::guid;
use uuid::Uuid;

use crate::fixtures::{
    AccrualFixture, StoredAccrual, accrual, balance, cabinet, decider, pay_one, payer, payout_path,
};
use crate::{ACCRUAL_CHANGED, Deal, PLATFORM, accruals_of, id_of, money, rub, service, set_rate};

fn decision_path(id: Uuid, what: &str) -> String {
    format!("{PLATFORM}/commission-accruals/{id}/{what}")
}

fn comment_body() -> Value {
    json!({"Comment": "дважды"})
}

async fn reject(id: Uuid) -> Value {
    decider(service()).post(&decision_path(id, "reject"), comment_body()).await.expect(200)
}

async fn reverse(id: Uuid) -> Value {
    decider(service()).post(&decision_path(id, "reverse"), comment_body()).await.expect(200)
}

async fn open_request(agent: Uuid, base: StoredAccrual) -> Value {
    let path = format!("/api/v1/my/commission-accruals/{}/adjustment-requests", base.id);
    let body = json!({"Reason": "Other", "RequestedAmount": money(150, "RUB"), "Comment": "x"});
    cabinet(service(), agent).post(&path, body).await.expect(201)
}

/// RULE-AGT-027: a rejection includes the adjustments and closes the open requests.
#[tokio::test]
async fn rejection_includes_adjustments_and_open_requests() {
    let (service, agent) = (service(), guid());
    for status in ["Pending", "Approved"] {
        let base = AccrualFixture { status, ..AccrualFixture::approved(agent, 100) }.write(service).await;
        let correction = AccrualFixture { status, ..AccrualFixture::approved(agent, 30) }
            .adjusting(base)
            .write(service)
            .await;
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
    assert_eq!(balance(service, agent, "RUB").await["Total"], 0);
    let sql = service.sql().await;
    let stored = "select count(*) from accrual where agent_user_id = $1::text::uuid and decision_comment = 'дважды' \
                  and decided_by_user_id is not null";
    assert_eq!(sql.query_one(stored, &[&agent.to_string()]).await.unwrap().get::<_, i64>(0), 4);
}

/// RULE-AGT-027: the rejection of an adjustment leaves its Base.
#[tokio::test]
async fn rejected_adjustment_leaves_its_base() {
    let (service, agent) = (service(), guid());
    let base = AccrualFixture::approved(agent, 100).write(service).await;
    let correction = AccrualFixture::approved(agent, 30).adjusting(base).write(service).await;
    reject(correction.id).await;
    assert_eq!(accrual(service, agent, base.id).await["Status"], "Approved");
    assert_eq!(balance(service, agent, "RUB").await["Total"], 100);
}

/// RULE-AGT-027, RULE-AGT-033: an accrual is not rejectable if the accrual or one of its
/// adjustments is in a payout.
///
/// A paid or undone accrual is not rejectable either.
#[tokio::test]
async fn accrual_in_a_payout_is_not_rejectable() {
    let (service, agent) = (service(), guid());
    let decider = decider(service);
    let refused = async |id: Uuid| {
        decider
            .post(&decision_path(id, "reject"), comment_body())
            .await
            .expect_problem(409, "AGENT_ACCRUAL_NOT_REJECTABLE")
    };
    let base = AccrualFixture::approved(agent, 100).pending().write(service).await;
    let adjustment = AccrualFixture::approved(agent, 30).adjusting(base).write(service).await;
    let created = pay_one(service, agent).await;
    refused(adjustment.id).await;
    refused(base.id).await;
    payer(service).post(&payout_path(&created, "confirm"), json!({})).await.expect(200);
    refused(adjustment.id).await;
    refused(base.id).await;
    let reversal = reverse(adjustment.id).await;
    refused(id_of(&reversal["Id"])).await;
    refused(adjustment.id).await;
    assert_eq!(reject(base.id).await["Status"], "Rejected", "its adjustment is no longer effective");
}

/// RULE-AGT-028: a reversal of a paid accrual includes the adjustments.
/// The debt lowers the next payout.
#[tokio::test]
async fn paid_accrual_is_reversed_with_its_adjustments() {
    let (service, agent) = (service(), guid());
    let base = AccrualFixture::approved(agent, 100).write(service).await;
    let adjustment = AccrualFixture::approved(agent, 30).adjusting(base).write(service).await;
    let created = pay_one(service, agent).await;
    payer(service).post(&payout_path(&created, "confirm"), json!({})).await.expect(200);
    let waiting = AccrualFixture::approved(agent, 7).adjusting(base).write(service).await;
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
    assert_eq!(reverse(base.id).await, reversal, "the existing Reversal");
    assert_eq!(accrual(service, agent, adjustment.id).await["Status"], "Paid");
    assert_eq!(accrual(service, agent, waiting.id).await["Status"], "Reversed", "it is in no payout");
    let sums = balance(service, agent, "RUB").await;
    assert_eq!(
        (&sums["Total"], &sums["Approved"], &sums["Outstanding"]),
        (&json!(0), &json!(-130), &json!(-130))
    );

    AccrualFixture::approved(agent, 200).write(service).await;
    let next = pay_one(service, agent).await;
    assert_eq!((&next["Gross"], &next["AccrualsCount"]), (&money(70, "RUB"), &json!(3)));
}

/// RULE-AGT-028: a reversal closes the open requests about the accrual.
#[tokio::test]
async fn reversal_closes_open_requests() {
    let (service, agent) = (service(), guid());
    let base = AccrualFixture::approved(agent, 100).write(service).await;
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

/// RULE-AGT-028: after its payout is cancelled, an accrual and its Reversal sum to 0.
#[tokio::test]
async fn reversed_accrual_of_cancelled_payout_sums_to_zero() {
    let (service, agent) = (service(), guid());
    let base = AccrualFixture::approved(agent, 100).write(service).await;
    let created = pay_one(service, agent).await;
    let reversal = reverse(base.id).await;
    payer(service).post(&payout_path(&created, "cancel"), json!({})).await.expect(200);
    let decider = decider(service);
    decider
        .post(&decision_path(base.id, "reject"), comment_body())
        .await
        .expect_problem(409, "AGENT_ACCRUAL_NOT_REJECTABLE");
    assert_eq!(reverse(base.id).await, reversal);
    let sums = balance(service, agent, "RUB").await;
    assert_eq!((&sums["Total"], &sums["Approved"]), (&json!(0), &json!(0)));
    AccrualFixture::approved(agent, 1).write(service).await;
    assert_eq!(pay_one(service, agent).await["AccrualsCount"], 3);
}

/// RULE-AGT-028, RULE-AGT-031, RULE-AGT-034: Reversals and accruals in no payout are not
/// reversible.
///
/// A missing accrual is not found.
#[tokio::test]
async fn accrual_in_no_payout_is_not_reversible() {
    let (service, agent) = (service(), guid());
    let decider = decider(service);
    let refused = async |id: Uuid| {
        decider
            .post(&decision_path(id, "reverse"), comment_body())
            .await
            .expect_problem(409, "AGENT_ACCRUAL_NOT_REVERSIBLE")
    };
    let approved = AccrualFixture::approved(agent, 100).write(service).await;
    let pending = AccrualFixture::approved(agent, 100).pending().write(service).await;
    refused(approved.id).await;
    refused(pending.id).await;
    pay_one(service, agent).await;
    let reversal = id_of(&reverse(approved.id).await["Id"]);
    refused(reversal).await;
    reject(pending.id).await;
    refused(pending.id).await;
    for what in ["reject", "reverse"] {
        for id in [guid(), Uuid::nil()] {
            decider
                .post(&decision_path(id, what), comment_body())
                .await
                .expect_problem(404, "AGENT_ACCRUAL_NOT_FOUND");
        }
        let path = format!("{PLATFORM}/commission-accruals/x/{what}");
        decider.post(&path, comment_body()).await.expect_problem(404, "NOT_FOUND");
        for (body, code) in [
            (json!({}), "required"),
            (json!({"Comment": " "}), "too_short"),
            (json!({"Comment": "я".repeat(2001)}), "too_long"),
            (json!({"Comment": "\0"}), "forbidden_character"),
        ] {
            decider.post(&decision_path(guid(), what), body).await.expect_refusal(
                "VALIDATION_FAILED",
                "/Comment",
                code,
            );
        }
    }
}

/// Files a request about a Base, and approves a whole amount. Returns the created accrual.
async fn grant(agent: Uuid, base: StoredAccrual, whole: i64) -> Uuid {
    let request = open_request(agent, base).await;
    let path = format!("{PLATFORM}/adjustment-requests/{}/approve", id_of(&request["Id"]));
    let decided = decider(service()).post(&path, json!({"Amount": rub(whole)})).await.expect(200);
    id_of(&decided["ResultAccrualId"])
}

/// INV-AGT-4: an adjustment is neither rejected nor reversed if the other accruals of the sale
/// would then exceed its amount.
///
/// The Base can be reversed with all adjustments.
#[tokio::test]
async fn rest_of_a_sale_never_exceeds_its_amount() {
    let (service, agent) = (service(), guid());
    let decider = decider(service);
    let total = async || balance(service, agent, "RUB").await["Total"].clone();
    let base = AccrualFixture::approved(agent, 100).write(service).await;
    grant(agent, base, 1_000).await;
    let decrease = grant(agent, base, 999).await;
    let increase = grant(agent, base, 1_000).await;
    let refused = decider.post(&decision_path(decrease, "reject"), comment_body()).await;
    refused.expect_problem(409, "AGENT_ACCRUAL_NOT_REJECTABLE");
    pay_one(service, agent).await;
    let refused = decider.post(&decision_path(decrease, "reverse"), comment_body()).await;
    refused.expect_problem(409, "AGENT_ACCRUAL_NOT_REVERSIBLE");
    assert_eq!(total().await, 1_000);
    reverse(increase).await;
    reverse(decrease).await;
    assert_eq!(total().await, 1_000);
    reverse(base.id).await;
    assert_eq!(total().await, 0);

    // The amount at completion may be higher than the one at the start.
    let developer = guid();
    set_rate(developer, 10_000).await;
    let mut deal = Deal::new(agent, developer, rub(1_000));
    deal.move_to("Sale", "2026-05-01T10:00:00Z").await;
    deal.amount = rub(5_000);
    deal.move_to("Completed", "2026-06-01T10:00:00Z").await;
    let accruals = accruals_of(deal.id).await;
    let base = accruals.iter().find(|accrual| accrual["Kind"] == "Base").unwrap();
    let base = StoredAccrual { id: id_of(&base["Id"]), deal: deal.id };
    let decrease = grant(agent, base, 1_000).await;
    assert_eq!(total().await, 1_000);
    reject(decrease).await;
    assert_eq!(total().await, 5_000);
}

/// INV-AGT-3: concurrent reversals create one Reversal, and all return it.
#[tokio::test]
async fn concurrent_reversals_create_one_reversal() {
    let (service, agent) = (service(), guid());
    let base = AccrualFixture::approved(agent, 100).write(service).await;
    pay_one(service, agent).await;
    let callers: Vec<_> = std::iter::repeat_with(|| decider(service)).take(10).collect();
    let path = decision_path(base.id, "reverse");
    let responses = join_all(callers.iter().map(|caller| caller.post(&path, comment_body()))).await;
    let first = responses[0].body.clone();
    for response in responses {
        assert_eq!(response.expect(200), first);
    }
    assert_eq!(balance(service, agent, "RUB").await["Total"], 0);
}

/// RULE-AGT-030: no accrual that is rejected during a run is also in the payout.
#[tokio::test]
async fn accrual_rejected_during_a_run_is_rejected_or_paid() {
    let service = service();
    for _ in 0..5 {
        let agent = guid();
        let stored = AccrualFixture::approved(agent, 100).write_all(service, 8).await;
        let rejections = async {
            let decider = decider(service);
            let paths: Vec<_> = stored.iter().map(|accrual| decision_path(accrual.id, "reject")).collect();
            join_all(paths.iter().map(|path| decider.post(path, comment_body()))).await
        };
        let run = crate::fixtures::pay(service, crate::fixtures::run_body(&[agent]));
        let (responses, (_, created)) = futures_util::future::join(rejections, run).await;
        let rejected = responses.iter().filter(|response| response.status == 200).count();
        let paid = created.first().map_or(0, |payout| payout["AccrualsCount"].as_u64().unwrap());
        let sums = balance(service, agent, "RUB").await;
        assert_eq!(sums["InPayout"], 100 * paid);
        assert_eq!(sums["Total"], 100 * (8 - u64::try_from(rejected).unwrap()));
    }
}
