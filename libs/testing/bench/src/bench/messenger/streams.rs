//! Many open streams, and the delay of messages on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures_util::{StreamExt, TryStreamExt, stream};
use reqwest::{Client, Response};
use tokio::task::JoinSet;

/// Streams that are opened concurrently.
const CONCURRENCY: usize = 32;
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// The JSON of each message before its round and its number.
const TEXT: &str = "\"Text\":\"message ";

/// Open streams, each read by a task. They close when dropped.
pub(super) struct Streams {
    readers: JoinSet<()>,
    count: usize,
    ended: Arc<AtomicU64>,
}

impl Streams {
    /// Opens a stream for each token and waits until each is ready.
    pub(super) async fn open(
        client: &Client,
        url: &str,
        tokens: &[String],
        delay: Option<&Arc<Delay>>,
    ) -> anyhow::Result<Self> {
        let open = |token: &String| {
            let request = client.get(format!("{url}/api/messenger/stream")).bearer_auth(token);
            async move {
                let mut response = request.send().await?.error_for_status()?;
                let first = response.chunk().await?.context("a stream has ended at once")?;
                ensure!(first.starts_with(b"id: "), "a stream does not begin with an event");
                Ok::<_, anyhow::Error>(response)
            }
        };
        let opening: Vec<_> = tokens.iter().map(open).collect();
        let opened: Vec<Response> = stream::iter(opening).buffer_unordered(CONCURRENCY).try_collect().await?;
        let (mut readers, ended) = (JoinSet::new(), Arc::new(AtomicU64::new(0)));
        let count = opened.len();
        for response in opened {
            let (delay, ended) = (delay.cloned(), Arc::clone(&ended));
            readers.spawn(async move {
                read(response, delay).await;
                ended.fetch_add(1, Ordering::Relaxed);
            });
        }
        Ok(Self { readers, count, ended })
    }

    pub(super) fn are_open(&self) -> bool {
        self.readers.len() == self.count && self.ended.load(Ordering::Relaxed) == 0
    }
}

async fn read(mut response: Response, delay: Option<Arc<Delay>>) {
    let mut received = String::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let Some(delay) = &delay else { continue };
        received.push_str(&String::from_utf8_lossy(&chunk));
        while let Some((event, rest)) = received.split_once("\n\n") {
            delay.arrived(event);
            received = rest.to_owned();
        }
    }
}

/// The send time of each message, and its delays.
pub(super) struct Delay {
    begun: Instant,
    /// Nanoseconds since `begun`, by the message's number.
    sent: Vec<AtomicU64>,
    round: AtomicU64,
    /// Delays in milliseconds.
    took: Mutex<Vec<f64>>,
}

impl Delay {
    pub(super) fn new(messages: usize) -> Arc<Self> {
        let sent = (0..messages).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { begun: Instant::now(), sent, round: AtomicU64::new(0), took: Mutex::default() })
    }

    pub(super) fn messages(&self) -> usize {
        self.sent.len()
    }

    /// Starts a new round. Late messages of earlier rounds do not count.
    pub(super) fn begin(&self) {
        self.round.fetch_add(1, Ordering::Relaxed);
        self.took().clear();
    }

    /// Marks a message as sent now and returns its text.
    pub(super) fn mark(&self, number: usize) -> String {
        self.sent[number].store(self.now(), Ordering::Relaxed);
        format!("message {} {number}", self.round.load(Ordering::Relaxed))
    }

    fn arrived(&self, event: &str) {
        let now = self.now();
        let text = event.split_once(TEXT).and_then(|(_, text)| text.split_once('"'));
        let Some((round, number)) = text.and_then(|(text, _)| text.split_once(' ')) else { return };
        let is_current = round.parse() == Ok(self.round.load(Ordering::Relaxed));
        if let Some(sent) = number.parse().ok().and_then(|number: usize| self.sent.get(number))
            && is_current
        {
            let took = Duration::from_nanos(now.saturating_sub(sent.load(Ordering::Relaxed)));
            self.took().push(took.as_secs_f64() * 1e3);
        }
    }

    /// Returns all delays, sorted, once each message has arrived at `readers` streams.
    pub(super) async fn all(&self, readers: usize) -> anyhow::Result<Vec<f64>> {
        let (all, deadline) = (self.sent.len() * readers, Instant::now() + DELIVERY_TIMEOUT);
        while self.took().len() < all {
            let there = self.took().len();
            ensure!(Instant::now() < deadline, "{there} of {all} messages arrived at the streams");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let mut took = self.took().clone();
        took.sort_by(f64::total_cmp);
        Ok(took)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn took(&self) -> MutexGuard<'_, Vec<f64>> {
        self.took.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
