//! The machine token over time: renewed before it expires, by one call for all, and without hurry.

use std::time::Duration;

use futures_util::future::join_all;
use http_client::CallError;
use testkit::faults::Fault;
use tokio::time::{sleep, timeout};

use crate::{LIFE, Scene};

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
