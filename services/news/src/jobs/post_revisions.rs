//! `post-revisions` deletes old revisions, and those that exceed the limit of their author.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use ::db::Db;
use ::jobs::Jobs;

use crate::app::App;
use crate::db;
use crate::domain::AuthorId;
use crate::error::Error;

const INTERVAL: Duration = Duration::from_secs(30);
/// Retention of a revision after its replacement.
const RETENTION: time::Duration = time::Duration::days(90);

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    jobs.periodic("post-revisions", INTERVAL, move |job| {
        let app = app.clone();
        async move {
            let before = runtime::clock::now() - RETENTION;
            loop {
                job.check_stopping()?;
                let purged = app.db.tx(async |tx| db::revision::purge(tx, before).await).await;
                if purged.map_err(Error::from)? == 0 {
                    break;
                }
            }
            let Some(limit) = app.quotas.content_mib else { return Ok(()) };
            let authors = db::revision::list_authors_above(&app.db, limit).await.map_err(Error::from)?;
            for author in authors {
                job.check_stopping()?;
                // A failure of one author delays no other one.
                if let Err(error) = trim(&app.db, author, limit).await {
                    tracing::warn!(%author, %error, "failed to delete the surplus revisions of an author");
                }
            }
            Ok(())
        }
    })
}

/// Deletes the oldest revisions of an author in batches until posts and revisions fit.
async fn trim(db: &Db, author: AuthorId, limit_mib: NonZeroU32) -> Result<(), Error> {
    while db.tx(async |tx| db::revision::trim(tx, author, limit_mib).await).await? > 0 {}
    Ok(())
}
