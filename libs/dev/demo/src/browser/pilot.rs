//! A browser and its driver. A query by a CSS selector waits for its element, so no fixed delays
//! are needed.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use fantoccini::error::CmdError;
use fantoccini::wd::{Capabilities, WindowHandle};
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use testkit::ports;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use devkit::children::Child;

/// Timeout until a page shows an element.
const ELEMENT_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The names that systems give to Chromium.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Flags of Chromium. They disable its window and its background requests, and provide a fake
/// camera and microphone.
const FLAGS: [&str; 14] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream",
    "--autoplay-policy=no-user-gesture-required",
    "--lang=en",
    "--window-size=1440,1560",
];

pub(super) type Window = WindowHandle;

pub(super) struct Pilot {
    driver: Child,
    browser: Client,
    /// URL of the driver's session.
    url: String,
    http: reqwest::Client,
}

impl Pilot {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path)
            .flat_map(|folder| BROWSERS.map(|name| folder.join(name)))
            .find(|program| program.is_file());
        let program = found.context("there is no Chromium: install `chromium` and `chromium-driver`")?;
        let port = ports::free()?;
        let mut driver = Child::spawn(
            "chromedriver",
            Command::new("chromedriver").arg(format!("--port={port}")),
        )
        .context(
            "there is no chromedriver: install `chromium-driver` (Debian) or `chromedriver` (Homebrew)",
        )?;
        // The driver uses an empty profile.
        let mut capabilities = Capabilities::new();
        capabilities.insert("browserName".to_owned(), json!("chrome"));
        capabilities.insert("goog:chromeOptions".to_owned(), json!({"binary": program, "args": FLAGS}));
        capabilities.insert("goog:loggingPrefs".to_owned(), json!({"browser": "SEVERE"}));
        let mut builder = ClientBuilder::new(HttpConnector::new());
        builder.capabilities(capabilities);
        let (url, deadline) = (format!("http://127.0.0.1:{port}"), Instant::now() + ELEMENT_TIMEOUT);
        let browser = loop {
            let connected = tokio::select! {
                connected = builder.connect(&url) => connected,
                error = driver.wait_for_end() => return Err(error),
            };
            match connected {
                Ok(browser) => break browser,
                Err(error) if Instant::now() >= deadline => return Err(error).context("no browser starts"),
                Err(_) => sleep(POLL_INTERVAL).await,
            }
        };
        let session = browser.session_id().await?.context("the browser has no session")?;
        Ok(Self { driver, browser, url: format!("{url}/session/{session}"), http: devkit::http::client()? })
    }

    pub(super) async fn stop(&mut self) -> anyhow::Result<()> {
        let closed = self.browser.clone().close().await;
        self.driver.stop().await?;
        Ok(closed?)
    }

    pub(super) async fn current_window(&self) -> anyhow::Result<Window> {
        Ok(self.browser.window().await?)
    }

    pub(super) async fn open_window(&self) -> anyhow::Result<Window> {
        Ok(self.browser.new_window(false).await?.handle)
    }

    /// Switches to a window.
    pub(super) async fn switch_to(&self, window: &Window) -> anyhow::Result<()> {
        Ok(self.browser.switch_to_window(window.clone()).await?)
    }

    pub(super) async fn go(&self, url: &str) -> anyhow::Result<()> {
        Ok(self.browser.goto(url).await?)
    }

    /// Waits for an element.
    pub(super) async fn wait_for(&self, selector: &str) -> anyhow::Result<()> {
        self.retry(selector, async || self.element(selector).await.map(drop)).await
    }

    pub(super) async fn click(&self, selector: &str) -> anyhow::Result<()> {
        self.retry(selector, async || self.element(selector).await?.click().await.map_err(Into::into)).await
    }

    pub(super) async fn write(&self, selector: &str, text: &str) -> anyhow::Result<()> {
        self.retry(selector, async || Ok(self.element(selector).await?.send_keys(text).await?)).await
    }

    /// Replaces the text of an input.
    pub(super) async fn overwrite(&self, selector: &str, text: &str) -> anyhow::Result<()> {
        self.retry(selector, async || Ok(self.element(selector).await?.clear().await?)).await?;
        self.write(selector, text).await
    }

    pub(super) async fn choose(&self, selector: &str, value: &str) -> anyhow::Result<()> {
        Ok(self.element(selector).await?.select_by_value(value).await?)
    }

    pub(super) async fn text(&self, selector: &str) -> anyhow::Result<String> {
        self.retry(selector, async || Ok(self.element(selector).await?.text().await?)).await
    }

    pub(super) async fn attribute(&self, selector: &str, name: &str) -> anyhow::Result<Option<String>> {
        self.retry(selector, async || Ok(self.element(selector).await?.attr(name).await?)).await
    }

    /// Returns true if the page has loaded resources of its own origin only.
    pub(super) async fn loaded_only_own_resources(&self) -> anyhow::Result<bool> {
        let script = "return performance.getEntriesByType('resource').every(({name}) => name.startsWith(location.origin) \
                      || name.startsWith('data:'))";
        Ok(self.run(script).await? == json!(true))
    }

    pub(super) async fn run(&self, script: &str) -> anyhow::Result<Value> {
        Ok(self.browser.execute(script, Vec::new()).await?)
    }

    /// Returns the page's visibility, its last resources with their times in milliseconds, and the
    /// new errors of the console. A request without a response is not among the resources.
    pub(super) async fn state(&self) -> anyhow::Result<Value> {
        let script = "return {address: location.href, visibility: document.visibilityState, \
                      now: performance.now(), resources: performance.getEntriesByType('resource').slice(-20) \
                      .map(({name, startTime, responseEnd}) => [name, startTime, responseEnd])}";
        Ok(json!({"page": self.run(script).await?, "errors": self.take_console_errors().await?}))
    }

    /// Returns the new errors of the browser's console.
    pub(super) async fn take_console_errors(&self) -> anyhow::Result<Vec<String>> {
        let log = self.http.post(format!("{}/se/log", self.url)).json(&json!({"type": "browser"}));
        let log: Value = log.send().await?.error_for_status()?.json().await?;
        let entries = log["value"].as_array().context("the driver keeps no log")?;
        Ok(entries.iter().map(|entry| entry["message"].to_string()).collect())
    }

    pub(super) async fn picture(&self, file: &Path) -> anyhow::Result<()> {
        Ok(tokio::fs::write(file, self.browser.screenshot().await?).await?)
    }

    async fn element(&self, selector: &str) -> anyhow::Result<fantoccini::elements::Element> {
        let found = self
            .browser
            .wait()
            .at_most(ELEMENT_TIMEOUT)
            .every(POLL_INTERVAL)
            .for_element(Locator::Css(selector))
            .await;
        found.with_context(|| format!("the page does not show {selector}"))
    }

    /// Repeats `work` while it fails, since the page may be redrawn or left between finding an
    /// element and using it.
    async fn retry<T>(&self, selector: &str, work: impl AsyncFn() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let deadline = Instant::now() + ELEMENT_TIMEOUT;
        loop {
            match work().await {
                Err(error) if error.is::<CmdError>() && Instant::now() < deadline => {
                    sleep(POLL_INTERVAL).await;
                }
                result => return result.with_context(|| selector.to_owned()),
            }
        }
    }
}
