//! The blocks edit. The numbers of its rules are those of the specification.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use ::db::{Db, PipelinedConn};
use auth::Actor;
use futures_util::future::try_join;
use futures_util::{StreamExt, stream};
use time::{Duration, OffsetDateTime};

use crate::clients::{Selections, SnapshotCard};
use crate::db;
use crate::domain::{
    Block, BlockId, EditId, Embed, Post, PostId, PostStatus, SelectionId, SnapshotId, embed_snapshot_ids,
    may_edit,
};
use crate::error::{CONFLICT, Error, FORBIDDEN, POST_NOT_FOUND, SNAPSHOT_INVALID, selections_unavailable};

/// Maximum number of concurrent calls of one edit.
const MAX_CONCURRENT_CALLS: usize = 8;
/// Timeout of all calls of one edit together.
const CALLS_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);
/// Time after which a claim is due. The round of the edit that wrote it has ended by then.
const CLAIM_DURATION: Duration = Duration::seconds(40);
/// Maximum number of rounds of an edit. A detachment during the edit starts another round.
const MAX_ROUNDS: usize = 3;

/// A block of a request.
pub enum NewBlock {
    /// A text or a gallery, which needs no call.
    Ready(Block),
    /// An embed without the data of its snapshot.
    Embed { block_id: BlockId, sort_order: u32, target: EmbedTarget },
}

/// The source or the snapshot that an embed names.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum EmbedTarget {
    Source(SelectionId),
    Snapshot(SnapshotId),
}

/// The snapshot of an embed with its source.
#[derive(Clone)]
struct ResolvedEmbed {
    source: SelectionId,
    card: SnapshotCard,
}

/// An edit with the post as it was read.
struct Edit {
    id: EditId,
    post: Post,
}

/// Replaces the whole content of a post.
///
/// No transaction is open during the calls to selections. The save checks the version that was
/// read before them.
///
/// # Errors
/// In this order:
/// - [`POST_NOT_FOUND`], `POST_ARCHIVED`, [`FORBIDDEN`] (rules 3 and 4);
/// - [`SNAPSHOT_INVALID`] (rule 6);
/// - `SELECTION_SOURCE_DELETED`, `SELECTION_SOURCE_EMPTY`, `SELECTIONS_UNAVAILABLE` (rule 7);
/// - [`CONFLICT`] (rule 8).
pub async fn set_post_blocks(
    lookups: &PipelinedConn,
    db: &Db,
    selections: &Selections,
    actor: &Actor,
    now: OffsetDateTime,
    id: PostId,
    mut blocks: Vec<NewBlock>,
) -> Result<Post, Error> {
    blocks.sort_by_key(NewBlock::sort_order);
    let started = tokio::time::Instant::now();
    for _ in 0..MAX_ROUNDS {
        let now = now + started.elapsed();
        let post = find_for_edit(lookups, actor, id).await?;
        let edit = Edit { id: EditId::generate(), post };
        let calls = resolve_embeds(db, selections, actor, now, &edit, &blocks);
        let resolved = tokio::time::timeout(CALLS_TIMEOUT, calls)
            .await
            .map_err(|_| selections_unavailable(&"calls of one edit timed out"))??;
        match save(db, actor, now, edit, &blocks, &resolved).await {
            Err(SaveError::Detaching(snapshots)) => {
                finish_detachments(db, selections, now, &blocks, &snapshots).await?;
            }
            Err(SaveError::Failed(error)) => return Err(error),
            Ok(post) => return Ok(post),
        }
    }
    Err(CONFLICT.into())
}

/// Checks rules 3 and 4.
async fn find_for_edit(lookups: &PipelinedConn, actor: &Actor, id: PostId) -> Result<Post, Error> {
    let post = lookups.run(async |conn| db::post::find_embeds(conn, id).await).await?;
    let post = post.ok_or(POST_NOT_FOUND)?;
    post.check_editable()?;
    if may_edit(actor, &post) { Ok(post) } else { Err(FORBIDDEN.into()) }
}

/// Returns the embeds of the stored content.
///
/// These snapshots are Active and belong to the post: only this service detaches snapshots, and
/// only those that no post embeds.
fn current_embeds(post: &Post) -> HashMap<EmbedTarget, ResolvedEmbed> {
    let embeds = post.blocks.iter().filter_map(Block::embed);
    embeds.map(|embed| (EmbedTarget::Snapshot(embed.snapshot_id), ResolvedEmbed::from_embed(embed))).collect()
}

/// Resolves the embeds by rules 6 and 7. All checks of rule 6 precede the calls of rule 7.
async fn resolve_embeds(
    db: &Db,
    selections: &Selections,
    actor: &Actor,
    now: OffsetDateTime,
    Edit { id: edit, post }: &Edit,
    blocks: &[NewBlock],
) -> Result<HashMap<EmbedTarget, ResolvedEmbed>, Error> {
    let mut resolved = current_embeds(post);
    let unknown =
        distinct(snapshot_ids(blocks).filter(|id| !resolved.contains_key(&EmbedTarget::Snapshot(*id))));
    let checks = unknown.into_iter().map(async |id| (id, check_snapshot(selections, post.id, id).await));
    // The results are in block order, so the first failed block determines the error.
    let checked: Vec<_> = stream::iter(checks).buffered(MAX_CONCURRENT_CALLS).collect().await;
    for (id, snapshot) in checked {
        resolved.insert(EmbedTarget::Snapshot(id), snapshot?);
    }
    let sources = source_ids(blocks);
    if !sources.is_empty() {
        // Claims are written before the calls, so that no snapshot of a failed edit is lost.
        db::snapshot::insert_claims(db, *edit, &sources, post, actor.user_id, now + CLAIM_DURATION).await?;
    }
    let calls = sources.iter().map(async |&source| {
        let card = selections.take_snapshot(source, post.id, actor.user_id, post.author_user_id).await;
        (source, card)
    });
    let results: Vec<_> = stream::iter(calls).buffered(MAX_CONCURRENT_CALLS).collect().await;
    for (source, card) in results {
        resolved.insert(EmbedTarget::Source(source), ResolvedEmbed { source, card: card? });
    }
    Ok(resolved)
}

async fn check_snapshot(
    selections: &Selections,
    post: PostId,
    id: SnapshotId,
) -> Result<ResolvedEmbed, Error> {
    let snapshot = selections.find_snapshot(id).await?;
    snapshot
        .filter(|snapshot| snapshot.post_id == post && snapshot.status == "Active")
        .map(|snapshot| ResolvedEmbed { source: snapshot.source_selection_id, card: snapshot.card })
        .ok_or_else(|| SNAPSHOT_INVALID.into())
}

/// Reason why an edit was not saved.
enum SaveError {
    /// Snapshots of the edit whose detachment has started.
    Detaching(Vec<SnapshotId>),
    Failed(Error),
}

impl<E: Into<Error>> From<E> for SaveError {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Saves content, search text and projection together, and schedules detachments (rules 8 and 9).
async fn save(
    db: &Db,
    actor: &Actor,
    now: OffsetDateTime,
    edit: Edit,
    blocks: &[NewBlock],
    resolved: &HashMap<EmbedTarget, ResolvedEmbed>,
) -> Result<Post, SaveError> {
    let mut post = edit.post;
    let before = embed_snapshot_ids(&post.blocks);
    post.blocks = blocks.iter().map(|block| block.to_block(resolved)).collect::<Result<_, _>>()?;
    post.updated_at = now;
    post.updated_by_user_id = actor.user_id;
    let after = embed_snapshot_ids(&post.blocks);
    let is_single_write = before.is_empty() && after.is_empty() && post.status != PostStatus::Published;
    if is_single_write && !db::post::is_large(&post) {
        db::post::save_only_blocks(db, &mut post).await?;
        return Ok(post);
    }
    let claims = source_ids(blocks).len();
    db.tx(async |tx| {
        // The write locks the row of the post until the commit, and detaching needs this lock.
        db::post::save_blocks(tx, &mut post).await?;
        let conn = &*tx.conn();
        let delete_claims =
            async { if claims == 0 { Ok(0) } else { db::snapshot::delete_claims(conn, edit.id).await } };
        let (detaching, deleted) =
            try_join(db::snapshot::cancel_detachments(conn, &after), delete_claims).await?;
        if !detaching.is_empty() {
            return Err(SaveError::Detaching(detaching));
        }
        // The job has settled the missing claims, so their snapshots may be detached.
        if deleted < claims {
            return Err(CONFLICT.into());
        }
        let removed = before.into_iter().filter(|id| !after.contains(id));
        db::snapshot::schedule_detachments(tx, post.id, removed, "BlockReplaced", now).await?;
        if post.status == PostStatus::Published {
            db::feed::upsert(tx, &post).await?;
        }
        Ok(post)
    })
    .await
}

/// Finishes started detachments, so that new snapshots of their sources can be taken.
async fn finish_detachments(
    db: &Db,
    selections: &Selections,
    now: OffsetDateTime,
    blocks: &[NewBlock],
    detaching: &[SnapshotId],
) -> Result<(), Error> {
    let requested: HashSet<SnapshotId> = snapshot_ids(blocks).collect();
    for id in detaching {
        if requested.contains(id) {
            return Err(SNAPSHOT_INVALID.into());
        }
        selections.detach_snapshot(*id, "BlockReplaced").await?;
        db.tx(async |tx| db::snapshot::finish_detachment(tx, *id, now).await).await?;
    }
    Ok(())
}

impl NewBlock {
    fn sort_order(&self) -> u32 {
        match self {
            Self::Ready(block) => block.sort_order(),
            Self::Embed { sort_order, .. } => *sort_order,
        }
    }

    fn to_block(&self, resolved: &HashMap<EmbedTarget, ResolvedEmbed>) -> Result<Block, Error> {
        match self {
            Self::Ready(block) => Ok(block.clone()),
            Self::Embed { block_id, sort_order, target } => {
                // Every embed is resolved here, since an unresolved one has failed the edit. A
                // conflict is safer than a panic or a lost block.
                let ResolvedEmbed { source, card } = resolved.get(target).ok_or(CONFLICT)?;
                Ok(Block::SelectionEmbed(Embed {
                    block_id: *block_id,
                    sort_order: *sort_order,
                    source_selection_id: *source,
                    snapshot_id: card.snapshot_id,
                    public_code: card.public_code.clone(),
                    title: card.title.clone(),
                    items_count: card.items_count,
                }))
            }
        }
    }
}

impl ResolvedEmbed {
    fn from_embed(embed: &Embed) -> Self {
        let card = SnapshotCard {
            snapshot_id: embed.snapshot_id,
            public_code: embed.public_code.clone(),
            title: embed.title.clone(),
            items_count: embed.items_count,
        };
        Self { source: embed.source_selection_id, card }
    }
}

/// Returns the distinct sources of the request in block order.
fn source_ids(blocks: &[NewBlock]) -> Vec<SelectionId> {
    distinct(blocks.iter().filter_map(|block| match block {
        NewBlock::Embed { target: EmbedTarget::Source(source), .. } => Some(*source),
        NewBlock::Embed { target: EmbedTarget::Snapshot(_), .. } | NewBlock::Ready(_) => None,
    }))
}

fn distinct<T: Copy + Eq + Hash>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = HashSet::new();
    items.filter(|item| seen.insert(*item)).collect()
}

/// Returns the snapshots of the request in block order.
fn snapshot_ids(blocks: &[NewBlock]) -> impl Iterator<Item = SnapshotId> {
    blocks.iter().filter_map(|block| match block {
        NewBlock::Embed { target: EmbedTarget::Snapshot(id), .. } => Some(*id),
        NewBlock::Embed { target: EmbedTarget::Source(_), .. } | NewBlock::Ready(_) => None,
    })
}
