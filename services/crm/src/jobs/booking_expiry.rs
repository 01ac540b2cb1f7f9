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

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    jobs.periodic(KIND, app.settings.booking_expiry_interval, move |_| {
        let app = app.clone();
        async move {
            let began = Instant::now();
            loop {
                let overdue = db::situation::overdue(&mut *app.db.conn().await?, clock::now(), BATCH).await?;
                if overdue.is_empty() {
                    return Ok(());
                }
                let ended = stream::iter(overdue).map(|deal| end(&app, deal)).buffer_unordered(AT_ONCE);
                ended.try_collect::<()>().await?;
                if began.elapsed() >= LONGEST {
                    let now = clock::now();
                    app.db.tx(async |tx| schedule(tx, KIND, [""], now).await).await?;
                    return Ok(());
                }
            }
        }
    })
}

/// Ends the booking of a deal, unless somebody has changed either meanwhile: then it is looked at again.
async fn end(app: &App, deal: DealId) -> Result<(), Error> {
    let now = clock::now();
    let ended = app.db.tx(async |tx| ops::deal::expire_booking(tx, deal, now).await).await;
    match ended {
        Err(Error::Refused(problem)) if problem.code().is_conflict => Ok(()),
        ended => ended,
    }
}
