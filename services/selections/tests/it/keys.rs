//! Keys of the issuer: rotation and outages.

use std::net::TcpListener;

use futures_util::future::join_all;
use selections::Service;
use testkit::issuer::{Claims, Issuer, RunningIssuer};
use testkit::service::Running;
use time::Duration;

use crate::{SELECTIONS, eventually, guid};

/// Stops an issuer and listens at its address.
async fn take_address_of(issuer: RunningIssuer) -> TcpListener {
    let address = issuer.url().trim_start_matches("http://").to_owned();
    drop(issuer);
    eventually("the port of the issuer is free", async || TcpListener::bind(&address).ok()).await
}

/// RULE-ALL-055: an unknown `kid` makes the service fetch the keys again, at most every few
/// seconds.
#[tokio::test]
async fn new_issuer_key_is_fetched_on_first_use() {
    let old = Issuer::start().unwrap();
    let url = old.url().to_owned();
    let service = Running::start::<Service>(&[("AUTH_ISSUER", &url)]);
    let get = async |token: &str| service.bearer(token).get(SELECTIONS).await;
    let [used, unused] = [guid(), guid()].map(|id| old.token(&Claims::user(id)).unwrap());
    get(&used).await.expect(200);

    let new = Issuer::new(&url).unwrap().serve(take_address_of(old).await).unwrap();

    let token = new.token(&Claims::user(guid())).unwrap();
    eventually("the new key is accepted", async || (get(&token).await.status == 200).then_some(())).await;
    for withdrawn in [used, unused] {
        get(&withdrawn).await.expect_problem(401, "SELECTIONS_UNAUTHORIZED");
    }
}

/// RULE-ALL-055: the service caches keys, so tokens of known keys stay valid.
#[tokio::test]
async fn known_keys_stay_valid_while_the_issuer_is_down() {
    let issuer = Issuer::start().unwrap();
    let service = Running::start::<Service>(&[("AUTH_ISSUER", issuer.url())]);
    let tokens = [guid(), guid()].map(|id| issuer.token(&Claims::user(id)).unwrap());
    service.bearer(&tokens[0]).get(SELECTIONS).await.expect(200);
    drop(take_address_of(issuer).await);
    service.bearer(&tokens[1]).get(SELECTIONS).await.expect(200);
}

/// RULE-ALL-055: an unknown key may be a new key of the issuer, so its token gets 503 and not 401.
#[tokio::test]
async fn unknown_key_of_a_down_issuer_returns_503() {
    let issuer = Issuer::start().unwrap();
    let url = issuer.url().to_owned();
    let service = Running::start::<Service>(&[("AUTH_ISSUER", &url)]);
    service.bearer(&issuer.token(&Claims::user(guid())).unwrap()).get(SELECTIONS).await.expect(200);
    drop(take_address_of(issuer).await);

    let new = Issuer::new(&url).unwrap().token(&Claims::user(guid())).unwrap();

    for path in [SELECTIONS, "/api/v1/selections/AAAAAAAAAAAA"] {
        let refused = service.bearer(&new).get(path).await;
        refused.expect_problem(503, "SELECTIONS_SERVICE_UNAVAILABLE");
    }
}

/// RULE-ALL-055: no request waits long for the issuer, even if many wait concurrently.
#[tokio::test]
async fn requests_do_not_wait_long_for_a_hanging_issuer() {
    let issuer = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", issuer.local_addr().unwrap());
    let service = Running::start::<Service>(&[("AUTH_ISSUER", &url)]);
    let token = Issuer::new(&url).unwrap().token(&Claims::user(guid())).unwrap();
    for answer in join_all((0..20).map(async |_| service.bearer(&token).get(SELECTIONS).await)).await {
        answer.expect_problem(503, "SELECTIONS_SERVICE_UNAVAILABLE");
    }
}

/// RULE-ALL-047, RULE-ALL-048: the maximum lifetime of a token is a setting.
#[tokio::test]
async fn maximum_lifetime_of_tokens_is_configurable() {
    let service = Running::start::<Service>(&[("AUTH_TOKEN_MAX_LIFETIME_SECONDS", "600")]);
    let living = |seconds| Claims::user(guid()).lifetime(Duration::seconds(seconds));
    service.caller(&living(600)).get(SELECTIONS).await.expect(200);
    service.caller(&living(601)).get(SELECTIONS).await.expect_problem(401, "SELECTIONS_UNAUTHORIZED");
}

/// RULE-ALL-055: without keys a caller with a token gets 503, also on routes for guests. Guests can
/// still open selections.
#[tokio::test]
async fn token_that_cannot_be_verified_returns_503() {
    let issuer = Issuer::start().unwrap();
    let (url, token) = (issuer.url().to_owned(), issuer.token(&Claims::user(guid())).unwrap());
    let listener = take_address_of(issuer).await;
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
