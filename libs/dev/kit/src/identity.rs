//! Tokens with the claims that `identity` returns to an issuer.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Deserialize;
use testkit::issuer::{Claims, Issuer};
use uuid::Uuid;

use crate::actors::{self, Actor};
use crate::http;
use crate::stack::Stack;

/// The machine client that reads claims.
const ISSUER: &str = "issuer";
/// Timeout of one request to identity.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// An issuer that reads the claims from identity before it signs.
#[derive(Clone)]
pub struct Identity {
    issuer: Issuer,
    client: reqwest::Client,
    /// URL of identity's internal port.
    url: String,
}

/// The claims of a user, as identity returns them.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ClaimsResponse {
    company_id: Option<Uuid>,
    permissions: Vec<String>,
}

impl Identity {
    pub fn new(issuer: Issuer, url: String) -> anyhow::Result<Self> {
        Ok(Self { issuer, client: http::client()?, url })
    }

    /// Returns the issuer of a running stack.
    pub fn of(stack: &Stack) -> anyhow::Result<Self> {
        let url = stack.services.get("identity").and_then(|urls| urls.internal_url.clone());
        Self::new(actors::issuer(stack)?, url.context("the stack has no identity")?)
    }

    /// Returns the current claims of a user.
    pub async fn claims(&self, user: Uuid) -> anyhow::Result<Claims> {
        let machine = self.issuer.token(&Claims::client(ISSUER))?;
        let url = format!("{}/api/v1/internal/users/{user}/claims", self.url);
        let response = self.client.get(url).bearer_auth(machine).timeout(RESPONSE_TIMEOUT).send().await;
        let response =
            response.context("identity does not respond; `--user` with `--permission` does not need it")?;
        ensure!(response.status().is_success(), "identity returned {}", response.status());
        let ClaimsResponse { company_id, permissions } = response.json().await?;
        Ok(Claims { company_id, permissions, ..Claims::user(user) })
    }

    /// Returns a token of an actor.
    pub async fn token(&self, actor: &Actor) -> anyhow::Result<String> {
        let claims = match actor.own_claims() {
            Some(claims) => claims,
            None => self.claims(actor.user).await?,
        };
        self.issuer.token(&claims)
    }

    /// Returns a token of an employee.
    pub async fn token_of(&self, user: Uuid) -> anyhow::Result<String> {
        self.issuer.token(&self.claims(user).await?)
    }
}
