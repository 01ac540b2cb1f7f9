//! Events of employments and companies that are late, repeated or concurrent with other changes.

use serde_json::Value;
use testkit::{eventually, guid};

use crate::employment_events::{
    COMPANY_UPSERTED, end, hire, publish, publish_company, publish_company_with_sequence,
    publish_with_sequence, wait_until_applied, wait_until_known, wait_until_left, wait_until_settled,
};
use crate::{
    Deal, STAGE_CHANGED, add, as_user, messages, next_sequence, open_chat, path, role, service, supervisor,
    view, view_when,
};

/// RULE-MSG-079: late and repeated events of a company change nothing. No user returns when the
/// company becomes active again. An employment whose event follows the suspension ends as well.
#[tokio::test]
async fn late_events_of_a_company_change_nothing() {
    let (deal, id) = open_chat().await;
    let company = deal.tenant;
    hire(deal.manager, company).await;
    let [late, suspended] = std::array::from_fn(|_| next_sequence());
    publish_company_with_sequence(suspended, company, "Suspended").await;
    wait_until_left(id, deal.manager).await;
    publish_company_with_sequence(late, company, "Active").await;
    let repeated = next_sequence();
    publish_company_with_sequence(repeated, company, "Suspended").await;
    wait_until_applied(COMPANY_UPSERTED, company, repeated).await;
    let late_manager = guid();
    let second = Deal { tenant: company, manager: late_manager, ..Deal::new() };
    second.publish_created().await;
    let second_id = second.chat().await;
    publish(late_manager, company, None, Some("Active")).await;
    wait_until_left(second_id, late_manager).await;
    add(&deal, id, deal.manager).await.expect_problem(422, "MESSENGER_EMPLOYMENT_ENDED");

    publish_company(company, "Active").await;
    eventually("the activation", async || (add(&deal, id, deal.manager).await.status == 204).then_some(()))
        .await;
    publish_company_with_sequence(suspended, company, "Suspended").await;
    let repeated = next_sequence();
    publish_company_with_sequence(repeated, company, "Active").await;
    wait_until_applied(COMPANY_UPSERTED, company, repeated).await;
    wait_until_settled(deal.manager).await;
    assert_eq!(role(&view(id, deal.manager).await, deal.manager).as_deref(), Some("Member"));
    as_user(late_manager).get(&path(second_id, "")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
}

/// RULE-MSG-068: a repeated or late event neither removes a user who works for the company again,
/// nor brings back a user who left.
#[tokio::test]
async fn repeated_and_late_events_change_nothing() {
    let (deal, id) = open_chat().await;
    let (user, company) = (deal.manager, deal.tenant);
    let (other, other_id) = open_chat().await;
    let [hired, suspended] = std::array::from_fn(|_| next_sequence());
    publish_with_sequence(suspended, user, company, Some("Active"), Some("Suspended")).await;
    wait_until_left(id, user).await;
    // After the late event about the hiring, this company's chat still refuses the user. The end of
    // another employment shows that the late event was consumed.
    publish_with_sequence(hired, user, company, None, Some("Active")).await;
    add(&other, other_id, user).await.expect(204);
    end(user, other.tenant).await;
    wait_until_left(other_id, user).await;
    add(&deal, id, user).await.expect_problem(422, "MESSENGER_EMPLOYMENT_ENDED");

    publish(user, company, Some("Suspended"), Some("Active")).await;
    wait_until_known(user, company, false).await;
    as_user(user).get(&path(id, "")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    add(&deal, id, user).await.expect(204);
    publish_with_sequence(suspended, user, company, Some("Active"), Some("Suspended")).await;
    // The end of another employment shows that the repeat was consumed.
    let (third, third_id) = open_chat().await;
    add(&third, third_id, user).await.expect(204);
    end(user, third.tenant).await;
    wait_until_left(third_id, user).await;
    assert_eq!(role(&view(id, user).await, user).as_deref(), Some("Member"));
}

/// RULE-MSG-068: the job keeps a user who was hired again before the job reached the chat.
#[tokio::test]
async fn job_keeps_a_user_who_was_hired_again() {
    let (deal, id) = open_chat().await;
    let mut sql = service().sql().await;
    let held = sql.transaction().await.unwrap();
    let lock = "select id from chat where id = $1::text::uuid for update";
    held.query_one(lock, &[&id.to_string()]).await.unwrap();
    end(deal.manager, deal.tenant).await;
    wait_until_known(deal.manager, deal.tenant, true).await;
    publish(deal.manager, deal.tenant, None, Some("Active")).await;
    wait_until_known(deal.manager, deal.tenant, false).await;
    held.commit().await.unwrap();
    wait_until_settled(deal.manager).await;
    assert_eq!(role(&view(id, deal.manager).await, deal.manager).as_deref(), Some("Manager"));
}

/// RULE-MSG-069: a user does not become a member after the end of the employment, neither by a
/// supervisor nor by a new deal.
#[tokio::test]
async fn ended_employment_prevents_an_addition() {
    let (deal, id) = open_chat().await;
    end(deal.manager, deal.tenant).await;
    wait_until_left(id, deal.manager).await;
    add(&deal, id, deal.manager).await.expect_problem(422, "MESSENGER_EMPLOYMENT_ENDED");
    let late = Deal { tenant: deal.tenant, manager: deal.manager, ..Deal::new() };
    late.publish_created().await;
    let late_id = late.chat().await;
    assert_eq!(role(&view(late_id, late.client).await, deal.manager), None);
    as_user(deal.manager).get(&path(late_id, "")).await.expect_problem(404, "MESSENGER_CHAT_NOT_FOUND");
    assert_eq!(messages(late_id, late.client).await, [Value::Null; 0], "the first members make no card");
    let member_chats = format!("/api/messenger/supervision/members/{}/chats", deal.manager);
    let page = supervisor(deal.tenant).get(&member_chats).await.expect(200);
    assert_eq!(page["TotalCount"], 2, "the supervisor finds both chats");
    let brokered = Deal { agent: Some(deal.manager), ..Deal::new() };
    brokered.publish_created().await;
    let brokered_id = brokered.chat().await;
    assert_eq!(
        role(&view(brokered_id, brokered.client).await, deal.manager),
        None,
        "a new deal does not bring the user in as the agent either"
    );
    let (other, other_id) = open_chat().await;
    other.publish(STAGE_CHANGED, &other.changed(2, "Application", "Booking", Some(deal.manager))).await;
    let changed = |chat: &Value| role(chat, other.agent()).is_none();
    let chat = view_when(other_id, other.client, "the old agent to leave", changed).await;
    assert_eq!(role(&chat, deal.manager), None, "nor does a change of agent");
    // The agent of an agency may have worked for the company of the chat before.
    hire(deal.manager, guid()).await;
    let third = Deal { tenant: deal.tenant, agent: Some(deal.manager), ..Deal::new() };
    third.publish_created().await;
    let third_id = third.chat().await;
    assert_eq!(role(&view(third_id, third.client).await, deal.manager).as_deref(), Some("Agent"));
}

/// RULE-MSG-069: an addition and the end of the employment at the same time leave no member.
#[tokio::test]
async fn concurrent_addition_and_end_leave_no_member() {
    let (deal, id) = open_chat().await;
    for _ in 0..10 {
        let user = guid();
        let (added, ()) = tokio::join!(add(&deal, id, user), end(user, deal.tenant));
        assert!([204, 422].contains(&added.status), "{}", added.text);
        wait_until_known(user, deal.tenant, true).await;
        wait_until_left(id, user).await;
    }
}

/// RULE-MSG-079: an addition and the suspension of the company at the same time leave no member.
#[tokio::test]
async fn concurrent_addition_and_suspension_leave_no_member() {
    for _ in 0..5 {
        let (deal, id) = open_chat().await;
        let user = guid();
        hire(user, deal.tenant).await;
        let (added, ()) = tokio::join!(add(&deal, id, user), publish_company(deal.tenant, "Suspended"));
        assert!([204, 422].contains(&added.status), "{}", added.text);
        wait_until_left(id, user).await;
    }
}
