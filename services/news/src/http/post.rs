//! Operations on posts, except the blocks edit.

use std::sync::Arc;

use ::db::{PipelinedConn, Tx};
use ::web::{ClientAddress, Json, reserve};
use actix_web::middleware::from_fn;
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse, delete, get, post, put};
use auth::{Actor, CompanyId, Permitted, UserId, Visitor};
use futures_util::{StreamExt, stream};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use service::{Idempotency, Reply};
use time::OffsetDateTime;
use tokio::time::Instant;
use utoipa::ToSchema;

use crate::app::App;
use crate::clients::SnapshotContent;
use crate::db;
use crate::domain::{
    AuthorId, Block, BlockId, CreatePosts, Embed, FileId, Gallery, Post, PostId, PostStatus, SelectionId,
    SnapshotId, Summary, Tag, Tags, TextBlock, TextFormat, Title, distinct_tags, may_edit, may_see,
};
use crate::error::{Error, FORBIDDEN, POST_NOT_FOUND};
use crate::ops;
use crate::ops::post::{Metadata, MetadataEdit};

/// Maximum number of concurrent calls for the embeds of one post.
const MAX_CONCURRENT_CALLS: usize = 8;

/// A whole post.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct PostView {
    id: PostId,
    tenant_id: Option<CompanyId>,
    /// The author for readers. The id is stable and does not reveal the user.
    author_id: AuthorId,
    /// `null` unless the caller may edit the post.
    author_user_id: Option<UserId>,
    author_company_id: Option<CompanyId>,
    title: Title,
    summary: Option<Summary>,
    cover_file_id: Option<FileId>,
    #[schema(max_items = 20)]
    tags: Vec<Tag>,
    status: PostStatus,
    /// The blocks, by `SortOrder`.
    blocks: Vec<BlockView>,
    #[serde(with = "time::serde::rfc3339::option")]
    published_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    /// `null` unless the caller may edit the post.
    created_by_user_id: Option<UserId>,
    #[serde(with = "time::serde::rfc3339")]
    updated_at: OffsetDateTime,
    /// `null` unless the caller may edit the post.
    updated_by_user_id: Option<UserId>,
    #[serde(with = "time::serde::rfc3339::option")]
    deleted_at: Option<OffsetDateTime>,
    version: i64,
}

/// A block of a response.
#[derive(Serialize, ToSchema)]
#[serde(tag = "Kind")]
pub enum BlockView {
    Text(TextBlockView),
    ImageGallery(Gallery),
    SelectionEmbed(EmbedView),
}

/// A text in three forms. Only `Html` is safe to insert into a page, whatever the format.
/// `PlainText` is text without markup: a page must escape it. `Text` is for editors. Markdown is in
/// it as it was sent and may contain scripts.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
#[schema(as = TextBlock)]
pub struct TextBlockView {
    block_id: BlockId,
    sort_order: u32,
    format: TextFormat,
    /// The text in its format. Html is sanitized, Markdown and Plain are as they were sent.
    text: String,
    /// The text as a reader reads it, without markup and invisible characters. Not escaped.
    plain_text: String,
    /// The text as sanitized HTML, safe to insert into a page. It has no scripts, styles, event
    /// handlers and images, and its links lead to `http`, `https`, `mailto`, `tel` or within the
    /// site. A request ignores this member.
    html: String,
}

impl From<TextBlock> for TextBlockView {
    fn from(block: TextBlock) -> Self {
        Self {
            html: block.html(),
            block_id: block.block_id,
            sort_order: block.sort_order,
            format: block.format,
            text: block.text,
            plain_text: block.plain_text,
        }
    }
}

/// An embedded selection with the items of its snapshot.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct EmbedView {
    block_id: BlockId,
    sort_order: u32,
    /// `null` unless the caller is the author of the post and may edit it.
    source_selection_id: Option<SelectionId>,
    snapshot_id: SnapshotId,
    public_code: String,
    title: String,
    items_count: u32,
    /// Items of the snapshot, or `null` while they are unavailable.
    #[serde(serialize_with = "serialize_items")]
    #[schema(value_type = Option<Vec<serde_json::Value>>)]
    items: Option<Arc<SnapshotContent>>,
}

impl EmbedView {
    fn new(embed: Embed, audience: Audience, items: Option<Arc<SnapshotContent>>) -> Self {
        Self {
            block_id: embed.block_id,
            sort_order: embed.sort_order,
            source_selection_id: audience.author(embed.source_selection_id),
            snapshot_id: embed.snapshot_id,
            public_code: embed.public_code,
            title: embed.title,
            items_count: embed.items_count,
            items,
        }
    }
}

/// The reader of a response. The ids of users are for editors. The ids of source selections are
/// for the author, since another editor could read the author's selection through a deal.
#[derive(Clone, Copy)]
enum Audience {
    Author,
    Editor,
    Everyone,
}

impl Audience {
    /// Returns the audience of an editor.
    fn of_editor(actor: &Actor, post: &Post) -> Self {
        if actor.user_id == post.author_user_id { Self::Author } else { Self::Editor }
    }

    /// Returns a value for the author, and `None` for everyone else.
    fn author<T>(self, value: T) -> Option<T> {
        matches!(self, Self::Author).then_some(value)
    }

    /// Returns a value for editors, and `None` for everyone else.
    fn editors<T>(self, value: T) -> Option<T> {
        (!matches!(self, Self::Everyone)).then_some(value)
    }
}

/// Serializes content that all readers share.
#[expect(clippy::ref_option, reason = "the signature that serde requires")]
fn serialize_items<S: Serializer>(
    content: &Option<Arc<SnapshotContent>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    content.as_ref().map(|content| &content.items).serialize(serializer)
}

/// Runs a change of a post and responds with the whole post.
///
/// Access is checked by a lookup, before the bytes are reserved and the post is read whole.
async fn run_change(
    app: &App,
    lookups: &PipelinedConn,
    request: &HttpRequest,
    actor: &Actor,
    id: PostId,
    change: impl AsyncFnOnce(&mut Tx) -> Result<Post, Error>,
) -> Result<HttpResponse, Error> {
    let found = lookups.run(async |conn| db::post::look_up(conn, id).await).await?;
    let found = found.ok_or(POST_NOT_FOUND)?;
    if !may_edit(actor, &found.post) {
        return Err(FORBIDDEN.into());
    }
    reserve(request, found.bytes).await?;
    let post = app.db.tx(change).await?;
    let audience = Audience::of_editor(actor, &post);
    Ok(HttpResponse::Ok().json(to_view(app, post, audience).await))
}

/// Adds the content of each embed to the post if it arrives in time.
async fn to_view(app: &App, post: Post, audience: Audience) -> PostView {
    let deadline = Instant::now() + app.embeds_wait;
    let blocks = post.blocks.into_iter().map(async |block| match block {
        Block::Text(text) => BlockView::Text(text.into()),
        Block::ImageGallery(gallery) => BlockView::ImageGallery(gallery),
        Block::SelectionEmbed(embed) => {
            let items = app.selections.snapshot_content(embed.snapshot_id, deadline).await;
            BlockView::SelectionEmbed(EmbedView::new(embed, audience, items))
        }
    });
    PostView {
        id: post.id,
        tenant_id: post.author_company_id,
        author_id: post.author_id,
        author_user_id: audience.editors(post.author_user_id),
        author_company_id: post.author_company_id,
        title: post.title,
        summary: post.summary,
        cover_file_id: post.cover_file_id,
        tags: post.tags,
        status: post.status,
        blocks: stream::iter(blocks).buffered(MAX_CONCURRENT_CALLS).collect().await,
        published_at: post.published_at,
        created_at: post.created_at,
        created_by_user_id: audience.editors(post.author_user_id),
        updated_at: post.updated_at,
        updated_by_user_id: audience.editors(post.updated_by_user_id),
        deleted_at: post.deleted_at,
        version: post.version,
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CreatePost {
    title: Title,
    summary: Option<Summary>,
    cover_file_id: Option<FileId>,
    tags: Option<Tags>,
    /// The company of the post, which must be the token's company. Null for a personal post.
    author_company_id: Option<CompanyId>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
#[expect(clippy::option_option, reason = "an absent member and null differ")]
pub struct UpdatePost {
    title: Title,
    /// An absent member keeps the summary, and `null` clears it.
    #[serde(default, deserialize_with = "read_present")]
    #[schema(value_type = Option<Summary>)]
    summary: Option<Option<Summary>>,
    /// An absent member keeps the cover, and `null` clears it.
    #[serde(default, deserialize_with = "read_present")]
    #[schema(value_type = Option<FileId>)]
    cover_file_id: Option<Option<FileId>>,
    /// An absent member keeps the tags, and `null` clears them.
    #[serde(default, deserialize_with = "read_present")]
    #[schema(value_type = Option<Tags>)]
    tags: Option<Option<Tags>>,
    /// The version that the caller read. Another stored version returns 409.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

/// Reads a member that is present, `null` or not. An absent member is `None`.
#[expect(clippy::option_option, reason = "an absent member and null differ")]
fn read_present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    member: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(member).map(Some)
}

/// Create a post.
///
/// The new post is a draft, personal or for the token's company.
#[utoipa::path(
    tag = "Posts",
    responses(
        (status = 201, description = "The new draft", body = PostView,
            headers(("Location" = String, description = "The post"))),
    )
)]
#[post("/api/v1/posts")]
pub async fn create_post(
    app: Data<App>,
    permitted: Permitted<CreatePosts>,
    idempotency: Idempotency,
    body: Json<CreatePost>,
) -> Result<HttpResponse, Error> {
    let Json(CreatePost { title, summary, cover_file_id, tags, author_company_id }) = body;
    let tags = distinct_tags(tags.unwrap_or_default());
    let metadata = Metadata { title, summary, cover_file_id, tags };
    let now = runtime::clock::now();
    let actor = permitted.actor;
    let create = async |tx: &mut _| {
        let post = ops::post::create_post(tx, &actor, now, app.quotas, author_company_id, metadata).await?;
        // A new post has no embeds, so the view needs no call.
        let location = format!("/api/v1/posts/{}", post.id);
        Ok(Reply::created(to_view(&app, post, Audience::Author).await).at(location))
    };
    idempotency.run(&app.db, create).await
}

/// Read a post.
///
/// Everyone may read a published post. Only users who may edit another post may read it.
/// Embeds have the frozen items of their snapshots, without the data of objects that are not
/// public. Ids of users and of source selections are only in the responses to users who may edit
/// the post. Therefore an invalid token returns 401. Of a text, only `Html` is safe to insert into
/// a page.
#[utoipa::path(
    tag = "Posts", security(()), params(("post_id" = PostId, Path)),
    responses(
        (status = 200, description = "The post with its embeds", body = PostView),
        (status = 304, description = "The guest has the current version (`If-None-Match`)")
    )
)]
#[get("/api/v1/posts/{post_id}", wrap = "from_fn(::web::cacheable)")]
pub async fn get_post(
    app: Data<App>,
    visitor: Visitor,
    id: Path<PostId>,
    address: ClientAddress,
    lookups: Data<PipelinedConn>,
    request: HttpRequest,
) -> Result<HttpResponse, Error> {
    if visitor.actor.is_none() {
        app.guest_reads.check(address)?;
    }
    let may_see = |post: &Post| may_see(visitor.actor.as_ref(), post);
    let found = lookups.run(async |conn| db::post::look_up(conn, *id).await).await?;
    let found = found.filter(|found| may_see(&found.post)).ok_or(POST_NOT_FOUND)?;
    reserve(&request, found.bytes).await?;
    let post = if found.is_whole {
        found.post
    } else {
        db::post::read(&app.db, *id).await?.filter(may_see).ok_or(POST_NOT_FOUND)?
    };
    let editor = visitor.actor.filter(|actor| may_edit(actor, &post));
    let audience = editor.map_or(Audience::Everyone, |actor| Audience::of_editor(&actor, &post));
    Ok(HttpResponse::Ok().json(to_view(&app, post, audience).await))
}

/// Replace the metadata of a post.
///
/// An absent member keeps its value, and `null` clears it. The content stays.
/// Idempotent: identical metadata changes nothing and keeps the version.
#[utoipa::path(
    tag = "Posts", params(("post_id" = PostId, Path)),
    responses((status = 200, description = "The post after the change", body = PostView))
)]
#[put("/api/v1/posts/{post_id}")]
pub async fn update_post(
    app: Data<App>,
    actor: Actor,
    id: Path<PostId>,
    lookups: Data<PipelinedConn>,
    request: HttpRequest,
    body: Json<UpdatePost>,
) -> Result<HttpResponse, Error> {
    let Json(UpdatePost { title, summary, cover_file_id, tags, version }) = body;
    let tags = tags.map(|tags| distinct_tags(tags.unwrap_or_default()));
    let metadata = MetadataEdit { title, summary, cover_file_id, tags };
    let now = runtime::clock::now();
    run_change(&app, &lookups, &request, &actor, *id, async |tx| {
        ops::post::update_post(tx, &actor, now, *id, version, metadata).await
    })
    .await
}

/// Delete a post.
///
/// The post no longer exists for any operation. Its snapshots are detached afterwards.
#[utoipa::path(
    tag = "Posts", params(("post_id" = PostId, Path)),
    responses((status = 204, description = "Deleted"))
)]
#[delete("/api/v1/posts/{post_id}")]
pub async fn delete_post(app: Data<App>, actor: Actor, id: Path<PostId>) -> Result<HttpResponse, Error> {
    let now = runtime::clock::now();
    app.db.tx(async |tx| ops::post::delete_post(tx, &actor, now, *id).await).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// Publish a post.
///
/// The post needs at least one block. A later publication keeps the time of the first one.
#[utoipa::path(
    tag = "Posts", params(("post_id" = PostId, Path)),
    responses((status = 200, description = "The post after the change", body = PostView))
)]
#[post("/api/v1/posts/{post_id}/publish")]
pub async fn publish_post(
    app: Data<App>,
    actor: Actor,
    id: Path<PostId>,
    lookups: Data<PipelinedConn>,
    request: HttpRequest,
) -> Result<HttpResponse, Error> {
    let now = runtime::clock::now();
    run_change(&app, &lookups, &request, &actor, *id, async |tx| {
        ops::post::publish_post(tx, &actor, now, *id).await
    })
    .await
}

/// Unpublish a post.
///
/// The post can be published again.
#[utoipa::path(
    tag = "Posts", params(("post_id" = PostId, Path)),
    responses((status = 200, description = "The post after the change", body = PostView))
)]
#[post("/api/v1/posts/{post_id}/unpublish")]
pub async fn unpublish_post(
    app: Data<App>,
    actor: Actor,
    id: Path<PostId>,
    lookups: Data<PipelinedConn>,
    request: HttpRequest,
) -> Result<HttpResponse, Error> {
    let now = runtime::clock::now();
    run_change(&app, &lookups, &request, &actor, *id, async |tx| {
        ops::post::unpublish_post(tx, &actor, now, *id).await
    })
    .await
}

/// Archive a post.
///
/// Archived is final: the post can be read and deleted, but no longer changed.
#[utoipa::path(
    tag = "Posts", params(("post_id" = PostId, Path)),
    responses((status = 200, description = "The post after the change", body = PostView))
)]
#[post("/api/v1/posts/{post_id}/archive")]
pub async fn archive_post(
    app: Data<App>,
    actor: Actor,
    id: Path<PostId>,
    lookups: Data<PipelinedConn>,
    request: HttpRequest,
) -> Result<HttpResponse, Error> {
    let now = runtime::clock::now();
    run_change(&app, &lookups, &request, &actor, *id, async |tx| {
        ops::post::archive_post(tx, &actor, now, *id).await
    })
    .await
}
