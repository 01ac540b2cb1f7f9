//! The job `booking-expiry`: ends overdue bookings, each in its own transaction, until none is
//! left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::jobs::{Jobs, schedule};
use futures_util::{StreamExt, TryStreamExt, stream};
use runtime::clock;
use time::OffsetDateTime;

use crate::app::App;
use crate::domain::DealId;
use crate::error::Error;
use crate::{db, ops};

const KIND: &str = "booking-expiry";
const BATCH_SIZE: i64 = 500;
/// The number of bookings that end concurrently.
const CONCURRENCY: usize = 8;
/// The run time after which a run schedules the next run and ends. The next run retries failed
/// bookings, so these do not wait until all others have ended.
const MAX_RUN_TIME: Duration = Duration::from_secs(2);
/// The delay before the job retries deals that other transactions were changing.
const BUSY_RETRY_DELAY: Duration = Duration::from_millis(50);

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    jobs.periodic(KIND, app.settings.booking_expiry_interval, move |job| {
        let app = app.clone();
        async move {
            let began = Instant::now();
            // The next batch excludes these deals, so they do not delay other overdue bookings.
            let (mut busy, mut failed): (Vec<DealId>, Vec<DealId>) = (Vec::new(), Vec::new());
            loop {
                job.check_stopping()?;
                let excluded = [busy.as_slice(), failed.as_slice()].concat();
                let overdue =
                    db::deal_state::find_overdue(&mut *app.db.conn().await?, &excluded, BATCH_SIZE).await?;
                match (overdue.is_empty(), busy.is_empty()) {
                    (true, true) => return Ok(()),
                    (true, false) => {
                        tokio::time::sleep(BUSY_RETRY_DELAY).await;
                        busy.clear();
                    }
                    (false, _) => {}
                }
                let results = stream::iter(overdue)
                    .map(|(deal, now)| expire(&app, deal, now))
                    .buffer_unordered(CONCURRENCY);
                let results: Vec<(DealId, ExpiryResult)> = results.try_collect().await?;
                let with_result = |expected| {
                    let matching = results.iter().filter(move |(_, result)| *result == expected);
                    matching.map(|(deal, _)| *deal)
                };
                busy.extend(with_result(ExpiryResult::Busy));
                failed.extend(with_result(ExpiryResult::Failed));
                if began.elapsed() >= MAX_RUN_TIME {
                    let now = clock::now();
                    app.db.tx(async |tx| schedule(tx, KIND, [""], now).await).await?;
                    return Ok(());
                }
            }
        }
    })
}

/// The result for one overdue booking.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExpiryResult {
    /// The booking has ended or is no longer overdue.
    Settled,
    /// Another transaction was changing the deal.
    Busy,
    /// A statement failed. The next run retries the booking.
    Failed,
}

/// Ends the booking of a deal. `now` is the time of the database, since a replica with a fast clock
/// would end bookings too early.
///
/// # Errors
/// Any error except a conflict and a failed statement, for example an unreachable database.
async fn expire(app: &App, deal: DealId, now: OffsetDateTime) -> Result<(DealId, ExpiryResult), Error> {
    let result = match app.db.tx(async |tx| ops::deal::expire_booking(tx, deal, now).await).await {
        Ok(true) => ExpiryResult::Settled,
        Ok(false) => ExpiryResult::Busy,
        Err(Error::Refused(problem)) if problem.code().is_conflict => ExpiryResult::Busy,
        Err(Error::Database(error @ ::db::Error::Query(_))) => {
            let error = format!("{:#}", anyhow::Error::from(error));
            tracing::error!(%deal, error, "failed to end a booking");
            ExpiryResult::Failed
        }
        Err(error) => return Err(error),
    };
    Ok((deal, result))
}
