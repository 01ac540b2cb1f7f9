//! Use cases that restore revisions and deleted posts.

use std::collections::HashMap;

use ::db::PipelinedConn;
use auth::Actor;
use time::{Duration, OffsetDateTime};

use super::block::{EditContext, EmbedSources, resolve_and_save, set_post_blocks};
use super::new_block::{BlocksEdit, EmbedTarget, NewBlock, NewContent, embeds};
use super::post::undelete;
use crate::db;
use crate::db::post::FoundPost;
use crate::domain::{Block, Post, PostId, SelectionId, SnapshotId, may_edit, may_undelete};
use crate::error::{
    CONFLICT, Error, FORBIDDEN, POST_INVALID_TRANSITION, POST_NOT_FOUND, SELECTION_SOURCE_DELETED,
    SELECTION_SOURCE_EMPTY,
};

/// Time during which a deleted post can be brought back.
const DELETED_RETENTION: Duration = Duration::days(30);

/// Looks up the post of a revision, if the actor may restore it.
///
/// # Errors
/// In this order: [`POST_NOT_FOUND`], `POST_ARCHIVED`, [`FORBIDDEN`].
pub async fn find_restorable(lookups: &PipelinedConn, actor: &Actor, id: PostId) -> Result<Post, Error> {
    let found = lookups.run(async |conn| db::post::look_up_for_edit(conn, id).await).await?;
    let post = found.ok_or(POST_NOT_FOUND)?.post;
    post.check_editable()?;
    if may_edit(actor, &post) { Ok(post) } else { Err(FORBIDDEN.into()) }
}

/// Makes the blocks of a revision the content of its post, as a new version.
///
/// An embed whose snapshot the post no longer has gets a new snapshot of its selection, since the
/// old one is detached or will be. The selection must belong to the actor, or to the author if the
/// actor is the author.
///
/// # Errors
/// The errors of [`set_post_blocks`], and [`CONFLICT`] if the post has changed since it was read.
pub async fn restore_revision(
    context: EditContext<'_>,
    actor: &Actor,
    now: OffsetDateTime,
    post: &Post,
    blocks: Vec<Block>,
    version: Option<i64>,
) -> Result<Post, Error> {
    let edit = BlocksEdit {
        version: version.or(Some(post.version)),
        blocks: to_new_blocks(blocks, post),
        has_named_sources: false,
    };
    set_post_blocks(context, actor, now, post.id, edit).await
}

/// Looks up a deleted post with only its embeds, if it can be brought back.
///
/// # Errors
/// - [`POST_NOT_FOUND`] if the post is missing or was deleted longer than [`DELETED_RETENTION`]
///   ago, or if the actor may not edit the deleted post.
/// - [`FORBIDDEN`] if the post is not deleted and the actor may not edit it, or if a moderator has
///   deleted it and the actor is none.
/// - [`POST_INVALID_TRANSITION`] if the post is not deleted and the actor may edit it.
pub async fn find_deleted(
    lookups: &PipelinedConn,
    actor: &Actor,
    now: OffsetDateTime,
    id: PostId,
) -> Result<FoundPost, Error> {
    let found = lookups.run(async |conn| db::post::look_up_any(conn, id).await).await?;
    let found = found.ok_or(POST_NOT_FOUND)?;
    match (found.post.deleted_at, may_edit(actor, &found.post)) {
        (Some(at), true) if at + DELETED_RETENTION > now => {
            if may_undelete(actor, &found.post) {
                Ok(found)
            } else {
                Err(FORBIDDEN.into())
            }
        }
        (Some(_), _) => Err(POST_NOT_FOUND.into()),
        (None, false) => Err(FORBIDDEN.into()),
        (None, true) => Err(POST_INVALID_TRANSITION.into()),
    }
}

/// Undeletes a post that [`find_deleted`] has found.
///
/// A published post becomes Unpublished. The snapshots of the post are detached, so its embeds get
/// new ones before it is undeleted. If the post is archived, or one of the selections is gone,
/// empty or not the actor's, all embeds are left out; the revision before the deletion has them.
///
/// # Errors
/// - `SELECTIONS_UNAVAILABLE` if the snapshots cannot be taken. The post stays deleted.
/// - [`CONFLICT`] if the post has changed.
/// - `DRAFTS_LIMIT_EXCEEDED` if the author has the maximum number of drafts.
pub async fn undelete_post(
    context: &EditContext<'_>,
    actor: &Actor,
    now: OffsetDateTime,
    deleted: Post,
) -> Result<Post, Error> {
    let (id, version) = (deleted.id, deleted.version);
    if embeds(&deleted).next().is_some() && deleted.check_editable().is_ok() {
        let blocks = db::post::read_blocks(context.db, id, version).await?.ok_or(CONFLICT)?;
        // The post has no snapshot any more, so each embed names its selection.
        let post = Post { blocks: Vec::new(), ..deleted };
        let blocks = to_new_blocks(blocks, &post);
        let sources = EmbedSources::default();
        let saved = resolve_and_save(context, actor, now, &post, &blocks, sources, true).await;
        match saved {
            Err(error) if error.is(SELECTION_SOURCE_DELETED) || error.is(SELECTION_SOURCE_EMPTY) => {
                tracing::info!(post = %id, %error, "post undeleted without its embeds");
            }
            saved => return saved,
        }
    }
    context
        .db
        .tx(async |tx| {
            let locked = db::post::lock_any(tx, id).await?;
            let mut post = locked.filter(|post| post.version == version).ok_or(CONFLICT)?;
            if embeds(&post).next().is_some() {
                post.blocks.retain(|block| block.embed().is_none());
                post.touch(actor.user_id, now);
                db::post::save_blocks(tx, &mut post).await?;
            }
            undelete(tx, actor, now, context.quotas, &mut post).await?;
            Ok(post)
        })
        .await
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
