//! Cards of the items of opened selections.

use std::sync::Arc;
use std::time::Duration;

use ::db::{Json, PipelinedConn};
use ::web::Problem;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};

use crate::db;
use crate::db::selection::OpenSelection;
use crate::domain::{Item, SelectionId, with_cards};
use crate::error::Error;

/// Maximum age of cached cards. The card of a hidden object disappears within this time.
const MAX_AGE: Duration = Duration::from_secs(5);
/// Capacity of the cache in bytes, over a hundred selections of 200 items.
const CACHE_BYTES: u64 = 16 * 1024 * 1024;
/// The estimated number of entries, for the initial allocation.
const ESTIMATED_ENTRIES: usize = 1_000;
/// The approximate size of an entry without its items.
const ENTRY_BYTES: u64 = 256;

/// A selection and its version.
type Key = (SelectionId, i64);

/// A cache of the items of selections with their cards, as the read by code returns them.
pub struct Cards(Cache<Key, Arc<ReadItems>, ByteWeighter>);

struct ReadItems {
    items: Box<RawValue>,
    read_at: Instant,
}

/// Weighs items by their bytes, and adds the approximate size of an entry.
#[derive(Clone)]
struct ByteWeighter;

impl Weighter<Key, Arc<ReadItems>> for ByteWeighter {
    fn weight(&self, _: &Key, read: &Arc<ReadItems>) -> u64 {
        read.items.get().len() as u64 + ENTRY_BYTES
    }
}

impl Cards {
    pub fn new() -> Self {
        Self(Cache::with_weighter(ESTIMATED_ENTRIES, CACHE_BYTES, ByteWeighter))
    }

    /// Adds the cards to the items of an opened selection. The cards are at most [`MAX_AGE`] old.
    ///
    /// Concurrent readers of a selection share one lookup. A changed selection has another version,
    /// and so another key. Its readers therefore see the change at once.
    pub async fn add_to(&self, opened: &mut OpenSelection, lookups: &PipelinedConn) -> Result<(), Error> {
        let key = (opened.id, opened.version);
        self.0.remove_if(&key, |cached| cached.read_at.elapsed() > MAX_AGE);
        let cached = self.0.get_or_insert_async(&key, read_items_with_cards(&opened.view.items.0, lookups));
        // If a lookup fails, its waiters repeat it one after the other, so the wait has a limit.
        let cached = timeout(lookups.wait_timeout(), cached).await;
        let cached = cached.map_err(|_| ::db::Error::Unavailable("no cards in time".to_owned()))??;
        opened.view.items = Json(cached.items.clone());
        Ok(())
    }
}

async fn read_items_with_cards(stored: &RawValue, lookups: &PipelinedConn) -> Result<Arc<ReadItems>, Error> {
    let read_at = Instant::now();
    let items: Vec<Item> = serde_json::from_str(stored.get()).map_err(|error| Problem::internal(&error))?;
    let ids = || items.iter().map(|item| item.property_object_id);
    let cards = lookups.run(async |conn| db::property_object::find_cards(conn, ids()).await).await?;
    let items = serde_json::value::to_raw_value(&with_cards(items, cards));
    Ok(Arc::new(ReadItems { items: items.map_err(|error| Problem::internal(&error))?, read_at }))
}
