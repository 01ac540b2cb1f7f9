//! Settings that only this service has.

use runtime::Env;

use crate::domain::Baseline;

pub struct Settings {
    pub baseline: Baseline,
    /// The API of the issuer for the clients of machine accounts.
    pub issuer_clients: Option<http_client::Config>,
}

impl Settings {
    pub fn read(env: &mut Env) -> Option<Self> {
        let baseline = env.with_default(
            "IDENTITY_BASELINE_PERMISSIONS",
            Baseline::default(),
            "permissions of every user who is not a suspended employee, separated by commas",
        );
        let issuer_clients = http_client::Config::read_optional(
            env,
            "IDENTITY_ISSUER_ADMIN_URL",
            "URL of a realm in Keycloak's admin API, as in https://keycloak/admin/realms/platform; without it machine accounts get no secret",
            "identity",
        );
        Some(Self { baseline: baseline?, issuer_clients: issuer_clients? })
    }
}
