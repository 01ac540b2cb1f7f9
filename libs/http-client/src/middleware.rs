//! Around each try of a call: a span with its `traceparent`, the machine token, a bounded answer.

use std::sync::Arc;

use async_trait::async_trait;
use http::header::AUTHORIZATION;
use http::{Extensions, HeaderValue, StatusCode};
use opentelemetry_http::HeaderInjector;
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
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let span = tracing::info_span!(
            "call",
            otel.name = format!("{} {}", request.method(), request.url().host_str().unwrap_or_default()),
            otel.kind = "client",
            http.request.method = %request.method(),
            server.address = request.url().host_str(),
            http.response.status_code = tracing::field::Empty,
        );
        async {
            let context = opentelemetry::Context::current();
            opentelemetry::global::get_text_map_propagator(|propagator| {
                propagator.inject_context(&context, &mut HeaderInjector(request.headers_mut()));
            });
            let token = self.0.get().await.map_err(Error::Middleware)?;
            let mut bearer = HeaderValue::try_from(format!("Bearer {token}")).map_err(Error::middleware)?;
            bearer.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, bearer);
            let response = next.run(request, extensions).await?;
            let status = response.status();
            tracing::Span::current().record("http.response.status_code", status.as_u16());
            if status == StatusCode::UNAUTHORIZED {
                self.0.forget(&token);
            }
            read_whole(response).await
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

/// What may pass: no answer, or an answer of 5xx, 408, 429, and 401 (the token was forgotten).
pub(crate) struct Passing;

impl RetryableStrategy for Passing {
    fn handle(&self, result: &Result<Response>) -> Option<Retryable> {
        match result {
            Err(_) => Some(Retryable::Transient),
            Ok(response) => {
                let passing =
                    [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS, StatusCode::UNAUTHORIZED];
                let status = response.status();
                (status.is_server_error() || passing.contains(&status)).then_some(Retryable::Transient)
            }
        }
    }
}
