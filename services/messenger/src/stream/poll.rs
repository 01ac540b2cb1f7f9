//! Looks for what was committed, by whatever replica.

use std::time::Duration;

use ::db::Work;
use actix_web::web::Data;
use auth::UserId;
use tokio_util::sync::CancellationToken;

use super::page;
use crate::app::App;

/// Between two looks, however much this replica commits.
const PAUSE: Duration = Duration::from_millis(20);
/// People who are asked for at once, and events of each: so that what is read has bounds.
const PEOPLE: usize = 256;
const EVENTS: i64 = 16;

/// Looks again and again, and at once after commits of this replica, until the process ends; then all streams end.
///
/// # Errors
/// None today; the signature is that of a part of a service.
pub async fn watch(app: Data<App>, ending: CancellationToken) -> anyhow::Result<()> {
    let mut committed = app.db.committed(Work::Stream);
    let looking = async {
        loop {
            tokio::select! {
                () = committed.wait() => {}
                () = tokio::time::sleep(app.settings.stream.poll) => {}
            }
            while look(&app).await {
                tokio::time::sleep(PAUSE).await;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::select! {
        () = looking => {}
        () = ending.cancelled() => {}
    }
    app.streams.close();
    Ok(())
}

/// Tells what has come. `true`: there is more of it.
async fn look(app: &App) -> bool {
    let mut has_more = false;
    for some in app.streams.listeners().chunks(PEOPLE) {
        match tell(app, some).await {
            Ok(is_full) => has_more |= is_full,
            Err(error) => {
                tracing::warn!(%error, "streams cannot be told anything");
                return false;
            }
        }
    }
    has_more
}

async fn tell(app: &App, listeners: &[(UserId, i64)]) -> Result<bool, ::db::Error> {
    let (people, told): (Vec<_>, Vec<_>) = listeners.iter().copied().unzip();
    let conn = app.db.conn().await?;
    let mut is_full = false;
    for news in page(&conn, &people, &told, EVENTS).await? {
        app.streams.tell(&news);
        is_full |= news.found == EVENTS;
    }
    Ok(is_full)
}
