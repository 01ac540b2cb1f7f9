//! Letting snapshots go: each step a short transaction under the lock of the post's row, the call to
//! selections between two of them. So a detachment and an edit never cross.

use ::db::Db;
use time::{Duration, OffsetDateTime};

use crate::clients::Selections;
use crate::db;
use crate::db::snapshot::Claim;
use crate::domain::{Post, SnapshotId, embed_snapshot_ids};
use crate::error::{Error, SELECTION_SOURCE_DELETED, SELECTION_SOURCE_EMPTY};

/// Before a claim that could not be settled is looked at again.
const CLAIM_PAUSE: Duration = Duration::seconds(5);

/// Detaches a snapshot that no longer is in its post.
///
/// # Errors
/// `SelectionsUnavailable`, after which it is tried again; those of the database.
pub async fn detach_snapshot(
    db: &Db,
    selections: &Selections,
    now: OffsetDateTime,
    id: SnapshotId,
) -> Result<(), Error> {
    let reason = db
        .tx(async |tx| {
            let Some(post) = db::snapshot::post_of(tx, id).await? else { return Ok(None) };
            let post = db::post::lock_embeds(tx, post).await?;
            if embeds(post.as_ref(), id) {
                db::snapshot::forget(tx, id).await?;
                return Ok(None);
            }
            db::snapshot::start(tx, id).await
        })
        .await?;
    if let Some(reason) = reason {
        selections.detach_snapshot(id, &reason).await?;
        db.tx(async |tx| db::snapshot::done(tx, id, now).await).await?;
    }
    Ok(())
}

/// Finds out what became of a snapshot that an edit was taking when it failed, and has it detached if
/// it is in no post.
///
/// # Errors
/// `SelectionsUnavailable`, after which it is tried again; those of the database.
pub async fn settle_claim(
    db: &Db,
    selections: &Selections,
    now: OffsetDateTime,
    claim: &Claim,
) -> Result<(), Error> {
    // Whether it was taken or not, taking it tells its id; and if it no longer can be, there is none.
    let taken = selections
        .take_snapshot(claim.source_selection_id, claim.post_id, claim.actor_user_id, claim.author_user_id)
        .await;
    let snapshot = match taken {
        Ok(taken) => Some(taken.snapshot_id),
        Err(error) if error.is(SELECTION_SOURCE_DELETED) || error.is(SELECTION_SOURCE_EMPTY) => None,
        Err(error) => {
            db.tx(async |tx| db::snapshot::postpone_claim(tx, claim, now + CLAIM_PAUSE).await).await?;
            return Err(error);
        }
    };
    db.tx(async |tx| {
        let post = db::post::lock_embeds(tx, claim.post_id).await?;
        let orphan = snapshot.filter(|id| !embeds(post.as_ref(), *id));
        db::snapshot::let_go(tx, claim.post_id, orphan, "BlockReplaced", now).await?;
        db::snapshot::settle_claim(tx, claim).await
    })
    .await?;
    Ok(())
}

fn embeds(post: Option<&Post>, id: SnapshotId) -> bool {
    post.is_some_and(|post| embed_snapshot_ids(&post.blocks).contains(&id))
}
