//! Who may come in: every operation, as everybody.

use serde_json::{Value, json};
use testkit::access::{self, Case, EmptyId};
use testkit::issuer::Claims;
use testkit::service::issuer;
use uuid::Uuid;

use crate::fill::{put, put_accruals, put_payout, request};
use crate::{CABINET, COMMISSIONS, MY, PAYOUTS, guid, holder, id_of, in_days, service, text};

/// Each operation, and what it answers to whom. The cabinet counts in any scope, with or without a company, and is of one's own;
/// what the platform does counts in platform scope alone, and who decides what is owed does not pay it.
const TABLE: &str = "
    operation                | agent | stranger | commissions | payer | organization | nobody | guest | forged | news | crm | issuer | other machines
    get_performance          |  200  |   200    |     403     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_summary              |  200  |   200    |     403     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_own_accruals        |  200  |   200    |     403     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_own_payouts         |  200  |   200    |     403     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_own_statement        |  200  |   404    |     403     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    ask_for_adjustment       |  201  |   404    |     403     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_rate_cards          |  403  |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    replace_rate_card        |  403  |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_agent                |  403  |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    replace_agent            |  403  |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_unrated_deals       |  403  |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_held_deals          |  403  |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_accruals            |  403  |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    reject_accrual           |  403  |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    reverse_accrual          |  403  |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_adjustment_requests |  403  |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    approve_adjustment       |  403  |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    reject_adjustment        |  403  |   403    |     200     |  403  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    begin_payout_run         |  403  |   403    |     403     |  201  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_payout_run           |  403  |   403    |     403     |  200  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    list_payouts             |  403  |   403    |     403     |  200  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    send_payout              |  403  |   403    |     403     |  200  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    confirm_payout           |  403  |   403    |     403     |  200  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    fail_payout              |  403  |   403    |     403     |  200  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    cancel_payout            |  403  |   403    |     403     |  200  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
    get_statement            |  403  |   403    |     403     |  200  |     403      |  403   |  401  |  401   | 401  | 401 |  401   |  401
";

fn body(operation: &str) -> Value {
    match operation {
        "ask_for_adjustment" => json!({"Reason": "Other", "Comment": "мало"}),
        "replace_rate_card" => json!({"AgentUserId": guid(), "Rates": []}),
        "replace_agent" => json!({"AgencyCompanyId": guid()}),
        "reject_accrual" | "reverse_accrual" | "reject_adjustment" => json!({"Comment": "нет"}),
        "begin_payout_run" => json!({
            "RunKey": guid().to_string(), "PeriodFrom": in_days(-2), "PeriodTo": in_days(-1), "AgentUserIds": [guid()],
        }),
        "fail_payout" => json!({"Reason": "счёт закрыт"}),
        "approve_adjustment" | "send_payout" | "confirm_payout" | "cancel_payout" => json!({}),
        _ => Value::Null,
    }
}

/// An agent's thing that the operation can be done to.
async fn parameters(operation: &str, agent: Uuid) -> Vec<(&'static str, String)> {
    let id = |row: &Value| text(&row["id"]).to_owned();
    match operation {
        "get_agent" | "replace_agent" => vec![("agent_user_id", agent.to_string())],
        "ask_for_adjustment" | "reject_accrual" => {
            vec![("accrual_id", id(&put_accruals(agent, |_, row| row, 1).await[0]))]
        }
        "reverse_accrual" => vec![("accrual_id", id(&put_payout(agent, |row| row).await.1))],
        "approve_adjustment" | "reject_adjustment" => {
            let accrual = put_accruals(agent, |_, row| row, 1).await.remove(0);
            let asked = request(agent, id_of(&accrual["id"]));
            put("adjustment_request", std::slice::from_ref(&asked)).await;
            vec![("request_id", id(&asked))]
        }
        "get_payout_run" => {
            let (payout, _) = put_payout(agent, |row| row).await;
            vec![("run_id", text(&payout["run_id"]).to_owned())]
        }
        "get_own_statement" | "get_statement" | "send_payout" | "confirm_payout" | "fail_payout"
        | "cancel_payout" => vec![("payout_id", id(&put_payout(agent, |row| row).await.0))],
        _ => Vec::new(),
    }
}

async fn prepare(operation: &str) -> Case {
    let agent = guid();
    let within = |claims: Claims| Claims { company_id: Some(guid()), ..claims };
    let in_any_scope = |user: Uuid| {
        let everywhere = format!("{CABINET}@platform");
        let explicitly = format!("{CABINET}@organization");
        vec![holder(user, &[CABINET]), holder(user, &[&everywhere]), within(holder(user, &[&explicitly]))]
    };
    let people = vec![
        ("agent", in_any_scope(agent)),
        ("stranger", in_any_scope(guid())),
        ("commissions", vec![holder(guid(), &[COMMISSIONS]), within(holder(guid(), &[COMMISSIONS]))]),
        ("payer", vec![holder(guid(), &[PAYOUTS]), within(holder(guid(), &[PAYOUTS]))]),
        (
            "organization",
            vec![
                within(holder(agent, &["agent.commissions.manage", "agent.payouts.manage"])),
                within(holder(
                    agent,
                    &["agent.commissions.manage@organization", "agent.payouts.manage@organization"],
                )),
                holder(agent, &["agent.commissions.manage", "agent.payouts.manage"]),
            ],
        ),
        (
            "nobody",
            vec![
                Claims::user(agent),
                holder(agent, &["agent.cabinet", "agent.cabinet.use.more", "agent.cabinet.use@elsewhere"]),
            ],
        ),
    ];
    Case { parameters: parameters(operation, agent).await, body: body(operation), people }
}

/// Section 2, Check order, Token: the table above, which leaves out no operation and no flaw of a token.
#[tokio::test]
async fn every_operation_answers_each_caller_as_the_table_says() {
    let empty_id = EmptyId::NobodysIn(&["get_agent", "replace_agent"]);
    access::check_with(service(), TABLE, empty_id, prepare).await;
}

/// Conventions, Token: clocks may differ by 30 seconds and no more, in both directions.
#[tokio::test]
async fn clocks_may_differ_by_30_seconds_and_no_more() {
    let service = service();
    let ask = async |begins: i64, ends: i64| {
        let now = runtime::clock::now().unix_timestamp();
        let claims = json!({
            "iss": issuer().url(), "aud": "platform", "sub": guid(), "permissions": [CABINET], "iat": now + begins,
            "nbf": now + begins, "exp": now + ends,
        });
        let token = issuer().sign(&claims).unwrap();
        service.bearer(&token).get(&format!("{MY}/commission-summary")).await
    };
    // Time goes on meanwhile: what has ended does not begin again, and what begins comes nearer.
    ask(-3_000, -31).await.expect_problem(401, "UNAUTHORIZED");
    ask(-3_000, -20).await.expect(200);
    ask(30, 3_600).await.expect(200);
    ask(60, 3_600).await.expect_problem(401, "UNAUTHORIZED");
}
