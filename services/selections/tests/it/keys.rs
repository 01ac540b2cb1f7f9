//! The issuer's keys: new ones are taken up at once, and no issuer means no answer, not no entry.

use std::net::TcpListener;

use futures_util::future::join_all;
use selections::Service;
use testkit::issuer::{Claims, Issuer, Served};
use testkit::service::Running;
use time::Duration;

use crate::{SELECTIONS, eventually, guid};

/// A listener where an issuer has just been, as soon as that one is gone.
async fn place_of(issuer: Served) -> TcpListener {
    let address = issuer.url().trim_start_matches("http://").to_owned();
    drop(issuer);
    eventually("the issuer's port", async || TcpListener::bind(&address).ok()).await
}

/// Conventions, Token: an unknown `kid` has the keys fetched again, at most every few seconds, long before
/// they would be refreshed anyway.
#[tokio::test]
async fn a_new_key_of_the_issuer_is_taken_up_when_it_is_used() {
    let old = Issuer::start().unwrap();
    let url = old.url().to_owned();
    let service = Running::start::<Service>(&[("AUTH_ISSUER", &url)]);
    let get = async |token: &str| service.bearer(token).get(SELECTIONS).await;
    let [used, not_used_yet] = [guid(), guid()].map(|id| old.token(&Claims::user(id)).unwrap());
    get(&used).await.expect(200);

    let new = Issuer::new(&url).unwrap().serve(place_of(old).await).unwrap();

    let token = new.token(&Claims::user(guid())).unwrap();
    eventually("the new key", async || (get(&token).await.status == 200).then_some(())).await;
    for withdrawn in [used, not_used_yet] {
        get(&withdrawn).await.expect_problem(401, "SELECTIONS_UNAUTHORIZED");
    }
}

/// Conventions, Token: keys are kept, so that an issuer that is away hinders nobody it has vouched for.
#[tokio::test]
async fn an_issuer_that_is_away_does_not_matter_to_known_keys() {
    let issuer = Issuer::start().unwrap();
    let service = Running::start::<Service>(&[("AUTH_ISSUER", issuer.url())]);
    let tokens = [guid(), guid()].map(|id| issuer.token(&Claims::user(id)).unwrap());
    service.bearer(&tokens[0]).get(SELECTIONS).await.expect(200);
    drop(place_of(issuer).await);
    service.bearer(&tokens[1]).get(SELECTIONS).await.expect(200);
}

/// Conventions: a key that the issuer cannot be asked for may be its own; whose token it has signed is not told
/// that the token does not hold.
#[tokio::test]
async fn a_new_key_of_an_issuer_that_is_away_is_answered_503() {
    let issuer = Issuer::start().unwrap();
    let url = issuer.url().to_owned();
    let service = Running::start::<Service>(&[("AUTH_ISSUER", &url)]);
    service.bearer(&issuer.token(&Claims::user(guid())).unwrap()).get(SELECTIONS).await.expect(200);
    drop(place_of(issuer).await);

    let new = Issuer::new(&url).unwrap().token(&Claims::user(guid())).unwrap();

    for path in [SELECTIONS, "/api/v1/selections/AAAAAAAAAAAA"] {
        let refused = service.bearer(&new).get(path).await;
        refused.expect_problem(503, "SELECTIONS_SERVICE_UNAVAILABLE");
    }
}

/// Conventions: a request waits for the issuer no longer than a moment, however many wait.
#[tokio::test]
async fn nobody_waits_long_for_an_issuer_that_hangs() {
    let issuer = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", issuer.local_addr().unwrap());
    let service = Running::start::<Service>(&[("AUTH_ISSUER", &url)]);
    let token = Issuer::new(&url).unwrap().token(&Claims::user(guid())).unwrap();
    for answer in join_all((0..20).map(async |_| service.bearer(&token).get(SELECTIONS).await)).await {
        answer.expect_problem(503, "SELECTIONS_SERVICE_UNAVAILABLE");
    }
}

/// Conventions, Token, Lost rights: how long a token may live is configured.
#[tokio::test]
async fn the_lifetime_of_tokens_is_configured() {
    let service = Running::start::<Service>(&[("AUTH_TOKEN_MAX_LIFETIME_SECONDS", "600")]);
    let living = |seconds| Claims::user(guid()).lifetime(Duration::seconds(seconds));
    service.caller(&living(600)).get(SELECTIONS).await.expect(200);
    service.caller(&living(601)).get(SELECTIONS).await.expect_problem(401, "SELECTIONS_UNAUTHORIZED");
}

/// Conventions: without any key a token cannot be judged, which is no fault of its bearer; guests still open, but
/// its bearer is not taken for one.
#[tokio::test]
async fn a_token_that_cannot_be_judged_is_answered_503() {
    let issuer = Issuer::start().unwrap();
    let (url, token) = (issuer.url().to_owned(), issuer.token(&Claims::user(guid())).unwrap());
    let listener = place_of(issuer).await;
    drop(listener);
    let service = Running::start::<Service>(&[("AUTH_ISSUER", &url)]);

    let refused = service.bearer(&token).get(SELECTIONS).await;

    assert!(refused.header("retry-after").parse::<u32>().is_ok_and(|seconds| seconds > 0));
    refused.expect_problem(503, "SELECTIONS_SERVICE_UNAVAILABLE");
    let code = "/api/v1/selections/AAAAAAAAAAAA";
    service.guest().get(code).await.expect_problem(404, "SELECTIONS_NOT_FOUND");
    service.bearer(&token).get(code).await.expect_problem(503, "SELECTIONS_SERVICE_UNAVAILABLE");
    service.guest().get(SELECTIONS).await.expect_problem(401, "SELECTIONS_UNAUTHORIZED");
    service.bearer("nonsense").get(SELECTIONS).await.expect_problem(401, "SELECTIONS_UNAUTHORIZED");
}
