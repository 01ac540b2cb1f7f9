//! Whose signatures are believed, and how often the issuer is asked for a key.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use jsonwebtoken::jwk::JwkSet;
use serde::Deserialize;

use super::{Config, Keys};
use crate::{PLATFORM, Verifier};

fn keys(jwks_url: &str) -> Keys {
    let config = Config {
        actor_requests_per_minute: 0,
        issuer: "https://issuer".to_owned(),
        jwks_url: Some(jwks_url.to_owned()),
        token_max_lifetime: u32::MAX,
    };
    Keys::new(config).unwrap()
}

/// Tokens that hold until 2100, each with its algorithm, and the keys that have signed them.
#[derive(Deserialize)]
struct Signed {
    jwks: JwkSet,
    tokens: Vec<(String, String)>,
}

/// Conventions, Token: RS256, ES256 or `EdDSA`, and no other algorithm, though its key is known.
#[tokio::test]
async fn a_token_is_signed_by_one_of_three_algorithms() {
    let Signed { jwks, tokens } = serde_json::from_str(include_str!("signed.json")).unwrap();
    let keys = keys("http://127.0.0.1:9");
    *keys.0.known.write().unwrap() = Some(jwks);
    let verifier = Verifier::new(keys, PLATFORM);
    let mut accepted = Vec::new();
    for (algorithm, token) in &tokens {
        if verifier.verify(token).await.is_ok() {
            accepted.push(algorithm.as_str());
        }
    }
    assert_eq!(tokens.len(), 5);
    assert_eq!(accepted, ["RS256", "ES256", "EdDSA"]);
}

/// Conventions, Token: an unknown `kid` has the keys fetched at once, and not again for each that is made up.
#[tokio::test]
async fn made_up_keys_have_the_issuer_asked_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/jwks", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    std::thread::spawn(move || {
        for caller in listener.incoming() {
            counted.fetch_add(1, Ordering::Relaxed);
            let mut caller = caller.unwrap();
            assert!(caller.read(&mut [0; 4096]).unwrap() > 0);
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 11\r\nconnection: close\r\n\r\n{\"keys\":[]}";
            caller.write_all(answer.as_bytes()).unwrap();
        }
    });
    let keys = keys(&url);
    for made_up in 0..20 {
        assert!(keys.find(&made_up.to_string()).await.unwrap().is_none());
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}
