//! Renewal of the machine token before it expires, once for all calls.

use std::time::Duration;

use futures_util::future::join_all;
use http_client::CallError;
use testkit::faults::Fault;
use tokio::time::{sleep, timeout};

use crate::{Setup, TOKEN_LIFETIME};

/// RULE-ALL-041: a token is cached until shortly before it expires. Then one of many concurrent
/// calls renews it for all.
#[tokio::test]
async fn token_is_renewed_once_before_it_expires() {
    let setup = Setup::new();
    let first: Vec<_> =
        join_all((0..20).map(|_| setup.call())).await.into_iter().map(Result::unwrap).collect();
    assert!(first.iter().all(|token| *token == first[0]));
    assert_eq!(setup.token_requests(), 1);

    sleep(TOKEN_LIFETIME / 2).await;
    for call in join_all((0..20).map(|_| setup.call())).await {
        call.unwrap();
    }

    assert_eq!(setup.token_requests(), 2);
    assert_ne!(setup.call().await.unwrap(), first[0]);
    assert_eq!(setup.token_requests(), 2);
}

/// RULE-ALL-041: an issuer that is down or does not respond affects no call before the token
/// expires.
#[tokio::test]
async fn valid_token_survives_an_outage_of_the_issuer() {
    let setup = Setup::new();
    let old = setup.call().await.unwrap();
    setup.issuer.refuse();
    sleep(TOKEN_LIFETIME / 2).await;
    assert_eq!(setup.call().await.unwrap(), old);
    setup.issuer.inject("/", Fault::Delay(TOKEN_LIFETIME * 4));
    setup.issuer.listen();
    assert_eq!(setup.call().await.unwrap(), old);

    setup.issuer.refuse();
    sleep(TOKEN_LIFETIME / 2).await;
    assert!(matches!(setup.call().await, Err(CallError::Unavailable(_))), "the token has expired");

    setup.issuer.remove_faults();
    setup.issuer.listen();
    let recovered = async {
        loop {
            if let Ok(token) = setup.call().await {
                return token;
            }
        }
    };
    assert_ne!(timeout(Duration::from_secs(30), recovered).await.unwrap(), old);
}
