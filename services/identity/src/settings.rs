//! Settings that only this service has.

use runtime::Env;

use crate::domain::Baseline;

pub struct Settings {
    pub baseline: Baseline,
}

impl Settings {
    pub fn read(env: &mut Env) -> Option<Self> {
        let baseline = env.or(
            "IDENTITY_BASELINE_PERMISSIONS",
            Baseline::default(),
            "permissions of every user who is not a suspended employee, separated by commas",
        );
        Some(Self { baseline: baseline? })
    }
}
