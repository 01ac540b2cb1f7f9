//! Use cases that bring earlier contents and deleted posts back.

use std::collections::HashMap;

use ::db::{Db, Tx};
use auth::Actor;
use messaging::outbox;
use time::{Duration, OffsetDateTime};

use super::block::{EditContext, set_post_blocks};
use super::new_block::{BlocksEdit, EmbedTarget, NewBlock, NewContent, embeds};
use crate::db;
use crate::domain::{Block, Post, PostId, PostStatus, Quotas, SelectionId, SnapshotId, may_edit};
use crate::error::{Error, FORBIDDEN, POST_INVALID_TRANSITION, POST_NOT_FOUND, REVISION_NOT_FOUND};
use crate::events::{PostArchived, PostUnpublished};

/// Time during which a deleted post can be brought back.
const DELETED_RETENTION: Duration = Duration::days(30);

/// Makes the content of a revision the content of its post, as a new version.
///
/// An embed whose snapshot the post no longer has gets a new snapshot of its selection, since the
/// old one is detached or will be.
///
/// # Errors
/// In this order: [`POST_NOT_FOUND`], `POST_ARCHIVED`, [`FORBIDDEN`], [`REVISION_NOT_FOUND`], and
/// the errors of [`set_post_blocks`] from `CONFLICT` on.
pub async fn restore_revision(
    context: EditContext<'_>,
    actor: &Actor,
    now: OffsetDateTime,
    id: PostId,
    revision: i64,
    version: Option<i64>,
) -> Result<Post, Error> {
    let found = context.lookups.run(async |conn| db::post::look_up(conn, id).await).await?;
    let post = found.ok_or(POST_NOT_FOUND)?.post;
    post.check_editable()?;
    if !may_edit(actor, &post) {
        return Err(FORBIDDEN.into());
    }
    let revision = db::revision::read(context.db, id, revision).await?.ok_or(REVISION_NOT_FOUND)?;
    let edit = BlocksEdit { version, blocks: to_new_blocks(revision.blocks, &post) };
    set_post_blocks(context, actor, now, id, edit).await
}

/// Brings a deleted post back, if it was deleted within [`DELETED_RETENTION`].
///
/// A published post becomes Unpublished. The snapshots of the post are detached, so its embeds get
/// new ones. If one of them cannot get one, all embeds are left out; the revision before the
/// deletion has them.
///
/// # Errors
/// - [`POST_NOT_FOUND`] if the post is missing or was deleted earlier.
/// - [`FORBIDDEN`] if the actor may not edit the post.
/// - [`POST_INVALID_TRANSITION`] if the post is not deleted.
/// - `DRAFTS_LIMIT_EXCEEDED` if the author has the maximum number of drafts.
pub async fn undelete_post(
    context: EditContext<'_>,
    actor: &Actor,
    now: OffsetDateTime,
    id: PostId,
) -> Result<Post, Error> {
    let (db, quotas) = (context.db, context.quotas);
    let (post, blocks) = db.tx(async |tx| bring_back(tx, actor, now, quotas, id).await).await?;
    if post.blocks.len() == blocks.len() || post.check_editable().is_err() {
        return Ok(post);
    }
    let edit = BlocksEdit { version: None, blocks: to_new_blocks(blocks, &post) };
    Ok(set_post_blocks(context, actor, now, id, edit).await.unwrap_or_else(|error| {
        tracing::info!(post = %id, %error, "post was brought back without its embeds");
        post
    }))
}

/// Brings a deleted post back without its embeds. Returns it with the blocks that it had.
async fn bring_back(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    quotas: Quotas,
    id: PostId,
) -> Result<(Post, Vec<Block>), Error> {
    let found = db::post::lock_any(tx, id).await?;
    let is_gone = |post: &Post| post.deleted_at.is_some_and(|at| at + DELETED_RETENTION <= now);
    let mut post = found.filter(|post| !is_gone(post)).ok_or(POST_NOT_FOUND)?;
    if !may_edit(actor, &post) {
        return Err(if post.deleted_at.is_some() { POST_NOT_FOUND } else { FORBIDDEN }.into());
    }
    if post.deleted_at.take().is_none() {
        return Err(POST_INVALID_TRANSITION.into());
    }
    match post.status {
        PostStatus::Draft => {
            db::author::lock_or_insert(tx, post.author_user_id).await?;
            quotas.check_drafts(db::post::count_drafts(tx, post.author_user_id).await?)?;
        }
        PostStatus::Published => post.status = PostStatus::Unpublished,
        PostStatus::Unpublished | PostStatus::Archived => {}
    }
    post.touch(actor.user_id, now);
    db::post::save(tx, &mut post).await?;
    let blocks = post.blocks.clone();
    post.blocks.retain(|block| block.embed().is_none());
    if post.blocks.len() < blocks.len() {
        db::post::save_blocks(tx, &mut post).await?;
    }
    if post.status == PostStatus::Archived {
        outbox::append(tx, &PostArchived::of(&post)).await?;
    } else {
        outbox::append(tx, &PostUnpublished::of(&post)).await?;
    }
    Ok((post, blocks))
}

/// Returns the blocks of a request for this content.
///
/// An embed names the snapshot that the post has of its selection, or else the selection.
fn to_new_blocks(blocks: Vec<Block>, post: &Post) -> Vec<NewBlock> {
    let kept: HashMap<SelectionId, SnapshotId> =
        embeds(post).map(|embed| (embed.source_selection_id, embed.snapshot_id)).collect();
    let target =
        |source| kept.get(&source).map_or(EmbedTarget::Source(source), |id| EmbedTarget::Snapshot(*id));
    let content = |block| match block {
        Block::SelectionEmbed(embed) => NewContent::Embed {
            block_id: embed.block_id,
            sort_order: embed.sort_order,
            target: target(embed.source_selection_id),
            refresh: false,
        },
        Block::Text(_) | Block::ImageGallery(_) => NewContent::Ready(block),
    };
    let numbered = blocks.into_iter().zip(0..);
    numbered.map(|(block, index)| NewBlock { index, has_new_id: false, content: content(block) }).collect()
}

/// Deletes the oldest revisions of authors whose posts and revisions are too large together.
///
/// # Errors
/// [`Error::Database`]
pub async fn trim_revisions(db: &Db, quotas: Quotas) -> Result<(), Error> {
    let Some(limit) = quotas.content_mib else { return Ok(()) };
    for author in db::revision::list_authors_above(db, limit).await? {
        db.tx(async |tx| db::revision::trim(tx, author, limit).await).await?;
    }
    Ok(())
}
