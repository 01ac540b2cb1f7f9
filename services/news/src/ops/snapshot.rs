//! Use cases that detach snapshots and settle claims.
//!
//! Each step is a short transaction that locks the row of the post. The call to selections is
//! between two steps. Therefore a detachment and an edit never overlap.

use ::db::Db;
use time::{Duration, OffsetDateTime};

use crate::clients::Selections;
use crate::db;
use crate::db::snapshot::Claim;
use crate::domain::{Post, SnapshotId, embed_snapshot_ids};
use crate::error::{Error, SELECTION_SOURCE_DELETED, SELECTION_SOURCE_EMPTY};

/// Delay before a claim that could not be settled is retried.
const CLAIM_RETRY_DELAY: Duration = Duration::seconds(5);

/// Detaches a snapshot that has left its post.
///
/// # Errors
/// `SELECTIONS_UNAVAILABLE`, after which the job is retried.
pub async fn detach_snapshot(
    db: &Db,
    selections: &Selections,
    now: OffsetDateTime,
    id: SnapshotId,
) -> Result<(), Error> {
    let reason = db
        .tx(async |tx| {
            let Some(post) = db::snapshot::find_post(tx, id).await? else { return Ok(None) };
            let post = db::post::lock_embeds(tx, post).await?;
            if has_embed(post.as_ref(), id) {
                db::snapshot::cancel_detachment(tx, id).await?;
                return Ok(None);
            }
            db::snapshot::start_detachment(tx, id).await
        })
        .await?;
    if let Some(reason) = reason {
        selections.detach_snapshot(id, &reason).await?;
        db.tx(async |tx| db::snapshot::finish_detachment(tx, id, now).await).await?;
    }
    Ok(())
}

/// Settles the claim of a failed edit: its snapshot is detached unless the post embeds it.
///
/// # Errors
/// `SELECTIONS_UNAVAILABLE`, after which the claim is retried.
pub async fn settle_claim(
    db: &Db,
    selections: &Selections,
    now: OffsetDateTime,
    claim: &Claim,
) -> Result<(), Error> {
    // Taking is idempotent, so the call returns the snapshot if the edit took one. If the source is
    // refused, the post has no Active snapshot of it.
    let card = selections
        .take_snapshot(claim.source_selection_id, claim.post_id, claim.actor_user_id, claim.author_user_id)
        .await;
    let snapshot = match card {
        Ok(card) => Some(card.snapshot_id),
        Err(error) if error.is(SELECTION_SOURCE_DELETED) || error.is(SELECTION_SOURCE_EMPTY) => None,
        Err(error) => {
            db.tx(async |tx| db::snapshot::postpone_claim(tx, claim, now + CLAIM_RETRY_DELAY).await).await?;
            return Err(error);
        }
    };
    db.tx(async |tx| {
        let post = db::post::lock_embeds(tx, claim.post_id).await?;
        let orphan = snapshot.filter(|id| !has_embed(post.as_ref(), *id));
        db::snapshot::schedule_detachments(tx, claim.post_id, orphan, "BlockReplaced", now).await?;
        db::snapshot::delete_claim(tx, claim).await
    })
    .await?;
    Ok(())
}

/// Returns true if the post embeds the snapshot.
fn has_embed(post: Option<&Post>, id: SnapshotId) -> bool {
    post.is_some_and(|post| embed_snapshot_ids(&post.blocks).contains(&id))
}
