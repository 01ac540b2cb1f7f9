//! Another service of the platform, as the caller sees it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use reqwest::StatusCode;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, RequestBuilder};
use reqwest_retry::policies::ExponentialBackoff;
use reqwest_retry::{Jitter, RetryTransientMiddleware};
use runtime::Env;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use url::Url;

use crate::breaker::Breaker;
use crate::client;
use crate::middleware::{Passing, Try};
use crate::token::MachineToken;

/// Of one try, from the connection to the last byte of the answer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);
pub(crate) const RETRIES: u32 = 2;
/// Calls under way at once; the others wait their turn, but not for long: one that hangs, with its retries, takes a
/// quarter of a minute.
const CALLS: usize = 64;
const PATIENCE: Duration = Duration::from_secs(1);

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

/// A client of one service; all calls to it go through one, whose breaker and bound they share.
pub struct Service {
    repeating: ClientWithMiddleware,
    once: ClientWithMiddleware,
    url: Url,
    breaker: Breaker,
    calls: Semaphore,
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
        let each_try = Arc::new(Try(Arc::new(token)));
        let retry = RetryTransientMiddleware::new_with_policy_and_strategy(backoff, Passing);
        Ok(Self {
            once: ClientBuilder::new(http.clone()).with_arc(each_try.clone()).build(),
            repeating: ClientBuilder::new(http).with(retry).with_arc(each_try).build(),
            url: config.url.clone(),
            breaker: Breaker::new(),
            calls: Semaphore::new(CALLS),
        })
    }

    /// # Errors
    /// [`CallError`]
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        self.call(self.repeating.get(self.at(path)?)).await
    }

    /// For what may be done twice, since an answer may have been lost.
    ///
    /// # Errors
    /// [`CallError`]
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, CallError> {
        self.call(self.repeating.post(self.at(path)?).json(body)).await
    }

    /// For what must not be done twice. Whether it was done is known only if there is an answer.
    ///
    /// # Errors
    /// [`CallError`]
    pub async fn post_once<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, CallError> {
        self.call(self.once.post(self.at(path)?).json(body)).await
    }

    fn at(&self, path: &str) -> Result<Url, CallError> {
        self.url.join(path).map_err(|error| CallError::Unavailable(error.to_string()))
    }

    async fn call<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, CallError> {
        let unavailable = |why: &str| CallError::Unavailable(why.to_owned());
        let pass =
            self.breaker.pass(Instant::now()).ok_or_else(|| unavailable("it was down a moment ago"))?;
        let turn = timeout(PATIENCE, self.calls.acquire()).await;
        let _turn = turn.map_err(|_| unavailable("too many calls to it are under way"))?;
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
        let answered = answered.await;
        pass.tell(answered.is_err(), Instant::now());
        answered.unwrap_or_else(|error| Err(unavailable(&format!("{error:#}"))))
    }
}
