//! Calls to another service, seen from both of its ends.

#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

use std::net::TcpListener;
use std::time::Duration;

use http_client::{CallError, Config, Service};
use runtime::Env;
use serde_json::Value;
use testkit::faults::{Fault, Faults};
use testkit::issuer::{CLIENTS, Issuer, Served};

mod calls;
mod token;

/// How long tokens live here; they are renewed at half of that.
const LIFE: Duration = Duration::from_secs(8);

/// A client, the service that it calls, and the issuer that stands behind `issuer`.
struct Scene {
    client: Service,
    called: Faults,
    issuer: Faults,
    _served: Served,
}

impl Scene {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let issuer = Faults::before(format!("http://{}", listener.local_addr().unwrap()));
        let served = Issuer::new(issuer.url()).unwrap().machine_lifetime(LIFE.try_into().unwrap());
        let served = served.serve(listener).unwrap();
        let called = Faults::before("http://127.0.0.1:1");
        called.on("/", Fault::Answer(200, "{}".to_owned()));
        let settings = [("CALLED_URL", called.url()), ("AUTH_ISSUER", issuer.url())];
        let mut env = Env::new(move |name| {
            let setting = settings.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
            setting.or_else(|| (name == "CLIENT_SECRET").then(|| CLIENTS[0].1.to_owned()))
        });
        let config = Config::read(&mut env, "CALLED_URL", CLIENTS[0].0);
        let client = Service::new(&env.finish(config).unwrap()).unwrap();
        Self { client, called, issuer, _served: served }
    }

    /// Makes a call; the token that it carried.
    async fn call(&self) -> Result<String, CallError> {
        let path = format!("/{:x}", rand::random::<u64>());
        self.client.get::<Value>(&path).await?;
        Ok(self.called.calls(&path)[0].headers["authorization"].clone())
    }

    /// How often the issuer was asked for a token.
    fn asked(&self) -> usize {
        self.issuer.calls("/token").len()
    }
}
