//! A deal's history, in every order in which Kafka may deliver it.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;
use testkit::guid;
use uuid::Uuid;

use crate::{DEAL_CREATED, Deal, STAGE_CHANGED, cards, role, roles, view_when};

const STATUSES: [&str; 5] = ["Application", "Booking", "Sale", "Cancelled", "Unheard-of"];

/// What a change says of the agent.
#[derive(Clone, Copy, Debug)]
enum Said {
    Nothing,
    Nobody,
    /// One of these.
    Somebody(usize),
}

/// A change: to which status, and what it says of the agent; whether it is delivered again, and how many others later.
type Step = (usize, Said, bool, usize);

fn steps() -> impl Strategy<Value = (Vec<Step>, usize)> {
    let said = prop_oneof![Just(Said::Nothing), Just(Said::Nobody), (0..4_usize).prop_map(Said::Somebody)];
    let step = (0..STATUSES.len(), said, any::<bool>(), 0..4_usize);
    (proptest::collection::vec(step, 1..8), 0..8_usize)
}

/// Section 3, INV-MSG-1, INV-MSG-3: whatever comes first and however often, the chat ends with the same people and one
/// status card for each version, in that order.
#[test]
fn a_history_ends_in_one_state_in_every_order() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { cases: 24, failure_persistence: None, ..Config::default() });
    let result = runner.run(&steps(), |(steps, created_at)| {
        tokio.block_on(deliver(&steps, created_at));
        Ok(())
    });
    result.unwrap();
}

async fn deliver(steps: &[Step], created_at: usize) {
    let deal = Deal::new();
    // The fourth is the client, the third who made the deal.
    let agents = [guid(), guid(), deal.manager, deal.client];
    let (mut status, mut agent, mut told, mut expected) = (0, deal.agent, Vec::new(), Vec::new());
    for (version, (to, said, ..)) in (2..).zip(steps) {
        let mut change = deal.changed(version, STATUSES[status], STATUSES[*to], None);
        match said {
            Said::Nothing => drop(change.as_object_mut().unwrap().remove("AgentUserId")),
            Said::Nobody => agent = None,
            Said::Somebody(which) => agent = Some(agents[*which]),
        }
        if matches!(said, Said::Somebody(_)) {
            change["AgentUserId"] = agent.unwrap().to_string().into();
        }
        if status != *to {
            expected.push(STATUSES[*to]);
        }
        status = *to;
        told.push(change);
    }
    // What was delivered is delivered again, behind some that came later.
    let mut order: Vec<Value> = Vec::new();
    for (at, change) in told.iter().enumerate() {
        order.push(change.clone());
        order.extend(
            (0..at)
                .filter(|earlier| steps[*earlier].2 && earlier + steps[*earlier].3 == at)
                .map(|earlier| told[earlier].clone()),
        );
    }
    let created_at = created_at.min(order.len());
    for (at, change) in order.iter().enumerate() {
        if at == created_at {
            deal.tell(DEAL_CREATED, &deal.created()).await;
            // The topics are apart: only now is it sure to have come before what follows.
            deal.chat().await;
        }
        deal.tell(STAGE_CHANGED, change).await;
    }
    if created_at == order.len() {
        deal.tell(DEAL_CREATED, &deal.created()).await;
    }
    deal.tell(DEAL_CREATED, &deal.created()).await;
    // Behind this one all has been heard.
    deal.tell(
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
    assert_eq!(statuses.map(|card| card["ToStatus"].clone()).collect::<Vec<_>>(), expected, "{steps:?}");
    let expected = people(&deal, agent);
    assert_eq!(roles(&seen).len(), expected.len(), "{steps:?}: {seen}");
    for (user, expected) in expected {
        assert_eq!(role(&seen, user).as_deref(), Some(expected), "{steps:?}: {seen}");
    }
}

/// Who is in the chat of a deal that has this agent.
fn people(deal: &Deal, agent: Option<Uuid>) -> Vec<(Uuid, &'static str)> {
    let manager_is = if agent == Some(deal.manager) { "Agent" } else { "Manager" };
    let mut people = vec![(deal.client, "Client"), (deal.manager, manager_is)];
    people.extend(
        agent.filter(|agent| ![deal.client, deal.manager].contains(agent)).map(|agent| (agent, "Agent")),
    );
    people
}
