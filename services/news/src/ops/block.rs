//! Replacing the content of a post: the contract's rules, in their order.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use ::db::{Db, Lookups};
use auth::Actor;
use futures_util::future::try_join;
use futures_util::{StreamExt, stream};
use time::{Duration, OffsetDateTime};

use crate::clients::{Selections, Taken};
use crate::db;
use crate::domain::{
    Block, BlockId, EditId, Embed, Post, PostId, PostStatus, SelectionId, SnapshotId, embed_snapshot_ids,
    may_edit,
};
use crate::error::{CONFLICT, Error, FORBIDDEN, POST_NOT_FOUND, SNAPSHOT_INVALID, selections_unavailable};

/// Calls to selections that one edit has under way at once.
const CALLS: usize = 8;
/// All calls of an edit together, however many there are.
const CALLS_DEADLINE: std::time::Duration = std::time::Duration::from_secs(30);
/// An edit is over before, one way or another.
const CLAIM: Duration = Duration::seconds(40);
/// How often an edit starts over because a snapshot was being detached under it.
const ROUNDS: usize = 3;

/// A block as it was asked for.
pub enum NewBlock {
    /// Text or gallery: it is what it will be.
    Ready(Block),
    /// An embed, to be resolved.
    Embed { block_id: BlockId, sort_order: u32, of: EmbedOf },
}

/// What an embed shows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum EmbedOf {
    Source(SelectionId),
    Snapshot(SnapshotId),
}

/// What an embed stores of what it shows.
#[derive(Clone)]
struct Resolved {
    source: SelectionId,
    taken: Taken,
}

/// An edit that has been let in.
struct Edit {
    id: EditId,
    post: Post,
}

/// Replaces the whole content of a post. Between what is read and what is written come the calls to
/// selections, if any; the version that was read holds both together.
///
/// # Errors
/// In this order: [`POST_NOT_FOUND`], `POST_ARCHIVED`, [`FORBIDDEN`]; [`SNAPSHOT_INVALID`];
/// `SELECTION_SOURCE_DELETED`, `SELECTION_SOURCE_EMPTY`, `SELECTIONS_UNAVAILABLE`;
/// [`CONFLICT`].
pub async fn set_post_blocks(
    lookups: &Lookups,
    db: &Db,
    selections: &Selections,
    actor: &Actor,
    now: OffsetDateTime,
    id: PostId,
    mut blocks: Vec<NewBlock>,
) -> Result<Post, Error> {
    blocks.sort_by_key(NewBlock::sort_order);
    let started = tokio::time::Instant::now();
    for _ in 0..ROUNDS {
        let now = now + started.elapsed();
        let post = admit(lookups, actor, id).await?;
        let edit = Edit { id: EditId::generate(), post };
        let calls = resolve(db, selections, actor, now, &edit, &blocks);
        let resolved = tokio::time::timeout(CALLS_DEADLINE, calls)
            .await
            .map_err(|_| selections_unavailable(&"too slow"))??;
        match save(db, actor, now, edit, &blocks, &resolved).await {
            Err(Stale::Detaching(snapshots)) => release(db, selections, now, &blocks, &snapshots).await?,
            Err(Stale::Failed(error)) => return Err(error),
            Ok(post) => return Ok(post),
        }
    }
    Err(CONFLICT.into())
}

/// Rules 3 and 4.
async fn admit(lookups: &Lookups, actor: &Actor, id: PostId) -> Result<Post, Error> {
    let post = lookups.run(async |conn| db::post::find_embeds(conn, id).await).await?;
    let post = post.ok_or(POST_NOT_FOUND)?;
    post.check_editable()?;
    if may_edit(actor, &post) { Ok(post) } else { Err(FORBIDDEN.into()) }
}

/// What is in the post is active and its own: only this service detaches, and only what is in no post.
fn embedded(post: &Post) -> HashMap<EmbedOf, Resolved> {
    let embeds = post.blocks.iter().filter_map(Block::embed);
    embeds.map(|embed| (EmbedOf::Snapshot(embed.snapshot_id), Resolved::of(embed))).collect()
}

/// Rule 6 for every embed, before any call of rule 7.
async fn resolve(
    db: &Db,
    selections: &Selections,
    actor: &Actor,
    now: OffsetDateTime,
    Edit { id: edit, post }: &Edit,
    blocks: &[NewBlock],
) -> Result<HashMap<EmbedOf, Resolved>, Error> {
    let mut resolved = embedded(post);
    let unknown = distinct(snapshots(blocks).filter(|id| !resolved.contains_key(&EmbedOf::Snapshot(*id))));
    let checks = unknown.into_iter().map(async |id| (id, check_snapshot(selections, post.id, id).await));
    // In block order, so that of several faults the first block's is told.
    let checked: Vec<_> = stream::iter(checks).buffered(CALLS).collect().await;
    for (id, snapshot) in checked {
        resolved.insert(EmbedOf::Snapshot(id), snapshot?);
    }
    let sources = sources(blocks);
    if !sources.is_empty() {
        // What is going to be taken is written down first, so that it is not forgotten.
        db::snapshot::claim(db, *edit, &sources, post, actor.user_id, now + CLAIM).await?;
    }
    let calls = sources.iter().map(async |&source| {
        let taken = selections.take_snapshot(source, post.id, actor.user_id, post.author_user_id).await;
        (source, taken)
    });
    let results: Vec<_> = stream::iter(calls).buffered(CALLS).collect().await;
    for (source, taken) in results {
        resolved.insert(EmbedOf::Source(source), Resolved { source, taken: taken? });
    }
    Ok(resolved)
}

async fn check_snapshot(selections: &Selections, post: PostId, id: SnapshotId) -> Result<Resolved, Error> {
    let snapshot = selections.find_snapshot(id).await?;
    snapshot
        .filter(|snapshot| snapshot.post_id == post && snapshot.status == "Active")
        .map(|snapshot| Resolved { source: snapshot.source_selection_id, taken: snapshot.taken })
        .ok_or_else(|| SNAPSHOT_INVALID.into())
}

/// Why an edit was not saved.
enum Stale {
    /// These snapshots are being detached.
    Detaching(Vec<SnapshotId>),
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Stale {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Rules 8 and 9: content, search text and projection together, and what is no longer in the post let go.
async fn save(
    db: &Db,
    actor: &Actor,
    now: OffsetDateTime,
    edit: Edit,
    blocks: &[NewBlock],
    resolved: &HashMap<EmbedOf, Resolved>,
) -> Result<Post, Stale> {
    let mut post = edit.post;
    let before = embed_snapshot_ids(&post.blocks);
    post.blocks = blocks.iter().map(|block| block.settle(resolved)).collect::<Result<_, _>>()?;
    post.updated_at = now;
    post.updated_by_user_id = actor.user_id;
    let after = embed_snapshot_ids(&post.blocks);
    let is_alone = before.is_empty() && after.is_empty() && post.status != PostStatus::Published;
    if is_alone && !db::post::is_large(&post) {
        db::post::save_only_blocks(db, &mut post).await?;
        return Ok(post);
    }
    let claims = sources(blocks).len();
    db.tx(async |tx| {
        // From here on the post's row is ours until the commit; detaching waits for it.
        db::post::save_blocks(tx, &mut post).await?;
        let conn = &*tx.conn();
        let settle = async { if claims == 0 { Ok(0) } else { db::snapshot::settle(conn, edit.id).await } };
        let (too_late, settled) = try_join(db::snapshot::put_back(conn, &after), settle).await?;
        if !too_late.is_empty() {
            return Err(Stale::Detaching(too_late));
        }
        // Claims that are gone were looked after meanwhile: what was taken for them may be detached.
        if settled < claims {
            return Err(CONFLICT.into());
        }
        let gone = before.into_iter().filter(|id| !after.contains(id));
        db::snapshot::let_go(tx, post.id, gone, "BlockReplaced", now).await?;
        if post.status == PostStatus::Published {
            db::feed::put(tx, &post).await?;
        }
        Ok(post)
    })
    .await
}

/// Helps a detachment that is under way to its end, so that the source can be taken anew.
async fn release(
    db: &Db,
    selections: &Selections,
    now: OffsetDateTime,
    blocks: &[NewBlock],
    detaching: &[SnapshotId],
) -> Result<(), Error> {
    let asked: HashSet<SnapshotId> = snapshots(blocks).collect();
    for id in detaching {
        if asked.contains(id) {
            return Err(SNAPSHOT_INVALID.into());
        }
        selections.detach_snapshot(*id, "BlockReplaced").await?;
        db.tx(async |tx| db::snapshot::done(tx, *id, now).await).await?;
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

    fn settle(&self, resolved: &HashMap<EmbedOf, Resolved>) -> Result<Block, Error> {
        match self {
            Self::Ready(block) => Ok(block.clone()),
            Self::Embed { block_id, sort_order, of } => {
                // What was not resolved has stopped the edit before; rather a conflict than a lost block.
                let Resolved { source, taken } = resolved.get(of).ok_or(CONFLICT)?;
                Ok(Block::SelectionEmbed(Embed {
                    block_id: *block_id,
                    sort_order: *sort_order,
                    source_selection_id: *source,
                    snapshot_id: taken.snapshot_id,
                    public_code: taken.public_code.clone(),
                    title: taken.title.clone(),
                    items_count: taken.items_count,
                }))
            }
        }
    }
}

impl Resolved {
    fn of(embed: &Embed) -> Self {
        let taken = Taken {
            snapshot_id: embed.snapshot_id,
            public_code: embed.public_code.clone(),
            title: embed.title.clone(),
            items_count: embed.items_count,
        };
        Self { source: embed.source_selection_id, taken }
    }
}

/// The sources that are asked for: distinct, in block order.
fn sources(blocks: &[NewBlock]) -> Vec<SelectionId> {
    distinct(blocks.iter().filter_map(|block| match block {
        NewBlock::Embed { of: EmbedOf::Source(source), .. } => Some(*source),
        NewBlock::Embed { of: EmbedOf::Snapshot(_), .. } | NewBlock::Ready(_) => None,
    }))
}

fn distinct<T: Copy + Eq + Hash>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = HashSet::new();
    items.filter(|item| seen.insert(*item)).collect()
}

fn snapshots(blocks: &[NewBlock]) -> impl Iterator<Item = SnapshotId> {
    blocks.iter().filter_map(|block| match block {
        NewBlock::Embed { of: EmbedOf::Snapshot(id), .. } => Some(*id),
        NewBlock::Embed { of: EmbedOf::Source(_), .. } | NewBlock::Ready(_) => None,
    })
}
