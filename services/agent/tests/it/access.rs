//! Access: every operation with every kind of caller.

use serde_json::{Value, json};
use testkit::access::{self, Case, EmptyId, losses, repeats};
use testkit::issuer::Claims;
use testkit::service::issuer;
use uuid::Uuid;

use crate::rows::{LONG_AGO, insert, insert_accruals, insert_payout, request, sold};
use crate::{CABINET, COMMISSIONS, MY, PAYOUTS, claims_of, guid, id_of, in_days, rub, service, text, with};

/// The status of each operation for each caller.
///
/// The cabinet permission grants access to own data, in any scope, with or without a company. A
/// platform permission is valid only in platform scope, and only for its own operations. *stranger*
/// is another agent, *commissions* manages commissions, and *payer* manages payouts. *organization*
/// has the platform permissions in company scope. *former* is the agent without a permission, who
/// is still owed money. *user* has no permission of the service.
const TABLE: &str = "
    operation                | agent | stranger |  former  | commissions | payer | organization |  user  | guest | forged | news | crm | issuer | other machines
    get_performance          |  200  |   200    |   403    |     403     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_summary              |  200  |   200    |   200    |     403     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_own_accruals        |  200  |   200    |   200    |     403     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_own_payouts         |  200  |   200    |   200    |     403     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_own_statement        |  200  |   404    |   200    |     403     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    ask_for_adjustment       |  201  |   404    |   403    |     403     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_rate_cards          |  403  |   403    |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    replace_rate_card        |  403  |   403    |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_agent                |  403  |   403    |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    replace_agent            |  403  |   403    |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_unrated_deals       |  403  |   403    |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_held_deals          |  403  |   403    |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_unassigned_sales    |  403  |   403    |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    assign_sale              |  403  |   403    |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_accruals            |  403  |   403    |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    release_accrual          |  403  |   403    |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    reject_accrual           |  403  |   403    |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    reverse_accrual          |  403  |   403    |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_adjustment_requests |  403  |   403    |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    approve_adjustment       |  403  |   403    |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    reject_adjustment        |  403  |   403    |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    propose_bonus            |  403  |   403    |   403    |     201     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_bonus_proposals     |  403  |   403    |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    approve_bonus            |  403  |   403    |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    reject_bonus             |  403  |   403    |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    begin_payout_run         |  403  |   403    |   403    |     403     |  201  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    preview_payout_run       |  403  |   403    |   403    |     403     |  200  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_money_log           |  403  |   403    |   403    |     200     |  200  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_payout_run           |  403  |   403    |   403    |     403     |  200  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_payouts             |  403  |   403    |   403    |     403     |  200  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    send_payout              |  403  |   403    |   403    |     403     |  200  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    confirm_payout           |  403  |   403    |   403    |     403     |  200  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    fail_payout              |  403  |   403    |   403    |     403     |  200  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    cancel_payout            |  403  |   403    |   403    |     403     |  200  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_statement            |  403  |   403    |   403    |     403     |  200  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
";

fn body(operation: &str) -> Value {
    match operation {
        "ask_for_adjustment" => json!({"Reason": "Other", "Comment": "мало"}),
        "replace_rate_card" => json!({"AgentUserId": guid(), "Rates": []}),
        "replace_agent" => json!({"AgencyCompanyId": guid()}),
        "propose_bonus" => json!({"Amount": rub(1), "Reason": "сложная продажа"}),
        "reject_accrual" | "reverse_accrual" | "reject_adjustment" | "reject_bonus" => {
            json!({"Comment": "нет"})
        }
        "preview_payout_run" => json!({"PeriodFrom": in_days(-2), "PeriodTo": in_days(-1)}),
        "begin_payout_run" => json!({
            "RunKey": guid().to_string(), "PeriodFrom": in_days(-2), "PeriodTo": in_days(-1), "AgentUserIds": [guid()],
        }),
        "fail_payout" => json!({"Reason": "счёт закрыт"}),
        "approve_adjustment" | "approve_bonus" | "send_payout" | "confirm_payout" | "cancel_payout" => {
            json!({})
        }
        _ => Value::Null,
    }
}

/// Creates the entities of an agent that an operation needs, and returns its path parameters.
async fn parameters(operation: &str, agent: Uuid) -> Vec<(&'static str, String)> {
    let id = |row: &Value| text(&row["id"]).to_owned();
    match operation {
        "get_agent" | "replace_agent" => vec![("agent_user_id", agent.to_string())],
        "get_summary" | "list_own_accruals" | "list_own_payouts" => {
            insert_accruals(agent, |_, row| row, 1).await;
            Vec::new()
        }
        "assign_sale" => {
            let sale = with(sold(agent, "Sale", LONG_AGO), "sale_agent_user_id", Value::Null);
            insert("deal", std::slice::from_ref(&sale)).await;
            vec![("deal_id", id(&sale))]
        }
        "release_accrual" => {
            let waiting = |_, row| with(row, "awaits_release", true);
            vec![("accrual_id", id(&insert_accruals(agent, waiting, 1).await[0]))]
        }
        "ask_for_adjustment" | "reject_accrual" => {
            vec![("accrual_id", id(&insert_accruals(agent, |_, row| row, 1).await[0]))]
        }
        "reverse_accrual" => vec![("accrual_id", id(&insert_payout(agent, |row| row).await.1))],
        "approve_adjustment" | "reject_adjustment" => {
            let accrual = insert_accruals(agent, |_, row| row, 1).await.remove(0);
            let request = request(agent, id_of(&accrual["id"]));
            insert("adjustment_request", std::slice::from_ref(&request)).await;
            vec![("request_id", id(&request))]
        }
        "propose_bonus" | "approve_bonus" | "reject_bonus" => {
            let approved = |_, row| with(with(row, "status", "Approved"), "approved_at", LONG_AGO);
            let accrual = insert_accruals(agent, approved, 1).await.remove(0);
            let proposal = json!({
                "id": guid(), "accrual_id": accrual["id"], "agent_user_id": agent, "amount": 1, "reason": "да",
                "status": "Open", "created_at": LONG_AGO, "proposed_by_user_id": guid(), "version": 1,
            });
            insert("bonus_proposal", std::slice::from_ref(&proposal)).await;
            vec![("accrual_id", id(&accrual)), ("proposal_id", id(&proposal))]
        }
        "get_payout_run" => {
            let (payout, _) = insert_payout(agent, |row| row).await;
            vec![("run_id", text(&payout["run_id"]).to_owned())]
        }
        "get_own_statement" | "get_statement" | "send_payout" | "confirm_payout" | "fail_payout"
        | "cancel_payout" => vec![("payout_id", id(&insert_payout(agent, |row| row).await.0))],
        _ => Vec::new(),
    }
}

/// Gives the agent an active agency, and returns the body of an assignment.
async fn assignment(agent: Uuid) -> Value {
    let agency = guid();
    insert("agency", &[json!({"id": agency, "is_active": true, "version": 1})]).await;
    let row = json!({
        "user_id": agent, "agency_company_id": agency, "version": 1, "updated_at": LONG_AGO,
        "updated_by_user_id": guid(),
    });
    insert("agent", &[row]).await;
    json!({"AgentUserId": agent, "RateBps": 300, "Comment": "по договору"})
}

async fn prepare(operation: &str) -> Case {
    let agent = guid();
    let in_company = |claims: Claims| Claims { company_id: Some(guid()), ..claims };
    let in_any_scope = |user: Uuid| {
        let everywhere = format!("{CABINET}@platform");
        let explicitly = format!("{CABINET}@organization");
        vec![
            claims_of(user, &[CABINET]),
            claims_of(user, &[&everywhere]),
            in_company(claims_of(user, &[&explicitly])),
        ]
    };
    let people = vec![
        ("agent", in_any_scope(agent)),
        ("stranger", in_any_scope(guid())),
        (
            "commissions",
            vec![claims_of(guid(), &[COMMISSIONS]), in_company(claims_of(guid(), &[COMMISSIONS]))],
        ),
        ("payer", vec![claims_of(guid(), &[PAYOUTS]), in_company(claims_of(guid(), &[PAYOUTS]))]),
        (
            "organization",
            vec![
                in_company(claims_of(guid(), &["agent.commissions.manage", "agent.payouts.manage"])),
                in_company(claims_of(
                    guid(),
                    &["agent.commissions.manage@organization", "agent.payouts.manage@organization"],
                )),
                claims_of(guid(), &["agent.commissions.manage", "agent.payouts.manage"]),
            ],
        ),
        ("former", vec![Claims::user(agent), in_company(claims_of(agent, &["news.posts.manage-own"]))]),
        (
            "user",
            vec![
                Claims::user(guid()),
                claims_of(
                    guid(),
                    &["agent.cabinet", "agent.cabinet.use.more", "agent.cabinet.use@elsewhere"],
                ),
            ],
        ),
    ];
    let body = if operation == "assign_sale" { assignment(agent).await } else { body(operation) };
    Case { parameters: parameters(operation, agent).await, body, people }
}

/// RULE-AGT-054, RULE-ALL-012, RULE-ALL-013, RULE-ALL-047, RULE-ALL-050, RULE-ALL-073,
/// RULE-ALL-111: every operation returns the statuses of `TABLE`, and refuses each kind of invalid
/// token.
#[tokio::test]
async fn every_operation_returns_the_status_of_the_table() {
    let empty_id = EmptyId::NotFoundIn(&["get_agent", "replace_agent"]);
    access::check_with(service(), TABLE, empty_id, prepare).await;
}

/// RULE-ALL-047: a token is accepted with a clock skew of up to 30 seconds in both directions.
#[tokio::test]
async fn clock_skew_is_accepted_up_to_30_seconds() {
    let service = service();
    let request = async |begins: i64, ends: i64| {
        let now = runtime::clock::now().unix_timestamp();
        let claims = json!({
            "iss": issuer().url(), "aud": "platform", "sub": guid(), "permissions": [CABINET], "iat": now + begins,
            "nbf": now + begins, "exp": now + ends,
        });
        let token = issuer().sign(&claims).unwrap();
        service.bearer(&token).get(&format!("{MY}/commission-summary")).await
    };
    // Time passes during the test, so each value has a margin on the safe side.
    request(-3_000, -31).await.expect_problem(401, "UNAUTHORIZED");
    request(-3_000, -20).await.expect(200);
    request(30, 3_600).await.expect(200);
    request(60, 3_600).await.expect_problem(401, "UNAUTHORIZED");
}

/// The reads of a former agent who is still owed money.
const AFTER_LOSS: &str = "
    operation         | suspended | removed | role lost | company suspended
    get_summary       |    200    |   200   |    200    |        200
    list_own_accruals |    200    |   200   |    200    |        200
    list_own_payouts  |    200    |   200   |    200    |        200
    get_own_statement |    200    |   200   |    200    |        200
";

/// INV-AGT-11, RULE-ALL-075, RULE-ALL-077: after each loss of rights, the old token gets the
/// response to a guest, and a fresh token has the remaining rights.
#[tokio::test]
async fn every_operation_refuses_the_token_from_before_a_loss_of_rights() {
    losses::check(service(), TABLE, AFTER_LOSS, prepare).await;
}

/// RULE-ALL-081, RULE-ALL-082: each operation that creates accepts `Idempotency-Key`. A repeat
/// returns the first response, and another body is refused. RULE-ALL-095: a response has `Location`
/// if a path reads the new resource.
#[tokio::test]
async fn every_creating_operation_returns_its_first_response_to_a_repeat() {
    let without_location = repeats::check(service(), TABLE, prepare).await;
    assert_eq!(without_location, ["propose_bonus", "ask_for_adjustment"]);
}
