//! The blocks edit, which replaces the content of a post.
//!
//! Section "Replace the blocks" of `docs/spec/news.md` numbers its rules.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::io::{self, Write};

use ::db::{Db, PipelinedConn};
use auth::{Actor, UserId};
use futures_util::future::try_join;
use futures_util::{StreamExt, stream};
use serde::Serialize;
use time::{Duration, OffsetDateTime};
use tokio::time::{Instant, timeout_at};
use web::Problem;

use super::new_block::{BlocksEdit, EmbedTarget, NewBlock, NewContent, block_pointer, embeds};
use super::post::undelete;
use crate::clients::{Selections, SnapshotCard, TakeSnapshot};
use crate::db;
use crate::db::post::PostToEdit;
use crate::db::snapshot::Claim;
use crate::domain::{
    Block, EditId, Embed, Post, PostId, PostStatus, Quotas, SelectionId, SnapshotId, embed_snapshot_ids,
    may_edit,
};
use crate::error::{CONFLICT, Error, FORBIDDEN, POST_NOT_FOUND, SNAPSHOT_INVALID, selections_unavailable};

/// Maximum number of concurrent calls of one edit.
const MAX_CONCURRENT_CALLS: usize = 8;
/// Timeout of all calls of one edit together.
const CALLS_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);
/// Time after which a claim is due. The calls of its edit have ended by then ([`CALLS_TIMEOUT`]).
const CLAIM_DURATION: Duration = Duration::seconds(40);
/// Maximum number of rounds of an edit. A detachment that has started causes another round.
const MAX_ROUNDS: usize = 3;

/// The snapshot of an embed with its source.
#[derive(Clone)]
struct ResolvedEmbed {
    source: SelectionId,
    card: SnapshotCard,
}

/// The dependencies and the limits of an edit.
pub struct EditContext<'e> {
    pub lookups: &'e PipelinedConn,
    pub db: &'e Db,
    pub selections: &'e Selections,
    pub quotas: Quotas,
}

/// The selections whose snapshots an edit takes.
#[derive(Default)]
pub struct EmbedSources {
    /// The selections that the caller names.
    pub named: HashSet<SelectionId>,
    /// For each refreshed selection, the snapshot that the new one replaces.
    pub replaced: HashMap<SelectionId, SnapshotId>,
}

impl EmbedSources {
    /// Returns the author of the post if the author's ownership of this selection counts.
    ///
    /// It counts for the author, and for an editor who names the selection. Otherwise an editor
    /// could read the present content of a selection whose id is withheld from editors.
    fn author_for(&self, actor: &Actor, post: &Post, source: SelectionId) -> Option<UserId> {
        let counts = actor.user_id == post.author_user_id || self.named.contains(&source);
        counts.then_some(post.author_user_id)
    }
}

/// A round of an edit, with the post as it was read.
struct Round<'r> {
    id: EditId,
    post: &'r Post,
    blocks: &'r [NewBlock],
    sources: &'r EmbedSources,
    /// True if the save also brings the deleted post back.
    undeletes: bool,
}

/// Replaces the whole content of a post, or changes nothing if the post has this content.
///
/// No transaction is open during the calls to selections. The save checks the version that was
/// read before them, in every round.
///
/// # Errors
/// In this order:
/// - `VALIDATION_FAILED` for an embed with two targets (rule 2);
/// - [`POST_NOT_FOUND`], `POST_ARCHIVED`, [`FORBIDDEN`] (rules 3 and 4);
/// - [`CONFLICT`] if the caller's version is outdated;
/// - `CONTENT_LIMIT_EXCEEDED` if the content of the author would be too large;
/// - [`SNAPSHOT_INVALID`] (rule 6);
/// - `SELECTION_SOURCE_DELETED`, `SELECTION_SOURCE_EMPTY`, `SELECTIONS_UNAVAILABLE` (rule 7);
/// - [`CONFLICT`] (rule 8).
pub async fn set_post_blocks(
    context: EditContext<'_>,
    actor: &Actor,
    now: OffsetDateTime,
    id: PostId,
    mut edit: BlocksEdit,
) -> Result<Post, Error> {
    let started = Instant::now();
    edit.blocks.sort_by_key(NewBlock::sort_order);
    let read = find_for_edit(context.lookups, actor, id, &mut edit).await?;
    let post = &read.post;
    let named = edit.named_sources();
    let sources = EmbedSources { named, replaced: edit.refresh_sources(post) };
    let BlocksEdit { version, blocks, .. } = edit;
    if sources.replaced.is_empty()
        && let Some(unchanged) = find_unchanged(context.db, &read, &blocks).await?
    {
        return Ok(unchanged);
    }
    if version.is_some_and(|version| version != post.version) {
        return Err(CONFLICT.into());
    }
    check_content(context.quotas, &read, &blocks)?;
    resolve_and_save(&context, actor, now + started.elapsed(), post, &blocks, sources, false).await
}

/// Resolves the embeds of an edit and saves it, in up to [`MAX_ROUNDS`] rounds. `undeletes` also
/// brings a deleted post back.
///
/// # Errors
/// The errors of [`set_post_blocks`] from [`SNAPSHOT_INVALID`] on.
pub async fn resolve_and_save(
    context: &EditContext<'_>,
    actor: &Actor,
    now: OffsetDateTime,
    post: &Post,
    blocks: &[NewBlock],
    mut sources: EmbedSources,
    undeletes: bool,
) -> Result<Post, Error> {
    let started = Instant::now();
    for _ in 0..MAX_ROUNDS {
        let now = now + started.elapsed();
        let round = Round { id: EditId::generate(), post, blocks, sources: &sources, undeletes };
        let calls = resolve_embeds(context, actor, now, &round);
        let resolved = timeout_at(started + CALLS_TIMEOUT, calls)
            .await
            .map_err(|_| selections_unavailable(&"calls of one edit timed out"))??;
        match save(context, actor, now, &round, &resolved).await {
            // The next round takes new snapshots in place of these.
            Err(SaveError::Detaching(snapshots)) => {
                for id in snapshots {
                    if let Some(index) = index_of(blocks, EmbedTarget::Snapshot(id)) {
                        return Err(at_block(SNAPSHOT_INVALID.into(), index, "SnapshotId"));
                    }
                    let embed = resolved.values().find(|embed| embed.card.snapshot_id == id);
                    sources.replaced.extend(embed.map(|embed| (embed.source, id)));
                }
            }
            Err(SaveError::Failed(error)) => return Err(error),
            Ok(post) => return Ok(post),
        }
    }
    Err(CONFLICT.into())
}

/// Checks that the actor may edit the post (rules 3 and 4), and the part of rule 2 that needs the
/// stored content.
async fn find_for_edit(
    lookups: &PipelinedConn,
    actor: &Actor,
    id: PostId,
    edit: &mut BlocksEdit,
) -> Result<PostToEdit, Error> {
    let found = lookups.run(async |conn| db::post::look_up_for_edit(conn, id).await).await?;
    let as_read = edit.accept_read_blocks(found.as_ref().map(|found| &found.post));
    if let (Err(invalid), Some(PostToEdit { post, .. })) = (&as_read, &found) {
        // The caller has read another version, which may have had the block.
        let is_outdated = edit.version.is_some_and(|version| version != post.version);
        return Err(if is_outdated && may_edit(actor, post) {
            CONFLICT.into()
        } else {
            invalid.clone().into()
        });
    }
    as_read?;
    let found = found.ok_or(POST_NOT_FOUND)?;
    found.post.check_editable()?;
    if may_edit(actor, &found.post) { Ok(found) } else { Err(FORBIDDEN.into()) }
}

/// Returns the stored post if it has this content already. A block without `BlockId` equals the
/// stored block in its place.
///
/// The stored texts are read only if their size is that of the request.
async fn find_unchanged(
    db: &Db,
    PostToEdit { post, stored_bytes, .. }: &PostToEdit,
    blocks: &[NewBlock],
) -> Result<Option<Post>, Error> {
    let current = current_embeds(post);
    // The requested blocks, with the present snapshots of their selections.
    let built: Result<Vec<Cow<'_, Block>>, Error> =
        blocks.iter().map(|block| block.to_block(&current)).collect();
    // A block that needs a snapshot is a change.
    let Ok(built) = built else { return Ok(None) };
    if json_length(&built)? != *stored_bytes {
        return Ok(None);
    }
    let stored = db::post::read(db, post.id).await?.filter(|stored| stored.version == post.version);
    let is_equal = |stored: &Block, (new, built): (&NewBlock, &Cow<'_, Block>)| {
        if new.has_new_id { Block::clone(built).with_id(stored.id()) == *stored } else { **built == *stored }
    };
    Ok(stored.filter(|stored| {
        stored.blocks.len() == blocks.len()
            && stored.blocks.iter().zip(blocks.iter().zip(&built)).all(|(stored, new)| is_equal(stored, new))
    }))
}

/// Checks that the content of the author may grow to these blocks.
///
/// The check precedes the calls, so a refused edit takes and replaces no snapshot. A new embed
/// counts as empty, because its card is not known yet. Concurrent edits do not count either. An
/// author can exceed the limit by these sizes.
fn check_content(quotas: Quotas, read: &PostToEdit, blocks: &[NewBlock]) -> Result<(), Error> {
    if quotas.content_mib.is_none() {
        return Ok(());
    }
    let known = current_embeds(&read.post);
    let mut size = 0;
    for block in blocks.iter().filter_map(|block| block.to_block(&known).ok()) {
        size += json_length(&block)?;
    }
    Ok(quotas.check_content(read.author_bytes, read.stored_bytes, size)?)
}

/// Returns the length of the JSON of `value`, in bytes. Ids have one length, so the length does not
/// depend on them.
fn json_length(value: &impl Serialize) -> Result<usize, Error> {
    struct Length(usize);

    impl Write for Length {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut length = Length(0);
    serde_json::to_writer(&mut length, value).map_err(|error| Problem::internal(&error))?;
    Ok(length.0)
}

/// Returns the embeds of the stored content, by their snapshots and by their sources.
///
/// These snapshots are Active and belong to the post: only this service detaches snapshots, and
/// only those that no post embeds or that the post replaces.
fn current_embeds(post: &Post) -> HashMap<EmbedTarget, ResolvedEmbed> {
    let by_target = |embed: &Embed| {
        [EmbedTarget::Snapshot(embed.snapshot_id), EmbedTarget::Source(embed.source_selection_id)]
            .map(|target| (target, ResolvedEmbed::from_embed(embed)))
    };
    embeds(post).flat_map(by_target).collect()
}

/// Checks the snapshots that embeds name (rule 6), and takes snapshots of the sources that embeds
/// name (rule 7). All checks precede the first taking.
async fn resolve_embeds(
    &EditContext { db, selections, .. }: &EditContext<'_>,
    actor: &Actor,
    now: OffsetDateTime,
    Round { id: edit, post, blocks, sources: embed_sources, .. }: &Round<'_>,
) -> Result<HashMap<EmbedTarget, ResolvedEmbed>, Error> {
    let mut resolved = current_embeds(post);
    let unknown =
        distinct(snapshot_ids(blocks).filter(|id| !resolved.contains_key(&EmbedTarget::Snapshot(*id))));
    let checks = unknown.into_iter().map(async |id| (id, check_snapshot(selections, post.id, id).await));
    // The results are in block order, so the first failed block determines the error.
    let checked: Vec<_> = stream::iter(checks).buffered(MAX_CONCURRENT_CALLS).collect().await;
    for (id, snapshot) in checked {
        let target = EmbedTarget::Snapshot(id);
        let snapshot = snapshot.map_err(|error| at_target(error, blocks, target, "SnapshotId"))?;
        resolved.insert(target, snapshot);
    }
    let sources = source_ids(blocks);
    if !sources.is_empty() {
        // Claims are written before the calls, so that no snapshot of a failed edit is lost.
        let claims = sources.iter().map(|&source| Claim {
            edit_id: *edit,
            source_selection_id: source,
            post_id: post.id,
            actor_user_id: actor.user_id,
            author_user_id: embed_sources.author_for(actor, post, source),
        });
        db::snapshot::insert_claims(db, &claims.collect::<Vec<_>>(), now + CLAIM_DURATION).await?;
    }
    let calls = sources.iter().map(async |&source| {
        let request = TakeSnapshot {
            source,
            post_id: post.id,
            actor_user_id: actor.user_id,
            author_user_id: embed_sources.author_for(actor, post, source),
            replaces_snapshot_id: embed_sources.replaced.get(&source).copied(),
        };
        (source, selections.take_snapshot(&request).await)
    });
    let results: Vec<_> = stream::iter(calls).buffered(MAX_CONCURRENT_CALLS).collect().await;
    for (source, card) in results {
        let target = EmbedTarget::Source(source);
        let card = card.map_err(|error| at_target(error, blocks, target, "SourceSelectionId"))?;
        resolved.insert(target, ResolvedEmbed { source, card });
    }
    Ok(resolved)
}

/// Returns the error with a pointer to the first block that has this target.
fn at_target(error: Error, blocks: &[NewBlock], target: EmbedTarget, member: &str) -> Error {
    match index_of(blocks, target) {
        Some(index) => at_block(error, index, member),
        None => error,
    }
}

/// Returns the position in the request of the first block with this target.
fn index_of(blocks: &[NewBlock], target: EmbedTarget) -> Option<usize> {
    blocks.iter().find(|block| block.target() == Some(target)).map(|block| block.index)
}

fn at_block(error: Error, index: usize, member: &str) -> Error {
    match error {
        Error::Refused(problem) => problem.at(&format!("{}/{member}", block_pointer(index))).into(),
        Error::Database(_) => error,
    }
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

/// Saves content, search text and search projection together, and schedules detachments (rules 8
/// and 9).
async fn save(
    &EditContext { db, quotas, .. }: &EditContext<'_>,
    actor: &Actor,
    now: OffsetDateTime,
    &Round { id: edit, post, blocks, undeletes, .. }: &Round<'_>,
    resolved: &HashMap<EmbedTarget, ResolvedEmbed>,
) -> Result<Post, SaveError> {
    let mut post = post.clone();
    let before = embed_snapshot_ids(&post.blocks);
    let new = blocks.iter().map(|block| block.to_block(resolved).map(Cow::into_owned));
    post.blocks = new.collect::<Result<_, _>>()?;
    post.touch(actor.user_id, now);
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
            async { if claims == 0 { Ok(0) } else { db::snapshot::delete_claims(conn, edit).await } };
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
        if undeletes {
            undelete(tx, actor, now, quotas, &mut post).await?;
        } else if post.status == PostStatus::Published {
            db::feed::upsert(tx, &post).await?;
        }
        Ok(post)
    })
    .await
}

impl NewBlock {
    /// Returns the block as it is stored.
    ///
    /// # Errors
    /// [`CONFLICT`] if the embed is not resolved.
    fn to_block(&self, resolved: &HashMap<EmbedTarget, ResolvedEmbed>) -> Result<Cow<'_, Block>, Error> {
        match &self.content {
            NewContent::Ready(block) => Ok(Cow::Borrowed(block)),
            NewContent::Embed { block_id, sort_order, target, .. } => {
                let ResolvedEmbed { source, card } = resolved.get(target).ok_or(CONFLICT)?;
                Ok(Cow::Owned(Block::SelectionEmbed(Embed {
                    block_id: *block_id,
                    sort_order: *sort_order,
                    source_selection_id: *source,
                    snapshot_id: card.snapshot_id,
                    public_code: card.public_code.clone(),
                    title: card.title.clone(),
                    items_count: card.items_count,
                })))
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
    distinct(blocks.iter().filter_map(|block| match block.target() {
        Some(EmbedTarget::Source(source)) => Some(source),
        Some(EmbedTarget::Snapshot(_) | EmbedTarget::AsRead(..)) | None => None,
    }))
}

fn distinct<T: Copy + Eq + Hash>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = HashSet::new();
    items.filter(|item| seen.insert(*item)).collect()
}

/// Returns the snapshots of the request in block order.
fn snapshot_ids(blocks: &[NewBlock]) -> impl Iterator<Item = SnapshotId> {
    blocks.iter().filter_map(|block| match block.target() {
        Some(EmbedTarget::Snapshot(id)) => Some(id),
        Some(EmbedTarget::Source(_) | EmbedTarget::AsRead(..)) | None => None,
    })
}
