//! A client of Keycloak's admin API: creates users and machines as tests need them, and requests
//! their tokens.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::claims::{CLIENTS, Claims, PLATFORM};

/// Name and password of the administrator, which protect only a developer's own machine.
pub const ADMINISTRATOR: (&str, &str) = ("admin", "admin");

const REALM: &str = "platform";
const PASSWORD: &str = "password";
/// Time for which an administrator's token is used again. The token expires after one minute.
const ADMIN_TOKEN_REUSE: Duration = Duration::from_secs(40);
/// Delay before a rotation. After an unknown key id, services request no keys for five seconds.
const ROTATION_DELAY: Duration = Duration::from_secs(6);

/// The realm of a running Keycloak.
pub struct Realm {
    keycloak: String,
    admin_token: Mutex<Option<(String, Instant)>>,
    /// Tokens under the current key, by their claims.
    issued: Mutex<HashMap<String, String>>,
    /// Existing clients for user tokens, by the token lifetime in seconds.
    clients: Mutex<HashSet<i64>>,
}

impl Realm {
    /// Returns the realm of the Keycloak at this URL.
    pub fn new(keycloak: &str) -> Self {
        Self {
            keycloak: keycloak.to_owned(),
            admin_token: Mutex::default(),
            issued: Mutex::default(),
            clients: Mutex::default(),
        }
    }

    /// Returns the `iss` of the tokens.
    pub fn issuer(&self) -> String {
        format!("{}/realms/{REALM}", self.keycloak)
    }

    /// Returns the URL of the realm in the admin API.
    pub fn admin_url(&self) -> String {
        format!("{}/admin/realms/{REALM}", self.keycloak)
    }

    /// Sets a fast password hash, since tests create many users. Never do so for a real realm.
    pub(super) async fn prepare(&self) -> anyhow::Result<()> {
        let policy = json!({"passwordPolicy": "hashAlgorithm(pbkdf2-sha256) and hashIterations(1)"});
        self.administer(Method::PUT, "", &policy).await.map(drop)
    }

    /// Returns a token with these claims. Creates the user or the machine if necessary.
    ///
    /// # Errors
    /// If Keycloak issues no token, for example for a machine without a client id.
    pub fn token(&self, claims: &Claims) -> anyhow::Result<String> {
        let key = serde_json::to_string(claims)?;
        if let Some(token) = self.issued.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(token.clone());
        }
        let request = async {
            if claims.aud == PLATFORM {
                self.user_token(claims).await
            } else {
                self.machine_token(claims).await
            }
        };
        // A separate thread, since the caller's runtime cannot run a blocking call.
        let token = std::thread::scope(|scope| {
            let requesting = scope.spawn(|| {
                tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(request)
            });
            requesting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        self.issued.lock().unwrap_or_else(PoisonError::into_inner).insert(key, token.clone());
        Ok(token)
    }

    /// Returns false for machine tokens that Keycloak cannot issue: those without a client id, and
    /// those whose id differs from another one only in letter case or spaces.
    pub fn can_issue(&self, claims: &Claims) -> bool {
        claims.aud == PLATFORM
            || claims
                .client_id
                .as_deref()
                .is_some_and(|id| !id.is_empty() && id.trim() == id && id.to_lowercase() == id)
    }

    async fn user_token(&self, claims: &Claims) -> anyhow::Result<String> {
        let company: Vec<_> = claims.company_id.iter().collect();
        let user = json!({
            "id": claims.sub, "username": claims.sub, "enabled": true,
            "attributes": {"company_id": company, "permissions": claims.permissions},
            "credentials": [{"type": "password", "value": PASSWORD}],
        });
        let import = json!({"ifResourceExists": "OVERWRITE", "users": [user]});
        self.administer(Method::POST, "/partialImport", &import).await?;
        let client = self.client(claims.lifetime.whole_seconds()).await?;
        let form = [
            ("grant_type", "password"),
            ("client_id", client.as_str()),
            ("username", claims.sub.as_str()),
            ("password", PASSWORD),
        ];
        self.grant(REALM, &form).await
    }

    /// Returns the client for user tokens of this lifetime. Creates it at its first use.
    async fn client(&self, seconds: i64) -> anyhow::Result<String> {
        let id = format!("tests-{seconds}");
        if !self.clients.lock().unwrap_or_else(PoisonError::into_inner).contains(&seconds) {
            let client = json!({
                "clientId": id, "enabled": true, "publicClient": true, "fullScopeAllowed": false,
                "standardFlowEnabled": false, "directAccessGrantsEnabled": true,
                "defaultClientScopes": ["person"], "optionalClientScopes": [],
                "attributes": {"access.token.lifespan": seconds.to_string()},
            });
            self.administer(Method::POST, "/clients", &client).await?;
            self.clients.lock().unwrap_or_else(PoisonError::into_inner).insert(seconds);
        }
        Ok(id)
    }

    async fn machine_token(&self, claims: &Claims) -> anyhow::Result<String> {
        let id = claims.client_id.as_deref().context("a machine without a client id")?;
        // An unknown machine becomes a copy of the first client, with the secret of that client.
        let known = CLIENTS.into_iter().find(|(client, _)| *client == id);
        let (template, secret) = known.unwrap_or(CLIENTS[0]);
        if known.is_none() {
            let path = format!("/clients?clientId={template}");
            let mut copy = self.administer(Method::GET, &path, &Value::Null).await?[0].take();
            for member in ["id", "protocolMappers"] {
                copy.as_object_mut().context("no client")?.remove(member);
            }
            copy["clientId"] = json!(id);
            self.administer(Method::POST, "/clients", &copy).await?;
        }
        let form = [("grant_type", "client_credentials"), ("client_id", id), ("client_secret", secret)];
        self.grant(REALM, &form).await
    }

    /// Creates a new signing key. Tokens under the previous key stay valid.
    ///
    /// # Panics
    /// If Keycloak creates no key.
    pub async fn rotate(&self) {
        tokio::time::sleep(ROTATION_DELAY).await;
        let now = runtime::clock::now().unix_timestamp();
        let key = json!({
            "name": format!("from {now}"),
            "providerId": "ecdsa-generated",
            "providerType": "org.keycloak.keys.KeyProvider",
            "config": {"priority": [now.to_string()], "ecdsaEllipticCurveKey": ["P-256"]},
        });
        self.administer(Method::POST, "/components", &key).await.expect("a new key");
        self.issued.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Calls the admin API. An object that already exists is not changed.
    async fn administer(&self, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
        let url = format!("{}{path}", self.admin_url());
        let request = http()?.request(method, url).bearer_auth(self.admin_token().await?);
        let request = if body.is_null() { request } else { request.json(body) };
        let response = request.send().await?;
        let (status, text) = (response.status(), response.text().await?);
        ensure!(status.is_success() || status == StatusCode::CONFLICT, "Keycloak responded {status}: {text}");
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }

    async fn admin_token(&self) -> anyhow::Result<String> {
        let cached = self.admin_token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((token, since)) = cached
            && since.elapsed() < ADMIN_TOKEN_REUSE
        {
            return Ok(token);
        }
        let (username, password) = ADMINISTRATOR;
        let form = [
            ("grant_type", "password"),
            ("client_id", "admin-cli"),
            ("username", username),
            ("password", password),
        ];
        let token = self.grant("master", &form).await?;
        let cached = Some((token.clone(), Instant::now()));
        *self.admin_token.lock().unwrap_or_else(PoisonError::into_inner) = cached;
        Ok(token)
    }

    async fn grant(&self, realm: &str, form: &[(&str, &str)]) -> anyhow::Result<String> {
        let url = format!("{}/realms/{realm}/protocol/openid-connect/token", self.keycloak);
        let response: Value = http()?.post(url).form(form).send().await?.json().await?;
        let token = response["access_token"].as_str();
        Ok(token.with_context(|| format!("Keycloak issued no token: {response}"))?.to_owned())
    }
}

/// Creates a client for one call, since the next call may use another runtime.
fn http() -> reqwest::Result<reqwest::Client> {
    reqwest::ClientBuilder::new().tls_certs_only([]).build()
}
