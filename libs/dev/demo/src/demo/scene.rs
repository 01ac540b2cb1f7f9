//! The stack that a story is played on, and what must be undone when it is over.

use anyhow::{Context, ensure};
use console::style;
use reqwest::{Method, StatusCode};
use serde_json::Value;
use testkit::issuer::Claims;
use uuid::Uuid;

use super::EVENT_TIMEOUT;
use super::story::POLL_INTERVAL;
use devkit::actors::{Actor, issuer};
use devkit::control::{self, Request};
use devkit::identity::Identity;
use devkit::stack::{Stack, State};
use devstack::fixtures::building::Flats;

pub(super) struct Scene<'a> {
    pub(super) stack: &'a Stack,
    pub(super) identity: Identity,
    /// Of the building that stands from the start.
    pub(super) flats: Flats,
    /// How to undo what was done for the story.
    undoing: Vec<Undoing>,
    /// The service that the story has stopped.
    stopped: Option<&'static str>,
}

/// A call that undoes something.
struct Undoing {
    method: Method,
    url: String,
    /// `null` for none.
    body: Value,
    /// The token of whoever makes it.
    by: String,
}

impl<'a> Scene<'a> {
    pub(super) async fn of(stack: &'a Stack) -> anyhow::Result<Self> {
        for (name, urls) in &stack.services {
            let runs = urls.state == State::Running;
            ensure!(runs, "{name} is stopped; `cargo dev start {name}` starts it");
        }
        let (identity, flats) = (Identity::of(stack)?, Flats::of(stack).await?);
        Ok(Self { stack, identity, flats, undoing: Vec::new(), stopped: None })
    }

    pub(super) fn token(&self, claims: &Claims) -> anyhow::Result<String> {
        issuer(self.stack)?.token(claims)
    }

    /// A token of somebody of the demo.
    pub(super) async fn sign_in(&self, actor: &Actor) -> anyhow::Result<String> {
        self.identity.token(actor).await
    }

    /// Where everybody finds these.
    pub(super) fn public(&self, resources: &str) -> String {
        format!("{}/api/v1/{resources}", self.stack.base_url)
    }

    /// Where other services find a service.
    pub(super) fn internal(&self, service: &str) -> anyhow::Result<String> {
        let url = self.stack.services.get(service).and_then(|urls| urls.internal_url.as_ref());
        Ok(format!("{}/api/v1/internal", url.with_context(|| format!("{service} has no internal port"))?))
    }

    /// Where identity is found.
    pub(super) fn identity(&self, resources: &str) -> String {
        format!("{}/api/identity/{resources}", self.stack.base_url)
    }

    /// Where messenger is found.
    pub(super) fn messenger(&self, resources: &str) -> String {
        format!("{}/api/messenger/{resources}", self.stack.base_url)
    }

    /// Remembers what was made, to be deleted in the end by whoever made it; answers its id.
    pub(super) fn made(&mut self, resources: &str, answer: &Value, by: &str) -> anyhow::Result<Uuid> {
        let id: Uuid = answer["Id"].as_str().context("what was made has no Id")?.parse()?;
        self.undo(Method::DELETE, format!("{resources}/{id}"), by);
        Ok(id)
    }

    /// Remembers a call that is made when all else is undone, and whose it is.
    pub(super) fn undo_in_the_end(&mut self, method: Method, url: String, by: &str) {
        self.undoing.insert(0, Undoing { method, url, body: Value::Null, by: by.to_owned() });
    }

    /// Remembers a call that undoes something, and whose it is. The last is made first.
    pub(super) fn undo(&mut self, method: Method, url: String, by: &str) {
        self.undo_by(method, url, Value::Null, by);
    }

    /// The same with a body.
    pub(super) fn undo_by(&mut self, method: Method, url: String, body: Value, by: &str) {
        self.undoing.push(Undoing { method, url, body, by: by.to_owned() });
    }

    pub(super) async fn stop(&mut self, service: &'static str) -> anyhow::Result<()> {
        // First, since it may be stopped although the answer does not come.
        self.stopped = Some(service);
        devkit::say(&format!("    {} {service}", style("cargo dev stop").dim()));
        control::ask(&Request::Stop(service.to_owned())).await.map(drop)
    }

    /// Starts again what was stopped.
    pub(super) async fn start(&mut self) -> anyhow::Result<()> {
        let Some(service) = self.stopped else { return Ok(()) };
        devkit::say(&format!("    {} {service}", style("cargo dev start").dim()));
        control::ask(&Request::Start(service.to_owned())).await?;
        self.stopped = None;
        Ok(())
    }

    /// Leaves the stack as it was: every service runs, and nothing is left that was made here.
    pub(super) async fn tidy(&mut self) -> anyhow::Result<()> {
        self.start().await?;
        let client = devkit::http::client()?;
        while let Some(Undoing { method, url, body, by }) = self.undoing.pop() {
            let deadline = tokio::time::Instant::now() + EVENT_TIMEOUT;
            loop {
                let request = client.request(method.clone(), &url).bearer_auth(&by);
                let request = if body.is_null() { request } else { request.json(&body) };
                let status = request.send().await?.status();
                if status.is_success() || status == StatusCode::NOT_FOUND {
                    break;
                }
                // A service that was just started again may need a moment.
                let passing = status.is_server_error() && tokio::time::Instant::now() < deadline;
                ensure!(passing, "{method} {url} answers {status}");
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        Ok(())
    }
}
