//! The life of a post, but for its blocks.

use ::db::Tx;
use auth::{Actor, CompanyId};
use messaging::outbox;
use time::OffsetDateTime;

use crate::db;
use crate::domain::{
    FileId, Post, PostId, PostStatus, Summary, Tag, Title, embed_snapshot_ids, may_create, may_edit,
};
use crate::error::{CONFLICT, Error, FORBIDDEN, POST_NOT_FOUND};
use crate::events::PostPublished;

/// What a post says of itself.
pub struct Metadata {
    pub title: Title,
    pub summary: Option<Summary>,
    pub cover_file_id: Option<FileId>,
    pub tags: Vec<Tag>,
}

/// # Errors
/// [`FORBIDDEN`]
pub async fn create_post(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    author_company_id: Option<CompanyId>,
    metadata: Metadata,
) -> Result<Post, Error> {
    if !may_create(actor, author_company_id) {
        return Err(FORBIDDEN.into());
    }
    let post = Post {
        id: PostId::generate(),
        author_user_id: actor.user_id,
        author_company_id,
        title: metadata.title,
        summary: metadata.summary,
        cover_file_id: metadata.cover_file_id,
        tags: metadata.tags,
        status: PostStatus::Draft,
        blocks: Vec::new(),
        published_at: None,
        created_at: now,
        updated_at: now,
        updated_by_user_id: actor.user_id,
        deleted_at: None,
        version: 1,
    };
    db::post::insert(tx, &post).await?;
    Ok(post)
}

/// # Errors
/// [`POST_NOT_FOUND`], [`FORBIDDEN`], `Archived`, [`CONFLICT`]
pub async fn update_post(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    id: PostId,
    version: Option<i64>,
    new: Metadata,
) -> Result<Post, Error> {
    let mut post = find_for_edit(tx, actor, id).await?;
    post.check_editable()?;
    let same = post.title == new.title
        && post.summary == new.summary
        && post.cover_file_id == new.cover_file_id
        && post.tags == new.tags;
    if same {
        return Ok(post);
    }
    if version.is_some_and(|seen| seen != post.version) {
        return Err(CONFLICT.into());
    }
    post.title = new.title;
    post.summary = new.summary;
    post.cover_file_id = new.cover_file_id;
    post.tags = new.tags;
    save(tx, actor, now, &mut post).await?;
    if post.status == PostStatus::Published {
        db::feed::put(tx, &post).await?;
    }
    Ok(post)
}

/// # Errors
/// [`POST_NOT_FOUND`], [`FORBIDDEN`], `POST_ARCHIVED`, `POST_INVALID_TRANSITION`, [`CONFLICT`]
pub async fn publish_post(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    id: PostId,
) -> Result<Post, Error> {
    let mut post = find_for_edit(tx, actor, id).await?;
    let first_time = post.publish(now)?;
    save(tx, actor, now, &mut post).await?;
    db::feed::put(tx, &post).await?;
    outbox::append(tx, &PostPublished::of(&post, first_time)).await?;
    Ok(post)
}

/// # Errors
/// [`POST_NOT_FOUND`], [`FORBIDDEN`], `POST_ARCHIVED`, `POST_INVALID_TRANSITION`, [`CONFLICT`]
pub async fn unpublish_post(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    id: PostId,
) -> Result<Post, Error> {
    let mut post = find_for_edit(tx, actor, id).await?;
    post.unpublish()?;
    save(tx, actor, now, &mut post).await?;
    db::feed::remove(tx, id).await?;
    Ok(post)
}

/// # Errors
/// [`POST_NOT_FOUND`], [`FORBIDDEN`], `POST_ARCHIVED`, `POST_INVALID_TRANSITION`, [`CONFLICT`]
pub async fn archive_post(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    id: PostId,
) -> Result<Post, Error> {
    let mut post = find_for_edit(tx, actor, id).await?;
    post.archive()?;
    save(tx, actor, now, &mut post).await?;
    Ok(post)
}

/// Soft; the snapshots of its embeds are detached (`PostDeleted`).
///
/// # Errors
/// [`POST_NOT_FOUND`], [`FORBIDDEN`]
pub async fn delete_post(tx: &mut Tx, actor: &Actor, now: OffsetDateTime, id: PostId) -> Result<(), Error> {
    // Under its lock: of deletions that race, the second finds nothing any more.
    let mut post = admit(actor, db::post::lock_embeds(tx, id).await?)?;
    post.deleted_at = Some(now);
    save(tx, actor, now, &mut post).await?;
    db::feed::remove(tx, id).await?;
    db::snapshot::let_go(tx, id, embed_snapshot_ids(&post.blocks), "PostDeleted", now).await?;
    Ok(())
}

/// The post, if the actor may change it.
async fn find_for_edit(tx: &mut Tx, actor: &Actor, id: PostId) -> Result<Post, Error> {
    admit(actor, db::post::find(tx, id).await?)
}

fn admit(actor: &Actor, post: Option<Post>) -> Result<Post, Error> {
    let post = post.ok_or(POST_NOT_FOUND)?;
    if may_edit(actor, &post) { Ok(post) } else { Err(FORBIDDEN.into()) }
}

async fn save(tx: &mut Tx, actor: &Actor, now: OffsetDateTime, post: &mut Post) -> Result<(), Error> {
    post.updated_at = now;
    post.updated_by_user_id = actor.user_id;
    db::post::save(tx, post).await
}
