//! `board-totals`: adds up what the deals of each step come to, so that a board has little left to add.

use std::sync::Arc;

use ::jobs::Jobs;

use crate::app::App;
use crate::db;

const KIND: &str = "board-totals";
const BATCH: i64 = 10_000;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    jobs.periodic(KIND, app.settings.board_totals_interval, move |_| {
        let app = app.clone();
        async move {
            while app.db.tx(async |tx| db::board::add_up(tx, BATCH).await).await? == BATCH {}
            Ok(())
        }
    })
}
