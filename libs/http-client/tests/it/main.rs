//! Calls to another service, observed at both ends.

#![expect(clippy::unwrap_used, reason = "a helper that fails ends its test")]

use std::net::TcpListener;
use std::time::Duration;

use http_client::{CallError, Config, ServiceClient};
use runtime::Env;
use serde_json::Value;
use testkit::faults::{Fault, FaultProxy};
use testkit::issuer::{CLIENTS, Issuer, RunningIssuer};

mod calls;
mod token;

/// The lifetime of tokens in these tests. A token is renewed at half of its lifetime.
const TOKEN_LIFETIME: Duration = Duration::from_secs(8);

/// A client, the fault proxy that it calls, and an issuer behind another fault proxy.
struct Setup {
    client: ServiceClient,
    called: FaultProxy,
    issuer: FaultProxy,
    _running_issuer: RunningIssuer,
}

impl Setup {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let issuer = FaultProxy::start(format!("http://{}", listener.local_addr().unwrap()));
        let served = Issuer::new(issuer.url()).unwrap().machine_lifetime(TOKEN_LIFETIME.try_into().unwrap());
        let served = served.serve(listener).unwrap();
        let called = FaultProxy::start("http://127.0.0.1:1");
        called.inject("/", Fault::Respond(200, "{}".to_owned()));
        let settings = [("CALLED_URL", called.url()), ("AUTH_ISSUER", issuer.url())];
        let mut env = Env::new(move |name| {
            let setting = settings.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
            setting.or_else(|| (name == "CLIENT_SECRET").then(|| CLIENTS[0].1.to_owned()))
        });
        let config = Config::read(&mut env, "CALLED_URL", CLIENTS[0].0);
        let client = ServiceClient::new(&env.finish(config).unwrap()).unwrap();
        Self { client, called, issuer, _running_issuer: served }
    }

    /// Makes a call. Returns the token that it carried.
    async fn call(&self) -> Result<String, CallError> {
        let path = format!("/{:x}", rand::random::<u64>());
        self.client.get::<Value>(&path).await?;
        Ok(self.called.calls(&path)[0].headers["authorization"].clone())
    }

    /// Returns the number of requests for a token.
    fn token_requests(&self) -> usize {
        self.issuer.calls("/token").len()
    }
}
