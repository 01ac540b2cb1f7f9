//! The client of another service of the platform.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use reqwest::{Method, StatusCode};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, RequestBuilder};
use reqwest_retry::policies::ExponentialBackoff;
use reqwest_retry::{Jitter, RetryTransientMiddleware};
use runtime::Env;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use url::Url;

use crate::attempt::{Attempt, RetryTransientFailures};
use crate::breaker::Breaker;
use crate::call::{ATTEMPT_TIMEOUT, MAX_RETRIES};
use crate::issuer::Issuer;
use crate::plain::new_client;
use crate::token::MachineToken;

/// The maximum number of calls to the service in flight. Further calls wait.
const MAX_CONCURRENT_CALLS: usize = 64;
/// The maximum wait of a call above [`MAX_CONCURRENT_CALLS`]. A stalled call makes three attempts,
/// so the wait could otherwise last 15 s.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(1);

/// The address of the other service, and the credentials of this one.
#[derive(Clone, Debug)]
pub struct Config {
    url: Url,
    issuer: Issuer,
    client_id: String,
    client_secret: String,
}

impl Config {
    /// Reads the settings. `url_variable` names the variable of the other service's address, such
    /// as `SELECTIONS_URL`.
    pub fn read(env: &mut Env, url_variable: &'static str, client_id: &'static str) -> Option<Self> {
        let url = env.require(url_variable, "URL of the internal port of the called service");
        let issuer = Issuer::read(env);
        let client_id =
            env.with_default("CLIENT_ID", client_id.to_owned(), "OAuth 2.0 client id of this service");
        let client_secret = env.require("CLIENT_SECRET", "OAuth 2.0 client secret of this service");
        Some(Self { url: url?, issuer: issuer?, client_id: client_id?, client_secret: client_secret? })
    }

    /// Reads the settings of an API of the issuer, which an installation may lack. The outer `None`
    /// is an error, the inner one an unset address.
    pub fn read_optional(
        env: &mut Env,
        url_variable: &'static str,
        about: &'static str,
        client_id: &'static str,
    ) -> Option<Option<Self>> {
        let url = env.optional::<Url>(url_variable, about);
        let issuer = Issuer::read(env);
        let client_id =
            env.with_default("CLIENT_ID", client_id.to_owned(), "OAuth 2.0 client id of this service");
        let client_secret = env.optional("CLIENT_SECRET", "OAuth 2.0 client secret of this service");
        let (url, issuer, client_id, client_secret) = (url?, issuer?, client_id?, client_secret?);
        let Some(url) = url else { return Some(None) };
        if let Err(error) = issuer.check_address(url.as_str()) {
            return env.reject(url_variable, &error.to_string());
        }
        match client_secret {
            Some(client_secret) => Some(Some(Self { url, issuer, client_id, client_secret })),
            None => env.reject(url_variable, "it needs CLIENT_SECRET"),
        }
    }
}

/// The failure of a call.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The service refused the call, with the code of its problem.
    #[error("refused: {status} {code}")]
    Refused { status: StatusCode, code: String },
    /// The service is down, too slow or sends an unexpected response, in spite of all retries. Or
    /// no request was sent: the circuit breaker is open, or too many calls are in flight.
    #[error("unavailable: {0}")]
    Unavailable(String),
}

#[derive(Deserialize)]
struct ProblemBody {
    code: String,
}

/// The client of one service. All calls to the service share one client, with its circuit breaker
/// and its limit of concurrent calls.
pub struct ServiceClient {
    http: ClientWithMiddleware,
    url: Url,
    breaker: Breaker,
    permits: Semaphore,
}

impl ServiceClient {
    /// # Errors
    /// If TLS cannot be set up.
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        let http = new_client(ATTEMPT_TIMEOUT)?;
        let token =
            MachineToken::new(http.clone(), config.issuer.clone(), &config.client_id, &config.client_secret);
        let backoff = ExponentialBackoff::builder()
            .retry_bounds(Duration::from_millis(50), Duration::from_millis(500))
            .jitter(Jitter::Full)
            .build_with_max_retries(MAX_RETRIES);
        let retry = RetryTransientMiddleware::new_with_policy_and_strategy(backoff, RetryTransientFailures);
        Ok(Self {
            http: ClientBuilder::new(http).with(retry).with(Attempt(token)).build(),
            url: config.url.clone(),
            breaker: Breaker::new(),
            permits: Semaphore::new(MAX_CONCURRENT_CALLS),
        })
    }

    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        self.call(self.http.get(self.url_of(path)?)).await
    }

    /// Sends a `POST` that is safe to repeat. The request may take effect twice, since a lost
    /// response is retried.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, CallError> {
        self.call(self.http.post(self.url_of(path)?).json(body)).await
    }

    /// Sends a request that is safe to repeat, to a server whose errors are no problems of this
    /// platform. The path is appended to the URL of the server. Returns the status and the body.
    ///
    /// # Errors
    /// [`CallError::Unavailable`] if no response below status 500 arrives after all retries.
    pub async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<(StatusCode, Vec<u8>), CallError> {
        let base = self.url.as_str().trim_end_matches('/');
        let request = self.http.request(method, format!("{base}{path}"));
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        self.guard(async {
            let response = request.send().await.context("no response")?;
            let status = response.status();
            ensure!(!status.is_server_error(), "unexpected status {status}");
            Ok(Ok((status, response.bytes().await?.to_vec())))
        })
        .await
    }

    fn url_of(&self, path: &str) -> Result<Url, CallError> {
        self.url.join(path).map_err(|error| CallError::Unavailable(error.to_string()))
    }

    async fn call<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, CallError> {
        self.guard(async {
            let response = request.send().await.context("no response")?;
            let status = response.status();
            let body = response.bytes().await?;
            if status.is_success() {
                return Ok(Ok(serde_json::from_slice(&body).context("unexpected response")?));
            }
            let problem =
                serde_json::from_slice::<ProblemBody>(&body).ok().filter(|_| status.is_client_error());
            let ProblemBody { code } = problem.with_context(|| format!("unexpected status {status}"))?;
            Ok(Err(CallError::Refused { status, code }))
        })
        .await
    }

    /// Runs a call within the limit of concurrent calls.
    ///
    /// The outer error of `call` is a failure of the service, which the circuit breaker counts. The
    /// inner error is a refusal by a healthy service, which the circuit breaker does not count.
    async fn guard<T>(
        &self,
        call: impl Future<Output = anyhow::Result<Result<T, CallError>>>,
    ) -> Result<T, CallError> {
        let unavailable = |reason: &str| CallError::Unavailable(reason.to_owned());
        let breaker_permit = self.breaker.try_acquire(Instant::now());
        let breaker_permit = breaker_permit.ok_or_else(|| unavailable("the circuit breaker is open"))?;
        let call_permit = timeout(QUEUE_TIMEOUT, self.permits.acquire()).await;
        let _call_permit = call_permit.map_err(|_| unavailable("too many concurrent calls"))?;
        let result = call.await;
        breaker_permit.record(result.is_err(), Instant::now());
        result.unwrap_or_else(|error| Err(unavailable(&format!("{error:#}"))))
    }
}
