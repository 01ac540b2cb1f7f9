//! The jobs of imports of feeds: `feed-validation`, `feed-application` and `feed-cleanup`.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::time::Duration;

use ::db::Tx;
use ::jobs::{Job, Jobs};
use anyhow::Context;
use runtime::clock;
use tokio::sync::mpsc;
use tokio::try_join;
use values::Currency;

use super::feed_file::{FileResult, parse_file, send_chunks};
use crate::app::App;
use crate::db;
use crate::db::feed_offer::{NewOffer, NewProblem};
use crate::domain::feed::{FeedItem, KnownBuildings, OfferProblem};
use crate::domain::{
    BuildingId, Edit, FeedBuildingState, FeedImport, FeedImportId, FeedImportState, MAX_GRID_OBJECTS,
};
use crate::error::Error;
use crate::ops::feed_import::{APPLICATION, CLEANUP, VALIDATION, apply_building, preview_building};

/// The interval of the job that deletes expired imports.
const CLEANUP_INTERVAL: Duration = Duration::from_hours(1);
/// Number of offers that one statement rejects. One statement for all 100,000 offers of a file
/// takes seconds, and the transaction holds the lock of the import.
const REJECTION_BATCH: i64 = 2_000;
/// Number of rows that one statement deletes, or of imports that it hides.
const DELETED_ROWS: i64 = 1_000;
/// Number of parts of files that one statement deletes, of up to 256 KiB each.
const DELETED_CHUNKS: i64 = 64;
/// Number of batches and of chunks that wait between the reader and the database.
const QUEUE_SIZE: usize = 2;

pub fn add(app: Arc<App>, jobs: Jobs) -> Jobs {
    let (validated, applied, cleaned) = (app.clone(), app.clone(), app);
    jobs.due(VALIDATION, move |job| {
        let app = validated.clone();
        async move { validate(&app, &job).await }
    })
    .due(APPLICATION, move |job| {
        let app = applied.clone();
        async move { apply(&app, &job).await }
    })
    .periodic(CLEANUP, CLEANUP_INTERVAL, move |job| {
        let app = cleaned.clone();
        async move { clean_up(&app, &job).await }
    })
}

/// The numbers of offers of an import.
#[derive(Clone, Copy, Default)]
struct Counts {
    offers: usize,
    rejected: usize,
}

/// The error of a validation run whose import is deleted, or which a later run has replaced.
#[derive(Debug)]
struct RunEnded;

impl Display for RunEnded {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str("the import is deleted, or another run validates it")
    }
}

impl std::error::Error for RunEnded {}

/// Validates the file of an import, and deletes the file.
///
/// An interrupted job begins again.
async fn validate(app: &App, job: &Job) -> anyhow::Result<()> {
    let id: FeedImportId = job.key.parse()?;
    if let Some(import) = app.db.tx(async |tx| begin_validation(tx, id).await).await? {
        match run_validation(app, job, &import).await {
            // Another run may still read the file. The job `feed-cleanup` deletes the file of a
            // deleted import.
            Err(error) if error.is::<RunEnded>() => return Ok(()),
            result => result?,
        }
    }
    delete_chunks(app, job, id).await
}

/// Marks an import as Validating and returns it, or `None` if it needs no validation.
///
/// Each run raises the version, so that a run that has lost its lease ends at its next write.
async fn begin_validation(tx: &mut Tx, id: FeedImportId) -> Result<Option<FeedImport>, Error> {
    let Some(mut import) = db::feed_import::lock(tx, id).await? else { return Ok(None) };
    if !matches!(import.state, FeedImportState::Uploaded | FeedImportState::Validating) {
        return Ok(None);
    }
    import.enter(FeedImportState::Validating, clock::now());
    db::feed_import::save(tx, &mut import).await?;
    Ok(Some(import))
}

/// Locks the import of a run.
///
/// # Errors
/// [`RunEnded`] if the import is deleted, or if another run has begun.
async fn lock_run(tx: &mut Tx, run: &FeedImport) -> anyhow::Result<FeedImport> {
    let import = db::feed_import::lock(tx, run.id).await?;
    Ok(import.filter(|import| import.version == run.version).ok_or(RunEnded)?)
}

/// Reads the file of an import and compares its offers with the objects.
async fn run_validation(app: &App, job: &Job, import: &FeedImport) -> anyhow::Result<()> {
    let delete = async |tx: &mut Tx| {
        lock_run(tx, import).await?;
        anyhow::Ok(db::feed_import::delete_results(tx, import.id, DELETED_ROWS).await?)
    };
    while app.db.tx(delete).await? > 0 {
        job.check_stopping()?;
    }
    let (result, counts) = read_file(app, job, import).await?;
    let rejected = match &result {
        FileResult::Read { .. } => preview(app, job, import).await?,
        FileResult::Rejected(_) => 0,
    };
    let counts = Counts { rejected: counts.rejected + rejected, ..counts };
    app.db.tx(async |tx| finish_validation(tx, import, result, counts).await).await
}

async fn finish_validation(
    tx: &mut Tx,
    run: &FeedImport,
    result: FileResult,
    counts: Counts,
) -> anyhow::Result<()> {
    let mut import = lock_run(tx, run).await?;
    import.offers_count = i32::try_from(counts.offers).unwrap_or(i32::MAX);
    import.rejected_count = i32::try_from(counts.rejected).unwrap_or(i32::MAX);
    match result {
        FileResult::Read { ignored } => {
            import.enter(FeedImportState::Validated, clock::now());
            db::feed_import::save_ignored(tx, import.id, ignored).await?;
        }
        FileResult::Rejected(refusal) => {
            import.enter(FeedImportState::Failed, clock::now());
            import.refusal_code = Some(refusal.code.to_owned());
            import.refusal_line = i64::try_from(refusal.line).ok();
        }
    }
    Ok(db::feed_import::save(tx, &mut import).await?)
}

/// Reads the file and stores its offers and their problems.
///
/// A thread for blocking work parses the file. Queues of [`QUEUE_SIZE`] chunks and batches bound
/// the memory.
async fn read_file(app: &App, job: &Job, import: &FeedImport) -> anyhow::Result<(FileResult, Counts)> {
    let mut conn = app.db.conn().await?;
    let known = KnownBuildings::new(db::feed_offer::list_buildings(&mut conn, import.tenant_id).await?);
    drop(conn);
    let (chunks, received) = mpsc::channel(QUEUE_SIZE);
    let (batches, mut parsed) = mpsc::channel(QUEUE_SIZE);
    let parse = async {
        let parsed = tokio::task::spawn_blocking(move || parse_file(received, &batches)).await;
        parsed.context("the parser panicked")?
    };
    let store = async {
        let mut counts = Counts::default();
        while let Some(items) = parsed.recv().await {
            job.check_stopping()?;
            let first = counts.offers;
            counts.offers += items.len();
            counts.rejected += store_batch(app, import, &known, first, items).await?;
        }
        anyhow::Ok(counts)
    };
    let (result, counts, ()) = try_join!(parse, store, send_chunks(app, import, chunks))?;
    Ok((result, counts))
}

/// Stores offers and problems. Returns the number of rejected offers.
async fn store_batch(
    app: &App,
    import: &FeedImport,
    known: &KnownBuildings,
    first: usize,
    items: Vec<FeedItem>,
) -> anyhow::Result<usize> {
    let (offers, problems, rejected) = batch_rows(import, known, first, items);
    let store = async |tx: &mut Tx| {
        lock_run(tx, import).await?;
        db::feed_offer::insert_offers(tx, offers).await?;
        anyhow::Ok(db::feed_offer::insert_problems(tx, problems).await?)
    };
    app.db.tx(store).await?;
    Ok(rejected)
}

/// Returns the rows of offers and of problems, and the number of rejected offers. `first` is the
/// position of the first item in the file.
fn batch_rows(
    import: &FeedImport,
    known: &KnownBuildings,
    first: usize,
    items: Vec<FeedItem>,
) -> (Vec<NewOffer>, Vec<NewProblem>, usize) {
    let (mut offers, mut problems, mut rejected) = (Vec::new(), Vec::new(), 0);
    for (position, item) in (first..).zip(items) {
        let building = import.building_id.map_or_else(|| known.find(&item.building), Ok);
        let building_id = building.ok();
        let mut add_problem = |problem: OfferProblem| {
            problems.push(NewProblem {
                import_id: import.id,
                building_id,
                offer_position: position,
                line: problem.line,
                internal_id: item.internal_id.clone(),
                element: problem.element,
                code: problem.code,
                value: problem.value,
            });
        };
        let building_problem = building.err().map(|error| OfferProblem {
            line: item.line,
            element: "building-name",
            code: error.code(),
            value: None,
        });
        match (item.offer, building_id, item.internal_id.clone()) {
            (Ok(offer), Some(building_id), Some(external_id)) => {
                let line = item.line;
                offers.push(NewOffer {
                    import_id: import.id,
                    building_id,
                    position,
                    line,
                    external_id,
                    offer,
                });
            }
            (offer, ..) => {
                rejected += 1;
                offer.err().into_iter().flatten().chain(building_problem).for_each(&mut add_problem);
            }
        }
    }
    (offers, problems, rejected)
}

/// Stores the preview of each building. Returns the number of offers that do not fit their
/// building.
async fn preview(app: &App, job: &Job, import: &FeedImport) -> anyhow::Result<usize> {
    let (mut rejected, mut last) = (0, None);
    loop {
        job.check_stopping()?;
        let mut conn = app.db.conn().await?;
        let next = db::feed_offer::find_next_building(&mut conn, import.id, last).await?;
        drop(conn);
        let Some(building) = next else { return Ok(rejected) };
        last = Some(building);
        rejected += reject_beyond(app, job, import, building).await?;
        // A preview stores no object, so the author has no effect.
        let edit = Edit { at: clock::now(), by: None };
        rejected += app
            .db
            .tx(async |tx| {
                lock_run(tx, import).await?;
                anyhow::Ok(preview_building(tx, import, building, app.settings.currency, edit).await?)
            })
            .await?;
    }
}

/// Rejects the offers of a building beyond the maximum number of its objects, in batches. Returns
/// their number.
async fn reject_beyond(
    app: &App,
    job: &Job,
    import: &FeedImport,
    building: BuildingId,
) -> anyhow::Result<usize> {
    let find =
        async |tx: &mut Tx| db::feed_offer::find_last_within(tx, import.id, building, MAX_GRID_OBJECTS).await;
    let mut rejected = 0;
    let Some(mut last) = app.db.tx(find).await? else { return Ok(rejected) };
    loop {
        job.check_stopping()?;
        let reject = async |tx: &mut Tx| {
            lock_run(tx, import).await?;
            anyhow::Ok(
                db::feed_offer::reject_offers_beyond(tx, import.id, building, last, REJECTION_BATCH).await?,
            )
        };
        let (batch, next) = app.db.tx(reject).await?;
        if batch == 0 {
            return Ok(rejected);
        }
        (rejected, last) = (rejected + batch, next);
    }
}

/// Applies the buildings of an import one by one.
///
/// An interrupted job continues with the next building.
async fn apply(app: &App, job: &Job) -> anyhow::Result<()> {
    let id: FeedImportId = job.key.parse()?;
    loop {
        job.check_stopping()?;
        if !app.db.tx(async |tx| apply_next(tx, id, app.settings.currency).await).await? {
            return Ok(());
        }
    }
}

/// Applies the next building. Returns false after the last one.
async fn apply_next(tx: &mut Tx, id: FeedImportId, currency: Currency) -> Result<bool, Error> {
    let import = db::feed_import::lock(tx, id).await?;
    let Some(mut import) = import.filter(|import| import.state == FeedImportState::Applying) else {
        return Ok(false);
    };
    let ready: &[_] = if import.skip_rejected {
        &[FeedBuildingState::Ready, FeedBuildingState::Blocked]
    } else {
        &[FeedBuildingState::Ready]
    };
    let now = clock::now();
    let Some(building) = db::feed_change::find_in_state(tx, id, ready).await? else {
        import.enter(FeedImportState::Applied, now);
        db::feed_import::save(tx, &mut import).await?;
        return Ok(false);
    };
    let edit = Edit { at: now, by: import.applied_by_user_id };
    apply_building(tx, &import, &building, currency, edit).await?;
    Ok(true)
}

/// Hides expired imports, and deletes the rows of hidden ones.
async fn clean_up(app: &App, job: &Job) -> anyhow::Result<()> {
    let now = clock::now();
    let before = now - time::Duration::days(app.settings.feed_retention_days.get().into());
    app.db.tx(async |tx| db::feed_import::delete_before(tx, before, now, DELETED_ROWS).await).await?;
    while let Some(id) = app.db.tx(async |tx| db::feed_import::find_deleted(tx).await).await? {
        delete_chunks(app, job, id).await?;
        while app.db.tx(async |tx| db::feed_import::delete_results(tx, id, DELETED_ROWS).await).await? > 0 {
            job.check_stopping()?;
        }
        app.db.tx(async |tx| db::feed_import::remove(tx, id).await).await?;
    }
    Ok(())
}

async fn delete_chunks(app: &App, job: &Job, id: FeedImportId) -> anyhow::Result<()> {
    let delete = async |tx: &mut Tx| db::feed_import::delete_chunks(tx, id, None, DELETED_CHUNKS).await;
    while app.db.tx(delete).await? > 0 {
        job.check_stopping()?;
    }
    Ok(())
}
