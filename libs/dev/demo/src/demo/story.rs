//! The steps of the demo. A step is a sentence, a call, its response and a check.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use console::style;
use reqwest::Method;
use reqwest::header::RETRY_AFTER;
use serde_json::Value;

/// Interval between two attempts of a call.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The expected response of a call.
pub(super) struct ExpectedResponse {
    status: u16,
    code: Option<&'static str>,
    retry_after: bool,
    body: Option<fn(&Value) -> bool>,
    timeout: Duration,
}

pub(super) fn expected(status: u16) -> ExpectedResponse {
    ExpectedResponse { status, code: None, retry_after: false, body: None, timeout: Duration::ZERO }
}

impl ExpectedResponse {
    /// Expects this code in the problem.
    pub(super) fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// Expects the header `Retry-After`.
    pub(super) fn retry_after(mut self) -> Self {
        self.retry_after = true;
        self
    }

    /// Expects a body that satisfies `body`.
    pub(super) fn showing(mut self, body: fn(&Value) -> bool) -> Self {
        self.body = Some(body);
        self
    }

    /// Repeats the call for up to `timeout`.
    pub(super) fn within(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn is_met(&self, response: &Response) -> bool {
        response.status == self.status
            && self.code.is_none_or(|code| response.body["code"] == code)
            && (!self.retry_after || response.retry_after.is_some())
            && self.body.is_none_or(|shows| shows(&response.body))
    }
}

/// The response of a call.
struct Response {
    status: u16,
    retry_after: Option<String>,
    text: String,
    /// `null` if the body is not JSON.
    body: Value,
}

impl Response {
    async fn of(response: reqwest::Response) -> anyhow::Result<Self> {
        let status = response.status().as_u16();
        let header = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = header.map(str::to_owned);
        let text = response.text().await?;
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(Self { status, retry_after, text, body })
    }
}

pub(super) struct Story {
    client: reqwest::Client,
    steps: usize,
    /// The checks that failed, each with its step.
    failures: Vec<String>,
}

impl Story {
    pub(super) fn begin() -> anyhow::Result<Self> {
        Ok(Self { client: devkit::http::client()?, steps: 0, failures: Vec::new() })
    }

    /// Starts the next step.
    pub(super) fn step(&mut self, point: &str) {
        self.steps += 1;
        devkit::print_line(&format!("\n{:>2}  {}", self.steps, style(point).bold()));
    }

    pub(super) fn check(&mut self, holds: bool, what: &str) {
        devkit::print_line(&format!("    {} {what}", mark(holds)));
        if !holds {
            self.failures.push(format!("step {}: {what}", self.steps));
        }
    }

    pub(super) async fn get(
        &mut self,
        url: &str,
        token: Option<&str>,
        expected: ExpectedResponse,
    ) -> anyhow::Result<Value> {
        let request = self.client.get(url);
        Ok(self.call(Method::GET, url, request, token, expected).await?.body)
    }

    /// Returns the response as text, for a file or a feed.
    pub(super) async fn get_text(
        &mut self,
        url: &str,
        token: Option<&str>,
        expected: ExpectedResponse,
    ) -> anyhow::Result<String> {
        let request = self.client.get(url);
        Ok(self.call(Method::GET, url, request, token, expected).await?.text)
    }

    /// Sends a POST request, without a body if it is `null`.
    pub(super) async fn post(
        &mut self,
        url: &str,
        token: Option<&str>,
        body: &Value,
        expected: ExpectedResponse,
    ) -> anyhow::Result<Value> {
        let request = self.client.post(url);
        let request = if body.is_null() { request } else { request.json(body) };
        Ok(self.call(Method::POST, url, request, token, expected).await?.body)
    }

    pub(super) async fn put(
        &mut self,
        url: &str,
        token: Option<&str>,
        body: &Value,
        expected: ExpectedResponse,
    ) -> anyhow::Result<Value> {
        let request = self.client.put(url).json(body);
        Ok(self.call(Method::PUT, url, request, token, expected).await?.body)
    }

    pub(super) async fn delete(
        &mut self,
        url: &str,
        token: Option<&str>,
        expected: ExpectedResponse,
    ) -> anyhow::Result<Value> {
        let request = self.client.delete(url);
        Ok(self.call(Method::DELETE, url, request, token, expected).await?.body)
    }

    pub(super) async fn post_form(
        &mut self,
        url: &str,
        form: &[(&str, &str)],
        expected: ExpectedResponse,
    ) -> anyhow::Result<Value> {
        let request = self.client.post(url).form(form);
        Ok(self.call(Method::POST, url, request, None, expected).await?.body)
    }

    async fn call(
        &mut self,
        method: Method,
        url: &str,
        mut request: reqwest::RequestBuilder,
        token: Option<&str>,
        expected: ExpectedResponse,
    ) -> anyhow::Result<Response> {
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        devkit::print_line(&format!("    {} {url}", style(&method).dim()));
        let started = Instant::now();
        let response = loop {
            let attempt = request.try_clone().context("a body that can be sent once only")?;
            let response = attempt.send().await.with_context(|| format!("{method} {url}"))?;
            let response = Response::of(response).await?;
            if expected.is_met(&response) || started.elapsed() >= expected.timeout {
                break response;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        };
        self.report_result(&format!("{method} {url}"), &expected, &response, started.elapsed());
        Ok(response)
    }

    fn report_result(
        &mut self,
        call: &str,
        expected: &ExpectedResponse,
        response: &Response,
        took: Duration,
    ) {
        let met = expected.is_met(response);
        let mut line = vec![mark(met).to_string(), style(response.status).bold().to_string()];
        line.extend(response.body["code"].as_str().map(str::to_owned));
        line.extend(response.retry_after.as_ref().map(|seconds| format!("Retry-After: {seconds}")));
        if !expected.timeout.is_zero() {
            line.push(format!("after {} ms", took.as_millis()));
        }
        devkit::print_line(&format!("    {}", line.join(" ")));
        if !met {
            let mut parts = vec![expected.status.to_string()];
            parts.extend(expected.code.map(str::to_owned));
            parts.extend(expected.retry_after.then(|| "Retry-After".to_owned()));
            parts.extend(expected.body.map(|_| "with other content".to_owned()));
            let reason = format!("expected {}; the response: {}", parts.join(" "), response.text);
            devkit::print_line(&format!("      {reason}"));
            self.failures.push(format!("step {}: {call}: {} {reason}", self.steps, response.status));
        }
    }

    pub(super) fn end(self) -> anyhow::Result<()> {
        devkit::print_line("");
        let failures = &self.failures;
        ensure!(failures.is_empty(), "{} checks of the demo failed\n{}", failures.len(), failures.join("\n"));
        devkit::print_line(&format!("{} {} steps, all as expected", style("✓").green(), self.steps));
        Ok(())
    }
}

fn mark(holds: bool) -> console::StyledObject<&'static str> {
    if holds { style("✓").green() } else { style("✗").red() }
}
