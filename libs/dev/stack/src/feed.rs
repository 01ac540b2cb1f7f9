//! The events of the bus for the start page, with their publisher and readers.
//!
//! The bus is read only while a page is open.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix_web::web::Bytes;
use futures_util::Stream;
use serde_json::json;
use tokio::sync::{Notify, broadcast, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::services::ServiceEntry;
use devkit::events::{Follower, Record};

/// Number of events that may wait for a slow page. A page that misses events gets `ready` again.
const BUFFERED_EVENTS: usize = 256;
/// Interval of the comments that keep a stream alive and detect a closed page.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);
/// Delay before the next attempt to reach the broker.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// A feed that pages subscribe to. Clones share it.
#[derive(Clone)]
pub struct Feed(Arc<Inner>);

struct Inner {
    brokers: String,
    /// The readers of each topic.
    readers: BTreeMap<String, Vec<&'static str>>,
    events: broadcast::Sender<Bytes>,
    /// Notified when a page begins to listen.
    wanted: Notify,
    /// True while the feed follows the bus.
    follows: watch::Sender<bool>,
    closed: CancellationToken,
}

impl Feed {
    pub fn new(services: &[ServiceEntry], brokers: String) -> Self {
        let mut readers: BTreeMap<String, Vec<&'static str>> = BTreeMap::new();
        for service in services {
            for topic in (service.topics)() {
                let reads = publisher(&topic) != service.name;
                readers.entry(topic).or_default().extend(reads.then_some(service.name));
            }
        }
        let (events, follows) = (broadcast::Sender::new(BUFFERED_EVENTS), watch::Sender::new(false));
        let (wanted, closed) = (Notify::new(), CancellationToken::new());
        Self(Arc::new(Inner { brokers, readers, events, wanted, follows, closed }))
    }

    /// Reads the bus while pages listen.
    pub async fn run(self) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                () = self.0.wanted.notified() => {}
                () = self.0.closed.cancelled() => return Ok(()),
            }
            while self.0.events.receiver_count() > 0 {
                let followed = tokio::select! {
                    followed = self.follow() => followed,
                    () = self.0.closed.cancelled() => return Ok(()),
                };
                self.0.follows.send_replace(false);
                if let Err(error) = followed {
                    devkit::print_line(&format!("failed to follow the bus: {error:#}"));
                    sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    async fn follow(&self) -> anyhow::Result<()> {
        let mut bus = Follower::open(&self.0.brokers, Vec::new(), false)?;
        self.0.follows.send_replace(true);
        while self.0.events.receiver_count() > 0 {
            if let Ok(record) = timeout(HEARTBEAT_INTERVAL, bus.next()).await {
                // The last page may have closed.
                let _ = self.0.events.send(self.event(&record?));
            }
        }
        Ok(())
    }

    /// Returns a record as a server-sent event.
    fn event(&self, record: &Record) -> Bytes {
        let readers = self.0.readers.get(&record.topic).map_or(&[][..], Vec::as_slice);
        let event = json!({
            "topic": record.topic,
            "key": record.key,
            "type": record.kind,
            "sequence": record.sequence,
            "from": publisher(&record.topic),
            "to": readers,
            "payload": record.payload,
        });
        Bytes::from(format!("data: {event}\n\n"))
    }

    /// Returns the events from now on. The first event is `ready`. Another `ready` means that the
    /// page has missed events.
    pub fn listen(&self) -> impl Stream<Item = Result<Bytes, actix_web::Error>> + use<> {
        let feed = self.clone();
        let (events, follows) = (feed.0.events.subscribe(), feed.0.follows.subscribe());
        feed.0.wanted.notify_one();
        let start = (feed, events, follows, false);
        futures_util::stream::unfold(start, async |(feed, mut events, mut follows, is_ready)| {
            let next = async {
                if !is_ready {
                    return follows.wait_for(|follows| *follows).await.is_ok().then(ready);
                }
                match timeout(HEARTBEAT_INTERVAL, events.recv()).await {
                    Ok(Ok(event)) => Some(event),
                    Ok(Err(broadcast::error::RecvError::Lagged(_))) => Some(ready()),
                    Ok(Err(broadcast::error::RecvError::Closed)) => None,
                    Err(_) => Some(Bytes::from_static(b":\n\n")),
                }
            };
            let next = tokio::select! {
                next = next => next,
                () = feed.0.closed.cancelled() => None,
            };
            next.map(|event| (Ok(event), (feed, events, follows, true)))
        })
    }

    /// Ends all streams.
    pub fn close(&self) {
        self.0.closed.cancel();
    }
}

const fn ready() -> Bytes {
    Bytes::from_static(b"event: ready\ndata: {}\n\n")
}

/// Returns the publisher of a topic. The consumer publishes the dead letters of a topic.
fn publisher(topic: &str) -> &str {
    let mut parts = topic.split('.');
    let (root, service) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    match topic.strip_suffix(".dlq").and_then(|topic| topic.rsplit('.').next()) {
        Some(reader) => reader,
        None if root == "platform" => service,
        None => root,
    }
}

#[cfg(test)]
mod tests {
    use super::{Feed, publisher};
    use crate::services;

    /// RULE-EVT-001: an event is shown with its publisher and its consumers.
    #[test]
    fn event_names_its_publisher_and_its_readers() {
        let feed = Feed::new(&services::all(), String::new());
        let readers = |topic: &str| feed.0.readers.get(topic).cloned().unwrap_or_default();
        assert_eq!(readers("platform.crm.deal-cancelled.v1"), ["chessboard", "agent"]);
        assert_eq!(readers("platform.messenger.message-sent.v1"), [""; 0]);
        assert_eq!(publisher("platform.crm.deal-cancelled.v1"), "crm");
        assert_eq!(publisher("external.chessboard.developer-upserted.v1"), "external");
        assert_eq!(publisher("platform.crm.deal-cancelled.v1.agent.dlq"), "agent");
    }
}
