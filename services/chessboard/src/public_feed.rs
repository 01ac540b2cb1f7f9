//! The public feeds of developers in YRL, cached until their content changes.

use std::convert::identity;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use ::db::{Conn, Db};
use ::web::{Problem, Shares};
use actix_web::rt;
use actix_web::web::{Bytes, block};
use async_compression::tokio::bufread::GzipDecoder;
use auth::CompanyId;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::StreamExt;
use futures_util::stream::{self, LocalBoxStream};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use runtime::clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::io::{ReaderStream, StreamReader};

use crate::db;
use crate::db::catalog_feed::{FeedVersion, PAGE_SIZE};
use crate::domain::PropertyObjectId;
use crate::domain::feed::{FeedSeller, PublicOffer, feed_end, feed_start, write_offer};
use crate::error::Error;

/// Maximum number of feeds that a process builds at the same time.
const MAX_BUILDS: usize = 4;

/// Maximum number of feeds that a process builds at the same time for one caller.
const MAX_BUILDS_OF_CALLER: usize = 2;

/// Maximum number of feeds above [`MAX_CACHED_BYTES`] that a process sends at the same time.
const MAX_LARGE_FEEDS: usize = 2;

/// Maximum wait for a build of others to end.
const SLOT_TIMEOUT: Duration = Duration::from_secs(5);

/// The delay after which a caller with too many builds tries again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Maximum time in which a client reads a page of a large feed, which means about 20 KB a second.
const PAGE_DEADLINE: Duration = Duration::from_secs(30);

/// Maximum time in which a client reads a large feed. A slower client would occupy one of the
/// [`MAX_LARGE_FEEDS`] slots.
const LARGE_FEED_DEADLINE: Duration = Duration::from_mins(5);

/// Capacity of the cache, in compressed bytes. There is one shard, because a shard rejects
/// a feed above its part of the capacity.
const CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// The largest feed that is cached, in compressed bytes.
const MAX_CACHED_BYTES: usize = 16 * 1024 * 1024;

/// Size of the chunks of a feed.
const CHUNK_BYTES: usize = 64 * 1024;

/// A body in chunks.
pub type FeedBody = LocalBoxStream<'static, io::Result<Bytes>>;

/// The last compressed feed of each developer.
pub struct PublicFeeds {
    cache: Cache<CompanyId, CachedFeed, FeedWeighter>,
    builds: Arc<Semaphore>,
    builds_of_callers: Shares<String>,
    large_feeds: Arc<Semaphore>,
}

#[derive(Clone)]
struct CachedFeed {
    version: String,
    gzip: Bytes,
}

/// Weighs a feed by its bytes.
#[derive(Clone)]
struct FeedWeighter;

impl Weighter<CompanyId, CachedFeed> for FeedWeighter {
    fn weight(&self, _: &CompanyId, feed: &CachedFeed) -> u64 {
        feed.gzip.len() as u64
    }
}

impl PublicFeeds {
    #[expect(clippy::expect_used, reason = "both capacities are set")]
    pub fn new() -> Self {
        let options = OptionsBuilder::new()
            .shards(1)
            .estimated_items_capacity(1_000)
            .weight_capacity(CACHE_BYTES)
            .build()
            .expect("both capacities are set");
        let (hash_builder, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        Self {
            cache: Cache::with_options(options, FeedWeighter, hash_builder, lifecycle),
            builds: Arc::new(Semaphore::new(MAX_BUILDS)),
            builds_of_callers: Shares::new(MAX_BUILDS_OF_CALLER),
            large_feeds: Arc::new(Semaphore::new(MAX_LARGE_FEEDS)),
        }
    }

    /// Returns the size of the response with a cached feed, or 0 if the feed is not cached.
    pub fn cached_bytes(&self, developer: CompanyId, version: &str, is_compressed: bool) -> usize {
        let cached = self.find(developer, version);
        cached.map_or(0, |cached| if is_compressed { cached.gzip.len() } else { plain_bytes(&cached.gzip) })
    }

    fn find(&self, developer: CompanyId, version: &str) -> Option<CachedFeed> {
        self.cache.get(&developer).filter(|cached| cached.version == version)
    }
}

/// Returns the feed of a developer, compressed with gzip or plain.
///
/// A feed that is not cached is built first, once for all callers who wait for it, and without
/// waiting for a client. A feed above [`MAX_CACHED_BYTES`] is sent while the rest of it is built.
/// A client that reads it too slowly ends the build.
///
/// # Errors
/// `429 RATE_LIMITED` while the caller waits for [`MAX_BUILDS_OF_CALLER`] other feeds.
/// `503 SERVICE_UNAVAILABLE` while [`MAX_BUILDS`] other feeds are built, or [`MAX_LARGE_FEEDS`]
/// large ones are sent.
/// [`Error::Database`] if the objects cannot be read. An error after the beginning of a large feed
/// breaks the connection, so that the client sees an incomplete response.
pub async fn read_feed(
    feeds: Arc<PublicFeeds>,
    db: Db,
    developer: CompanyId,
    found: FeedVersion,
    caller: String,
    is_compressed: bool,
) -> Result<FeedBody, Error> {
    let encode: fn(FeedBody) -> FeedBody = if is_compressed { identity } else { decompress };
    if let Some(cached) = feeds.find(developer, &found.version) {
        return Ok(encode(split(cached.gzip)));
    }
    // The share precedes the wait for others. A caller without a share would otherwise become the
    // builder for whom they wait.
    let share = feeds.builds_of_callers.of(caller).acquire_owned();
    let share = timeout(SLOT_TIMEOUT, share).await.map_err(|_| Problem::rate_limited(RETRY_AFTER))?;
    let share = share.map_err(|closed| Problem::unavailable(&closed))?;
    loop {
        feeds.cache.remove_if(&developer, |cached| cached.version != found.version);
        let built = build(&feeds, &db, developer, &found);
        match feeds.cache.get_or_insert_async(&developer, built).await {
            Ok(feed) if feed.version == found.version => return Ok(encode(split(feed.gzip))),
            // The caller has waited for the build of another version.
            Ok(_) => {}
            Err(Unfinished::Large(large)) => return Ok(encode(large.send(share))),
            Err(Unfinished::Failed(error)) => return Err(error),
        }
    }
}

/// A feed that cannot be cached.
enum Unfinished {
    /// The feed is above [`MAX_CACHED_BYTES`].
    Large(Box<LargeFeed>),
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Unfinished {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Builds a feed, as fast as the database returns its objects.
async fn build(
    feeds: &PublicFeeds,
    db: &Db,
    developer: CompanyId,
    found: &FeedVersion,
) -> Result<CachedFeed, Unfinished> {
    let slot = acquire(&feeds.builds).await?;
    let mut build = Build::new(db.clone(), developer, found);
    let mut feed = Vec::new();
    while !build.is_finished {
        let (gzip, rest) = build.next().await?;
        build = rest;
        feed.extend_from_slice(&gzip);
        if feed.len() > MAX_CACHED_BYTES {
            // The client decides how long the rest takes, so other builds get the slot.
            drop(slot);
            let slot = acquire(&feeds.large_feeds).await?;
            return Err(Unfinished::Large(Box::new(LargeFeed { beginning: feed.into(), build, slot })));
        }
    }
    Ok(CachedFeed { version: found.version.clone(), gzip: feed.into() })
}

/// Waits for one of the slots of the process.
async fn acquire(slots: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Problem> {
    let slot = timeout(SLOT_TIMEOUT, Arc::clone(slots).acquire_owned()).await;
    slot.map_err(|_| Problem::unavailable(&"too many feeds"))?.map_err(|closed| Problem::unavailable(&closed))
}

/// A feed that is being built.
struct Build {
    db: Db,
    developer: CompanyId,
    seller: FeedSeller,
    last: Option<PropertyObjectId>,
    encoder: GzEncoder<Vec<u8>>,
    is_started: bool,
    is_finished: bool,
}

impl Build {
    fn new(db: Db, developer: CompanyId, found: &FeedVersion) -> Self {
        let FeedVersion { name, contact_phone: phone, website, .. } = found.clone();
        Self {
            db,
            developer,
            seller: FeedSeller { name, phone, website },
            last: None,
            encoder: GzEncoder::new(Vec::new(), Compression::fast()),
            is_started: false,
            is_finished: false,
        }
    }

    /// Reads and writes the next page. Returns its compressed bytes.
    async fn next(mut self) -> Result<(Bytes, Self), Error> {
        // The version was read from the primary before the pages. A read replica could return older
        // pages, and the cache would keep them under this version.
        let conn = self.db.conn().await?;
        let offers = read_page(&conn, self.developer, self.last).await?;
        drop(conn);
        self.last = offers.last().map(|offer| offer.id);
        self.is_finished = offers.len() < usize::from(PAGE_SIZE);
        let start = (!self.is_started).then(clock::now);
        let (gzip, encoder) = {
            let (seller, encoder, is_last) = (self.seller.clone(), self.encoder, self.is_finished);
            let write = move || write_page(&seller, &offers, encoder, start, is_last);
            let written = block(write).await.map_err(|error| Problem::internal(&error))?;
            written.map_err(|error| Problem::internal(&error))?
        };
        self.encoder = encoder;
        self.is_started = true;
        Ok((gzip, self))
    }
}

/// A feed above [`MAX_CACHED_BYTES`], of which the beginning is built.
struct LargeFeed {
    beginning: Bytes,
    build: Build,
    /// One of the [`MAX_LARGE_FEEDS`] slots.
    slot: OwnedSemaphorePermit,
}

/// A message of the task that sends a large feed.
enum Sent {
    Chunk(Bytes),
    /// The feed is whole. A body without this message is not.
    End,
}

impl LargeFeed {
    /// Builds the rest in a task of its own and returns the whole body. The task keeps the caller's
    /// share.
    ///
    /// The server does not poll a body that the client does not read, so only a task can end the
    /// build for a client that is too slow.
    fn send(self: Box<Self>, share: OwnedSemaphorePermit) -> FeedBody {
        let (sender, receiver) = mpsc::channel(1);
        rt::spawn(async move {
            let _share = share;
            if let Err(error) = self.send_chunks(&sender).await {
                tracing::error!(%error, "failed to finish a feed");
            }
        });
        receive(receiver)
    }

    /// Sends the feed until its end, an error, or a client that is too slow or gone.
    async fn send_chunks(self: Box<Self>, sender: &mpsc::Sender<Sent>) -> Result<(), Error> {
        let Self { mut beginning, mut build, slot: _slot } = *self;
        let deadline = Instant::now() + LARGE_FEED_DEADLINE;
        let page_deadline = || deadline.min(Instant::now() + PAGE_DEADLINE);
        loop {
            let message = if !beginning.is_empty() {
                Sent::Chunk(beginning.split_to(beginning.len().min(CHUNK_BYTES)))
            } else if !build.is_finished {
                let (gzip, rest) = build.next().await?;
                build = rest;
                Sent::Chunk(gzip)
            } else {
                send_until(page_deadline(), sender, Sent::End).await;
                return Ok(());
            };
            if !send_until(page_deadline(), sender, message).await {
                return Ok(());
            }
        }
    }
}

/// Sends a message until `deadline`. Returns false if the client is too slow or gone.
async fn send_until<T>(deadline: Instant, sender: &mpsc::Sender<T>, message: T) -> bool {
    let Ok(sent) = timeout_at(deadline, sender.send(message)).await else {
        tracing::info!("ended the build of a feed because the client read too slowly");
        return false;
    };
    sent.is_ok()
}

/// Returns the body of the chunks that a task sends.
fn receive(receiver: mpsc::Receiver<Sent>) -> FeedBody {
    let chunks = stream::try_unfold(receiver, |mut receiver| async move {
        match receiver.recv().await {
            Some(Sent::Chunk(chunk)) => Ok(Some((chunk, receiver))),
            Some(Sent::End) => Ok(None),
            None => Err(io::Error::other("the feed was interrupted")),
        }
    });
    chunks.boxed_local()
}

async fn read_page(
    conn: &Conn,
    developer: CompanyId,
    after: Option<PropertyObjectId>,
) -> Result<Vec<PublicOffer>, Error> {
    let offers = db::catalog_feed::list_next(conn, developer, after).await;
    Ok(offers.map_err(::db::Error::from)?)
}

/// Writes offers, compressed. Writes the beginning of the feed before them if `start` is set, and
/// its end after them if `is_last` is true.
fn write_page(
    seller: &FeedSeller,
    offers: &[PublicOffer],
    mut encoder: GzEncoder<Vec<u8>>,
    start: Option<time::OffsetDateTime>,
    is_last: bool,
) -> io::Result<(Bytes, GzEncoder<Vec<u8>>)> {
    let mut plain = start.map(feed_start).unwrap_or_default().into_bytes();
    for offer in offers {
        write_offer(&mut plain, seller, offer)?;
    }
    if is_last {
        plain.extend_from_slice(feed_end().as_bytes());
    }
    encoder.write_all(&plain)?;
    if is_last {
        encoder.try_finish()?;
    } else {
        encoder.flush()?;
    }
    Ok((std::mem::take(encoder.get_mut()).into(), encoder))
}

/// Splits a body into chunks.
fn split(body: Bytes) -> FeedBody {
    let chunks = stream::unfold(body, |mut rest| async move {
        let chunk = rest.split_to(rest.len().min(CHUNK_BYTES));
        (!chunk.is_empty()).then_some((Ok(chunk), rest))
    });
    chunks.boxed_local()
}

/// Returns the plain size of a file of one gzip member, which its last four bytes have (RFC 1952).
fn plain_bytes(gzip: &[u8]) -> usize {
    gzip.last_chunk().map_or(0, |size| u32::from_le_bytes(*size) as usize)
}

/// Decompresses a body. Each chunk has at most [`CHUNK_BYTES`], however well the body is
/// compressed.
fn decompress(gzip: FeedBody) -> FeedBody {
    let plain = GzipDecoder::new(StreamReader::new(gzip));
    ReaderStream::with_capacity(plain, CHUNK_BYTES).boxed_local()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use actix_web::web::Bytes;
    use auth::CompanyId;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use futures_util::TryStreamExt;
    use tokio::sync::mpsc;
    use tokio::time::Instant;

    use super::{
        CACHE_BYTES, CHUNK_BYTES, CachedFeed, MAX_CACHED_BYTES, PublicFeeds, Sent, decompress, receive,
        send_until, split,
    };

    /// RULE-CHS-079: the cache keeps feeds of the largest size.
    #[test]
    fn feed_of_the_largest_size_is_cached() {
        let feeds = PublicFeeds::new();
        let gzip = Bytes::from(vec![0; MAX_CACHED_BYTES]);
        let developers: Vec<_> = (0..3).map(|_| CompanyId::generate()).collect();
        for developer in &developers {
            feeds.cache.insert(*developer, CachedFeed { version: "1".to_owned(), gzip: gzip.clone() });
        }
        for developer in &developers {
            assert!(feeds.cache.get(developer).is_some());
        }
        assert!(feeds.cache.weight() <= CACHE_BYTES);
    }

    /// RULE-CHS-079: a plain feed is sent in small chunks, and an incomplete one breaks the
    /// response.
    #[tokio::test]
    async fn decompressed_chunks_are_small() {
        let plain = "'".repeat(8 << 20);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(plain.as_bytes()).unwrap();
        let gzip = Bytes::from(encoder.finish().unwrap());
        assert!(gzip.len() < CHUNK_BYTES);
        let chunks: Vec<Bytes> = decompress(split(gzip.clone())).try_collect().await.unwrap();
        assert!(chunks.iter().all(|chunk| chunk.len() <= CHUNK_BYTES));
        assert!(chunks.concat() == plain.as_bytes());
        let incomplete = decompress(split(gzip.slice(..gzip.len() / 2)));
        assert!(incomplete.try_collect::<Vec<_>>().await.is_err());
    }

    /// RULE-CHS-079: a client that reads a large feed too slowly ends its build, and its response
    /// breaks. A whole feed ends.
    #[tokio::test]
    async fn slow_client_ends_build() {
        let soon = || Instant::now() + Duration::from_millis(10);
        let chunk = || Sent::Chunk(Bytes::from_static(b"x"));
        let (sender, receiver) = mpsc::channel(1);
        assert!(send_until(soon(), &sender, chunk()).await);
        assert!(!send_until(soon(), &sender, chunk()).await, "the client reads no chunk");
        drop(sender);
        assert!(receive(receiver).try_collect::<Vec<_>>().await.is_err());

        let (sender, receiver) = mpsc::channel(2);
        assert!(send_until(soon(), &sender, chunk()).await && send_until(soon(), &sender, Sent::End).await);
        assert_eq!(receive(receiver).try_collect::<Vec<_>>().await.unwrap(), ["x"]);
    }
}
