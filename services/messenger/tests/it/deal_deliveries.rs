//! The history of a deal in every order in which Kafka may deliver it.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;
use testkit::guid;
use uuid::Uuid;

use crate::{DEAL_CREATED, Deal, STAGE_CHANGED, cards, role, roles, view_when};

const STATUSES: [&str; 5] = ["Application", "Booking", "Sale", "Cancelled", "Unheard-of"];

/// The field `AgentUserId` of a change.
#[derive(Clone, Copy, Debug)]
enum AgentField {
    Absent,
    Null,
    /// One of four agents.
    Agent(usize),
}

/// A change of the deal, and its deliveries.
#[derive(Clone, Debug)]
struct Change {
    /// The index of the new status.
    status: usize,
    agent: AgentField,
    is_repeated: bool,
    /// The number of later changes before the repeat. With fewer later changes there is no repeat.
    repeat_after: usize,
}

/// Returns a strategy for the changes, and for the number of deliveries before `deal-created`.
fn histories() -> impl Strategy<Value = (Vec<Change>, usize)> {
    let agent = prop_oneof![
        Just(AgentField::Absent),
        Just(AgentField::Null),
        (0..4_usize).prop_map(AgentField::Agent)
    ];
    let change = (0..STATUSES.len(), agent, any::<bool>(), 1..4_usize).prop_map(
        |(status, agent, is_repeated, repeat_after)| Change { status, agent, is_repeated, repeat_after },
    );
    (proptest::collection::vec(change, 1..8), 0..8_usize)
}

/// INV-MSG-3, RULE-EVT-023: in every delivery order a chat ends with the same members and one
/// status card for each change of the status.
#[test]
fn history_ends_in_one_state_in_every_delivery_order() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { cases: 24, failure_persistence: None, ..Config::default() });
    let result = runner.run(&histories(), |(history, created_index)| {
        tokio.block_on(deliver(&history, created_index));
        Ok(())
    });
    result.unwrap();
}

/// Delivers a history, and asserts the members and the status cards of the chat.
async fn deliver(history: &[Change], created_index: usize) {
    let deal = Deal::new();
    // The manager and the client may become the agent too.
    let agents = [guid(), guid(), deal.manager, deal.client];
    let (mut status, mut agent, mut events, mut expected) = (0, deal.agent, Vec::new(), Vec::new());
    for (version, change) in (2..).zip(history) {
        let mut event = deal.changed(version, STATUSES[status], STATUSES[change.status], None);
        match change.agent {
            AgentField::Absent => drop(event.as_object_mut().unwrap().remove("AgentUserId")),
            AgentField::Null => agent = None,
            AgentField::Agent(which) => agent = Some(agents[which]),
        }
        if matches!(change.agent, AgentField::Agent(_)) {
            event["AgentUserId"] = agent.unwrap().to_string().into();
        }
        if status != change.status {
            expected.push(STATUSES[change.status]);
        }
        status = change.status;
        events.push(event);
    }
    // Some changes are delivered again, behind later ones.
    let mut order: Vec<Value> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        order.push(event.clone());
        let is_repeated_here = |earlier: &usize| {
            let change = &history[*earlier];
            change.is_repeated && earlier + change.repeat_after == at
        };
        order.extend((0..at).filter(is_repeated_here).map(|earlier| events[earlier].clone()));
    }
    let created_index = created_index.min(order.len());
    for (at, event) in order.iter().enumerate() {
        if at == created_index {
            deal.publish(DEAL_CREATED, &deal.created()).await;
            // Two topics have no common order, so the test waits until the chat exists.
            deal.chat().await;
        }
        deal.publish(STAGE_CHANGED, event).await;
    }
    if created_index == order.len() {
        deal.publish(DEAL_CREATED, &deal.created()).await;
    }
    deal.publish(DEAL_CREATED, &deal.created()).await;
    // The last change shows that all earlier ones were applied.
    deal.publish(
        STAGE_CHANGED,
        &crate::without(deal.changed(100, STATUSES[status], "End", None), "AgentUserId"),
    )
    .await;
    expected.push("End");
    let is_last = |chat: &Value| chat["LastMessage"]["Card"]["ToStatus"] == "End";
    let chat = deal.chat().await;
    let seen = view_when(chat, deal.client, "the end", is_last).await;

    let statuses = cards(chat, deal.client).await.into_iter();
    let statuses = statuses.filter(|card| card["Type"] == "DealStatusChanged");
    assert_eq!(statuses.map(|card| card["ToStatus"].clone()).collect::<Vec<_>>(), expected, "{history:?}");
    let expected = expected_roles(&deal, agent);
    assert_eq!(roles(&seen).len(), expected.len(), "{history:?}: {seen}");
    for (user, expected) in expected {
        assert_eq!(role(&seen, user).as_deref(), Some(expected), "{history:?}: {seen}");
    }
}

/// Returns the members of the chat of a deal with this agent, with their roles.
fn expected_roles(deal: &Deal, agent: Option<Uuid>) -> Vec<(Uuid, &'static str)> {
    let manager_role = if agent == Some(deal.manager) { "Agent" } else { "Manager" };
    let mut roles = vec![(deal.client, "Client"), (deal.manager, manager_role)];
    roles.extend(
        agent.filter(|agent| ![deal.client, deal.manager].contains(agent)).map(|agent| (agent, "Agent")),
    );
    roles
}
