//! How the demo tells and checks: a sentence, the call, what came, whether that was promised.

use anyhow::{Context, ensure};
use console::style;
use reqwest::Method;
use serde_json::Value;

/// What a call must answer.
pub(crate) struct Promise {
    status: u16,
    code: Option<&'static str>,
}

pub(crate) fn promise(status: u16) -> Promise {
    Promise { status, code: None }
}

impl Promise {
    /// The code of the problem body.
    pub(crate) fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }
}

pub(crate) struct Story {
    client: reqwest::Client,
    steps: usize,
    broken: usize,
}

impl Story {
    pub(crate) fn begin() -> anyhow::Result<Self> {
        Ok(Self { client: crate::http::client()?, steps: 0, broken: 0 })
    }

    /// The point of the next step.
    pub(crate) fn tell(&mut self, point: &str) {
        self.steps += 1;
        crate::say(&format!("\n{:>2}  {}", self.steps, style(point).bold()));
    }

    pub(crate) fn check(&mut self, holds: bool, what: &str) {
        crate::say(&format!("    {} {what}", self.mark(holds)));
    }

    fn mark(&mut self, holds: bool) -> console::StyledObject<&'static str> {
        if holds {
            style("✓").green()
        } else {
            self.broken += 1;
            style("✗").red()
        }
    }

    pub(crate) async fn get(
        &mut self,
        url: &str,
        token: Option<&str>,
        promise: Promise,
    ) -> anyhow::Result<Value> {
        let request = self.client.get(url);
        self.call(Method::GET, url, request, token, promise).await
    }

    pub(crate) async fn post(
        &mut self,
        url: &str,
        token: Option<&str>,
        body: &Value,
        promise: Promise,
    ) -> anyhow::Result<Value> {
        let request = self.client.post(url).json(body);
        self.call(Method::POST, url, request, token, promise).await
    }

    pub(crate) async fn put(
        &mut self,
        url: &str,
        token: Option<&str>,
        body: &Value,
        promise: Promise,
    ) -> anyhow::Result<Value> {
        let request = self.client.put(url).json(body);
        self.call(Method::PUT, url, request, token, promise).await
    }

    pub(crate) async fn delete(
        &mut self,
        url: &str,
        token: Option<&str>,
        promise: Promise,
    ) -> anyhow::Result<Value> {
        let request = self.client.delete(url);
        self.call(Method::DELETE, url, request, token, promise).await
    }

    pub(crate) async fn post_form(
        &mut self,
        url: &str,
        form: &[(&str, &str)],
        promise: Promise,
    ) -> anyhow::Result<Value> {
        let request = self.client.post(url).form(form);
        self.call(Method::POST, url, request, None, promise).await
    }

    async fn call(
        &mut self,
        method: Method,
        url: &str,
        mut request: reqwest::RequestBuilder,
        token: Option<&str>,
        promise: Promise,
    ) -> anyhow::Result<Value> {
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        crate::say(&format!("    {} {url}", style(&method).dim()));
        let answer = request.send().await.with_context(|| format!("{method} {url}"))?;
        let status = answer.status().as_u16();
        let text = answer.text().await?;
        let body: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        let code = body["code"].as_str().unwrap_or_default();
        let kept = status == promise.status && promise.code.is_none_or(|promised| promised == code);
        crate::say(&format!("    {} {} {code}", self.mark(kept), style(status).bold()));
        if !kept {
            let code = promise.code.unwrap_or_default();
            crate::say(&format!("      promised was {} {code}; the answer: {text}", promise.status));
        }
        Ok(body)
    }

    pub(crate) fn end(self) -> anyhow::Result<()> {
        crate::say("");
        ensure!(self.broken == 0, "{} of the demo's promises were broken", self.broken);
        crate::say(&format!("{} {} steps, all as promised", style("✓").green(), self.steps));
        Ok(())
    }
}
