//! The accepted algorithms, and the number of requests to the issuer.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use jsonwebtoken::jwk::JwkSet;
use serde::Deserialize;

use super::{Config, Keys};
use crate::verifier::{USER_AUDIENCE, Verifier};

fn keys(jwks_url: &str) -> Keys {
    let config = Config {
        actor_requests_per_minute: 0,
        issuer: "https://issuer".to_owned(),
        jwks_url: Some(jwks_url.to_owned()),
        token_max_lifetime: u32::MAX,
    };
    Keys::new(config).unwrap()
}

/// Tokens that are valid until 2100, each with its algorithm, and the keys that signed them.
#[derive(Deserialize)]
struct Signed {
    jwks: JwkSet,
    tokens: Vec<(String, String)>,
}

/// Conventions, Token: RS256, ES256 and `EdDSA` are accepted. Other algorithms are not, even with a
/// known key.
#[tokio::test]
async fn token_of_another_algorithm_is_rejected() {
    let Signed { jwks, tokens } = serde_json::from_str(include_str!("signed.json")).unwrap();
    let keys = keys("http://127.0.0.1:9");
    *keys.0.known.write().unwrap() = Some(jwks);
    let verifier = Verifier::new(keys, USER_AUDIENCE);
    let mut accepted = Vec::new();
    for (algorithm, token) in &tokens {
        if verifier.verify(token).await.is_ok() {
            accepted.push(algorithm.as_str());
        }
    }
    assert_eq!(tokens.len(), 5);
    assert_eq!(accepted, ["RS256", "ES256", "EdDSA"]);
}

/// Conventions, Token: an unknown `kid` causes a fetch. Further unknown ones do not for some time.
#[tokio::test]
async fn unknown_key_ids_cause_one_request_to_the_issuer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/jwks", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&requests);
    std::thread::spawn(move || {
        for caller in listener.incoming() {
            counter.fetch_add(1, Ordering::Relaxed);
            let mut caller = caller.unwrap();
            assert!(caller.read(&mut [0; 4096]).unwrap() > 0);
            let response = "HTTP/1.1 200 OK\r\ncontent-length: 11\r\nconnection: close\r\n\r\n{\"keys\":[]}";
            caller.write_all(response.as_bytes()).unwrap();
        }
    });
    let keys = keys(&url);
    for id in 0..20 {
        assert!(keys.find(&id.to_string()).await.unwrap().is_none());
    }
    assert_eq!(requests.load(Ordering::Relaxed), 1);
}
