//! The settings of this service alone.

use std::num::NonZeroU32;
use std::time::Duration;

use runtime::Env;

use crate::domain::{ApprovalLimit, BonusLimit};

pub struct Settings {
    pub payout_run_poll_interval: Duration,
    pub unrated_poll_interval: Duration,
    pub ledger_audit_interval: Duration,
    /// The greatest amount that a completion approves without a release.
    pub approval_limit: ApprovalLimit,
    /// The greatest bonus that employees may grant.
    pub bonus_limit: BonusLimit,
    /// The greatest number of accruals in one payout.
    pub payout_max_lines: NonZeroU32,
}

impl Settings {
    pub fn read(env: &mut Env) -> Option<Self> {
        let payout_run_poll_interval = env.with_default(
            "AGENT_PAYOUT_RUN_POLL_MS",
            const { NonZeroU32::new(1_000).unwrap() },
            "interval between checks for payout runs, in milliseconds",
        );
        let unrated_poll_interval = env.with_default(
            "AGENT_UNRATED_POLL_SECONDS",
            const { NonZeroU32::new(5).unwrap() },
            "interval between checks of unrated deals, in seconds",
        );
        let ledger_audit_interval = env.with_default(
            "AGENT_LEDGER_AUDIT_SECONDS",
            const { NonZeroU32::new(3_600).unwrap() },
            "interval of the ledger audit, in seconds",
        );
        let approval_limit = env.with_default(
            "AGENT_AUTO_APPROVE_LIMIT",
            1_000_000_000,
            "greatest accrual that a completed deal approves; a larger one needs a release; in minor units of any currency",
        );
        let bonus_limit = env.with_default(
            "AGENT_BONUS_LIMIT",
            100_000_000,
            "greatest bonus that two employees may grant; in minor units of any currency",
        );
        let payout_max_lines = env.with_default(
            "AGENT_PAYOUT_MAX_LINES",
            const { NonZeroU32::new(5_000).unwrap() },
            "greatest number of accruals in one payout",
        );
        Some(Self {
            payout_run_poll_interval: Duration::from_millis(payout_run_poll_interval?.get().into()),
            unrated_poll_interval: Duration::from_secs(unrated_poll_interval?.get().into()),
            ledger_audit_interval: Duration::from_secs(ledger_audit_interval?.get().into()),
            approval_limit: ApprovalLimit(approval_limit?),
            bonus_limit: BonusLimit(bonus_limit?),
            payout_max_lines: payout_max_lines?,
        })
    }
}
