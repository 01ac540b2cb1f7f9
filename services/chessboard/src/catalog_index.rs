//! The index of the catalog: all visible projects with their homes, in the memory of a serving
//! process.
//!
//! A request first brings the index up to date with one short statement, so it sees each change
//! that was committed before it arrived. The index then finds the matching projects and counts the
//! facets without reading a table. A list then reads the projects of its page from the database.

mod block;
mod group;
mod matcher;
mod project;
mod projects;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use ::db::{Conn, Db, PipelinedConn};
use prometheus_client::metrics::gauge::Gauge;
use runtime::{Phase, Process};
use tokio::sync::{Mutex, Notify};
use tokio::time::timeout;

use self::projects::{NewProject, Projects};
use crate::db;
use crate::db::catalog_index::{ProjectSize, Snapshot};
use crate::domain::ProjectId;

/// Maximum number of projects in one statement.
const BATCH_SIZE: usize = 20;
/// Maximum number of homes in one statement. A project with more homes has a statement of its own.
const BATCH_HOMES: i64 = 10_000;
/// Number of projects of which a load reads the sizes in one statement.
const PAGE_SIZE: i64 = 1_000;
/// Changed projects that a search reads again. After more changes the index is loaded again in the
/// background.
const MAX_RENEWED: usize = 100;
/// Homes of the changed projects that a search reads again. A single project may have more.
const MAX_RENEWED_HOMES: i64 = 20_000;
/// Timeout of a refresh, and of the wait for the refreshes before it.
const REFRESH_TIMEOUT: Duration = Duration::from_millis(500);
/// Pause between two loads, so that frequent large changes do not keep the database busy.
const LOAD_PAUSE: Duration = Duration::from_secs(5);
/// Time after which a load is tried again although the index was too large.
const OVERSIZE_PAUSE: Duration = Duration::from_mins(10);

pub struct CatalogIndex {
    max_bytes: usize,
    /// `None` while the index is not loaded, or does not fit into [`Self::max_bytes`].
    loaded: RwLock<Option<Loaded>>,
    /// Number of refreshes that have begun.
    begun: AtomicU64,
    /// Number of the last refresh that succeeded. Its guard allows one refresh at a time.
    finished: Mutex<u64>,
    needs_load: Notify,
    bytes: Gauge,
}

struct Loaded {
    /// The index shows all of these transactions, and possibly some later ones.
    snapshot: Snapshot,
    projects: Projects,
}

impl CatalogIndex {
    /// Creates an index without projects, which answers nothing until it is loaded.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            loaded: RwLock::default(),
            begun: AtomicU64::new(0),
            finished: Mutex::default(),
            needs_load: Notify::new(),
            bytes: Gauge::default(),
        }
    }

    /// Answers a search with the changes that were committed before the call.
    ///
    /// Returns `None` if the index is not loaded, or cannot be brought up to date within
    /// [`REFRESH_TIMEOUT`]. The caller then reads tables.
    pub async fn search<T>(
        &self,
        lookups: &PipelinedConn,
        db: &Db,
        search: impl FnOnce(&Projects) -> T,
    ) -> Option<T> {
        match timeout(REFRESH_TIMEOUT, self.refresh(lookups, db)).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return None,
            Ok(Err(error)) => {
                tracing::warn!(%error, "failed to refresh the catalog index");
                return None;
            }
            Err(_) => {
                tracing::warn!("the refresh of the catalog index took too long");
                return None;
            }
        }
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        loaded.as_ref().map(|loaded| search(&loaded.projects))
    }

    /// Applies the changes since the last refresh, unless a refresh that began after this call has
    /// already done so. Returns false if the index is not loaded.
    async fn refresh(&self, lookups: &PipelinedConn, db: &Db) -> Result<bool, ::db::Error> {
        let begun_before = self.begun.load(Ordering::SeqCst);
        let mut finished = self.finished.lock().await;
        let Some(since) = self.snapshot() else { return Ok(false) };
        if *finished > begun_before {
            return Ok(true);
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let changes = lookups.run(async |conn| db::catalog_index::changes(conn, &since).await).await?;
        if changes.until.history != since.history || !changes.is_later {
            tracing::warn!("the database has another history, so the catalog index was dropped");
            self.load_again();
            return Ok(false);
        }
        if changes.projects.len() > MAX_RENEWED {
            tracing::info!(projects = changes.projects.len(), "many projects changed since the last search");
            self.load_again();
            return Ok(false);
        }
        if !changes.projects.is_empty() {
            let conn = db.conn().await?;
            // A single project is read in any size.
            let sizes = match *changes.projects {
                [id] => vec![ProjectSize { id, homes: 0 }],
                _ => db::catalog_index::sizes(&conn, &changes.projects).await?,
            };
            let homes: i64 = sizes.iter().map(|size| size.homes).sum();
            if homes > MAX_RENEWED_HOMES {
                tracing::info!(homes, "projects with many homes changed since the last search");
                self.load_again();
                return Ok(false);
            }
            for ids in batches(&sizes) {
                self.renew(&conn, &ids).await?;
            }
        }
        self.change(|loaded| loaded.snapshot = changes.until);
        *finished = number;
        Ok(true)
    }

    /// Reads projects again. The snapshot remains, so a later refresh may read them once more.
    async fn renew(&self, conn: &Conn, ids: &[ProjectId]) -> Result<(), ::db::Error> {
        let rows = db::catalog_index::load(conn, ids).await?;
        // Searches wait for the change, so it does not sort the homes.
        let projects: Vec<NewProject> = rows.into_iter().map(NewProject::from).collect();
        self.change(|loaded| {
            for id in ids {
                loaded.projects.remove(*id);
            }
            for project in projects {
                loaded.projects.put(project);
            }
        });
        Ok(())
    }

    fn snapshot(&self) -> Option<Snapshot> {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        loaded.as_ref().map(|loaded| loaded.snapshot.clone())
    }

    /// Changes the loaded index, and drops it if it then exceeds its maximum size.
    fn change(&self, change: impl FnOnce(&mut Loaded)) {
        let mut guard = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        let Some(loaded) = &mut *guard else { return };
        change(loaded);
        let bytes = loaded.projects.bytes();
        if bytes > self.max_bytes {
            let dropped = guard.take();
            // Searches do not wait while the memory is returned.
            drop(guard);
            drop(dropped);
            self.report_size(bytes);
            // The background task finds the same size, and tries again after a pause.
            self.needs_load.notify_one();
        } else {
            self.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
    }

    /// Drops the index until the background task has loaded it again.
    fn load_again(&self) {
        let dropped = self.loaded.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(dropped);
        self.bytes.set(0);
        self.needs_load.notify_one();
    }

    fn report_size(&self, bytes: usize) {
        self.bytes.set(0);
        let max_bytes = self.max_bytes;
        tracing::warn!(bytes, max_bytes, "the catalog index exceeded its size, so searches read tables");
    }

    /// Reads all projects. Leaves the index empty if they exceed its maximum size.
    async fn load(&self, db: &Db) -> Result<(), ::db::Error> {
        let conn = db.conn().await?;
        // The projects are read after the snapshot. The first refresh reads the changes in between
        // once more.
        let snapshot = db::catalog_index::snapshot(&conn).await?;
        let (mut projects, mut batch_count) = (Projects::default(), 0);
        let mut after = None;
        loop {
            let sizes = db::catalog_index::page_of_sizes(&conn, after, PAGE_SIZE).await?;
            let Some(last) = sizes.last() else { break };
            after = Some(last.id);
            for ids in batches(&sizes) {
                for row in db::catalog_index::load(&conn, &ids).await? {
                    projects.put(row.into());
                }
                batch_count += 1;
                if projects.bytes() > self.max_bytes {
                    self.report_size(projects.bytes());
                    return Ok(());
                }
            }
        }
        let (count, bytes) = (projects.len(), projects.bytes());
        self.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Some(Loaded { snapshot, projects });
        tracing::info!(projects = count, bytes, batches = batch_count, "loaded the catalog index");
        Ok(())
    }
}

/// Splits projects into batches of up to [`BATCH_SIZE`] projects and [`BATCH_HOMES`] homes.
fn batches(sizes: &[ProjectSize]) -> Vec<Vec<ProjectId>> {
    let mut batches: Vec<Vec<_>> = Vec::new();
    let mut homes = 0;
    for size in sizes {
        homes += size.homes;
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH_SIZE && homes <= BATCH_HOMES => batch.push(size.id),
            _ => {
                batches.push(vec![size.id]);
                homes = size.homes;
            }
        }
    }
    batches
}

/// Loads the index in the background, and again when the database has another history. Does nothing
/// if its maximum size is 0.
pub fn start(index: Arc<CatalogIndex>, db: Db, process: &Process) {
    // An alert fires while the metric is 0, so a process without an index has no metric.
    if index.max_bytes == 0 {
        return;
    }
    process.metrics().register(|registry| {
        let help = "Size of the catalog index in bytes; 0 while searches read tables";
        registry.register("catalog_index_bytes", help, index.bytes.clone());
    });
    process.spawn(Phase::Work, "catalog index", |stopping| async move {
        loop {
            let result = tokio::select! {
                result = index.load(&db) => result,
                () = stopping.cancelled() => return Ok(()),
            };
            let next = async {
                match result {
                    Ok(()) if index.snapshot().is_some() => index.needs_load.notified().await,
                    Ok(()) => drop(timeout(OVERSIZE_PAUSE, index.needs_load.notified()).await),
                    Err(error) => tracing::warn!(%error, "failed to load the catalog index"),
                }
                tokio::time::sleep(LOAD_PAUSE).await;
            };
            tokio::select! {
                () = next => {}
                () = stopping.cancelled() => return Ok(()),
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::{BATCH_HOMES, BATCH_SIZE, batches};
    use crate::db::catalog_index::ProjectSize;

    proptest! {
        /// RULE-CHS-080: batches contain each project once and in order. Each has as many projects
        /// as its bounds allow.
        #[test]
        fn batches_are_bounded_by_projects_and_homes(
            homes in prop::collection::vec(prop_oneof![Just(0), 0..BATCH_HOMES / 10, 0..BATCH_HOMES * 2], 0..100),
        ) {
            let size = |(id, homes): (u128, i64)| ProjectSize { id: Uuid::from_u128(id).into(), homes };
            let sizes: Vec<_> = (0..).zip(homes).map(size).collect();
            let mut rest = &sizes[..];
            for batch in batches(&sizes) {
                let (of_batch, later) = rest.split_at(batch.len());
                prop_assert_eq!(of_batch.iter().map(|size| size.id).collect::<Vec<_>>(), batch);
                let homes: i64 = of_batch.iter().map(|size| size.homes).sum();
                prop_assert!(of_batch.len() == 1 || (of_batch.len() <= BATCH_SIZE && homes <= BATCH_HOMES));
                let has_room = |next: &ProjectSize| of_batch.len() < BATCH_SIZE && homes + next.homes <= BATCH_HOMES;
                prop_assert!(!later.first().is_some_and(has_room));
                rest = later;
            }
            prop_assert!(rest.is_empty());
        }
    }
}
