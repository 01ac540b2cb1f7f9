//! Limits of the exports that a process runs at once.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use web::Problem;

use crate::ExportFormat;

/// The maximum number of spreadsheets in progress, which limits the space on the disk.
pub(crate) const MAX_SPREADSHEETS: usize = 2;

/// The maximum number of CSV files in progress, which limits the reads of the database.
pub(crate) const MAX_CSV_FILES: usize = 8;

static SPREADSHEETS: Semaphore = Semaphore::const_new(MAX_SPREADSHEETS);
static CSV_FILES: Semaphore = Semaphore::const_new(MAX_CSV_FILES);

/// The maximum wait for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Waits for a permit to export a file.
///
/// # Errors
/// `503 SERVICE_UNAVAILABLE` if no permit becomes free in time.
pub(crate) async fn permit(format: ExportFormat) -> Result<SemaphorePermit<'static>, Problem> {
    let permits = match format {
        ExportFormat::Csv => &CSV_FILES,
        ExportFormat::Xlsx => &SPREADSHEETS,
    };
    let permit = timeout(PERMIT_TIMEOUT, permits.acquire()).await;
    permit
        .map_err(|_| Problem::unavailable(&"too many exports"))?
        .map_err(|error| Problem::unavailable(&error))
}

/// A body that holds its permit until it is sent or the client disconnects.
pub(crate) struct Limited<S> {
    pub body: S,
    pub _permit: SemaphorePermit<'static>,
}

impl<S: Stream + Unpin> Stream for Limited<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.body.poll_next_unpin(context)
    }
}
