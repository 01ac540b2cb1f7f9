//! What the environment configures beside what it does for all services.

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
            "what everybody may do who is not suspended, separated by commas",
        );
        Some(Self { baseline: baseline? })
    }
}
