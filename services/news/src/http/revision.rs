//! Revisions of the content of a post, and deleted posts that are brought back.

use ::db::PipelinedConn;
use ::web::{CursorPage, CursorPaging, OptionalJson, Problem, Query, reserve, unknown_cursor};
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse, Responder, get, post, web};
use auth::{Actor, UserId};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::{IntoParams, ToSchema};

use super::block::{MAX_INLINE_BYTES, SetPostBlocksResult};
use super::post_view::{Audience, BlockView, PostView, to_block_view, to_view};
use crate::app::App;
use crate::db;
use crate::db::log::LogKey;
use crate::db::revision::{Revision, RevisionSummary};
use crate::domain::{Block, BlockChange, BlockId, Post, PostId, differences, may_edit, may_see};
use crate::error::{Error, FORBIDDEN, POST_NOT_FOUND, REVISION_NOT_FOUND};
use crate::ops;
use crate::ops::block::EditContext;

/// A revision with its content.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct PostRevision {
    /// Version of the post with this content.
    version: i64,
    /// Id of the user who made the change.
    actor_user_id: UserId,
    #[serde(with = "time::serde::rfc3339")]
    occurred_at: OffsetDateTime,
    /// The blocks, by `SortOrder`. `Items` of embeds are null.
    blocks: Vec<BlockView>,
}

/// A block that differs between two revisions.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct BlockDifferenceView {
    block_id: BlockId,
    change: BlockChange,
    /// The block in the earlier revision. Null for an added block.
    before: Option<BlockView>,
    /// The block in the later revision. Null for a removed block.
    after: Option<BlockView>,
}

/// The difference of two revisions.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct RevisionDifference {
    /// Version of the revision that is compared.
    since: i64,
    /// Version of the revision with the changes.
    version: i64,
    /// The blocks that differ, in the order of the revision. Removed blocks follow.
    #[schema(max_items = 400)]
    blocks: Vec<BlockDifferenceView>,
}

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct CompareRevisions {
    /// Version of the revision to compare with.
    #[param(minimum = 1)]
    since: i64,
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct RestoreRevision {
    /// The version of the post that the caller read. Another stored version returns 409, unless the
    /// content is already the same.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

/// Returns the post with only its embeds if the actor may edit it.
async fn find_for_edit(app: &App, actor: &Actor, id: PostId) -> Result<Post, Error> {
    let conn = app.db.conn().await?;
    let post = db::post::look_up_for_edit(&conn, id).await?.ok_or(POST_NOT_FOUND)?.post;
    if !may_see(Some(actor), &post) {
        return Err(POST_NOT_FOUND.into());
    }
    if may_edit(actor, &post) { Ok(post) } else { Err(FORBIDDEN.into()) }
}

/// Reserves the bytes of revisions in a response, then reads them. Returns them with their size.
async fn read_revisions<const N: usize>(
    app: &App,
    request: &HttpRequest,
    id: PostId,
    versions: [i64; N],
) -> Result<(Vec<Revision>, usize), Error> {
    let mut bytes = 0;
    for version in versions {
        let conn = app.db.conn().await?;
        let size = db::revision::find_size(&conn, id, version).await?.ok_or(REVISION_NOT_FOUND)?;
        // A text is stored as it was sent and as plain text, and the response adds its HTML.
        bytes += size + size / 2;
    }
    reserve(request, bytes).await?;
    let mut revisions = Vec::new();
    for version in versions {
        revisions.push(db::revision::read(&app.db, id, version).await?.ok_or(REVISION_NOT_FOUND)?);
    }
    Ok((revisions, bytes))
}

/// List the revisions of a post.
///
/// The present content and earlier ones, newest first. A series of saves of one user within 5
/// minutes keeps one of them. They are kept for 90 days after their replacement, up to 49 and
/// 64 MiB of a post. Only users who may edit the post may read them.
#[utoipa::path(
    tag = "Posts", params(("post_id" = PostId, Path), CursorPaging<LogKey>),
    responses((status = 200, description = "One page", body = CursorPage<RevisionSummary>))
)]
#[get("/api/v1/posts/{post_id}/revisions")]
pub async fn list_post_revisions(
    app: Data<App>,
    actor: Actor,
    id: Path<PostId>,
    paging: CursorPaging<LogKey>,
) -> Result<impl Responder, Error> {
    find_for_edit(&app, &actor, *id).await?;
    let conn = app.db.conn().await?;
    if let Some(after) = &paging.after
        && !db::log::contains(&conn, *id, after).await?
    {
        return Err(unknown_cursor().into());
    }
    Ok(web::Json(db::revision::list(&conn, *id, &paging).await?))
}

/// Read a revision of a post.
///
/// The present content and each kept revision, for those who may edit the post. A revision is kept
/// for up to 90 days after its replacement.
#[utoipa::path(
    tag = "Posts",
    params(("post_id" = PostId, Path), ("version" = i64, Path, description = "The version of the post with this content")),
    responses((status = 200, description = "The revision", body = PostRevision))
)]
#[get("/api/v1/posts/{post_id}/revisions/{version}")]
pub async fn read_post_revision(
    app: Data<App>,
    actor: Actor,
    ids: Path<(PostId, i64)>,
    request: HttpRequest,
) -> Result<impl Responder, Error> {
    let (id, version) = ids.into_inner();
    let post = find_for_edit(&app, &actor, id).await?;
    let audience = Audience::of_editor(&actor, &post);
    let (found, _) = read_revisions(&app, &request, id, [version]).await?;
    let Revision { version, actor_user_id, occurred_at, blocks } =
        found.into_iter().next().ok_or(REVISION_NOT_FOUND)?;
    let blocks = blocks.into_iter().map(|block| to_block_view(block, audience)).collect();
    Ok(web::Json(PostRevision { version, actor_user_id, occurred_at, blocks }))
}

/// Compare two revisions of a post.
///
/// Returns the blocks that differ from the revision `Since`, by their ids.
#[utoipa::path(
    tag = "Posts", params(("post_id" = PostId, Path), ("version" = i64, Path), CompareRevisions),
    responses((status = 200, description = "The difference", body = RevisionDifference))
)]
#[get("/api/v1/posts/{post_id}/revisions/{version}/changes")]
pub async fn compare_post_revisions(
    app: Data<App>,
    actor: Actor,
    ids: Path<(PostId, i64)>,
    Query(CompareRevisions { since }): Query<CompareRevisions>,
    request: HttpRequest,
) -> Result<impl Responder, Error> {
    let (id, version) = ids.into_inner();
    let post = find_for_edit(&app, &actor, id).await?;
    let audience = Audience::of_editor(&actor, &post);
    let (found, bytes) = read_revisions(&app, &request, id, [since, version]).await?;
    let mut found = found.into_iter();
    let (Some(before), Some(after)) = (found.next(), found.next()) else {
        return Err(REVISION_NOT_FOUND.into());
    };
    let compare = move || compare_blocks(before.blocks, after.blocks, audience);
    let blocks = if bytes <= MAX_INLINE_BYTES {
        compare()
    } else {
        web::block(compare).await.map_err(|error| Problem::internal(&error))?
    };
    Ok(web::Json(RevisionDifference { since, version, blocks }))
}

fn compare_blocks(before: Vec<Block>, after: Vec<Block>, audience: Audience) -> Vec<BlockDifferenceView> {
    let differing = differences(before, after).into_iter().map(|found| BlockDifferenceView {
        block_id: found.id,
        change: found.change,
        before: found.before.map(|block| to_block_view(block, audience)),
        after: found.after.map(|block| to_block_view(block, audience)),
    });
    differing.collect()
}

/// Restore a revision of a post.
///
/// Makes the content of the revision the present content, as a new version.
/// An embed whose snapshot the post no longer has gets a new snapshot of its selection, which must
/// be the caller's.
/// Idempotent: the same content changes nothing and keeps the version.
#[utoipa::path(
    tag = "Posts", params(("post_id" = PostId, Path), ("version" = i64, Path)),
    request_body = Option<RestoreRevision>,
    responses((status = 200, description = "The saved content", body = SetPostBlocksResult))
)]
#[post("/api/v1/posts/{post_id}/revisions/{version}/restore")]
pub async fn restore_post_revision(
    app: Data<App>,
    lookups: Data<PipelinedConn>,
    actor: Actor,
    ids: Path<(PostId, i64)>,
    body: OptionalJson<RestoreRevision>,
    request: HttpRequest,
) -> Result<impl Responder, Error> {
    let (id, revision) = ids.into_inner();
    let OptionalJson(RestoreRevision { version }) = body;
    let now = runtime::clock::now();
    let post = ops::revision::find_restorable(&lookups, &actor, id).await?;
    let (found, _) = read_revisions(&app, &request, id, [revision]).await?;
    let Revision { blocks, .. } = found.into_iter().next().ok_or(REVISION_NOT_FOUND)?;
    let context =
        EditContext { lookups: &lookups, db: &app.db, selections: &app.selections, quotas: app.quotas };
    let post = ops::revision::restore_revision(context, &actor, now, &post, blocks, version).await?;
    Ok(web::Json(SetPostBlocksResult::from(post)))
}

/// Undelete a post.
///
/// A post can be brought back for 30 days after its deletion. A published one becomes Unpublished.
/// Only a moderator brings back what a moderator has deleted.
/// Embeds get new snapshots of their selections. If one of these is gone, empty or not the
/// caller's, all embeds are left out, and the revision before the deletion has them.
#[utoipa::path(
    tag = "Posts", params(("post_id" = PostId, Path)),
    responses((status = 200, description = "The post after the change", body = PostView))
)]
#[post("/api/v1/posts/{post_id}/undelete")]
pub async fn undelete_post(
    app: Data<App>,
    lookups: Data<PipelinedConn>,
    actor: Actor,
    id: Path<PostId>,
    request: HttpRequest,
) -> Result<HttpResponse, Error> {
    let now = runtime::clock::now();
    let context =
        EditContext { lookups: &lookups, db: &app.db, selections: &app.selections, quotas: app.quotas };
    let found = ops::revision::find_deleted(&lookups, &actor, now, *id).await?;
    reserve(&request, found.bytes).await?;
    let post = ops::revision::undelete_post(&context, &actor, now, found.post).await?;
    let audience = Audience::of_editor(&actor, &post);
    Ok(HttpResponse::Ok().json(to_view(&app, post, audience).await))
}
