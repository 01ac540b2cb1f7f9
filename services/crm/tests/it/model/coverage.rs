//! How often each operation came to what.

use std::collections::BTreeMap;

/// What there is to come of each operation: itself, nothing, and each of its refusals; and each kind of row.
const ALL: [(&str, &[&str]); 13] = [
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
            "CRM_DEAL_CONFLICT",
        ],
    ),
    ("agent", &["changed", "same", "FORBIDDEN", "CRM_DEAL_ALREADY_TERMINAL", "CRM_DEAL_CONFLICT"]),
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
pub struct Tally {
    histories: u32,
    met: BTreeMap<(&'static str, &'static str), usize>,
}

impl Tally {
    pub fn add(&mut self, operation: &'static str, came: &'static str) {
        *self.met.entry((operation, came)).or_default() += 1;
    }

    /// Of a history that was played to its end.
    pub fn take(&mut self, other: Self) {
        self.histories += 1;
        for (met, count) in other.met {
            *self.met.entry(met).or_default() += count;
        }
    }

    fn never(&self) -> Vec<(&'static str, &'static str)> {
        let all = ALL.into_iter().flat_map(|(operation, all)| all.iter().map(move |came| (operation, *came)));
        all.filter(|met| !self.met.contains_key(met)).collect()
    }

    /// Whether so many histories were played, and everything has come that may.
    pub fn is_enough(&self, histories: u32) -> bool {
        self.histories >= histories && self.never().is_empty()
    }

    pub fn assert_whole(&self) {
        assert!(self.never().is_empty(), "these were never met: {:?}, of {self:?}", self.never());
    }
}
