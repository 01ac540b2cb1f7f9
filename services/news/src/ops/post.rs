//! Use cases of posts, except the blocks edit.

use ::db::Tx;
use auth::{Actor, CompanyId};
use messaging::outbox;
use time::OffsetDateTime;

use crate::db;
use crate::domain::{
    FileId, Post, PostId, PostStatus, Quotas, Schedule, Summary, Tag, Title, embed_snapshot_ids,
    is_moderator, may_create, may_edit,
};
use crate::error::{CONFLICT, Error, FORBIDDEN, POST_NOT_FOUND};
use crate::events::{PostArchived, PostDeleted, PostPublished, PostUnpublished, PostUpdated};

/// Name of the job that publishes and unpublishes a post at its times. Its key is the post's id.
pub const SCHEDULE_JOB: &str = "post-schedule";

/// Metadata of a post.
pub struct Metadata {
    pub title: Title,
    pub summary: Option<Summary>,
    pub cover_file_id: Option<FileId>,
    pub tags: Vec<Tag>,
}

/// A change of the metadata. A field that is `None` keeps its value.
#[expect(clippy::option_option, reason = "an absent member and null differ")]
pub struct MetadataEdit {
    pub title: Title,
    pub summary: Option<Option<Summary>>,
    pub cover_file_id: Option<Option<FileId>>,
    pub tags: Option<Vec<Tag>>,
}

/// Creates a draft.
///
/// # Errors
/// - [`FORBIDDEN`] if the actor may not create such a post.
/// - `DRAFTS_LIMIT_EXCEEDED` if the actor has the maximum number of drafts.
pub async fn create_post(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    quotas: Quotas,
    author_company_id: Option<CompanyId>,
    metadata: Metadata,
) -> Result<Post, Error> {
    if !may_create(actor, author_company_id) {
        return Err(FORBIDDEN.into());
    }
    // The lock of the author precedes the count, so that concurrent requests cannot exceed the
    // limit.
    let author_id = db::author::lock_or_insert(tx, actor.user_id).await?;
    if quotas.drafts.is_some() {
        quotas.check_drafts(db::post::count_drafts(tx, actor.user_id).await?)?;
    }
    let post = Post {
        id: PostId::generate(),
        author_id,
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
        deleted_by_moderator: false,
        schedule: Schedule::default(),
        schedule_failure: None,
        version: 1,
    };
    db::post::insert(tx, &post).await?;
    Ok(post)
}

/// Replaces the metadata that the edit names.
///
/// # Errors
/// In this order: [`POST_NOT_FOUND`], [`FORBIDDEN`], `POST_ARCHIVED`, and [`CONFLICT`] if `version`
/// is outdated or another change was faster.
pub async fn update_post(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    id: PostId,
    version: Option<i64>,
    edit: MetadataEdit,
) -> Result<Post, Error> {
    let mut post = find_for_edit(tx, actor, id).await?;
    post.check_editable()?;
    let metadata = Metadata {
        title: edit.title,
        summary: edit.summary.unwrap_or_else(|| post.summary.clone()),
        cover_file_id: edit.cover_file_id.unwrap_or(post.cover_file_id),
        tags: edit.tags.unwrap_or_else(|| post.tags.clone()),
    };
    let is_unchanged = post.title == metadata.title
        && post.summary == metadata.summary
        && post.cover_file_id == metadata.cover_file_id
        && post.tags == metadata.tags;
    if is_unchanged {
        return Ok(post);
    }
    if version.is_some_and(|version| version != post.version) {
        return Err(CONFLICT.into());
    }
    post.title = metadata.title;
    post.summary = metadata.summary;
    post.cover_file_id = metadata.cover_file_id;
    post.tags = metadata.tags;
    save(tx, actor, now, &mut post).await?;
    if post.status == PostStatus::Published {
        db::feed::upsert(tx, &post).await?;
        outbox::append(tx, &PostUpdated::of(&post, post.blocks.len())).await?;
    }
    Ok(post)
}

/// Publishes a post.
///
/// # Errors
/// In this order: [`POST_NOT_FOUND`], [`FORBIDDEN`], the errors of [`Post::publish`], [`CONFLICT`].
pub async fn publish_post(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    id: PostId,
) -> Result<Post, Error> {
    let mut post = find_for_edit(tx, actor, id).await?;
    let schedule = post.schedule;
    let first_publication = post.publish(now)?;
    save(tx, actor, now, &mut post).await?;
    db::feed::upsert(tx, &post).await?;
    outbox::append(tx, &PostPublished::of(&post, first_publication)).await?;
    reschedule_if_changed(tx, schedule, &post).await?;
    Ok(post)
}

/// Unpublishes a post.
///
/// # Errors
/// In this order: [`POST_NOT_FOUND`], [`FORBIDDEN`], the errors of [`Post::unpublish`],
/// [`CONFLICT`].
pub async fn unpublish_post(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    id: PostId,
) -> Result<Post, Error> {
    let mut post = find_for_edit(tx, actor, id).await?;
    let schedule = post.schedule;
    post.unpublish()?;
    save(tx, actor, now, &mut post).await?;
    db::feed::delete(tx, id).await?;
    outbox::append(tx, &PostUnpublished::of(&post)).await?;
    reschedule_if_changed(tx, schedule, &post).await?;
    Ok(post)
}

/// Archives a post.
///
/// # Errors
/// In this order: [`POST_NOT_FOUND`], [`FORBIDDEN`], the errors of [`Post::archive`], [`CONFLICT`].
pub async fn archive_post(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    id: PostId,
) -> Result<Post, Error> {
    let mut post = find_for_edit(tx, actor, id).await?;
    let schedule = post.schedule;
    post.archive()?;
    save(tx, actor, now, &mut post).await?;
    outbox::append(tx, &PostArchived::of(&post)).await?;
    reschedule_if_changed(tx, schedule, &post).await?;
    Ok(post)
}

/// Deletes a post softly, and schedules the detachment of its snapshots.
///
/// # Errors
/// In this order: [`POST_NOT_FOUND`], [`FORBIDDEN`].
pub async fn delete_post(tx: &mut Tx, actor: &Actor, now: OffsetDateTime, id: PostId) -> Result<(), Error> {
    // The lock makes the loser of a concurrent delete return 404.
    let mut post = check_may_edit(actor, db::post::lock_embeds(tx, id).await?)?;
    let schedule = post.schedule;
    post.delete(now, is_moderator(actor, &post));
    save(tx, actor, now, &mut post).await?;
    db::feed::delete(tx, id).await?;
    outbox::append(tx, &PostDeleted::of(&post, now)).await?;
    reschedule_if_changed(tx, schedule, &post).await?;
    db::snapshot::schedule_detachments(tx, id, embed_snapshot_ids(&post.blocks), "PostDeleted", now).await?;
    Ok(())
}

/// Reschedules or cancels the job if the schedule of the post has changed.
async fn reschedule_if_changed(tx: &mut Tx, before: Schedule, post: &Post) -> Result<(), Error> {
    if post.schedule != before {
        schedule_job(tx, post).await?;
    }
    Ok(())
}

/// Schedules the job for the next time of a post, or cancels the job.
///
/// Call it after the change has taken its locks.
pub async fn schedule_job(tx: &mut Tx, post: &Post) -> Result<(), ::db::Error> {
    match post.schedule.next_at() {
        Some(at) => jobs::schedule(tx, SCHEDULE_JOB, [post.id], at).await,
        None => jobs::cancel(tx, SCHEDULE_JOB, post.id).await,
    }
}

/// Undeletes a locked post.
///
/// Save its blocks first. The save locks revisions and then the author. This function locks the
/// author, so the opposite order could deadlock.
///
/// # Errors
/// `DRAFTS_LIMIT_EXCEEDED`, or [`CONFLICT`] if the row no longer has the version that was read.
pub async fn undelete(
    tx: &mut Tx,
    actor: &Actor,
    now: OffsetDateTime,
    quotas: Quotas,
    post: &mut Post,
) -> Result<(), Error> {
    post.undelete();
    if post.status == PostStatus::Draft {
        db::author::lock_or_insert(tx, post.author_user_id).await?;
        quotas.check_drafts(db::post::count_drafts(tx, post.author_user_id).await?)?;
    }
    post.touch(actor.user_id, now);
    db::post::save(tx, post).await?;
    if post.status == PostStatus::Archived {
        outbox::append(tx, &PostArchived::of(post)).await?;
    } else {
        outbox::append(tx, &PostUnpublished::of(post)).await?;
    }
    Ok(())
}

/// Returns the post if the actor may edit it.
pub async fn find_for_edit(tx: &mut Tx, actor: &Actor, id: PostId) -> Result<Post, Error> {
    check_may_edit(actor, db::post::find(tx, id).await?)
}

fn check_may_edit(actor: &Actor, post: Option<Post>) -> Result<Post, Error> {
    let post = post.ok_or(POST_NOT_FOUND)?;
    if may_edit(actor, &post) { Ok(post) } else { Err(FORBIDDEN.into()) }
}

async fn save(tx: &mut Tx, actor: &Actor, now: OffsetDateTime, post: &mut Post) -> Result<(), Error> {
    post.touch(actor.user_id, now);
    db::post::save(tx, post).await
}
