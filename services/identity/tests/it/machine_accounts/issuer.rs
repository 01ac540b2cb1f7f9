//! Outages of the issuer while machine accounts change.

use futures_util::future::join;
use serde_json::json;
use testkit::client::Client;
use testkit::eventually;
use testkit::faults::{Call, Fault, FaultProxy};
use testkit::issuer::Claims;
use testkit::service::{Running, issuer};
use uuid::Uuid;

use super::tokens::{claims, token};
use super::{ACCOUNTS, body, path, request_secret, revoke};
use crate::{ACCESS_REVOKED, ADMIN_PERMISSIONS, TENANTS, claims_with, published, start_with_issuer, text};

/// The path of the realm in the issuer's API.
const REALM: &str = "/admin/realms/platform";

/// Starts a service whose calls to the issuer's API pass a proxy. Returns both, with a company's
/// administrator.
async fn start() -> (Running, FaultProxy, Client) {
    let admin_url = issuer().admin_url();
    let host = admin_url.strip_suffix(REALM).unwrap();
    let proxy = FaultProxy::start(host);
    let identity = start_with_issuer(&format!("{}{REALM}", proxy.url()));
    let admin = administrator(&identity).await;
    (identity, proxy, admin)
}

/// Creates a company, and returns a client with the permissions of its administrator.
async fn administrator(identity: &Running) -> Client {
    let operator = identity.caller(&claims_with(None, &ADMIN_PERMISSIONS));
    let created = operator.post(TENANTS, json!({"Name": "Ромашка", "Type": "Developer"})).await.expect(201);
    let own = ADMIN_PERMISSIONS.map(|permission| permission.trim_end_matches("@platform"));
    identity.caller(&claims_with(Some(text(&created["Id"]).parse().unwrap()), &own))
}

async fn create(by: &Client) -> Uuid {
    text(&by.post(ACCOUNTS, body("Выгрузка", &[9])).await.expect(201)["Id"]).parse().unwrap()
}

/// RULE-IDN-066: an account is revoked while the issuer is down. Its tokens are revoked again with
/// every attempt, and the client is deleted when the issuer responds again.
#[tokio::test]
async fn revocation_without_the_issuer_succeeds() {
    let (identity, proxy, admin) = start().await;
    let account = create(&admin).await;
    let secret = request_secret(&admin, account).await.expect(200);
    let secret = text(&secret["ClientSecret"]).to_owned();

    proxy.inject("/admin", Fault::problem(500, "down"));
    revoke(&admin, account).await.expect(200);
    let revocations = async || {
        let events = published(&identity, account).await;
        events.iter().filter(|event| event.topic == ACCESS_REVOKED).count()
    };
    // The new secret and the revocation of the account publish two, and failed attempts the others.
    eventually("a repeated revocation", async || (revocations().await >= 4).then_some(())).await;
    // The issuer does not know of the revocation yet.
    assert!(token(account, &secret).await.is_some());
    proxy.remove_faults();
    eventually("the end of the client", async || token(account, &secret).await.is_none().then_some(())).await;
}

/// RULE-IDN-065: a request for a secret fails while the issuer is down, and succeeds later.
#[tokio::test]
async fn secret_request_without_the_issuer_fails() {
    let (_identity, proxy, admin) = start().await;
    proxy.inject("/admin", Fault::problem(500, "down"));
    let account = create(&admin).await;
    let refused = request_secret(&admin, account).await;
    assert_ne!(refused.header("retry-after"), "");
    refused.expect_problem(503, "IDENTITY_ISSUER_UNAVAILABLE");
    proxy.remove_faults();
    eventually("a secret", async || (request_secret(&admin, account).await.status == 200).then_some(()))
        .await;
}

/// RULE-IDN-065: a request whose response is lost revokes the tokens, since the secret is replaced.
#[tokio::test]
async fn secret_with_a_lost_response_ends_the_tokens() {
    let (identity, proxy, admin) = start().await;
    let account = create(&admin).await;
    let secret = request_secret(&admin, account).await.expect(200);
    proxy.inject("/client-secret", Fault::LoseResponse);
    request_secret(&admin, account).await.expect_problem(503, "IDENTITY_ISSUER_UNAVAILABLE");
    assert!(token(account, text(&secret["ClientSecret"])).await.is_none());
    let events = published(&identity, account).await;
    assert_eq!(events.iter().filter(|event| event.topic == ACCESS_REVOKED).count(), 2);
}

/// RULE-IDN-065: a request for a secret waits for the client of a new account.
#[tokio::test]
async fn secret_waits_for_the_registration() {
    let (_identity, proxy, admin) = start().await;
    let gate = proxy.hold("/admin");
    let account = create(&admin).await;
    gate.arrived().await;
    let registration = async {
        let is_repeated = || proxy.calls(format!("{}/client-secret", api_path(account))).len() > 1;
        eventually("a repeated request to the issuer", async || is_repeated().then_some(())).await;
        gate.open();
    };
    let (secret, ()) = join(request_secret(&admin, account), registration).await;
    secret.expect(200);
}

/// RULE-IDN-066: after a revocation during the registration of the client, the client is deleted.
#[tokio::test]
async fn revocation_during_the_registration_ends_the_client() {
    let (_identity, proxy, admin) = start().await;
    let gate = proxy.hold("/admin");
    let account = create(&admin).await;
    gate.arrived().await;
    revoke(&admin, account).await.expect(200);
    let deleted = || proxy.calls(api_path(account)).iter().any(|call| call.method == "DELETE");
    // The run of the revocation finishes before that of the registration.
    eventually("the deletion", async || deleted().then_some(())).await;
    gate.open();
    // The run of the registration creates the client, finds the revocation and deletes the client.
    let created = || proxy.calls(format!("{REALM}/clients")).iter().any(is_creation);
    eventually("the late registration", async || created().then_some(())).await;
    let last_is_deletion = || {
        let calls = proxy.calls(format!("{REALM}/clients"));
        calls.iter().rposition(is_creation) < calls.iter().rposition(|call| call.method == "DELETE")
    };
    eventually("the second deletion", async || last_is_deletion().then_some(())).await;
    assert_eq!(admin.get(&path(account)).await.expect(200)["Status"], "Revoked");
}

/// RULE-IDN-066: if the issuer applies an older request after the first success, the confirmation
/// sends the present state again, and revokes the tokens again.
#[tokio::test]
async fn confirmation_replaces_an_older_state() {
    let (identity, proxy, admin) = start().await;
    let account = create(&admin).await;
    let secret = request_secret(&admin, account).await.expect(200);
    let secret = text(&secret["ClientSecret"]);
    let older = proxy.calls(api_path(account)).into_iter().find(|call| call.method == "PUT").unwrap().body;
    admin.put(&path(account), body("Выгрузка", &[4])).await.expect(200);
    let revocations = async || {
        let events = published(&identity, account).await;
        events.iter().filter(|event| event.topic == ACCESS_REVOKED).count()
    };
    // The new secret, the loss of the role and the first success revoke the tokens.
    eventually("the first success", async || (revocations().await == 3).then_some(())).await;

    let http = reqwest::ClientBuilder::new().tls_certs_only([]).build().unwrap();
    let late = http.put(format!("{}/clients/{account}", issuer().admin_url())).json(&older);
    let manager = issuer().token(&Claims::client("identity")).unwrap();
    assert_eq!(late.bearer_auth(manager).send().await.unwrap().status(), 204);
    let permissions = async || claims(&token(account, secret).await.unwrap())["permissions"].clone();
    assert_eq!(permissions().await, json!(["news.posts.create-company", "news.posts.manage-own"]));

    let confirm = "update job set due_at = now() where kind = 'machine-client-confirmation' and key = $1";
    let sql = identity.sql().await;
    assert_eq!(sql.execute(confirm, &[&account.to_string()]).await.unwrap(), 1);
    eventually("the confirmation", async || (revocations().await == 4).then_some(())).await;
    assert_eq!(permissions().await, json!(["crm.deals.read-own"]));
    let outdated = "select is_outdated_at_issuer from machine_account where id::text = $1";
    assert!(!sql.query_one(outdated, &[&account.to_string()]).await.unwrap().get::<_, bool>(0));
}

fn is_creation(call: &Call) -> bool {
    call.method == "POST" && call.path.ends_with("/clients")
}

fn api_path(account: Uuid) -> String {
    format!("{REALM}/clients/{account}")
}

/// RULE-IDN-068: the command sends each account to the issuer again, for example after a restore.
#[tokio::test]
async fn command_updates_every_client() {
    let identity = start_with_issuer(&issuer().admin_url());
    let admin = administrator(&identity).await;
    let account = create(&admin).await;
    request_secret(&admin, account).await.expect(200);
    let http = reqwest::ClientBuilder::new().tls_certs_only([]).build().unwrap();
    let deletion = http.delete(format!("{}/clients/{account}", issuer().admin_url()));
    let manager = issuer().token(&Claims::client("identity")).unwrap();
    assert_eq!(deletion.bearer_auth(manager).send().await.unwrap().status(), 204);

    let output = crate::bootstrap::run(&identity.database_url, &["update-clients"]).await.unwrap();
    assert_eq!(output, "1 machine accounts will be updated at the issuer\n");
    let secret = request_secret(&admin, account).await.expect(200);
    assert!(token(account, text(&secret["ClientSecret"])).await.is_some());
    // Two revocations are those of the new secrets.
    let revoked = async || {
        let events = published(&identity, account).await;
        (events.iter().filter(|event| event.topic == ACCESS_REVOKED).count() >= 3).then_some(())
    };
    eventually("the revocation of older tokens", revoked).await;
}

/// RULE-IDN-065: without an API of the issuer, accounts get no secret, but can be created and
/// revoked.
#[tokio::test]
async fn service_without_an_issuer_api_creates_no_secret() {
    let identity = Running::start::<identity::Service>(&[]);
    let admin = administrator(&identity).await;
    let account = create(&admin).await;
    request_secret(&admin, account).await.expect_problem(503, "IDENTITY_ISSUER_UNAVAILABLE");
    revoke(&admin, account).await.expect(200);
    assert_eq!(admin.get(&path(account)).await.expect(200)["Status"], "Revoked");
}
