//! The uses of keys, and the number of requests to the issuer.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use runtime::Env;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Config, Keys, Lookup, RETRY_INTERVAL, REVOCATION_MARGIN, UNKNOWN_KEY_COOLDOWN};

fn keys(jwks_url: &str) -> Keys {
    let jwks_url = jwks_url.to_owned();
    let mut env = Env::new(move |name| match name {
        "AUTH_ISSUER" => Some("https://issuer".to_owned()),
        "AUTH_JWKS_URL" => Some(jwks_url.clone()),
        _ => None,
    });
    let config = Config::read(&mut env);
    Keys::new(env.finish(config).unwrap()).unwrap()
}

/// Returns the keys of an issuer that sends this status, and the number of requests to it.
fn served(status: &'static str) -> (Keys, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/jwks", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&requests);
    std::thread::spawn(move || {
        for caller in listener.incoming() {
            counter.fetch_add(1, Ordering::Relaxed);
            let mut caller = caller.unwrap();
            assert!(caller.read(&mut [0; 4096]).unwrap() > 0);
            let headers = "content-length: 11\r\nconnection: close";
            let response = format!("HTTP/1.1 {status}\r\n{headers}\r\n\r\n{{\"keys\":[]}}");
            caller.write_all(response.as_bytes()).unwrap();
        }
    });
    (keys(&url), requests)
}

/// RULE-ALL-047: keys for other uses than signatures are left out.
#[tokio::test]
async fn key_for_another_use_is_unknown() {
    let keys = keys("http://127.0.0.1:1");
    let key = |id: &str, name: &str, value: &Value| {
        let mut key = json!({"kid": id, "kty": "OKP", "crv": "Ed25519", "x": "W9hA"});
        key[name] = value.clone();
        key
    };
    let jwks = json!({"keys": [
        key("sig", "use", &json!("sig")),
        key("enc", "use", &json!("enc")),
        key("other", "use", &json!("other")),
        key("verify", "key_ops", &json!(["verify"])),
        key("wrap", "key_ops", &json!(["wrapKey"])),
        key("any", "x-other", &json!(1)),
    ]});
    keys.store(serde_json::from_value(jwks).unwrap(), Instant::now());
    let known = ["sig", "enc", "other", "verify", "wrap", "any"].into_iter().filter(|id| keys.has(id));
    assert_eq!(known.collect::<Vec<_>>(), ["sig", "verify", "any"]);
}

/// RULE-ALL-055: an unknown `kid` causes a fetch. For some time, further unknown ids cause none.
#[tokio::test]
async fn unknown_key_ids_cause_one_request_to_the_issuer() {
    let (keys, requests) = served("200 OK");
    for id in 0..20 {
        assert!(keys.find(&id.to_string()).await.unwrap().is_none());
    }
    assert_eq!(requests.load(Ordering::Relaxed), 1);
    let lookup = Lookup { at: Instant::now() - UNKNOWN_KEY_COOLDOWN, succeeded: true };
    *keys.0.last_lookup.lock().await = Some(lookup);
    assert!(keys.find("later").await.unwrap().is_none());
    assert_eq!(requests.load(Ordering::Relaxed), 2);
}

/// While the issuer fails, it gets one request per second.
#[tokio::test]
async fn failed_issuer_gets_one_request_per_interval() {
    let (keys, requests) = served("503 Service Unavailable");
    for _ in 0..5 {
        assert!(keys.find("unknown").await.is_err());
    }
    assert_eq!(requests.load(Ordering::Relaxed), 1);
    let lookup = Lookup { at: Instant::now() - RETRY_INTERVAL, succeeded: false };
    *keys.0.last_lookup.lock().await = Some(lookup);
    assert!(keys.find("unknown").await.is_err());
    assert_eq!(requests.load(Ordering::Relaxed), 2);
}

/// The keys are fetched in the background until the process stops.
#[tokio::test]
async fn keys_are_fetched_in_the_background() {
    let (keys, requests) = served("200 OK");
    let stopping = CancellationToken::new();
    let stop_after_fetch = async {
        while keys.read_known(|_| ()).is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        stopping.cancel();
    };
    let (refreshed, ()) = tokio::join!(keys.clone().refresh(stopping.clone()), stop_after_fetch);
    refreshed.unwrap();
    assert_eq!(requests.load(Ordering::Relaxed), 1);
}

/// A revocation stays in force for the maximum lifetime of a token and a margin.
#[test]
fn revocation_outlives_every_token() {
    let window = keys("http://127.0.0.1:1").config().revocation_window();
    assert_eq!(window.as_secs(), 3600 + REVOCATION_MARGIN.as_secs());
}
