//! The stack that a story is played on, and what must be undone when it is over.

use anyhow::{Context, ensure};
use console::style;
use reqwest::StatusCode;
use serde_json::Value;
use testkit::issuer::Claims;
use uuid::Uuid;

use super::PATIENCE;
use super::story::POLL;
use crate::actors::{ANNA, issuer};
use crate::control::{self, Request};
use crate::stack::{Stack, State};

pub(super) struct Scene<'a> {
    pub(super) stack: &'a Stack,
    /// What was made for the story, all of it Anna's.
    made: Vec<String>,
    /// The area that the story has stopped.
    stopped: Option<&'static str>,
}

impl<'a> Scene<'a> {
    pub(super) fn of(stack: &'a Stack) -> anyhow::Result<Self> {
        for (name, urls) in &stack.services {
            let runs = urls.state == State::Running;
            ensure!(runs, "{name} is stopped; `cargo dev start {name}` starts it");
        }
        Ok(Self { stack, made: Vec::new(), stopped: None })
    }

    pub(super) fn token(&self, claims: &Claims) -> anyhow::Result<String> {
        issuer(self.stack)?.token(claims)
    }

    /// Where everybody finds these.
    pub(super) fn public(&self, resources: &str) -> String {
        format!("{}/api/v1/{resources}", self.stack.base_url)
    }

    /// Where other areas find an area.
    pub(super) fn internal(&self, area: &str) -> anyhow::Result<String> {
        let url = self.stack.services.get(area).and_then(|urls| urls.internal_url.as_ref());
        Ok(format!("{}/api/v1/internal", url.with_context(|| format!("{area} has no internal port"))?))
    }

    /// Remembers what was made, to be deleted in the end; answers its id.
    pub(super) fn made(&mut self, resources: &str, answer: &Value) -> anyhow::Result<Uuid> {
        let id: Uuid = answer["Id"].as_str().context("what was made has no Id")?.parse()?;
        self.made.push(format!("{resources}/{id}"));
        Ok(id)
    }

    pub(super) async fn stop(&mut self, area: &'static str) -> anyhow::Result<()> {
        // First, since it may be stopped although the answer does not come.
        self.stopped = Some(area);
        crate::say(&format!("    {} {area}", style("cargo dev stop").dim()));
        control::ask(&Request::Stop(area.to_owned())).await.map(drop)
    }

    /// Starts again what was stopped.
    pub(super) async fn start(&mut self) -> anyhow::Result<()> {
        let Some(area) = self.stopped else { return Ok(()) };
        crate::say(&format!("    {} {area}", style("cargo dev start").dim()));
        control::ask(&Request::Start(area.to_owned())).await?;
        self.stopped = None;
        Ok(())
    }

    /// Leaves the stack as it was: every area runs, and nothing is left that was made here.
    pub(super) async fn tidy(&mut self) -> anyhow::Result<()> {
        self.start().await?;
        let (client, anna) = (crate::http::client()?, self.token(&ANNA.claims())?);
        while let Some(url) = self.made.pop() {
            let deadline = tokio::time::Instant::now() + PATIENCE;
            loop {
                let status = client.delete(&url).bearer_auth(&anna).send().await?.status();
                if status.is_success() || status == StatusCode::NOT_FOUND {
                    break;
                }
                // A service that was just started again may need a moment.
                let passing = status.is_server_error() && tokio::time::Instant::now() < deadline;
                ensure!(passing, "DELETE {url} answers {status}");
                tokio::time::sleep(POLL).await;
            }
        }
        Ok(())
    }
}
