//! Compares the ledger with a plain model of its rules, on random histories, sequential and
//! concurrent.

mod action;
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
use testkit::service::Running;

use self::action::action;
use self::driver::{Driver, MAX_LINES, start_driver};
use self::invariants::InvariantChecker;
use crate::start;

/// Threads of a round. They mostly wait for the service.
const THREADS: u32 = 4;
/// Histories that each thread checks in a round.
const HISTORIES: u32 = 4;

/// The least number of pairs of kind and status that the histories must cover, of 17 possible ones.
const MIN_PAIRS: usize = 9;
/// The number of refusals in the model.
const REFUSALS: usize = 7;

/// The pairs of kind and status at the end of histories, and the refusals in them.
type Covered = (BTreeSet<(&'static str, &'static str)>, BTreeSet<&'static str>);

/// RULE-AGT-055: statuses, codes, sums and events of random histories are those of a plain model.
#[test]
fn random_history_equals_a_plain_model() {
    let service = start(&[("AGENT_PAYOUT_MAX_LINES", &MAX_LINES.to_string())]);
    let covered = Mutex::new(Covered::default());
    let is_complete = || {
        let covered = covered.lock().unwrap();
        covered.0.len() >= MIN_PAIRS && covered.1.len() == REFUSALS
    };
    // One round nearly always covers enough. Otherwise more rounds run, up to eight.
    for _ in 0..8 {
        std::thread::scope(|threads| {
            for _ in 0..THREADS {
                threads.spawn(|| check_histories(&service, &covered));
            }
        });
        if is_complete() {
            break;
        }
    }
    let (statuses, codes) = covered.into_inner().unwrap();
    assert!(statuses.len() >= MIN_PAIRS, "too few pairs of kind and status were covered: {statuses:?}");
    assert_eq!(codes.len(), REFUSALS, "not every refusal was covered: {codes:?}");
}

/// Checks random histories one after another. Each has agents and deals of its own.
fn check_histories(service: &Running, covered: &Mutex<Covered>) {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config =
        Config { cases: HISTORIES, max_shrink_iters: 30, failure_persistence: None, ..Config::default() };
    let history = prop::collection::vec(action(), 40..90);
    let checked = TestRunner::new(config).run(&history, |history| {
        tokio.block_on(async {
            let mut checker = InvariantChecker::for_service(service).await;
            let mut driver: Driver<'_> = start_driver(service).await;
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
}
