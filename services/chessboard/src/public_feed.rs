//! The public feeds of developers in YRL, cached until their content changes.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use ::db::{Conn, Db};
use ::web::Problem;
use actix_web::rt;
use actix_web::web::{Bytes, block};
use auth::CompanyId;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use futures_util::stream::{self, LocalBoxStream};
use futures_util::{StreamExt, TryStreamExt};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use runtime::clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;

use crate::db;
use crate::db::catalog_feed::{FeedVersion, PAGE_SIZE};
use crate::domain::PropertyObjectId;
use crate::domain::feed::{FeedSeller, PublicOffer, feed_end, feed_start, write_offer};
use crate::error::Error;

/// Maximum number of feeds that a process builds at the same time.
const MAX_BUILDS: usize = 4;

/// Maximum time in which a client reads a page, which means about 20 KB a second. A slower client
/// would occupy one of the [`MAX_BUILDS`] slots.
const PAGE_DEADLINE: Duration = Duration::from_secs(30);

/// Capacity of the cache, in compressed bytes. There is one shard, because a shard rejects
/// a feed above its part of the capacity.
const CACHE_BYTES: u64 = 64 * 1024 * 1024;

/// The largest feed that is cached, in compressed bytes.
const MAX_CACHED_BYTES: usize = 16 * 1024 * 1024;

/// Size of the chunks of a cached feed.
const CHUNK_BYTES: usize = 64 * 1024;

/// A body in chunks.
pub type FeedBody = LocalBoxStream<'static, io::Result<Bytes>>;

/// The last compressed feed of each developer.
pub struct PublicFeeds {
    cache: Cache<CompanyId, CachedFeed, FeedWeighter>,
    builds: Arc<Semaphore>,
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
        }
    }
}

/// Returns the feed of a developer, compressed with gzip or plain.
///
/// A feed that is not cached is sent while its objects are read, and the client's speed limits the
/// reads. A client that takes longer than [`PAGE_DEADLINE`] for a page ends the build.
///
/// # Errors
/// `503 SERVICE_UNAVAILABLE` while [`MAX_BUILDS`] other feeds are built.
/// [`Error::Database`] before the first page.
/// A later error breaks the connection, so that the client sees an incomplete response.
pub async fn read_feed(
    feeds: Arc<PublicFeeds>,
    db: Db,
    developer: CompanyId,
    found: FeedVersion,
    is_compressed: bool,
) -> Result<FeedBody, Error> {
    let cached = feeds.cache.get(&developer);
    if let Some(cached) = cached.filter(|cached| cached.version == found.version) {
        return Ok(if is_compressed { split(cached.gzip) } else { decompress(cached.gzip) });
    }
    let mut pages = start_build(feeds, db, developer, found)?;
    // An error of the first page becomes the response.
    let ended = || Problem::internal(&io::Error::other("the build of a feed ended without a page"));
    let first = pages.recv().await.unwrap_or_else(|| Err(ended().into()))?;
    let is_last = first.is_last;
    let rest = stream::try_unfold((pages, is_last), |(mut pages, is_finished)| async move {
        if is_finished {
            return Ok(None);
        }
        let page = next_page(&mut pages).await?;
        let is_last = page.is_last;
        io::Result::Ok(Some((page, (pages, is_last))))
    });
    let pages = stream::iter([io::Result::Ok(first)]).chain(rest);
    let chunks = pages.map_ok(move |page| if is_compressed { page.gzip } else { page.plain });
    Ok(chunks.boxed_local())
}

/// Returns the next page of a feed whose last page is not read yet.
///
/// # Errors
/// An error if the build has failed, or has ended because the client was too slow.
async fn next_page(pages: &mut mpsc::Receiver<Result<Page, Error>>) -> io::Result<Page> {
    match pages.recv().await {
        Some(Ok(page)) => return Ok(page),
        Some(Err(error)) => tracing::error!(%error, "failed to finish a feed"),
        None => tracing::info!("ended the build of a feed because the client read too slowly"),
    }
    Err(io::Error::other("the feed was interrupted"))
}

/// A part of a feed, plain and compressed.
struct Page {
    plain: Bytes,
    gzip: Bytes,
    is_last: bool,
}

/// A feed that is being built.
struct Build {
    feeds: Arc<PublicFeeds>,
    db: Db,
    developer: CompanyId,
    version: String,
    seller: FeedSeller,
    last: Option<PropertyObjectId>,
    encoder: GzEncoder<Vec<u8>>,
    is_started: bool,
    is_finished: bool,
    /// The compressed pages, while they are small enough for the cache.
    kept: Option<Vec<u8>>,
    // Occupies one of [`MAX_BUILDS`] slots until the last page is built or the client is gone.
    _permit: OwnedSemaphorePermit,
}

/// Builds a feed in a task of its own and returns its pages.
///
/// The server does not poll a body that the client does not read, so only a task can end the build
/// for a client that is too slow.
fn start_build(
    feeds: Arc<PublicFeeds>,
    db: Db,
    developer: CompanyId,
    found: FeedVersion,
) -> Result<mpsc::Receiver<Result<Page, Error>>, Error> {
    let FeedVersion { name, contact_phone, website, version } = found;
    let permit = feeds.builds.clone().try_acquire_owned();
    let build = Build {
        _permit: permit.map_err(|_| Problem::unavailable(&"too many feeds"))?,
        feeds,
        db,
        developer,
        version,
        seller: FeedSeller { name, phone: contact_phone, website },
        last: None,
        encoder: GzEncoder::new(Vec::new(), Compression::fast()),
        is_started: false,
        is_finished: false,
        kept: Some(Vec::new()),
    };
    let (pages, received) = mpsc::channel(1);
    rt::spawn(build.run(pages));
    Ok(received)
}

/// Sends a page within `deadline`. Returns false if the client is too slow or gone.
async fn send_within<T>(deadline: Duration, pages: &mpsc::Sender<T>, page: T) -> bool {
    matches!(timeout(deadline, pages.send(page)).await, Ok(Ok(())))
}

impl Build {
    /// Builds the pages until the last one, an error, or a client that is too slow or gone.
    async fn run(self, pages: mpsc::Sender<Result<Page, Error>>) {
        let mut build = self;
        loop {
            let (page, rest) = match build.next().await {
                Ok((page, rest)) => (Ok(page), Some(rest)),
                Err(error) => (Err(error), None),
            };
            let is_sent = send_within(PAGE_DEADLINE, &pages, page).await;
            match rest {
                Some(rest) if is_sent && !rest.is_finished => build = rest,
                _ => return,
            }
        }
    }

    /// Reads and writes the next page.
    async fn next(mut self) -> Result<(Page, Self), Error> {
        // The version was read from the primary before the pages. A read replica could return older
        // pages, and the cache would keep them under this version.
        let conn = self.db.conn().await?;
        let offers = read_page(&conn, self.developer, self.last).await?;
        drop(conn);
        self.last = offers.last().map(|offer| offer.id);
        self.is_finished = offers.len() < usize::from(PAGE_SIZE);
        let now = clock::now();
        let (written, encoder) = {
            let (is_first, is_last) = (!self.is_started, self.is_finished);
            let (seller, encoder) = (self.seller.clone(), self.encoder);
            let write = move || write_page(&seller, &offers, encoder, is_first.then_some(now), is_last);
            let written = block(write).await.map_err(|error| Problem::internal(&error))?;
            written.map_err(|error| Problem::internal(&error))?
        };
        self.encoder = encoder;
        self.is_started = true;
        self.keep(&written.gzip);
        Ok((written, self))
    }

    /// Keeps a compressed page for the cache, and caches the feed after the last one.
    fn keep(&mut self, gzip: &[u8]) {
        self.kept = self.kept.take().filter(|kept| kept.len() + gzip.len() <= MAX_CACHED_BYTES);
        let Some(kept) = &mut self.kept else { return };
        kept.extend_from_slice(gzip);
        if self.is_finished {
            let feed = CachedFeed { version: self.version.clone(), gzip: std::mem::take(kept).into() };
            self.feeds.cache.insert(self.developer, feed);
        }
    }
}

async fn read_page(
    conn: &Conn,
    developer: CompanyId,
    after: Option<PropertyObjectId>,
) -> Result<Vec<PublicOffer>, Error> {
    let offers = db::catalog_feed::list_next(conn, developer, after).await;
    Ok(offers.map_err(::db::Error::from)?)
}

/// Writes offers. Writes the beginning of the feed before them if `start` is set, and its end after
/// them if `is_last` is true.
fn write_page(
    seller: &FeedSeller,
    offers: &[PublicOffer],
    mut encoder: GzEncoder<Vec<u8>>,
    start: Option<time::OffsetDateTime>,
    is_last: bool,
) -> io::Result<(Page, GzEncoder<Vec<u8>>)> {
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
    let gzip = std::mem::take(encoder.get_mut());
    Ok((Page { plain: plain.into(), gzip: gzip.into(), is_last }, encoder))
}

/// Splits a body into chunks.
fn split(body: Bytes) -> FeedBody {
    let chunks = stream::unfold(body, |mut rest| async move {
        let chunk = rest.split_to(rest.len().min(CHUNK_BYTES));
        (!chunk.is_empty()).then_some((Ok(chunk), rest))
    });
    chunks.boxed_local()
}

/// Decompresses a body chunk by chunk.
fn decompress(gzip: Bytes) -> FeedBody {
    let decoder = GzDecoder::new(io::Cursor::new(gzip));
    let chunks = stream::try_unfold(decoder, |mut decoder| async move {
        let mut chunk = vec![0; CHUNK_BYTES];
        let length = decoder.read(&mut chunk)?;
        chunk.truncate(length);
        Ok((length > 0).then(|| (Bytes::from(chunk), decoder)))
    });
    chunks.boxed_local()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use actix_web::web::Bytes;
    use auth::CompanyId;
    use tokio::sync::mpsc;

    use super::{CACHE_BYTES, CachedFeed, MAX_CACHED_BYTES, Page, PublicFeeds, next_page, send_within};

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

    /// RULE-CHS-079: a client that reads too slowly ends the build, and its response breaks.
    #[tokio::test]
    async fn slow_client_ends_build() {
        let (pages, mut received) = mpsc::channel(1);
        let page = || Ok(Page { plain: Bytes::new(), gzip: Bytes::new(), is_last: false });
        assert!(send_within(Duration::from_millis(10), &pages, page()).await);
        assert!(!send_within(Duration::from_millis(10), &pages, page()).await, "the client reads no page");
        drop(pages);
        assert!(next_page(&mut received).await.is_ok());
        assert!(next_page(&mut received).await.is_err());
    }
}
