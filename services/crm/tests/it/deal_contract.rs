//! Contract data, agents and notes.

use serde_json::{Value, json};
use testkit::client::Response;
use testkit::guid;
use uuid::Uuid;

use crate::{
    CREATED, Deal, STAGE_CHANGED, care, contract, create_deal, each, manager, platform, rub, service, topics,
    user_with, with,
};

const ACCOUNT: &str = "40817810099910004312";

/// Returns a body with every field.
fn full_body() -> Value {
    json!({
        "ContractType": "Assignment", "PaymentMethod": "Cash", "EscrowAccountNumber": ACCOUNT,
        "FixationData": " цена до марта ", "ContractNumber": "ДДУ-17", "Amount": {"AmountMinor": 5, "Currency": "USD"},
    })
}

async fn put(deal: &Deal, body: Value) -> Response {
    platform().put(&deal.path("/contract"), body).await
}

/// RULE-CRM-007, RULE-EVT-017: an omitted member is cleared, except `Amount`. The timeline gets
/// field names only, and nothing is published.
#[tokio::test]
async fn contract_update_clears_omitted_members() {
    let deal = create_deal().await;
    let card = put(&deal, full_body()).await.expect(200);
    assert_eq!((&card["RowVersion"], card.as_object().unwrap().len()), (&json!(2), 6));
    let expected = with(with(full_body(), "DealId", json!(deal.id)), "RowVersion", 2);
    assert_eq!(platform().get(&deal.path("/contract")).await.expect(200), expected);
    assert_eq!(manager(deal.developer).get(&deal.own("/contract")).await.expect(200), expected);
    let same = put(&deal, with(full_body(), "RowVersion", 1)).await.expect(200);
    assert_eq!(same["RowVersion"], 2, "identical data change nothing and compare no version");
    put(&deal, json!({"ContractType": "Ddu", "Amount": null})).await.expect(200);
    let left = platform().get(&deal.path("/contract")).await.expect(200);
    let expected = json!({
        "DealId": deal.id, "ContractType": "Ddu", "PaymentMethod": null, "ContractNumber": null,
        "EscrowAccountNumber": null, "FixationData": null, "Amount": full_body()["Amount"], "RowVersion": 3,
    });
    assert_eq!(left, expected);
    let timeline = deal.timeline().await;
    assert_eq!(each(&timeline, "Kind"), ["DealCreated", "ContractChanged", "ContractChanged"]);
    let all =
        ["ContractType", "PaymentMethod", "ContractNumber", "EscrowAccountNumber", "FixationData", "Amount"];
    assert_eq!(timeline[1]["Payload"], json!({"ChangedFields": all}));
    assert_eq!(timeline[2]["Payload"], json!({"ChangedFields": all[..5]}));
    assert_eq!(topics(&deal.events().await), [CREATED], "a change of contract data publishes nothing");
}

/// INV-DEAL-6, RULE-CRM-007, RULE-CRM-022: terminal, no-op, contract type and version are checked
/// in this order. In Sale contract type and payment method cannot be cleared.
#[tokio::test]
async fn contract_change_with_several_faults_reports_the_first() {
    let deal = create_deal().await;
    deal.bring_to("Sale").await;
    let stale = |body: Value| with(body, "RowVersion", 0);
    for incomplete in [json!({"ContractType": "Ddu"}), json!({"PaymentMethod": "Cash"}), json!({})] {
        put(&deal, stale(incomplete)).await.expect_problem(409, "CRM_DEAL_CONTRACT_TYPE_REQUIRED");
    }
    put(&deal, stale(contract())).await.expect(200);
    put(&deal, stale(full_body())).await.expect_problem(409, "CRM_DEAL_CONFLICT");
    put(&deal, full_body()).await.expect(200);
    for status in ["Cancelled", "Completed"] {
        let deal = create_deal().await;
        deal.bring_to(status).await;
        put(&deal, stale(json!({}))).await.expect_problem(409, "CRM_DEAL_ALREADY_TERMINAL");
        assert_eq!(platform().get(&deal.path("/contract")).await.status, 200);
    }
    let unknown = Deal { id: guid(), ..deal };
    put(&unknown, json!({})).await.expect_problem(404, "CRM_DEAL_NOT_FOUND");
    platform().get(&unknown.path("/contract")).await.expect_problem(404, "CRM_DEAL_NOT_FOUND");
    let empty = Deal { id: Uuid::nil(), ..deal };
    platform().get(&empty.path("/contract")).await.expect_refusal("VALIDATION_FAILED", "/DealId", "empty_id");
}

/// RULE-CRM-007: an account number has 20 ASCII digits. Fixation data have 1 to 4000 characters,
/// not trimmed.
#[tokio::test]
async fn invalid_contract_data_are_refused() {
    let deal = create_deal().await;
    for (member, value, code) in [
        ("EscrowAccountNumber", json!(&ACCOUNT[1..]), "bad_account_number"),
        ("EscrowAccountNumber", json!(format!("{ACCOUNT}0")), "bad_account_number"),
        ("EscrowAccountNumber", json!(format!(" {}", &ACCOUNT[1..])), "bad_account_number"),
        ("EscrowAccountNumber", json!("٤٠٨١٧٨١٠٠٩٩٩١٠٠٠٤٣١٢"), "bad_account_number"),
        ("EscrowAccountNumber", json!(5), "invalid_type"),
        ("FixationData", json!(""), "too_short"),
        ("FixationData", json!("ё".repeat(4001)), "too_long"),
        ("FixationData", json!("a\0"), "forbidden_character"),
        ("ContractType", json!("ddu"), "unknown_value"),
        ("PaymentMethod", json!("Barter"), "unknown_value"),
        ("Amount", json!(5), "invalid_type"),
    ] {
        let response = put(&deal, with(full_body(), member, value.clone())).await;
        // A refusal does not repeat the value. It may contain a shorter one by chance.
        if let Some(text) = value.as_str().filter(|text| text.len() > 5) {
            assert!(!response.text.contains(text), "{}", response.text);
        }
        response.expect_refusal("VALIDATION_FAILED", &format!("/{member}"), code);
    }
    put(&deal, with(full_body(), "Amount", rub(0))).await.expect_refusal(
        "VALIDATION_FAILED",
        "/Amount/AmountMinor",
        "out_of_range",
    );
    put(&deal, with(full_body(), "FixationData", "😀".repeat(4000))).await.expect(200);
    put(&deal, with(full_body(), "FixationData", " x ")).await.expect(200);
    for blank in [" ", "\u{200b}"] {
        let refused = put(&deal, with(full_body(), "FixationData", blank)).await;
        refused.expect_refusal("VALIDATION_FAILED", "/FixationData", "too_short");
    }
}

/// RULE-CRM-008, RULE-EVT-013: each change of the agent publishes a stage change, whose
/// `From` and `To` members name the same status and the same step.
#[tokio::test]
async fn agent_change_publishes_a_stage_change() {
    let deal = create_deal().await;
    let (first, second) = (deal.read().await["AgentUserId"].clone(), guid());
    let put = async |body: Value| platform().put(&deal.path("/agent"), body).await;
    let same = put(json!({"AgentUserId": first, "RowVersion": 9})).await.expect(200);
    assert_eq!(same["RowVersion"], 1);
    put(json!({"AgentUserId": second, "RowVersion": 9})).await.expect_problem(409, "CRM_DEAL_CONFLICT");
    put(json!({"AgentUserId": Uuid::nil()})).await.expect_refusal(
        "VALIDATION_FAILED",
        "/AgentUserId",
        "empty_id",
    );
    put(json!({"AgentUserId": second, "RowVersion": 1})).await.expect(200);
    put(json!({})).await.expect(200);
    put(json!({"AgentUserId": null})).await.expect(200);
    let timeline = deal.timeline().await;
    assert_eq!(each(&timeline, "Kind"), ["DealCreated", "AgentChanged", "AgentChanged"]);
    assert_eq!(timeline[1]["Payload"], json!({"FromAgentUserId": first, "ToAgentUserId": second}));
    assert_eq!(timeline[2]["Payload"], json!({"FromAgentUserId": second, "ToAgentUserId": null}));
    let events = deal.events().await;
    assert_eq!(topics(&events), [CREATED, STAGE_CHANGED, STAGE_CHANGED]);
    let payload = &events[1].payload;
    assert_eq!(payload["AgentUserId"], json!(second));
    assert_eq!(
        (&payload["FromStepId"], &payload["FromStatus"]),
        (&payload["ToStepId"], &payload["ToStatus"])
    );
    assert_eq!(events[2].payload["AgentUserId"], Value::Null);
    for status in ["Cancelled", "Completed"] {
        let deal = create_deal().await;
        deal.bring_to(status).await;
        for agent in [deal.read().await["AgentUserId"].clone(), json!(guid())] {
            let response = platform().put(&deal.path("/agent"), json!({"AgentUserId": agent})).await;
            response.expect_problem(409, "CRM_DEAL_ALREADY_TERMINAL");
        }
    }
}

/// INV-TLE-5, RULE-CRM-014: a note is possible in every status. It is a `ManualNote` on platform
/// routes and a `CompanyNote` on company routes.
#[tokio::test]
async fn note_leaves_its_deal_unchanged() {
    for status in ["Application", "Cancelled", "Completed"] {
        let deal = create_deal().await;
        deal.bring_to(status).await;
        let before = deal.read().await;
        let both = user_with(None, &["crm.deals.care@platform", "crm.deals.manage@platform"]);
        for (by, path, kind, role) in [
            (platform(), deal.path("/notes"), "ManualNote", "PlatformManager"),
            (care(), deal.path("/notes"), "ManualNote", "CareService"),
            (service().caller(&both), deal.path("/notes"), "ManualNote", "PlatformManager"),
            (manager(deal.developer), deal.own("/notes"), "CompanyNote", "DeveloperManager"),
        ] {
            let row = by.post(&path, json!({"Text": " звонил\n", "RowVersion": 77})).await.expect(201);
            assert_eq!((&row["Kind"], &row["ActorRole"]), (&json!(kind), &json!(role)));
            assert_eq!(row["Payload"], json!({"Text": "звонил"}));
            assert_eq!((&row["RowVersion"], &row["DealId"]), (&before["RowVersion"], &json!(deal.id)));
            assert_eq!(deal.timeline().await.last(), Some(&row));
        }
        assert_eq!(deal.read().await, before);
    }
}

/// RULE-CRM-014: a note has 1 to 2000 characters and no NUL. An unknown deal, or one of another
/// company, is 404.
#[tokio::test]
async fn invalid_note_is_refused() {
    let deal = create_deal().await;
    for (text, code) in [
        (json!(" \u{2028}"), "too_short"),
        (json!("x".repeat(2001)), "too_long"),
        (json!("x\0"), "forbidden_character"),
        (Value::Null, "invalid_type"),
    ] {
        let response = platform().post(&deal.path("/notes"), json!({"Text": text})).await;
        response.expect_refusal("VALIDATION_FAILED", "/Text", code);
    }
    let longest = json!({"Text": format!("\u{a0}{}\n", "😀".repeat(2000))});
    platform().post(&deal.path("/notes"), longest).await.expect(201);
    let note = json!({"Text": "x"});
    let unknown = Deal { id: guid(), ..deal };
    platform().post(&unknown.path("/notes"), note.clone()).await.expect_problem(404, "CRM_DEAL_NOT_FOUND");
    manager(guid()).post(&deal.own("/notes"), note).await.expect_problem(404, "CRM_DEAL_NOT_FOUND");
}
