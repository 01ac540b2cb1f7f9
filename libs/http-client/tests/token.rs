//! The machine token over time: renewed before it expires, by one call for all, and without hurry.

#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

use std::net::TcpListener;
use std::time::Duration;

use futures_util::future::join_all;
use http_client::{CallError, Config, Service};
use runtime::Env;
use serde_json::Value;
use testkit::faults::{Fault, Faults};
use testkit::issuer::{CLIENTS, Issuer, Served};
use tokio::time::{sleep, timeout};

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

/// Conventions, Token: kept until shortly before it expires, then renewed; by one of many calls.
#[tokio::test]
async fn a_token_is_renewed_before_it_expires_by_one_call_for_all() {
    let scene = Scene::new();
    let first: Vec<_> =
        join_all((0..20).map(|_| scene.call())).await.into_iter().map(Result::unwrap).collect();
    assert!(first.iter().all(|token| *token == first[0]));
    assert_eq!(scene.asked(), 1);

    sleep(LIFE / 2).await;
    for call in join_all((0..20).map(|_| scene.call())).await {
        call.unwrap();
    }

    assert_eq!(scene.asked(), 2);
    assert_ne!(scene.call().await.unwrap(), first[0]);
    assert_eq!(scene.asked(), 2);
}

/// An issuer that is down, or does not answer, matters to nobody before the token has expired.
#[tokio::test]
async fn an_issuer_that_is_away_does_not_matter_while_the_token_holds() {
    let scene = Scene::new();
    let old = scene.call().await.unwrap();
    scene.issuer.refuse();
    sleep(LIFE / 2).await;
    assert_eq!(scene.call().await.unwrap(), old);
    scene.issuer.on("/", Fault::Slow(LIFE * 4));
    scene.issuer.listen();
    assert_eq!(scene.call().await.unwrap(), old);

    scene.issuer.refuse();
    sleep(LIFE / 2).await;
    assert!(matches!(scene.call().await, Err(CallError::Unavailable(_))), "the token has expired");

    scene.issuer.heal();
    scene.issuer.listen();
    let recovered = async {
        loop {
            if let Ok(token) = scene.call().await {
                return token;
            }
        }
    };
    assert_ne!(timeout(Duration::from_secs(30), recovered).await.unwrap(), old);
}
