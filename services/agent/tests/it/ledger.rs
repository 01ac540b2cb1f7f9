//! Compares the ledger with a plain model of its rules, on random histories, sequential and
//! concurrent.

mod compare;
mod concurrent;
mod driver;
mod invariants;
mod model;
mod payout_model;

use std::collections::BTreeSet;
use std::sync::Mutex;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use self::driver::{Driver, start_driver};
use self::invariants::InvariantChecker;
use crate::start;

/// The greatest number of accruals in a payout of these tests.
const MAX_LINES: usize = 3;

/// An action of a history. Each number selects one of the existing entities.
#[derive(Clone, Debug)]
enum Action {
    /// Changes a deal. With `late`, the stage change arrives after a later action.
    ChangeDeal {
        deal: usize,
        to: usize,
        amount: usize,
        agent: usize,
        late: bool,
    },
    /// Repeats an event with its old sequence, or with a new one.
    Repeat {
        event: usize,
        with_new_sequence: bool,
    },
    Reject {
        accrual: usize,
    },
    Reverse {
        accrual: usize,
    },
    FileRequest {
        accrual: usize,
        amount: usize,
    },
    Decide {
        request: usize,
        amount: usize,
        approves: bool,
    },
    Run {
        until: usize,
        withholding: usize,
    },
    Transition {
        payout: usize,
        to: usize,
    },
}

fn action() -> impl Strategy<Value = Action> {
    let one = 0..64_usize;
    let changes = (0..4_usize, one.clone(), 0..8_usize, 0..8_usize, prop::bool::weighted(0.2));
    prop_oneof![
        12 => changes
            .prop_map(|(deal, to, amount, agent, late)| Action::ChangeDeal { deal, to, amount, agent, late }),
        2 => (one.clone(), any::<bool>())
            .prop_map(|(event, with_new_sequence)| Action::Repeat { event, with_new_sequence }),
        1 => one.clone().prop_map(|accrual| Action::Reject { accrual }),
        2 => one.clone().prop_map(|accrual| Action::Reverse { accrual }),
        3 => (one.clone(), one.clone()).prop_map(|(accrual, amount)| Action::FileRequest { accrual, amount }),
        3 => (one.clone(), one.clone(), prop::bool::weighted(0.7))
            .prop_map(|(request, amount, approves)| Action::Decide { request, amount, approves }),
        3 => (0..4_usize, 0..3_usize).prop_map(|(until, withholding)| Action::Run { until, withholding }),
        5 => (one.clone(), one).prop_map(|(payout, to)| Action::Transition { payout, to }),
    ]
}

/// RULE-AGT-055: statuses, codes, sums and events of random histories are those of a plain model.
#[test]
fn random_history_equals_a_plain_model() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let service = start(&[("AGENT_PAYOUT_MAX_LINES", &MAX_LINES.to_string())]);
    let cases = Config { cases: 16, max_shrink_iters: 30, failure_persistence: None, ..Config::default() };
    let history = prop::collection::vec(action(), 40..90);
    let covered = Mutex::new((BTreeSet::new(), BTreeSet::new()));
    let is_complete = || {
        let covered = covered.lock().unwrap();
        covered.0.len() >= 9 && covered.1.len() == 7
    };
    // Sixteen histories nearly always cover every pair of kind and status and every refusal.
    // Otherwise sixteen more histories run.
    for _ in 0..8 {
        let checked = TestRunner::new(cases.clone()).run(&history, |history| {
            tokio.block_on(async {
                let mut checker = InvariantChecker::of(&service).await;
                let mut driver: Driver<'_> = start_driver(&service).await;
                for action in &history {
                    driver.perform(action).await;
                    checker.check().await;
                }
                driver.compare_published().await;
                let mut covered = covered.lock().unwrap();
                covered.0.extend(driver.world.accruals.iter().map(|accrual| (accrual.kind, accrual.status)));
                covered.1.extend(driver.refusals);
            });
            Ok(())
        });
        checked.unwrap();
        if is_complete() {
            break;
        }
    }
    let (statuses, codes) = covered.into_inner().unwrap();
    assert!(statuses.len() >= 9, "too few pairs of kind and status were covered: {statuses:?}");
    assert_eq!(codes.len(), 7, "every refusal is covered: {codes:?}");
}
