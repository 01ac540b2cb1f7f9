//! What tests of streams stand on: a reader of Server-Sent Events.

use std::time::Duration;

use reqwest::{Method, Response};
use serde_json::{Value, json};
use testkit::client::Client;
use testkit::issuer::Claims;
use testkit::service::Running;
use uuid::Uuid;

use crate::service;

pub const STREAM: &str = "/api/messenger/stream";

/// Longer than anything takes that should come.
const PATIENCE: Duration = Duration::from_secs(20);

/// An event as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub id: i64,
    pub name: String,
    pub data: Value,
}

/// Somebody's open stream.
pub struct Stream {
    response: Response,
    read: Vec<u8>,
    /// The comments that came beside events.
    pub comments: usize,
}

impl Stream {
    /// Of somebody, at the service that most tests share, from now on; `ready` has been read.
    pub async fn open(user: Uuid) -> Self {
        let mut stream = Self::ask(&service().caller(&Claims::user(user)), None).await;
        let ready = stream.next().await;
        assert_eq!((ready.name.as_str(), &ready.data), ("ready", &json!({"Resumed": false})));
        stream
    }

    /// The same at another replica.
    pub async fn at(replica: &Running, user: Uuid) -> (Self, Event) {
        let mut stream = Self::ask(&replica.caller(&Claims::user(user)), None).await;
        let first = stream.next().await;
        (stream, first)
    }

    /// Going on after an event, or after what is none.
    pub async fn resume(user: Uuid, last: impl ToString) -> (Self, Event) {
        let caller = service().caller(&Claims::user(user));
        let mut stream = Self::ask(&caller, Some(last.to_string())).await;
        let first = stream.next().await;
        (stream, first)
    }

    pub async fn ask(caller: &Client, last: Option<String>) -> Self {
        let request = caller.request(Method::GET, STREAM);
        let request = match last {
            Some(last) => request.header("Last-Event-ID", last),
            None => request,
        };
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        Self { response, read: Vec::new(), comments: 0 }
    }

    /// The next event.
    pub async fn next(&mut self) -> Event {
        tokio::time::timeout(PATIENCE, self.read())
            .await
            .expect("an event in time")
            .expect("an event before the end")
    }

    /// The next event of this name.
    pub async fn next_of(&mut self, name: &str) -> Event {
        loop {
            let event = self.next().await;
            if event.name == name {
                return event;
            }
        }
    }

    /// All that comes until so long nothing has come.
    pub async fn rest(&mut self, silence: Duration) -> Vec<Event> {
        let mut all = Vec::new();
        while let Ok(Some(event)) = tokio::time::timeout(silence, self.read()).await {
            all.push(event);
        }
        all
    }

    /// Whether it ends, whatever comes until then.
    pub async fn ends_within(&mut self, patience: Duration) -> bool {
        tokio::time::timeout(patience, async { while self.read().await.is_some() {} }).await.is_ok()
    }

    /// `None` at the end.
    async fn read(&mut self) -> Option<Event> {
        loop {
            while let Some(end) = self.read.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.read.drain(..end + 2).take(end).collect();
                let block = String::from_utf8(block).expect("text");
                if block == ":" {
                    self.comments += 1;
                    continue;
                }
                let lines: Vec<_> = block.lines().collect();
                let [id, name, data] = lines[..] else { panic!("not an event: {block:?}") };
                let member = |line: &str, name: &str| line.strip_prefix(name).expect("a member").to_owned();
                return Some(Event {
                    id: member(id, "id: ").parse().expect("a whole number"),
                    name: member(name, "event: "),
                    data: serde_json::from_str(&member(data, "data: ")).expect("JSON"),
                });
            }
            let chunk = self.response.chunk().await.ok()??;
            self.read.extend(chunk);
        }
    }
}
