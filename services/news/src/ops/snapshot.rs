//! Use cases that detach snapshots and settle claims.
//!
//! A short transaction that locks the row of the post decides about each snapshot. Therefore a
//! detachment and an edit never overlap. No transaction is open during a call to selections.

use ::db::{Db, Tx};
use time::{Duration, OffsetDateTime};

use super::new_block::embeds;
use crate::clients::{Selections, SnapshotCard, TakeSnapshot};
use crate::db;
use crate::db::snapshot::Claim;
use crate::domain::{Block, Embed, Post, PostStatus, SnapshotId, embed_snapshot_ids};
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
/// If the post still embeds an older snapshot of the source, the claimed one replaces it.
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
    let request = TakeSnapshot {
        source: claim.source_selection_id,
        post_id: claim.post_id,
        actor_user_id: claim.actor_user_id,
        author_user_id: claim.author_user_id,
        replaces_snapshot_id: None,
    };
    let card = match selections.take_snapshot(&request).await {
        Ok(card) => Some(card),
        Err(error) if error.is(SELECTION_SOURCE_DELETED) || error.is(SELECTION_SOURCE_EMPTY) => None,
        Err(error) => {
            db.tx(async |tx| db::snapshot::postpone_claim(tx, claim, now + CLAIM_RETRY_DELAY).await).await?;
            return Err(error);
        }
    };
    db.tx(async |tx| {
        let post = db::post::lock_embeds(tx, claim.post_id).await?;
        if let Some(card) = card {
            settle_snapshot(tx, claim, post.as_ref(), &card, now).await?;
        }
        Ok::<_, Error>(db::snapshot::delete_claim(tx, claim).await?)
    })
    .await?;
    Ok(())
}

/// Settles the Active snapshot of a claim. The caller holds the lock of the post's row.
async fn settle_snapshot(
    tx: &mut Tx,
    claim: &Claim,
    post: Option<&Post>,
    card: &SnapshotCard,
    now: OffsetDateTime,
) -> Result<(), Error> {
    // A post has one Active snapshot of a source, so every other one is detached.
    let is_replaced = |embed: &Embed| {
        embed.source_selection_id == claim.source_selection_id && embed.snapshot_id != card.snapshot_id
    };
    let editable = post.filter(|post| post.check_editable().is_ok());
    if editable.is_some_and(|post| embeds(post).any(is_replaced)) {
        let Some(mut post) = db::post::find(tx, claim.post_id).await? else { return Ok(()) };
        for block in &mut post.blocks {
            if let Block::SelectionEmbed(embed) = block
                && is_replaced(embed)
            {
                embed.snapshot_id = card.snapshot_id;
                embed.public_code.clone_from(&card.public_code);
                embed.title.clone_from(&card.title);
                embed.items_count = card.items_count;
            }
        }
        post.touch(claim.actor_user_id, now);
        db::post::save_blocks(tx, &mut post).await?;
        if post.status == PostStatus::Published {
            // The Atom feed sorts by the time of the last change.
            db::feed::upsert(tx, &post).await?;
        }
        return Ok(());
    }
    let orphan = Some(card.snapshot_id).filter(|id| !has_embed(post, *id));
    let reason = if post.is_some() { "BlockReplaced" } else { "PostDeleted" };
    Ok(db::snapshot::schedule_detachments(tx, claim.post_id, orphan, reason, now).await?)
}

/// Returns true if the post embeds the snapshot.
fn has_embed(post: Option<&Post>, id: SnapshotId) -> bool {
    post.is_some_and(|post| embed_snapshot_ids(&post.blocks).contains(&id))
}
