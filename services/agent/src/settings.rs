//! What the environment configures beside what it does for all services.

use std::num::NonZeroU32;
use std::time::Duration;

use runtime::Env;

pub struct Settings {
    /// How often runs are looked for that are not worked off.
    pub payout_run_poll: Duration,
    /// How often deals without a rate are looked at again.
    pub unrated_poll: Duration,
    pub ledger_audit: Duration,
    /// How many accruals a payout has at most.
    pub payout_max_lines: NonZeroU32,
}

impl Settings {
    pub fn read(env: &mut Env) -> Option<Self> {
        let payout_run_poll = env.or(
            "AGENT_PAYOUT_RUN_POLL_MS",
            const { NonZeroU32::new(1_000).unwrap() },
            "how often payout runs are looked for, in milliseconds",
        );
        let unrated_poll = env.or(
            "AGENT_UNRATED_POLL_SECONDS",
            const { NonZeroU32::new(5).unwrap() },
            "how often deals without a rate are looked at again, in seconds",
        );
        let ledger_audit = env.or(
            "AGENT_LEDGER_AUDIT_SECONDS",
            const { NonZeroU32::new(3_600).unwrap() },
            "how often the ledger is held against its sums, in seconds",
        );
        let payout_max_lines = env.or(
            "AGENT_PAYOUT_MAX_LINES",
            const { NonZeroU32::new(5_000).unwrap() },
            "how many accruals a payout has at most",
        );
        Some(Self {
            payout_run_poll: Duration::from_millis(payout_run_poll?.get().into()),
            unrated_poll: Duration::from_secs(unrated_poll?.get().into()),
            ledger_audit: Duration::from_secs(ledger_audit?.get().into()),
            payout_max_lines: payout_max_lines?,
        })
    }
}
