//! The actions of a random history.

use proptest::prelude::*;

/// An action of a history. Each number selects an existing entity, or a value of a list in the
/// driver.
#[derive(Clone, Debug)]
pub enum Action {
    /// Changes a deal. With `late`, the stage change of a cancellation or a completion is delivered
    /// in place of the deal's next change.
    ChangeDeal {
        deal: usize,
        to: usize,
        amount: usize,
        agent: usize,
        late: bool,
    },
    /// Repeats an event with a new sequence, or with one below those of the applied events.
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

pub fn action() -> impl Strategy<Value = Action> {
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
