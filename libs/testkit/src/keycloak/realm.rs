//! Keycloak's realm as tests use it: people and machines are made in it as they are needed, and ask it for their tokens.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::ADMINISTRATOR;
use crate::issuer::{CLIENTS, Claims, PLATFORM};

const REALM: &str = "platform";
const PASSWORD: &str = "password";
/// An administrator's token lives for a minute.
const ADMINISTRATION: Duration = Duration::from_secs(40);
/// Services that were shown a made-up key ask for no other for five seconds.
const PAUSE: Duration = Duration::from_secs(6);

/// The realm of a running Keycloak.
pub struct Realm {
    keycloak: String,
    administration: Mutex<Option<(String, Instant)>>,
    /// By what they say, since the last key.
    issued: Mutex<HashMap<String, String>>,
    /// What people get their tokens with, by how many seconds these live.
    clients: Mutex<HashSet<i64>>,
}

impl Realm {
    pub fn of(keycloak: &str) -> Self {
        Self {
            keycloak: keycloak.to_owned(),
            administration: Mutex::default(),
            issued: Mutex::default(),
            clients: Mutex::default(),
        }
    }

    /// What its tokens name as `iss`.
    pub fn issuer(&self) -> String {
        format!("{}/realms/{REALM}", self.keycloak)
    }

    /// Lets people have tokens for a password that is hashed in no time, as no realm should where people are real.
    pub(super) async fn prepare(&self) -> anyhow::Result<()> {
        let policy = json!({"passwordPolicy": "hashAlgorithm(pbkdf2-sha256) and hashIterations(1)"});
        self.administer(Method::PUT, "", &policy).await.map(drop)
    }

    /// A token that says this, of a person or a machine who is made for it.
    ///
    /// # Errors
    /// When Keycloak issues none: it knows only machines with a name.
    pub fn token(&self, claims: &Claims) -> anyhow::Result<String> {
        let said = serde_json::to_string(claims)?;
        if let Some(token) = self.issued.lock().unwrap_or_else(PoisonError::into_inner).get(&said) {
            return Ok(token.clone());
        }
        let asked = async {
            if claims.aud == PLATFORM { self.person(claims).await } else { self.machine(claims).await }
        };
        // Of whoever calls, the runtime is busy with the call.
        let token = std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(asked)
            });
            asking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        self.issued.lock().unwrap_or_else(PoisonError::into_inner).insert(said, token.clone());
        Ok(token)
    }

    /// Whether there can be such a token: none is for a machine without a name, nor beside one of the same name but for case or a space.
    pub fn issues(&self, claims: &Claims) -> bool {
        claims.aud == PLATFORM
            || claims
                .client_id
                .as_deref()
                .is_some_and(|id| !id.is_empty() && id.trim() == id && id.to_lowercase() == id)
    }

    async fn person(&self, claims: &Claims) -> anyhow::Result<String> {
        let company: Vec<_> = claims.company_id.iter().collect();
        let person = json!({
            "id": claims.sub, "username": claims.sub, "enabled": true,
            "attributes": {"company_id": company, "permissions": claims.permissions},
            "credentials": [{"type": "password", "value": PASSWORD}],
        });
        let import = json!({"ifResourceExists": "OVERWRITE", "users": [person]});
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

    /// The client whose tokens for people live so many seconds; made when it is first asked for.
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

    async fn machine(&self, claims: &Claims) -> anyhow::Result<String> {
        let id = claims.client_id.as_deref().context("a machine without a name")?;
        let known = CLIENTS.into_iter().find(|(client, _)| *client == id);
        let (like, secret) = known.unwrap_or(CLIENTS[0]);
        if known.is_none() {
            let path = format!("/clients?clientId={like}");
            let mut other = self.administer(Method::GET, &path, &Value::Null).await?[0].take();
            for member in ["id", "protocolMappers"] {
                other.as_object_mut().context("no client")?.remove(member);
            }
            other["clientId"] = json!(id);
            self.administer(Method::POST, "/clients", &other).await?;
        }
        let form = [("grant_type", "client_credentials"), ("client_id", id), ("client_secret", secret)];
        self.grant(REALM, &form).await
    }

    /// Signs with a new key from now on; what was signed before still holds.
    ///
    /// # Panics
    /// When Keycloak makes none.
    pub async fn rotate(&self) {
        tokio::time::sleep(PAUSE).await;
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

    /// What is there already stays as it is.
    async fn administer(&self, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
        let url = format!("{}/admin/realms/{REALM}{path}", self.keycloak);
        let request = http()?.request(method, url).bearer_auth(self.administration().await?);
        let request = if body.is_null() { request } else { request.json(body) };
        let answer = request.send().await?;
        let (status, text) = (answer.status(), answer.text().await?);
        ensure!(status.is_success() || status == StatusCode::CONFLICT, "Keycloak answers {status}: {text}");
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }

    async fn administration(&self) -> anyhow::Result<String> {
        let kept = self.administration.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((token, since)) = kept
            && since.elapsed() < ADMINISTRATION
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
        let kept = Some((token.clone(), Instant::now()));
        *self.administration.lock().unwrap_or_else(PoisonError::into_inner) = kept;
        Ok(token)
    }

    async fn grant(&self, realm: &str, form: &[(&str, &str)]) -> anyhow::Result<String> {
        let url = format!("{}/realms/{realm}/protocol/openid-connect/token", self.keycloak);
        let answer: Value = http()?.post(url).form(form).send().await?.json().await?;
        let token = answer["access_token"].as_str();
        Ok(token.with_context(|| format!("Keycloak gives no token: {answer}"))?.to_owned())
    }
}

/// For one call, since the next may come from another runtime.
fn http() -> reqwest::Result<reqwest::Client> {
    reqwest::ClientBuilder::new().tls_certs_only([]).build()
}
