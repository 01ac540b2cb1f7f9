//! The outcomes of each operation so far.

use std::collections::BTreeMap;

/// The outcomes of each operation that the histories must cover: a change, a no-op and refusals.
/// The entry `row` has the kinds of timeline rows.
const REQUIRED: [(&str, &[&str]); 13] = [
    (
        "create",
        &[
            "changed",
            "same",
            "FORBIDDEN",
            "CRM_PROPERTY_OBJECT_NOT_FOUND",
            "CRM_DEVELOPER_NOT_ACTIVE",
            "CRM_PROPERTY_OBJECT_NOT_AVAILABLE",
            "CRM_DEAL_STEP_NOT_FOUND",
            "CRM_AGENT_NOT_ACTIVE",
            "CRM_AMOUNT_OUT_OF_TOLERANCE",
        ],
    ),
    (
        "move",
        &[
            "changed",
            "same",
            "FORBIDDEN",
            "CRM_DEAL_NOT_FOUND",
            "CRM_DEAL_ALREADY_TERMINAL",
            "CRM_DEAL_STEP_NOT_FOUND",
            "CRM_DEAL_MOVE_FORBIDDEN",
            "CRM_DEAL_CONTRACT_TYPE_REQUIRED",
            "CRM_DEAL_BOOKING_REQUIRED",
            "CRM_DEAL_CONFLICT",
        ],
    ),
    (
        "contract",
        &[
            "changed",
            "same",
            "FORBIDDEN",
            "CRM_DEAL_NOT_FOUND",
            "CRM_DEAL_ALREADY_TERMINAL",
            "CRM_DEAL_CONTRACT_TYPE_REQUIRED",
            "CRM_AMOUNT_OUT_OF_TOLERANCE",
            "CRM_DEAL_CONFLICT",
        ],
    ),
    (
        "agent",
        &[
            "changed",
            "same",
            "FORBIDDEN",
            "CRM_DEAL_ALREADY_TERMINAL",
            "CRM_AGENT_NOT_ACTIVE",
            "CRM_DEAL_CONFLICT",
        ],
    ),
    (
        "book",
        &[
            "changed",
            "VALIDATION_FAILED",
            "FORBIDDEN",
            "CRM_DEAL_ALREADY_TERMINAL",
            "CRM_DEAL_BOOKING_ALREADY_ACTIVE",
            "CRM_PROPERTY_OBJECT_NOT_AVAILABLE",
            "CRM_PROPERTY_OBJECT_ALREADY_BOOKED",
            "CRM_DEAL_STEP_NOT_FOUND",
            "CRM_DEAL_CONFLICT",
        ],
    ),
    (
        "prolong",
        &[
            "changed",
            "same",
            "VALIDATION_FAILED",
            "FORBIDDEN",
            "CRM_DEAL_ALREADY_TERMINAL",
            "CRM_DEAL_BOOKING_REQUIRED",
            "CRM_DEAL_CONFLICT",
        ],
    ),
    (
        "cancel",
        &[
            "changed",
            "same",
            "VALIDATION_FAILED",
            "FORBIDDEN",
            "CRM_DEAL_ALREADY_TERMINAL",
            "CRM_DEAL_STEP_NOT_FOUND",
            "CRM_DEAL_CONFLICT",
        ],
    ),
    (
        "complete",
        &[
            "changed",
            "same",
            "VALIDATION_FAILED",
            "FORBIDDEN",
            "CRM_DEAL_ALREADY_TERMINAL",
            "CRM_DEAL_MOVE_FORBIDDEN",
            "CRM_PROPERTY_OBJECT_ALREADY_BOOKED",
            "CRM_PROPERTY_OBJECT_NOT_AVAILABLE",
            "CRM_DEAL_STEP_NOT_FOUND",
        ],
    ),
    ("note", &["changed", "VALIDATION_FAILED", "FORBIDDEN"]),
    (
        "override",
        &[
            "changed",
            "same",
            "VALIDATION_FAILED",
            "CRM_DEAL_STATUS_OVERRIDE_FORBIDDEN",
            "CRM_DEAL_ALREADY_TERMINAL",
            "CRM_DEAL_STEP_NOT_FOUND",
            "CRM_DEAL_CONTRACT_TYPE_REQUIRED",
            "CRM_DEAL_CONFLICT",
        ],
    ),
    (
        "preview",
        &[
            "changed",
            "same",
            "CRM_DEAL_STATUS_OVERRIDE_FORBIDDEN",
            "CRM_DEAL_ALREADY_TERMINAL",
            "CRM_DEAL_CONTRACT_TYPE_REQUIRED",
            "CRM_DEAL_CONFLICT",
        ],
    ),
    (
        "pipeline",
        &[
            "changed",
            "same",
            "VALIDATION_FAILED",
            "FORBIDDEN",
            "CRM_DEAL_STEP_NOT_FOUND",
            "CRM_PIPELINE_STEP_GROUP_FIXED",
            "CRM_PIPELINE_CONFLICT",
        ],
    ),
    (
        "row",
        &[
            "DealCreated",
            "StepMoved",
            "BookingCreated",
            "BookingProlonged",
            "BookingExpired",
            "ContractChanged",
            "AgentChanged",
            "StatusChanged",
            "DealCancelled",
            "DealCompleted",
            "ManualNote",
            "CompanyNote",
        ],
    ),
];

#[derive(Debug, Default)]
pub struct Coverage {
    histories: u32,
    counts: BTreeMap<(&'static str, &'static str), usize>,
}

impl Coverage {
    pub fn add(&mut self, operation: &'static str, outcome: &'static str) {
        *self.counts.entry((operation, outcome)).or_default() += 1;
    }

    /// Adds the outcomes of a history that ran to its end.
    pub fn merge(&mut self, other: Self) {
        self.histories += 1;
        for (outcome, count) in other.counts {
            *self.counts.entry(outcome).or_default() += count;
        }
    }

    fn missing(&self) -> Vec<(&'static str, &'static str)> {
        let required = REQUIRED
            .into_iter()
            .flat_map(|(operation, outcomes)| outcomes.iter().map(move |outcome| (operation, *outcome)));
        required.filter(|outcome| !self.counts.contains_key(outcome)).collect()
    }

    /// Returns true if at least `histories` have run and every required outcome has happened.
    pub fn is_complete_after(&self, histories: u32) -> bool {
        self.histories >= histories && self.missing().is_empty()
    }

    pub fn assert_complete(&self) {
        assert!(
            self.missing().is_empty(),
            "these outcomes never happened: {:?}, of {self:?}",
            self.missing()
        );
    }
}
