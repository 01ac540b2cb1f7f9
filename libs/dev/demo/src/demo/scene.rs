//! The stack of a story, and the calls that undo it.

use std::time::Duration;

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

/// The delay before a new token after a revocation. Tokens have times in whole seconds, and a token
/// of the second of the revocation counts as revoked.
const TOKEN_TIME_RESOLUTION: Duration = Duration::from_secs(1);

pub(super) struct Scene<'a> {
    pub(super) stack: &'a Stack,
    pub(super) identity: Identity,
    /// The flats of the demo building.
    pub(super) flats: Flats,
    /// The calls that undo the story.
    undoing: Vec<UndoCall>,
    /// The service that the story has stopped.
    stopped: Option<&'static str>,
}

/// A call that undoes something.
struct UndoCall {
    method: Method,
    url: String,
    /// `null` for no body.
    body: Value,
    /// The token of the caller.
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

    /// Returns a token of an actor.
    pub(super) async fn sign_in(&self, actor: &Actor) -> anyhow::Result<String> {
        self.identity.token(actor).await
    }

    /// Returns a token of a user whose earlier tokens have just been revoked.
    pub(super) async fn token_after_revocation(&self, user: Uuid) -> anyhow::Result<String> {
        tokio::time::sleep(TOKEN_TIME_RESOLUTION).await;
        self.identity.token_of(user).await
    }

    /// Returns the public URL of these resources.
    pub(super) fn public(&self, resources: &str) -> String {
        format!("{}/api/v1/{resources}", self.stack.base_url)
    }

    /// Returns the internal URL of a service.
    pub(super) fn internal(&self, service: &str) -> anyhow::Result<String> {
        let url = self.stack.services.get(service).and_then(|urls| urls.internal_url.as_ref());
        Ok(format!("{}/api/v1/internal", url.with_context(|| format!("{service} has no internal port"))?))
    }

    /// Returns the URL of identity's resources.
    pub(super) fn identity(&self, resources: &str) -> String {
        format!("{}/api/identity/{resources}", self.stack.base_url)
    }

    /// Returns the URL of messenger's resources.
    pub(super) fn messenger(&self, resources: &str) -> String {
        format!("{}/api/messenger/{resources}", self.stack.base_url)
    }

    /// Records a created resource for deletion by its creator, and returns its id.
    pub(super) fn record_created(
        &mut self,
        resources: &str,
        created: &Value,
        by: &str,
    ) -> anyhow::Result<Uuid> {
        let id: Uuid = created["Id"].as_str().context("the created resource has no Id")?.parse()?;
        self.undo(Method::DELETE, format!("{resources}/{id}"), by);
        Ok(id)
    }

    /// Records a call that undoes a step. It is made after all other recorded calls.
    pub(super) fn undo_last(&mut self, method: Method, url: String, by: &str) {
        self.undoing.insert(0, UndoCall { method, url, body: Value::Null, by: by.to_owned() });
    }

    /// Records a call that undoes a step. The last recorded call is made first.
    pub(super) fn undo(&mut self, method: Method, url: String, by: &str) {
        self.undo_with_body(method, url, Value::Null, by);
    }

    /// Like [`Self::undo`], with a body.
    pub(super) fn undo_with_body(&mut self, method: Method, url: String, body: Value, by: &str) {
        self.undoing.push(UndoCall { method, url, body, by: by.to_owned() });
    }

    pub(super) async fn stop(&mut self, service: &'static str) -> anyhow::Result<()> {
        // Recorded before the request, since the service may stop even if the reply is lost.
        self.stopped = Some(service);
        devkit::print_line(&format!("    {} {service}", style("cargo dev stop").dim()));
        control::send(&Request::Stop(service.to_owned())).await.map(drop)
    }

    /// Starts the stopped service again.
    pub(super) async fn start(&mut self) -> anyhow::Result<()> {
        let Some(service) = self.stopped else { return Ok(()) };
        devkit::print_line(&format!("    {} {service}", style("cargo dev start").dim()));
        control::send(&Request::Start(service.to_owned())).await?;
        self.stopped = None;
        Ok(())
    }

    /// Restores the stack: every service runs, and the data of the story is deleted.
    pub(super) async fn undo_all(&mut self) -> anyhow::Result<()> {
        self.start().await?;
        let client = devkit::http::client()?;
        while let Some(UndoCall { method, url, body, by }) = self.undoing.pop() {
            let deadline = tokio::time::Instant::now() + EVENT_TIMEOUT;
            loop {
                let request = client.request(method.clone(), &url).bearer_auth(&by);
                let request = if body.is_null() { request } else { request.json(&body) };
                let status = request.send().await?.status();
                if status.is_success() || status == StatusCode::NOT_FOUND {
                    break;
                }
                // A service that has just started may need a moment.
                let is_transient = status.is_server_error() && tokio::time::Instant::now() < deadline;
                ensure!(is_transient, "{method} {url} returned {status}");
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        Ok(())
    }
}
