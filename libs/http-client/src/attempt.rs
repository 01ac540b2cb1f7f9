//! One attempt of a call: a span, the trace context, the machine token and a bounded response.

use async_trait::async_trait;
use http::header::AUTHORIZATION;
use http::{Extensions, HeaderValue, StatusCode};
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next, Result};
use reqwest_retry::{Retryable, RetryableStrategy};
use tokio::time::timeout;
use tracing::Instrument;

use crate::call::ATTEMPT_TIMEOUT;
use crate::issuer::read_body;
use crate::plain::trace_headers;
use crate::token::MachineToken;

/// The maximum size of a response. Services of the platform send no larger ones.
const MAX_RESPONSE_BYTES: usize = 4 * 1024 * 1024;

/// The middleware of one attempt. It reads the whole response, so that a stalled or truncated body
/// is retried like a failed connection. [`ATTEMPT_TIMEOUT`] also covers the request for a token.
pub(crate) struct Attempt(pub(crate) MachineToken);

#[async_trait]
impl Middleware for Attempt {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let attempt = timeout(ATTEMPT_TIMEOUT, self.attempt(request, extensions, next)).await;
        attempt.unwrap_or_else(|_| Err(Error::Middleware(anyhow::anyhow!("the attempt timed out"))))
    }
}

impl Attempt {
    /// Sends a request, and sends it once more if the token was rejected.
    async fn attempt(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let copy = request.try_clone();
        let (token, response) = self.send(request, extensions, next.clone()).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        // The issuer may have replaced its keys. A rejected request had no effect, so it is safe to
        // send it once more with a new token.
        self.0.discard(&token);
        match copy {
            Some(copy) => Ok(self.send(copy, extensions, next).await?.1),
            None => Ok(response),
        }
    }

    /// Sends a request. Returns the response with the token that the request carried.
    async fn send(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<(String, Response)> {
        let span = tracing::info_span!(
            "call",
            otel.name = format!("{} {}", request.method(), request.url().host_str().unwrap_or_default()),
            otel.kind = "client",
            http.request.method = %request.method(),
            server.address = request.url().host_str(),
            http.response.status_code = tracing::field::Empty,
        );
        async {
            request.headers_mut().extend(trace_headers());
            let token = self.0.get().await.map_err(Error::Middleware)?;
            let mut bearer = HeaderValue::try_from(format!("Bearer {token}")).map_err(Error::middleware)?;
            bearer.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, bearer);
            let response = next.run(request, extensions).await?;
            tracing::Span::current().record("http.response.status_code", response.status().as_u16());
            Ok((token, read_whole(response).await?))
        }
        .instrument(span)
        .await
    }
}

/// Returns the response with a body in memory. Only status and body are kept.
async fn read_whole(mut response: Response) -> Result<Response> {
    let body = read_body(&mut response, MAX_RESPONSE_BYTES).await.map_err(Error::Middleware)?;
    let mut whole = http::Response::new(body);
    *whole.status_mut() = response.status();
    Ok(whole.into())
}

/// Retries calls without a complete response, and calls whose response has status 429, 502, 503 or
/// 504. A gateway returns 502 or 504 if a replica has stopped.
pub(crate) struct RetryTransientFailures;

impl RetryableStrategy for RetryTransientFailures {
    fn handle(&self, result: &Result<Response>) -> Option<Retryable> {
        match result {
            Err(_) => Some(Retryable::Transient),
            Ok(response) => {
                let transient = [
                    StatusCode::TOO_MANY_REQUESTS,
                    StatusCode::BAD_GATEWAY,
                    StatusCode::SERVICE_UNAVAILABLE,
                    StatusCode::GATEWAY_TIMEOUT,
                ];
                transient.contains(&response.status()).then_some(Retryable::Transient)
            }
        }
    }
}
