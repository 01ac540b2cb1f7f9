//! The ledger against a plain model of its rules: random histories, one thing after the other and all at once.

mod compare;
mod crowd;
mod model;
mod paid;
mod play;
mod sound;

use std::collections::BTreeSet;
use std::sync::Mutex;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use self::play::{Play, begin};
use self::sound::Watch;
use crate::start;

/// So many accruals are in a payout at most.
const MAX_LINES: usize = 3;

/// Something that happens. Numbers choose among what there is.
#[derive(Clone, Debug)]
enum Happening {
    /// A deal changes; of its end another topic may tell before, and the change itself much later.
    Changes {
        deal: usize,
        to: usize,
        amount: usize,
        agent: usize,
        late: bool,
    },
    /// An event comes once more, as it was or told anew.
    Repeats {
        event: usize,
        anew: bool,
    },
    Rejects {
        accrual: usize,
    },
    Reverses {
        accrual: usize,
    },
    Asks {
        accrual: usize,
        amount: usize,
    },
    Decides {
        request: usize,
        amount: usize,
        approves: bool,
    },
    Runs {
        until: usize,
        withholding: usize,
    },
    Moves {
        payout: usize,
        to: usize,
    },
}

fn happening() -> impl Strategy<Value = Happening> {
    let one = 0..64_usize;
    let changes = (0..4_usize, one.clone(), 0..8_usize, 0..8_usize, prop::bool::weighted(0.2));
    prop_oneof![
        12 => changes.prop_map(|(deal, to, amount, agent, late)| Happening::Changes { deal, to, amount, agent, late }),
        2 => (one.clone(), any::<bool>()).prop_map(|(event, anew)| Happening::Repeats { event, anew }),
        1 => one.clone().prop_map(|accrual| Happening::Rejects { accrual }),
        2 => one.clone().prop_map(|accrual| Happening::Reverses { accrual }),
        3 => (one.clone(), one.clone()).prop_map(|(accrual, amount)| Happening::Asks { accrual, amount }),
        3 => (one.clone(), one.clone(), prop::bool::weighted(0.7))
            .prop_map(|(request, amount, approves)| Happening::Decides { request, amount, approves }),
        3 => (0..4_usize, 0..3_usize).prop_map(|(until, withholding)| Happening::Runs { until, withholding }),
        5 => (one.clone(), one).prop_map(|(payout, to)| Happening::Moves { payout, to }),
    ]
}

/// Sections 3 to 7, one thing after the other: accruals, requests, payouts, their events, every status and code.
#[test]
fn a_history_of_money_is_that_of_a_plain_model() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let service = start(&[("AGENT_PAYOUT_MAX_LINES", &MAX_LINES.to_string())]);
    let cases = Config { cases: 16, max_shrink_iters: 30, failure_persistence: None, ..Config::default() };
    let history = prop::collection::vec(happening(), 40..90);
    let met = Mutex::new((BTreeSet::new(), BTreeSet::new()));
    let is_enough = || {
        let met = met.lock().unwrap();
        met.0.len() >= 9 && met.1.len() == 7
    };
    // Sixteen histories nearly always meet all that there is; the next sixteen what these have not.
    for _ in 0..8 {
        let checked = TestRunner::new(cases.clone()).run(&history, |history| {
            tokio.block_on(async {
                let mut watch = Watch::of(&service).await;
                let mut play: Play<'_> = begin(&service).await;
                for happening in &history {
                    play.happen(happening).await;
                    watch.look().await;
                }
                play.compare_published().await;
                let mut met = met.lock().unwrap();
                met.0.extend(play.world.accruals.iter().map(|accrual| (accrual.kind, accrual.status)));
                met.1.extend(play.refused);
            });
            Ok(())
        });
        checked.unwrap();
        if is_enough() {
            break;
        }
    }
    let (ends, codes) = met.into_inner().unwrap();
    assert!(ends.len() >= 9, "hardly a kind did not come to each status: {ends:?}");
    assert_eq!(codes.len(), 7, "every refusal was met: {codes:?}");
}
