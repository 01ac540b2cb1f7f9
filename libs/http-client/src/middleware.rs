//! Around each try of a call: a span with its `traceparent`, the machine token, a bounded answer.

use std::sync::Arc;

use async_trait::async_trait;
use http::header::AUTHORIZATION;
use http::{Extensions, HeaderValue, StatusCode};
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Middleware, Next, Result};
use reqwest_retry::{Retryable, RetryableStrategy};
use tracing::Instrument;

use crate::token::MachineToken;

/// A larger answer is not one of ours.
const MAX_ANSWER: usize = 4 * 1024 * 1024;

/// One try: traced, with a token, its answer read whole, so that a body that hangs or breaks off is
/// retried like any other failure.
pub(crate) struct Try(pub(crate) Arc<MachineToken>);

#[async_trait]
impl Middleware for Try {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let again = request.try_clone();
        let (token, response) = self.send(request, extensions, next.clone()).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        // The issuer's keys have changed, say. What was refused has not happened, and with another token it is
        // another request.
        self.0.forget(&token);
        match again {
            Some(again) => Ok(self.send(again, extensions, next).await?.1),
            None => Ok(response),
        }
    }
}

impl Try {
    /// The answer, and the token that it was given to.
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
            request.headers_mut().extend(crate::trace());
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

async fn read_whole(mut response: Response) -> Result<Response> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > MAX_ANSWER {
            return Err(Error::Middleware(anyhow::anyhow!("the answer is larger than {MAX_ANSWER} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    let mut whole = http::Response::new(body);
    *whole.status_mut() = response.status();
    Ok(whole.into())
}

/// What may be tried again: no answer that could be read whole, and the answers that say so themselves.
pub(crate) struct Passing;

impl RetryableStrategy for Passing {
    fn handle(&self, result: &Result<Response>) -> Option<Retryable> {
        match result {
            Err(_) => Some(Retryable::Transient),
            Ok(response) => {
                let passing = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS];
                passing.contains(&response.status()).then_some(Retryable::Transient)
            }
        }
    }
}
