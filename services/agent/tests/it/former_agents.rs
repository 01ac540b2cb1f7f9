//! Former agents, who read what they are still owed.

use serde_json::json;
use testkit::client::Client;
use testkit::guid;
use testkit::issuer::Claims;
use uuid::Uuid;

use crate::fixtures::{AccrualFixture, balance, pay_one, payer, payout_path};
use crate::{CABINET, MY, claims_of, each, id_of, list, rub, service};

/// Returns a client without the permission of the cabinet.
fn former(agent: Uuid) -> Client {
    service().caller(&Claims::user(agent))
}

/// INV-AGT-11, RULE-AGT-062: a former agent reads only unpaid accruals and unfinished payouts.
#[tokio::test]
async fn former_agent_reads_what_is_still_owed() {
    let (service, agent) = (service(), guid());
    AccrualFixture::approved(agent, 100).write(service).await;
    let paid = pay_one(service, agent).await;
    payer(service).post(&payout_path(&paid, "confirm"), json!({})).await.expect(200);
    let on_its_way = AccrualFixture::approved(agent, 20).write(service).await;
    let scheduled = pay_one(service, agent).await;
    let approved = AccrualFixture::approved(agent, 3).write(service).await;
    let pending = AccrualFixture::approved(agent, 4).pending().write(service).await;

    let former = former(agent);
    let accruals = former.get(&format!("{MY}/commission-accruals?Sort=Amount")).await.expect(200);
    let owed = [approved.id, pending.id, on_its_way.id].map(|id| json!(id));
    assert_eq!(each(list(&accruals["Items"]), "Id"), owed.iter().collect::<Vec<_>>());
    assert_eq!(accruals["TotalCount"], 3);
    let finished = former.get(&format!("{MY}/commission-accruals?Status=Paid")).await.expect(200);
    assert_eq!(finished["Items"], json!([]));
    let shown = former.get(&format!("{MY}/payouts")).await.expect(200);
    assert_eq!(shown["Items"], json!([scheduled]));
    for (payout, status) in [(&scheduled, 200), (&paid, 404)] {
        let path = format!("{MY}/payouts/{}/statement", id_of(&payout["Id"]));
        assert_eq!(former.get(&path).await.status, status);
    }
    let summary = former.get(&format!("{MY}/commission-summary")).await.expect(200);
    let expected = json!({
        "Currency": "RUB", "Pending": rub(4), "Approved": rub(3), "InPayout": rub(20), "Paid": rub(0),
        "Total": rub(27), "Outstanding": rub(27),
    });
    assert_eq!(summary["Balances"], json!([expected]));
    let balance = balance(service, agent, "RUB").await;
    assert_eq!((&balance["Paid"], &balance["Total"]), (&json!(100), &json!(127)), "with the permission");
}

/// INV-AGT-11, RULE-AGT-062: a former agent reads no statistics, and files no request.
#[tokio::test]
async fn former_agent_is_refused_statistics_and_requests() {
    let (service, agent) = (service(), guid());
    let accrual = AccrualFixture::approved(agent, 100).write(service).await;
    let former = former(agent);
    former.get(&format!("{MY}/agent-performance")).await.expect_problem(403, "FORBIDDEN");
    let path = format!("{MY}/commission-accruals/{}/adjustment-requests", accrual.id);
    former.post(&path, json!({"Reason": "Other", "Comment": "x"})).await.expect_problem(403, "FORBIDDEN");
    let other = guid();
    AccrualFixture::approved(other, 100).write(service).await;
    let foreign = pay_one(service, other).await;
    let path = format!("{MY}/payouts/{}/statement", id_of(&foreign["Id"]));
    former.get(&path).await.expect_problem(404, "AGENT_PAYOUT_NOT_FOUND");
}

/// INV-AGT-11, RULE-AGT-062: a user without the permission who is owed nothing gets 403.
#[tokio::test]
async fn user_who_is_owed_nothing_is_refused() {
    let service = service();
    let (paid, debtor) = (guid(), guid());
    AccrualFixture::approved(paid, 100).write(service).await;
    let payout = pay_one(service, paid).await;
    former(paid).get(&format!("{MY}/payouts")).await.expect(200);
    payer(service).post(&payout_path(&payout, "confirm"), json!({})).await.expect(200);
    AccrualFixture { kind: "Correction", ..AccrualFixture::approved(debtor, -5) }.write(service).await;
    for user in [paid, debtor, guid()] {
        for path in [
            "commission-summary",
            "commission-accruals",
            "commission-accruals?Status=nonsense",
            "payouts",
            "payouts?PageSize=0",
            "payouts/x/statement",
        ] {
            former(user).get(&format!("{MY}/{path}")).await.expect_problem(403, "FORBIDDEN");
        }
        let agent = service.caller(&claims_of(user, &[CABINET]));
        assert_eq!(agent.get(&format!("{MY}/payouts?PageSize=0")).await.status, 400);
    }
}
