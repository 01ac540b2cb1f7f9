//! Another service of the platform, as the caller sees it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use recloser::{AsyncRecloser, Recloser};
use reqwest::{Method, StatusCode};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_retry::policies::ExponentialBackoff;
use reqwest_retry::{Jitter, RetryTransientMiddleware};
use runtime::Env;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::client;
use crate::middleware::{Passing, Try};
use crate::token::MachineToken;

/// Of one try, from the connection to the last byte of the answer.
const TIMEOUT: Duration = Duration::from_secs(5);
const RETRIES: u32 = 2;
/// While the breaker is open calls fail at once; then a few are let through to see.
const OPEN_FOR: Duration = Duration::from_secs(2);

/// Where the other service is, and who we are to it.
#[derive(Clone, Debug)]
pub struct Config {
    url: Url,
    issuer: String,
    client_id: String,
    client_secret: String,
}

impl Config {
    /// `url_variable` names the other service's internal address, as in `SELECTIONS_URL`.
    pub fn read(env: &mut Env, url_variable: &'static str, client_id: &'static str) -> Option<Self> {
        let url = env.require(url_variable, "the internal port of the service that is called");
        let issuer = env.require("AUTH_ISSUER", "the OIDC issuer, as tokens name it in `iss`");
        let client_id =
            env.or("CLIENT_ID", client_id.to_owned(), "who this service is to others (OAuth 2.0)");
        let client_secret = env.require("CLIENT_SECRET", "its secret");
        Some(Self { url: url?, issuer: issuer?, client_id: client_id?, client_secret: client_secret? })
    }
}

/// Why a call has no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The other side says no, with the code of its problem.
    #[error("refused: {status} {code}")]
    Refused { status: StatusCode, code: String },
    /// It is down, too slow, or does not answer what it should; every retry included.
    #[error("unavailable: {0}")]
    Unavailable(String),
}

#[derive(Deserialize)]
struct ProblemBody {
    code: String,
}

/// A client of one service. Every call is repeated if it fails, so only calls that may be repeated belong here.
pub struct Service {
    http: ClientWithMiddleware,
    url: Url,
    breaker: AsyncRecloser,
}

impl Service {
    /// # Errors
    /// When no HTTP client can be made.
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        let http = client(TIMEOUT)?;
        let token = MachineToken::new(http.clone(), &config.issuer, &config.client_id, &config.client_secret);
        let backoff = ExponentialBackoff::builder()
            .retry_bounds(Duration::from_millis(50), Duration::from_millis(500))
            .jitter(Jitter::Full)
            .build_with_max_retries(RETRIES);
        let http = ClientBuilder::new(http)
            .with(RetryTransientMiddleware::new_with_policy_and_strategy(backoff, Passing))
            .with(Try(Arc::new(token)))
            .build();
        // Opens when half of the last ten calls, retries included, have failed.
        let breaker =
            Recloser::custom().error_rate(0.5).closed_len(10).half_open_len(3).open_wait(OPEN_FOR).build();
        Ok(Self { http, url: config.url.clone(), breaker: breaker.into() })
    }

    /// # Errors
    /// [`CallError`]
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        self.call(Method::GET, path, None::<&()>).await
    }

    /// # Errors
    /// [`CallError`]
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, CallError> {
        self.call(Method::POST, path, Some(body)).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, CallError> {
        let url = self.url.join(path).map_err(|error| CallError::Unavailable(error.to_string()))?;
        let mut request = self.http.request(method, url);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answered = async {
            let response = request.send().await.context("no answer")?;
            let status = response.status();
            let body = response.bytes().await?;
            if status.is_success() {
                return Ok(Ok(serde_json::from_slice(&body).context("it does not answer what it should")?));
            }
            let refusal =
                serde_json::from_slice::<ProblemBody>(&body).ok().filter(|_| status.is_client_error());
            let ProblemBody { code } = refusal.with_context(|| format!("it answers {status}"))?;
            Ok::<_, anyhow::Error>(Err(CallError::Refused { status, code }))
        };
        match self.breaker.call(answered).await {
            Ok(answer) => answer,
            Err(recloser::Error::Inner(error)) => Err(CallError::Unavailable(format!("{error:#}"))),
            Err(recloser::Error::Rejected) => {
                Err(CallError::Unavailable("it was down a moment ago".to_owned()))
            }
        }
    }
}
