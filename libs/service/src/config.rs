//! The settings that all services have.

use std::net::SocketAddr;

use runtime::Env;
use web::Callers;

use crate::service::Service;

/// The configuration of the service `S`.
pub struct Config<S: Service> {
    pub(crate) database: db::Config,
    /// `None` without a read replica for the reads of guests.
    pub(crate) replica: Option<db::Config>,
    pub(crate) messaging: messaging::Config,
    pub(crate) web: web::Config,
    /// `None` if the service has no listeners.
    pub(crate) auth: Option<auth::Config>,
    /// The address for calls of other services. `None` if no other service calls this one.
    pub(crate) internal: Option<SocketAddr>,
    pub(crate) settings: S::Settings,
}

/// Reads the configuration of `S`. Returns `None` after an error, which `env` collects.
pub fn configure<S: Service>(env: &mut Env) -> Option<Config<S>> {
    let database = db::Config::read(env, S::NAME);
    let replica =
        if S::READS_FROM_REPLICA { db::Config::read_replica(env, database.as_ref()) } else { Some(None) };
    let messaging = messaging::Config::read(env);
    let auth = (!S::LISTENERS.is_empty()).then(|| auth::Config::read(env));
    let web = web::Config::read(env);
    let is_called = S::LISTENERS.iter().any(|listener| listener.callers == Callers::Services);
    let internal = is_called.then(|| {
        let address = SocketAddr::from(([0, 0, 0, 0], 8081));
        env.with_default("INTERNAL_LISTEN", address, "address of the API for other services")
    });
    let settings = S::settings(env);
    Some(Config {
        database: database?,
        replica: replica?,
        messaging: messaging?,
        web: web?,
        auth: swap(auth)?,
        internal: swap(internal)?,
        settings: settings?,
    })
}

/// Swaps the two levels of an `Option`. The argument is `None` if the service does not read the
/// setting, and `Some(None)` after an error. The result is `None` after an error, as in
/// [`Env::optional`].
#[expect(clippy::option_option, reason = "the form of all optional settings")]
fn swap<T>(setting: Option<Option<T>>) -> Option<Option<T>> {
    match setting {
        Some(value) => value.map(Some),
        None => Some(None),
    }
}
