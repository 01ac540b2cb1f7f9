//! `booking-expiry`: ends the bookings that are overdue, each in its own transaction, batch after batch until none is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::jobs::{Jobs, schedule};
use futures_util::{StreamExt, TryStreamExt, stream};
use runtime::clock;

use crate::app::App;
use crate::domain::DealId;
use crate::error::Error;
use crate::{db, ops};

const KIND: &str = "booking-expiry";
const BATCH: i64 = 500;
/// Bookings that are ended side by side.
const AT_ONCE: usize = 8;
/// After so long a run makes room for the end of the process; the next one begins at once.
const LONGEST: Duration = Duration::from_secs(2);
/// After so long bookings are looked at again whose deals somebody was changing.
const PAUSE: Duration = Duration::from_millis(50);

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    jobs.periodic(KIND, app.settings.booking_expiry_interval, move |_| {
        let app = app.clone();
        async move {
            let began = Instant::now();
            // Whatever stays is passed over, so that it holds up none that is overdue behind it.
            let (mut busy, mut failed): (Vec<DealId>, Vec<DealId>) = (Vec::new(), Vec::new());
            loop {
                let passed_over = [busy.as_slice(), failed.as_slice()].concat();
                let overdue =
                    db::situation::overdue(&mut *app.db.conn().await?, clock::now(), &passed_over, BATCH)
                        .await?;
                match (overdue.is_empty(), busy.is_empty()) {
                    (true, true) => return Ok(()),
                    (true, false) => {
                        tokio::time::sleep(PAUSE).await;
                        busy.clear();
                    }
                    (false, _) => {}
                }
                let ended = stream::iter(overdue).map(|deal| end(&app, deal)).buffer_unordered(AT_ONCE);
                let ended: Vec<(DealId, Ended)> = ended.try_collect().await?;
                let these = |ended_so| {
                    let these = ended.iter().filter(move |(_, ended)| *ended == ended_so);
                    these.map(|(deal, _)| *deal)
                };
                busy.extend(these(Ended::Busy));
                failed.extend(these(Ended::Failed));
                if began.elapsed() >= LONGEST {
                    let now = clock::now();
                    app.db.tx(async |tx| schedule(tx, KIND, [""], now).await).await?;
                    return Ok(());
                }
            }
        }
    })
}

/// What became of an overdue booking.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// It has ended, or is overdue no more.
    Settled,
    /// Somebody was changing the deal.
    Busy,
    /// The next run tries again.
    Failed,
}

/// Ends the booking of a deal, unless somebody changes either meanwhile.
///
/// # Errors
/// When the database is away.
async fn end(app: &App, deal: DealId) -> Result<(DealId, Ended), Error> {
    let now = clock::now();
    let ended = match app.db.tx(async |tx| ops::deal::expire_booking(tx, deal, now).await).await {
        Ok(true) => Ended::Settled,
        Ok(false) => Ended::Busy,
        Err(Error::Refused(problem)) if problem.code().is_conflict => Ended::Busy,
        Err(Error::Database(error @ ::db::Error::Query(_))) => {
            let error = format!("{:#}", anyhow::Error::from(error));
            tracing::error!(%deal, error, "a booking cannot be ended");
            Ended::Failed
        }
        Err(error) => return Err(error),
    };
    Ok((deal, ended))
}
