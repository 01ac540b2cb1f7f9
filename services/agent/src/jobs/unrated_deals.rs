//! `unrated-deals`: accrues what was sold without a rate, once a card has one.

use std::sync::Arc;

use ::jobs::Jobs;
use runtime::clock;

use crate::app::App;
use crate::ops;
use crate::ops::deal::UNRATED_DEALS;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    jobs.periodic(UNRATED_DEALS, app.settings.unrated_poll, move |_| {
        let app = app.clone();
        async move {
            let (mut behind, mut is_done) = (None, false);
            while !is_done {
                let now = clock::now();
                behind =
                    app.db.tx(async |tx| ops::deal::accrue_unrated(tx, behind.as_ref(), now).await).await?;
                is_done = behind.is_none();
            }
            Ok(())
        }
    })
}
