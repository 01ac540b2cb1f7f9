//! Limits of the exports that a process runs at once.

use std::io;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use actix_web::rt;
use actix_web::web::Bytes;
use futures_util::{Stream, StreamExt, stream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, mpsc};
use tokio::time::{Instant, timeout, timeout_at};
use uuid::Uuid;
use web::{Problem, Shares};

/// The maximum number of exports in progress, which limits their memory and their files.
pub(crate) const MAX_EXPORTS: usize = 16;

/// The maximum number of exports of one user in progress.
pub(crate) const MAX_EXPORTS_OF_USER: usize = 1;

/// The maximum number of exports of one company in progress.
pub(crate) const MAX_EXPORTS_OF_COMPANY: usize = 2;

/// The maximum number of spreadsheets that are written at once, which limits the space on the disk.
const MAX_WRITTEN_SPREADSHEETS: usize = 2;

/// The maximum number of batches of CSV files that are read at once, which limits the connections
/// to the database.
const MAX_CSV_READS: usize = 8;

/// The maximum wait for the permits that precede a response.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(5);

/// The delay after which a caller above its share tries again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The maximum time in which a client reads a chunk. A slower client would keep its company's share
/// of the exports.
const CHUNK_DEADLINE: Duration = Duration::from_secs(30);

static EXPORTS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(MAX_EXPORTS)));
static SPREADSHEET_WRITES: Semaphore = Semaphore::const_new(MAX_WRITTEN_SPREADSHEETS);
static CSV_READS: Semaphore = Semaphore::const_new(MAX_CSV_READS);
static USERS: LazyLock<Shares<Uuid>> = LazyLock::new(|| Shares::new(MAX_EXPORTS_OF_USER));
static COMPANIES: LazyLock<Shares<Uuid>> = LazyLock::new(|| Shares::new(MAX_EXPORTS_OF_COMPANY));

/// The caller of an export, who has a share of the exports in progress.
#[derive(Clone, Copy, Debug)]
pub struct Requester {
    pub user: Uuid,
    pub company: Option<Uuid>,
}

/// The permission to run an export until its file is sent.
pub(crate) struct ExportPermit {
    _permits: Vec<OwnedSemaphorePermit>,
    /// The end of the waits that precede the response.
    deadline: Instant,
}

impl ExportPermit {
    /// Waits until another export of the caller may run.
    ///
    /// # Errors
    /// `429 RATE_LIMITED` if the user or the company keeps its share of exports in progress.
    /// `503 SERVICE_UNAVAILABLE` if the process keeps its maximum of exports in progress.
    pub(crate) async fn acquire(requester: Requester) -> Result<Self, Problem> {
        let deadline = Instant::now() + PERMIT_TIMEOUT;
        let company = requester.company.map(|company| COMPANIES.of(company));
        let mut permits = Vec::new();
        for share in [Some(USERS.of(requester.user)), company].into_iter().flatten() {
            let permit = timeout_at(deadline, share.acquire_owned()).await;
            let permit = permit.map_err(|_| Problem::rate_limited(RETRY_AFTER))?;
            permits.push(permit.map_err(|closed| Problem::unavailable(&closed))?);
        }
        // A caller that waits for its own share occupies no permit of the process, because the
        // shares precede it.
        let permit = timeout_at(deadline, Arc::clone(&EXPORTS).acquire_owned()).await;
        let permit = permit.map_err(|_| too_many_exports())?;
        permits.push(permit.map_err(|closed| Problem::unavailable(&closed))?);
        Ok(Self { _permits: permits, deadline })
    }

    /// Waits until the export may write a spreadsheet.
    ///
    /// # Errors
    /// `503 SERVICE_UNAVAILABLE` if other spreadsheets take too long.
    pub(crate) async fn start_writing(&self) -> Result<SemaphorePermit<'static>, Problem> {
        self.wait_for(&SPREADSHEET_WRITES).await
    }

    /// Waits until the export may read the first batch of a CSV file.
    ///
    /// # Errors
    /// `503 SERVICE_UNAVAILABLE` if other batches take too long.
    pub(crate) async fn start_reading(&self) -> Result<SemaphorePermit<'static>, Problem> {
        self.wait_for(&CSV_READS).await
    }

    async fn wait_for(&self, permits: &'static Semaphore) -> Result<SemaphorePermit<'static>, Problem> {
        let permit = timeout_at(self.deadline, permits.acquire()).await;
        permit.map_err(|_| too_many_exports())?.map_err(|closed| Problem::unavailable(&closed))
    }

    /// Returns a body of these chunks, which a task sends. The task keeps the permit until the last
    /// chunk is sent, the client disconnects, or the client takes longer than [`CHUNK_DEADLINE`]
    /// for a chunk.
    ///
    /// The server does not poll a body that the client does not read, so only a task can end the
    /// export of a client that is too slow.
    pub(crate) fn send(
        self,
        chunks: impl Stream<Item = io::Result<Bytes>> + 'static,
    ) -> impl Stream<Item = io::Result<Bytes>> {
        let (sender, receiver) = mpsc::channel(1);
        rt::spawn(async move {
            let _permit = self;
            send_chunks(chunks, &sender, CHUNK_DEADLINE).await;
        });
        stream::try_unfold(receiver, |mut receiver| async move {
            match receiver.recv().await {
                Some(Sent::Chunk(chunk)) => Ok(Some((chunk?, receiver))),
                Some(Sent::End) => Ok(None),
                None => Err(io::Error::other("the client read the export too slowly")),
            }
        })
    }
}

/// Waits for the next batch of a CSV file while other exports read theirs.
pub(crate) async fn next_batch<S: Stream + Unpin>(batches: &mut S) -> Option<S::Item> {
    // The semaphore is never closed.
    let _permit = CSV_READS.acquire().await;
    batches.next().await
}

/// A message of the task that sends a file.
enum Sent {
    Chunk(io::Result<Bytes>),
    /// The file is whole. A body without this message is not.
    End,
}

async fn send_chunks(
    chunks: impl Stream<Item = io::Result<Bytes>>,
    sender: &mpsc::Sender<Sent>,
    deadline: Duration,
) {
    let mut messages = Box::pin(chunks.map(Sent::Chunk).chain(stream::iter([Sent::End])));
    while let Some(message) = messages.next().await {
        let is_failed = matches!(message, Sent::Chunk(Err(_)));
        match timeout(deadline, sender.send(message)).await {
            Ok(Ok(())) if !is_failed => {}
            // The chunk failed, or the client is gone.
            Ok(_) => return,
            Err(_) => return tracing::info!("ended an export because its client read too slowly"),
        }
    }
}

fn too_many_exports() -> Problem {
    Problem::unavailable(&"too many exports")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use actix_web::web::Bytes;
    use futures_util::stream;
    use tokio::sync::mpsc;

    use super::{Sent, send_chunks};

    /// RULE-CRM-084: a client that reads too slowly ends its export, and its body is not whole.
    #[tokio::test]
    async fn slow_client_ends_export() {
        let (sender, mut receiver) = mpsc::channel(1);
        let chunks = stream::iter([Ok(Bytes::from_static(b"1")), Ok(Bytes::from_static(b"2"))]);
        send_chunks(chunks, &sender, Duration::from_millis(10)).await;
        drop(sender);
        assert!(matches!(receiver.recv().await, Some(Sent::Chunk(Ok(_)))));
        assert!(receiver.recv().await.is_none(), "no end");
    }
}
