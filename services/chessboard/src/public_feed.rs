//! The public feeds of developers in YRL, cached until their content changes.

use std::io::{self, Read, Write};
use std::sync::Arc;

use ::db::Conn;
use ::web::Problem;
use actix_web::web::{Bytes, Data, block};
use auth::CompanyId;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use futures_util::StreamExt;
use futures_util::stream::{self, LocalBoxStream};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use runtime::clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::app::App;
use crate::db;
use crate::db::catalog_feed::{FeedVersion, PAGE_SIZE};
use crate::domain::PropertyObjectId;
use crate::domain::feed::{FeedSeller, PublicOffer, feed_end, feed_start, write_offer};
use crate::error::Error;

/// Maximum number of feeds that a process builds at the same time.
const MAX_BUILDS: usize = 4;

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
/// reads.
///
/// # Errors
/// `503 SERVICE_UNAVAILABLE` while [`MAX_BUILDS`] other feeds are built.
/// [`Error::Database`] before the first page.
/// A later error breaks the connection, so that the client sees an incomplete response.
pub async fn read_feed(
    app: Data<App>,
    developer: CompanyId,
    found: FeedVersion,
    is_compressed: bool,
) -> Result<FeedBody, Error> {
    let cached = app.public_feeds.cache.get(&developer);
    if let Some(cached) = cached.filter(|cached| cached.version == found.version) {
        return Ok(if is_compressed { split(cached.gzip) } else { decompress(cached.gzip) });
    }
    let mut pages = Box::pin(build(app, developer, found).await?);
    // An error of the first page becomes the response.
    let first = pages.next().await.transpose()?;
    let pages = stream::iter(first.map(Ok)).chain(pages);
    let chunks = pages.map(move |page: Result<Page, Error>| match page {
        Ok(page) => Ok(if is_compressed { page.gzip } else { page.plain }),
        Err(error) => {
            tracing::error!(%error, "failed to finish a feed");
            Err(io::Error::other("the feed was interrupted"))
        }
    });
    Ok(chunks.boxed_local())
}

/// A part of a feed, plain and compressed.
struct Page {
    plain: Bytes,
    gzip: Bytes,
}

/// A feed that is being built.
struct Build {
    app: Data<App>,
    developer: CompanyId,
    version: String,
    seller: FeedSeller,
    last: Option<PropertyObjectId>,
    encoder: GzEncoder<Vec<u8>>,
    is_started: bool,
    is_finished: bool,
    /// The compressed pages, while they are small enough for the cache.
    kept: Option<Vec<u8>>,
    // The next build waits until this one is sent or its client is gone.
    _permit: OwnedSemaphorePermit,
}

/// Returns the pages of a feed.
async fn build(
    app: Data<App>,
    developer: CompanyId,
    found: FeedVersion,
) -> Result<impl stream::Stream<Item = Result<Page, Error>>, Error> {
    let FeedVersion { name, contact_phone, website, version } = found;
    let permit = app.public_feeds.builds.clone().try_acquire_owned();
    let build = Build {
        _permit: permit.map_err(|_| Problem::unavailable(&"too many feeds"))?,
        app,
        developer,
        version,
        seller: FeedSeller { name, phone: contact_phone, website },
        last: None,
        encoder: GzEncoder::new(Vec::new(), Compression::fast()),
        is_started: false,
        is_finished: false,
        kept: Some(Vec::new()),
    };
    Ok(stream::try_unfold(build, Build::next))
}

impl Build {
    /// Reads and writes the next page. Returns `None` after the last one.
    async fn next(mut self) -> Result<Option<(Page, Self)>, Error> {
        if self.is_finished {
            return Ok(None);
        }
        // The version was read from the primary before the pages. A replica could return older
        // pages, and this version would then name them for ever.
        let conn = self.app.db.conn().await?;
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
        Ok(Some((written, self)))
    }

    /// Keeps a compressed page for the cache, and caches the feed after the last one.
    fn keep(&mut self, gzip: &[u8]) {
        self.kept = self.kept.take().filter(|kept| kept.len() + gzip.len() <= MAX_CACHED_BYTES);
        let Some(kept) = &mut self.kept else { return };
        kept.extend_from_slice(gzip);
        if self.is_finished {
            let feed = CachedFeed { version: self.version.clone(), gzip: std::mem::take(kept).into() };
            self.app.public_feeds.cache.insert(self.developer, feed);
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

/// Writes offers, after the beginning of the feed if `start` is set, and before its end.
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
    Ok((Page { plain: plain.into(), gzip: gzip.into() }, encoder))
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
    use actix_web::web::Bytes;
    use auth::CompanyId;

    use super::{CACHE_BYTES, CachedFeed, MAX_CACHED_BYTES, PublicFeeds};

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
}
