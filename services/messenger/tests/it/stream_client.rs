//! A client of streams for tests, which reads Server-Sent Events.

use std::sync::LazyLock;
use std::time::Duration;

use messenger::Service;
use reqwest::{Method, Response};
use serde_json::{Value, json};
use testkit::client::Client;
use testkit::contract::Contract;
use testkit::issuer::Claims;
use testkit::service::Running;
use uuid::Uuid;

use crate::service;

pub const STREAM: &str = "/api/messenger/stream";

/// Maximum wait for an expected event.
const EVENT_TIMEOUT: Duration = Duration::from_secs(20);

/// An event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub id: i64,
    pub name: String,
    pub data: Value,
}

/// Panics unless the OpenAPI document describes this event.
fn check_event(event: &Value) {
    static CONTRACT: LazyLock<Contract> = LazyLock::new(|| {
        let documents = ::service::contracts::<Service>().expect("documents");
        Contract::read(&documents.openapi).expect("a document")
    });
    if let Err(error) = CONTRACT.check_stream_event(event) {
        panic!("{event}: {error:#}");
    }
}

/// An open stream of a user.
pub struct Stream {
    response: Response,
    buffer: Vec<u8>,
    /// Number of received comments.
    pub comments: usize,
}

impl Stream {
    /// Opens a stream at the service that most tests share, and reads `ready`.
    pub async fn open(user: Uuid) -> Self {
        let mut stream = Self::request(&service().caller(&Claims::user(user)), None).await;
        let ready = stream.next().await;
        assert_eq!((ready.name.as_str(), &ready.data), ("ready", &json!({"Resumed": false})));
        stream
    }

    /// Opens a stream at another replica, and returns it with its first event.
    pub async fn open_at(replica: &Running, user: Uuid) -> (Self, Event) {
        let mut stream = Self::request(&replica.caller(&Claims::user(user)), None).await;
        let first = stream.next().await;
        (stream, first)
    }

    /// Opens a stream with this `Last-Event-ID`, and returns it with its first event.
    pub async fn resume(user: Uuid, last: impl ToString) -> (Self, Event) {
        let caller = service().caller(&Claims::user(user));
        let mut stream = Self::request(&caller, Some(last.to_string())).await;
        let first = stream.next().await;
        (stream, first)
    }

    /// Opens a stream, and checks the headers of the response.
    pub async fn request(caller: &Client, last: Option<String>) -> Self {
        let request = caller.request(Method::GET, STREAM);
        let request = match last {
            Some(last) => request.header("Last-Event-ID", last),
            None => request,
        };
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        Self { response, buffer: Vec::new(), comments: 0 }
    }

    pub async fn next(&mut self) -> Event {
        tokio::time::timeout(EVENT_TIMEOUT, self.read())
            .await
            .expect("an event in time")
            .expect("an event before the end")
    }

    /// Returns the next event of this name, and skips others.
    pub async fn next_of(&mut self, name: &str) -> Event {
        loop {
            let event = self.next().await;
            if event.name == name {
                return event;
            }
        }
    }

    /// Returns all events until none arrives for `quiet_period`.
    pub async fn read_until_quiet(&mut self, quiet_period: Duration) -> Vec<Event> {
        let mut all = Vec::new();
        while let Ok(Some(event)) = tokio::time::timeout(quiet_period, self.read()).await {
            all.push(event);
        }
        all
    }

    /// Reads events, and returns true if the stream ends before the timeout.
    pub async fn ends_within(&mut self, timeout: Duration) -> bool {
        tokio::time::timeout(timeout, async { while self.read().await.is_some() {} }).await.is_ok()
    }

    /// Returns the next event, or `None` at the end of the stream.
    async fn read(&mut self) -> Option<Event> {
        loop {
            while let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.buffer.drain(..end + 2).take(end).collect();
                let block = String::from_utf8(block).expect("text");
                if block == ":" {
                    self.comments += 1;
                    continue;
                }
                let lines: Vec<_> = block.lines().collect();
                let [id, name, data] = lines[..] else { panic!("not an event: {block:?}") };
                let field = |line: &str, name: &str| line.strip_prefix(name).expect("a field").to_owned();
                let (id, name) = (field(id, "id: "), field(name, "event: "));
                let data: Value = serde_json::from_str(&field(data, "data: ")).expect("JSON");
                check_event(&json!({"id": id, "event": name, "data": data}));
                return Some(Event { id: id.parse().expect("a whole number"), name, data });
            }
            let chunk = self.response.chunk().await.ok()??;
            self.buffer.extend(chunk);
        }
    }
}
