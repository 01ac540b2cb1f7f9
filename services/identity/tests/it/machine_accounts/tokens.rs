//! Tokens of machine accounts, from the issuer's own token endpoint. `cargo dev keycloak --test`
//! runs these tests with Keycloak.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::Client;
use testkit::eventually;
use testkit::service::issuer;
use uuid::Uuid;

use super::{body, create, path, request_secret, revoke};
use crate::{ACCESS_REVOKED, Tenant, create_tenant, operator, published, service, text};

/// The client credentials of an account.
struct Credentials {
    id: Uuid,
    secret: String,
}

async fn credentials(by: &Client, account: Uuid) -> Credentials {
    let created = request_secret(by, account).await.expect(200);
    assert_eq!(created["ClientId"], json!(account));
    Credentials { id: account, secret: text(&created["ClientSecret"]).to_owned() }
}

/// Requests a token from the issuer. Returns `None` if the issuer rejects the credentials.
pub(super) async fn token(id: Uuid, secret: &str) -> Option<String> {
    let http = reqwest::ClientBuilder::new().tls_certs_only([]).build().unwrap();
    let discovery = format!("{}/.well-known/openid-configuration", issuer().url());
    let discovery: Value = http.get(discovery).send().await.unwrap().json().await.unwrap();
    let request = http.post(text(&discovery["token_endpoint"])).basic_auth(id, Some(secret));
    let response = request.form(&[("grant_type", "client_credentials")]).send().await.unwrap();
    match response.status().as_u16() {
        200 => Some(text(&response.json::<Value>().await.unwrap()["access_token"]).to_owned()),
        401 => None,
        status => panic!("the issuer returned {status}"),
    }
}

impl Credentials {
    async fn token(&self) -> Option<String> {
        token(self.id, &self.secret).await
    }

    /// Waits until the issuer issues a token with these permissions, and returns it.
    async fn token_with(&self, permissions: &[&str]) -> String {
        eventually("a token with the present permissions", async || {
            let token = self.token().await?;
            (claims(&token)["permissions"] == json!(permissions)).then_some(token)
        })
        .await
    }

    /// Waits until the issuer issues no token.
    async fn expect_no_token(&self) {
        eventually("the end of the client", async || self.token().await.is_none().then_some(())).await;
    }
}

pub(super) fn claims(token: &str) -> Value {
    use base64::Engine;
    let payload = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&base64::prelude::BASE64_URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap()
}

/// Returns the number of published revocations of an account.
async fn revocations(account: Uuid) -> usize {
    published(service(), account).await.iter().filter(|event| event.topic == ACCESS_REVOKED).count()
}

async fn prepare(roles: &[u8]) -> (Tenant, Client, Credentials) {
    let tenant = create_tenant("Developer").await;
    let admin = tenant.outside_admin();
    let account = create(&admin, roles).await;
    let credentials = credentials(&admin, account).await;
    (tenant, admin, credentials)
}

/// RULE-IDN-064: the issuer's token for the credentials has the claims of an employee with the same
/// roles, without the baseline, and `identity` accepts it.
#[tokio::test]
async fn token_of_an_account_is_accepted() {
    let (tenant, _, credentials) = prepare(&[3]).await;
    let token = credentials.token().await.unwrap();
    let claims = claims(&token);
    assert_eq!(
        (&claims["sub"], &claims["company_id"], &claims["permissions"], &claims["aud"]),
        (&json!(credentials.id), &json!(tenant.0), &json!(["crm.deals.manage-own"]), &json!("platform"))
    );
    let me = service().bearer(&token).get("/api/identity/me").await.expect(200);
    assert_eq!(
        (&me["UserId"], &me["Name"], &me["Permissions"], &me["Company"]["Id"]),
        (&json!(credentials.id), &json!("Выгрузка"), &json!(["crm.deals.manage-own"]), &json!(tenant.0))
    );
    // The token counts as a user's, so the internal port rejects it.
    let internal = service().internal_client(Some(token));
    let claims = format!("/api/v1/internal/users/{}/claims", credentials.id);
    internal.get(&claims).await.expect_problem(401, "UNAUTHORIZED");
    let read = service().machine("issuer").get(&claims).await.expect(200);
    let expected =
        json!({"UserId": credentials.id, "CompanyId": tenant.0, "Permissions": ["crm.deals.manage-own"]});
    assert_eq!(read, expected);
}

/// RULE-IDN-065: a new secret replaces the old one, and revokes the tokens.
#[tokio::test]
async fn rotation_ends_the_old_secret_and_its_tokens() {
    let (_, admin, old) = prepare(&[9]).await;
    assert!(old.token().await.is_some());
    assert_eq!(revocations(old.id).await, 1);
    let new = credentials(&admin, old.id).await;
    assert_ne!(new.secret, old.secret);
    assert_eq!(old.token().await, None);
    assert!(new.token().await.is_some());
    assert_eq!(revocations(old.id).await, 2);
    assert_ne!(admin.get(&path(old.id)).await.expect(200)["SecretRequestedAt"], Value::Null);
}

/// RULE-IDN-062, RULE-IDN-066: a revocation ends the claims and the tokens at once, and then the
/// client at the issuer.
#[tokio::test]
async fn revocation_ends_tokens_and_client() {
    let (_, admin, credentials) = prepare(&[9]).await;
    assert!(credentials.token().await.is_some());
    revoke(&admin, credentials.id).await.expect(200);
    let claims = format!("/api/v1/internal/users/{}/claims", credentials.id);
    let read = service().machine("issuer").get(&claims).await.expect(200);
    assert_eq!((&read["CompanyId"], &read["Permissions"]), (&Value::Null, &json!([])));
    // The first revocation is that of the new secret.
    assert!(revocations(credentials.id).await >= 2);
    credentials.expect_no_token().await;
    // Tokens that the issuer had issued before it was updated are revoked again.
    eventually("the repeated revocation", async || (revocations(credentials.id).await == 3).then_some(()))
        .await;
}

/// RULE-IDN-066: the issuer gets each change of the roles. Only a loss revokes the tokens.
#[tokio::test]
async fn role_change_reaches_the_issuer() {
    let (_, admin, credentials) = prepare(&[3]).await;
    admin.put(&path(credentials.id), body("Выгрузка", &[3, 4])).await.expect(200);
    credentials.token_with(&["crm.deals.manage-own", "crm.deals.read-own"]).await;
    assert_eq!(revocations(credentials.id).await, 1);
    admin.put(&path(credentials.id), body("Выгрузка", &[4])).await.expect(200);
    credentials.token_with(&["crm.deals.read-own"]).await;
    eventually("the revocations of the loss and of the update", async || {
        (revocations(credentials.id).await == 3).then_some(())
    })
    .await;
}

/// RULE-IDN-066: accounts of a company that is not Active get no tokens, and an activation restores
/// them with the same secret.
#[tokio::test]
async fn company_status_change_reaches_the_issuer() {
    let (tenant, _, credentials) = prepare(&[4]).await;
    tenant.transition("suspend").await;
    credentials.expect_no_token().await;
    tenant.transition("activate").await;
    credentials.token_with(&["crm.deals.read-own"]).await;
    tenant.transition("archive").await;
    credentials.expect_no_token().await;
    let end = tenant.path(&format!("/machine-accounts/{}/revoke", credentials.id));
    operator().post(&end, Value::Null).await.expect(200);
}

/// RULE-IDN-067: no table contains a secret, even if a request has an idempotency key.
#[tokio::test]
async fn secret_is_in_no_table() {
    let (_, admin, credentials) = prepare(&[9]).await;
    let keyed = admin
        .request(reqwest::Method::POST, &format!("{}/secret", path(credentials.id)))
        .header("Idempotency-Key", "rotation");
    let second = testkit::client::send(keyed).await.expect(200);
    // The test also finds rows that are written after the response.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let sql = service().sql().await;
    let tables = "select tablename::text from pg_tables where schemaname = 'identity'";
    let tables: Vec<String> = sql.query(tables, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert!(tables.len() > 10, "{tables:?}");
    for table in tables {
        let query = format!(
            "select count(*) from {table} as found where found::text like '%' || $1 || '%' or found::text like '%' || $2 || '%'"
        );
        let second = text(&second["ClientSecret"]);
        let found: i64 = sql.query_one(&query, &[&credentials.secret, &second]).await.unwrap().get(0);
        assert_eq!(found, 0, "{table}");
    }
}
