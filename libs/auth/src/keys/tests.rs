//! The number of requests to the issuer.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Config, Keys};

fn keys(jwks_url: &str) -> Keys {
    let config = Config {
        actor_requests_per_minute: 0,
        issuer: "https://issuer".to_owned(),
        jwks_url: Some(jwks_url.to_owned()),
        token_max_lifetime: u32::MAX,
    };
    Keys::new(config).unwrap()
}

/// RULE-ALL-055: an unknown `kid` causes a fetch. For some time, further unknown ids cause none.
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
