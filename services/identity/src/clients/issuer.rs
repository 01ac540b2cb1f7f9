//! The clients of machine accounts at the token issuer, over the part of Keycloak's admin API that
//! the local issuer also has.

use auth::{CompanyId, UserId};
use http_client::{Call, CallError, Method, ServiceClient, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::domain::{ClientSecret, TokenClaims};

/// The audience of tokens of users and of machine accounts.
const AUDIENCE: &str = "platform";

const CREATE: Call = call("POST", "/clients");
const REPLACE: Call = call("PUT", "/clients/{client_id}");
const DELETE: Call = call("DELETE", "/clients/{client_id}");
const CREATE_SECRET: Call = call("POST", "/clients/{client_id}/client-secret");

/// Operations below the URL of a realm in the admin API.
pub const CALLS: &[Call] = &[CREATE, REPLACE, DELETE, CREATE_SECRET];

const fn call(method: &'static str, path: &'static str) -> Call {
    Call { method, ..Call::get("the issuer", path) }
}

pub struct IssuerClients {
    issuer: ServiceClient,
}

/// A new secret, as the issuer returns it.
#[derive(Deserialize)]
struct SecretResponse {
    value: ClientSecret,
}

impl IssuerClients {
    /// # Errors
    /// The HTTP client cannot be built.
    pub fn new(config: &http_client::Config) -> anyhow::Result<Self> {
        Ok(Self { issuer: ServiceClient::new(config)? })
    }

    /// Creates or replaces the client of a machine account. The secret does not change.
    ///
    /// A client without a company is disabled, so the issuer issues no token.
    ///
    /// # Errors
    /// If the issuer may not have stored the client.
    pub async fn put(&self, claims: &TokenClaims) -> anyhow::Result<()> {
        let client = client_representation(claims);
        let path = REPLACE.path_with(claims.user_id);
        let replaced = self.send(Method::PUT, &path, Some(&client)).await?.0;
        match replaced {
            StatusCode::NOT_FOUND => {
                let created = self.send(Method::POST, CREATE.path, Some(&client)).await?.0;
                check_status(created == StatusCode::CREATED, created)
            }
            status => check_status(status.is_success(), status),
        }
    }

    /// Deletes the client of a machine account, if it exists.
    ///
    /// # Errors
    /// If the issuer may still have the client.
    pub async fn delete(&self, id: UserId) -> anyhow::Result<()> {
        let (status, _) = self.send(Method::DELETE, &DELETE.path_with(id), None::<&Value>).await?;
        check_status(status.is_success() || status == StatusCode::NOT_FOUND, status)
    }

    /// Replaces the secret of a client. Returns `None` if the issuer does not have the client.
    ///
    /// # Errors
    /// If the issuer returns no secret.
    pub async fn create_secret(&self, id: UserId) -> anyhow::Result<Option<ClientSecret>> {
        let path = CREATE_SECRET.path_with(id);
        let (status, body) = self.send(Method::POST, &path, None::<&Value>).await?;
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        check_status(status.is_success(), status)?;
        // The error of the parser could quote the secret.
        let secret = serde_json::from_slice::<SecretResponse>(&body);
        Ok(Some(secret.map_err(|_| anyhow::anyhow!("the issuer returned no secret"))?.value))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<(StatusCode, Vec<u8>), CallError> {
        self.issuer.exchange(method, path, body).await
    }
}

fn check_status(is_expected: bool, status: StatusCode) -> anyhow::Result<()> {
    anyhow::ensure!(is_expected, "the issuer returned {status}");
    Ok(())
}

/// Returns the client as Keycloak represents it. Its tokens have the claims of an employee's token.
fn client_representation(claims: &TokenClaims) -> Value {
    let TokenClaims { user_id, company_id, permissions } = claims;
    json!({
        "id": user_id,
        "clientId": user_id,
        "enabled": company_id.is_some(),
        "protocol": "openid-connect",
        "publicClient": false,
        "clientAuthenticatorType": "client-secret",
        "serviceAccountsEnabled": true,
        "standardFlowEnabled": false,
        "implicitFlowEnabled": false,
        "directAccessGrantsEnabled": false,
        "fullScopeAllowed": false,
        "defaultClientScopes": [],
        "optionalClientScopes": [],
        "protocolMappers": [
            mapper("audience", "oidc-audience-mapper", &json!({"included.custom.audience": AUDIENCE})),
            claim_mapper("sub", "String", &user_id.to_string()),
            claim_mapper("company_id", "String", &company_id.as_ref().map(CompanyId::to_string).unwrap_or_default()),
            claim_mapper("permissions", "JSON", &json!(permissions).to_string()),
        ],
    })
}

/// Returns a mapper that gives a claim a constant value.
fn claim_mapper(name: &str, kind: &str, value: &str) -> Value {
    let config = json!({"claim.name": name, "claim.value": value, "jsonType.label": kind});
    mapper(name, "oidc-hardcoded-claim-mapper", &config)
}

fn mapper(name: &str, kind: &str, config: &Value) -> Value {
    let mut mapper = json!({
        "name": name,
        "protocol": "openid-connect",
        "protocolMapper": kind,
        "config": {
            "access.token.claim": "true",
            "id.token.claim": "false",
            "userinfo.token.claim": "false",
            "introspection.token.claim": "true",
        },
    });
    for (key, value) in config.as_object().into_iter().flatten() {
        mapper["config"][key] = value.clone();
    }
    mapper
}
