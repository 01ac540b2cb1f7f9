//! What every service reads from the environment.

use std::net::SocketAddr;

use runtime::Env;
use web::Callers;

use crate::Service;

/// The configuration of the service `S`.
pub struct Config<S: Service> {
    pub(crate) database: db::Config,
    pub(crate) messaging: messaging::Config,
    pub(crate) web: web::Config,
    /// `None`: nobody calls it.
    pub(crate) auth: Option<auth::Config>,
    /// Where other services call it; `None`: they do not.
    pub(crate) internal: Option<SocketAddr>,
    pub(crate) settings: S::Settings,
}

/// Reads the configuration of `S`; `None` after a mistake, which `env` remembers.
pub fn configure<S: Service>(env: &mut Env) -> Option<Config<S>> {
    let database = db::Config::read(env, S::NAME);
    let messaging = messaging::Config::read(env);
    let auth = (!S::LISTENERS.is_empty()).then(|| auth::Config::read(env));
    let web = web::Config::read(env);
    let is_called = S::LISTENERS.iter().any(|listener| listener.callers == Callers::Services);
    let internal = is_called.then(|| {
        let address = SocketAddr::from(([0, 0, 0, 0], 8081));
        env.or("INTERNAL_LISTEN", address, "the API for other services")
    });
    let settings = S::settings(env);
    Some(Config {
        database: database?,
        messaging: messaging?,
        web: web?,
        auth: all(auth)?,
        internal: all(internal)?,
        settings: settings?,
    })
}

/// What is not asked for is no mistake.
#[expect(clippy::option_option, reason = "the inner one is a mistake, as everywhere in a configuration")]
fn all<T>(asked: Option<Option<T>>) -> Option<Option<T>> {
    match asked {
        Some(None) => None,
        Some(Some(value)) => Some(Some(value)),
        None => Some(None),
    }
}
