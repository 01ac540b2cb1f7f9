//! Permissions: every operation by every kind of caller.

use serde_json::{Value, json};
use testkit::access::losses::Loss;
use testkit::access::{self, Case, EmptyId, losses, repeats};
use testkit::issuer::Claims;
use testkit::{eventually, guid};
use uuid::Uuid;

use crate::fixture::{ConferenceFixture, MODERATE};
use crate::reports::MODERATE_DIRECT;
use crate::{
    MANAGE, MANAGE_ALL, add, as_user, chat_direct, claims_with, employment_events, path, send_text, service,
};

/// The status of each operation for each caller.
/// The member is also a supervisor in `add_member` and `remove_member`.
/// Supervisors and moderators are not members of the chat.
/// `reports` is a chat moderator.
/// `elsewhere` has the permissions in another company, and a `stranger` has no company.
const TABLE: &str = "
    operation              | member | supervisor | platform | moderator | reports | elsewhere | stranger | guest | forged | news | crm | issuer | other machines
    list_chats             |  200   |    200     |   200    |    200    |   200   |    200    |   200    |  401  |  401   | 401  | 401 |  401   |      401
    count_unread           |  200   |    200     |   200    |    200    |   200   |    200    |   200    |  401  |  401   | 401  | 401 |  401   |      401
    open_chat              |  201   |    404     |   404    |    404    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    get_chat               |  200   |    200     |   200    |    404    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    read_chat              |  200   |    404     |   404    |    404    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    add_member             |  204   |    204     |   204    |    404    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    remove_member          |  204   |    204     |   204    |    404    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    leave_chat             |  204   |    404     |   404    |    404    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    block_chat             |  204   |    404     |   404    |    404    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    unblock_chat           |  204   |    404     |   404    |    404    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    report_chat            |  201   |    404     |   404    |    404    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    list_reports           |  403   |    403     |   403    |    403    |   200   |    403    |   403    |  401  |  401   | 401  | 401 |  401   |      401
    list_reported_messages |  403   |    403     |   403    |    403    |   200   |    403    |   403    |  401  |  401   | 401  | 401 |  401   |      401
    close_reported_chat    |  403   |    403     |   403    |    403    |   200   |    403    |   403    |  401  |  401   | 401  | 401 |  401   |      401
    dismiss_report         |  403   |    403     |   403    |    403    |   200   |    403    |   403    |  401  |  401   | 401  | 401 |  401   |      401
    list_member_chats      |  403   |    200     |   200    |    403    |   403   |    200    |   403    |  401  |  401   | 401  | 401 |  401   |      401
    hand_over_chats        |  403   |    200     |   200    |    403    |   403   |    200    |   403    |  401  |  401   | 401  | 401 |  401   |      401
    list_messages          |  200   |    404     |   404    |    404    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    send_message           |  201   |    404     |   404    |    404    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    edit_message           |  200   |    404     |   404    |    404    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    delete_message         |  204   |    404     |   404    |    404    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    open_stream            |  200   |    200     |   200    |    200    |   200   |    200    |   200    |  401  |  401   | 401  | 401 |  401   |      401
    start_conference       |  201   |    404     |   404    |    404    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    list_conferences       |  200   |    404     |   404    |    404    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    get_conference         |  200   |    404     |   404    |    200    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    invite_to_conference   |  200   |    404     |   404    |    403    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    join_conference        |  200   |    404     |   404    |    403    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    refresh_media_token    |  200   |    404     |   404    |    403    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    leave_conference       |  200   |    404     |   404    |    403    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    decline_conference     |  200   |    404     |   404    |    403    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    remove_participant     |  200   |    404     |   404    |    200    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    end_conference         |  200   |    404     |   404    |    200    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    hand_over_conference   |  200   |    404     |   404    |    403    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    knock_at_conference    |  200   |    404     |   404    |    403    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    admit_participant      |  200   |    404     |   404    |    403    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
    deny_participant       |  200   |    404     |   404    |    403    |   404   |    404    |   404    |  401  |  401   | 401  | 401 |  401   |      401
";

/// The statuses for a fresh token that are exceptions from the rule of [`losses::check`]. By this
/// rule an operation is 403 after the loss of a permission, and otherwise succeeds. Employees who
/// lost more than a role find no deal chat, and their Direct chats are as before.
const FRESH_TABLE: &str = "
    operation              | suspended | removed | role lost | company suspended
    open_chat              |    404    |   404   |    201    |        404
    get_chat               |    404    |   404   |    200    |        404
    read_chat              |    404    |   404   |    200    |        404
    add_member             |    404    |   404   |    403    |        404
    remove_member          |    404    |   404   |    403    |        404
    list_messages          |    404    |   404   |    200    |        404
    send_message           |    404    |   404   |    201    |        404
    edit_message           |    404    |   404   |    200    |        404
    delete_message         |    404    |   404   |    204    |        404
    start_conference       |    404    |   404   |    201    |        404
    list_conferences       |    404    |   404   |    200    |        404
    get_conference         |    404    |   404   |    200    |        404
    invite_to_conference   |    404    |   404   |    200    |        404
    join_conference        |    404    |   404   |    200    |        404
    refresh_media_token    |    404    |   404   |    200    |        404
    leave_conference       |    404    |   404   |    200    |        404
    decline_conference     |    404    |   404   |    200    |        404
    remove_participant     |    404    |   404   |    200    |        404
    end_conference         |    404    |   404   |    200    |        404
    hand_over_conference   |    404    |   404   |    200    |        404
    knock_at_conference    |    404    |   404   |    200    |        404
    admit_participant      |    404    |   404   |    200    |        404
    deny_participant       |    404    |   404   |    200    |        404
";

/// Returns a chat and a request about it by its client or agent.
async fn prepare(operation: &str) -> Case {
    prepare_for(operation, ConferenceFixture::new().await).await
}

/// Returns a chat and a request about it by its manager or agent, who are employees.
async fn prepare_for_employee(operation: &str) -> Case {
    let mut fixture = ConferenceFixture::new().await;
    // The client and the manager change places, so that the manager acts in place of the client.
    let deal = &mut fixture.deal;
    (deal.client, deal.manager) = (deal.manager, deal.client);
    prepare_for(operation, fixture).await
}

async fn prepare_for(operation: &str, fixture: ConferenceFixture<'static>) -> Case {
    let deal = fixture.deal;
    let [host, agent, manager] = fixture.users();
    let user = guid();
    let mut parameters = vec![("chat_id", fixture.chat.to_string()), ("user_id", user.to_string())];
    let (mut me, mut permissions) = (host, Vec::new());
    let body = match operation {
        "open_chat" | "hand_over_conference" => json!({"UserId": agent}),
        "read_chat" => json!({"Sequence": 0}),
        "send_message" | "edit_message" => json!({"Text": "привет"}),
        "start_conference" => json!({"Media": "Audio"}),
        "invite_to_conference" => json!({"UserIds": [manager]}),
        "report_chat" => json!({"Reason": "Spam"}),
        "hand_over_chats" => json!({"ToUserId": guid()}),
        _ => Value::Null,
    };
    match operation {
        "add_member" => permissions.push(MANAGE),
        "remove_member" => {
            permissions.push(MANAGE);
            add(&deal, fixture.chat, user).await.expect(204);
        }
        "edit_message" | "delete_message" => {
            let sent = send_text(fixture.chat, host, "здравствуйте").await;
            parameters.push(("message_id", sent["Id"].as_str().unwrap().to_owned()));
        }
        "leave_chat" | "block_chat" | "unblock_chat" | "report_chat" => {
            parameters[0].1 = chat_direct::open(host, manager).await.to_string();
        }
        "list_reported_messages" | "close_reported_chat" | "dismiss_report" => {
            let direct = chat_direct::open(host, manager).await;
            let body = json!({"Reason": "Spam"});
            let report = as_user(host).post(&path(direct, "/reports"), body).await.expect(201);
            parameters.push(("report_id", report["Id"].as_str().unwrap().to_owned()));
        }
        "list_member_chats" | "hand_over_chats" | "admit_participant" | "deny_participant" => {
            parameters[1].1 = manager.to_string();
        }
        "leave_conference" | "decline_conference" | "join_conference" | "knock_at_conference" => me = agent,
        "remove_participant" => parameters[1].1 = agent.to_string(),
        _ => {}
    }
    if ["knock_at_conference", "admit_participant", "deny_participant"].contains(&operation) {
        let knocks = operation == "knock_at_conference";
        let id = fixture.ring_with_lobby(&[if knocks { manager } else { agent }]).await;
        parameters.push(("conference_id", id.to_string()));
        if !knocks {
            fixture.act(manager, id, "knock").await.expect(200);
        }
    } else if operation.contains("conference")
        && !["start_conference", "list_conferences"].contains(&operation)
        || ["refresh_media_token", "remove_participant"].contains(&operation)
    {
        let id = fixture.ring(None).await;
        parameters.push(("conference_id", id.to_string()));
        if ["leave_conference", "hand_over_conference"].contains(&operation) {
            fixture.act(agent, id, "join").await.expect(200);
        }
    }
    let mut people = vec![
        ("member", vec![claims_with(me, Some(deal.tenant), &permissions)]),
        ("supervisor", vec![claims_with(guid(), Some(deal.tenant), &[MANAGE])]),
        ("platform", vec![claims_with(guid(), None, &[MANAGE_ALL])]),
        ("moderator", vec![claims_with(guid(), Some(deal.tenant), &[MODERATE])]),
        ("reports", vec![claims_with(guid(), None, &[MODERATE_DIRECT])]),
        ("elsewhere", vec![claims_with(guid(), Some(guid()), &[MANAGE, MODERATE])]),
        ("stranger", vec![Claims::user(guid()), claims_with(guid(), None, &[MANAGE, MODERATE])]),
    ];
    if operation == "open_stream" {
        // A stream ends when its token expires.
        for claims in people.iter_mut().flat_map(|(_, claims)| claims) {
            claims.lifetime = time::Duration::seconds(1);
        }
    }
    Case { parameters, body, people }
}

/// RULE-MSG-008, RULE-ALL-012, RULE-ALL-013, RULE-ALL-047, RULE-ALL-050, RULE-ALL-073,
/// RULE-ALL-111: each caller gets the status of the table, for every operation and every flaw of a
/// token.
#[tokio::test]
async fn every_operation_returns_the_status_of_the_table() {
    let empty_id = EmptyId::RefusedIn(&["add_member", "remove_member"]);
    access::check_with(service(), TABLE, empty_id, prepare).await;
}

/// Ends the employment of each user who lost more than a role, and waits until these users have
/// left their deal chats.
async fn end_employments(losses: &[(Loss, Claims)]) {
    let users: Vec<(Loss, Uuid, Uuid)> = losses
        .iter()
        .filter(|(loss, _)| *loss != Loss::RoleLost)
        .map(|(loss, claims)| (*loss, claims.sub.parse().unwrap(), claims.company_id.unwrap()))
        .collect();
    for (loss, user, company) in &users {
        employment_events::hire(*user, *company).await;
        match loss {
            Loss::Suspended => {
                employment_events::publish(*user, *company, Some("Active"), Some("Suspended")).await;
            }
            Loss::CompanySuspended => employment_events::publish_company(*company, "Suspended").await,
            Loss::Removed | Loss::RoleLost => employment_events::end(*user, *company).await,
        }
    }
    let users: Vec<_> = users.iter().map(|(_, user, _)| user.to_string()).collect();
    let members = "select count(*) from member join chat on chat.id = chat_id \
                   where kind = 'Deal' and user_id = any($1::text[]::uuid[])";
    let sql = service().sql().await;
    eventually("the end of all memberships", async || {
        (sql.query_one(members, &[&users]).await.unwrap().get::<_, i64>(0) == 0).then_some(())
    })
    .await;
}

/// RULE-ALL-075, RULE-ALL-077, RULE-MSG-066, RULE-MSG-079: after each loss of rights, the old token
/// gets the response to a guest, and a fresh token has the remaining rights. The fresh token of a
/// suspended or former employee opens no deal chat.
#[tokio::test]
async fn every_operation_refuses_the_token_from_before_a_loss_of_rights() {
    losses::check_with(service(), TABLE, FRESH_TABLE, prepare_for_employee, end_employments).await;
}

/// RULE-ALL-081, RULE-ALL-082: each operation that creates accepts `Idempotency-Key`. A repeat
/// returns the first response, and another body is refused. RULE-ALL-095: a response has a
/// `Location`, unless the created entity has no address.
#[tokio::test]
async fn every_creating_operation_returns_its_first_response_to_a_repeat() {
    let without_location = repeats::check(service(), TABLE, prepare).await;
    assert_eq!(without_location, ["send_message", "report_chat"]);
}
