//! Keys of the issuer: rotation and outages.

use std::net::TcpListener;

use futures_util::future::join_all;
use selections::Service;
use serde_json::{Value, json};
use testkit::faults::{Fault, FaultProxy};
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
    let requests = join_all((0..20).map(async |_| service.bearer(&token).get(SELECTIONS).await));
    // Twenty fetches in a row, each until its timeout, would take a minute.
    let responses = tokio::time::timeout(std::time::Duration::from_secs(30), requests).await;
    for response in responses.expect("responses in time") {
        response.expect_problem(503, "SELECTIONS_SERVICE_UNAVAILABLE");
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

/// Starts an issuer whose documents are `discovery` and `jwks`, and returns a token of it.
fn issuer_with(discovery: impl Fn(&str) -> Value, jwks: impl Fn(&Value) -> String) -> (FaultProxy, String) {
    // The proxy itself returns both documents, so nothing listens at its upstream.
    let proxy = FaultProxy::start("http://127.0.0.1:1");
    let issuer = Issuer::new(proxy.url()).unwrap();
    let discovery = discovery(&proxy.url()).to_string();
    proxy.inject("/.well-known/openid-configuration", Fault::Respond(200, discovery));
    proxy.inject("/jwks", Fault::Respond(200, jwks(&serde_json::to_value(issuer.jwks()).unwrap())));
    let token = issuer.token(&Claims::user(guid())).unwrap();
    (proxy, token)
}

fn discovery_of(url: &str) -> Value {
    json!({"issuer": url, "jwks_uri": format!("{url}/jwks")})
}

/// RULE-ALL-047: a token that is signed with a key for encryption is refused.
#[tokio::test]
async fn token_of_an_encryption_key_is_refused() {
    for (used, status) in [("sig", 200), ("enc", 401)] {
        let (issuer, token) = issuer_with(discovery_of, |jwks| {
            let mut jwks = jwks.clone();
            jwks["keys"][0]["use"] = used.into();
            jwks.to_string()
        });
        let service = Running::start::<Service>(&[("AUTH_ISSUER", &issuer.url())]);
        assert_eq!(service.bearer(&token).get(SELECTIONS).await.status, status, "{used}");
    }
}

/// RULE-ALL-055: the documents of another issuer, keys at an unsafe address and too large documents
/// are not used.
#[tokio::test]
async fn unsafe_documents_of_an_issuer_are_not_used() {
    let with = |member: &'static str, value: &'static str| {
        move |url: &str| {
            let mut discovery = discovery_of(url);
            discovery[member] = value.into();
            discovery
        }
    };
    let unchanged = |jwks: &Value| jwks.to_string();
    let padded = |jwks: &Value| format!("{jwks}{}", " ".repeat(256 * 1024));
    for (why, (issuer, token)) in [
        ("another issuer", issuer_with(with("issuer", "https://evil.example"), unchanged)),
        ("keys without https", issuer_with(with("jwks_uri", "http://192.0.2.1/jwks"), unchanged)),
        ("too many bytes", issuer_with(discovery_of, padded)),
    ] {
        let service = Running::start::<Service>(&[("AUTH_ISSUER", &issuer.url())]);
        let response = service.bearer(&token).get(SELECTIONS).await;
        assert_eq!(response.status, 503, "{why}: {}", response.text);
    }
}

/// RULE-ALL-055: while the issuer is down, its cached keys expire after the maximum lifetime of a
/// token.
#[tokio::test]
async fn cached_keys_of_a_down_issuer_expire() {
    let issuer = Issuer::start().unwrap();
    let settings = [("AUTH_ISSUER", issuer.url()), ("AUTH_TOKEN_MAX_LIFETIME_SECONDS", "2")];
    let service = Running::start::<Service>(&settings);
    // The service accepts the token up to 30 seconds after `exp`.
    let token = issuer.token(&Claims::user(guid()).lifetime(Duration::seconds(2))).unwrap();
    service.bearer(&token).get(SELECTIONS).await.expect(200);
    drop(take_address_of(issuer).await);
    eventually("the keys are too old", async || {
        let response = service.bearer(&token).get(SELECTIONS).await;
        (response.status != 200).then(|| response.expect_problem(503, "SELECTIONS_SERVICE_UNAVAILABLE"))
    })
    .await;
}
