//! Operations on posts, except the blocks edit.

use ::db::{PipelinedConn, Tx};
use ::web::{ClientAddress, Json, reserve};
use actix_web::middleware::from_fn;
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse, delete, get, post, put};
use auth::{Actor, CompanyId, OptionalActor, Permitted};
use serde::Deserialize;
use service::{Idempotency, Reply};
use utoipa::ToSchema;

use super::post_view::{Audience, PostView, to_view};
use crate::app::App;
use crate::db;
use crate::domain::{
    CreatePosts, FileId, Post, PostId, Summary, Tags, Title, distinct_tags, may_edit, may_see,
};
use crate::error::{Error, FORBIDDEN, POST_NOT_FOUND};
use crate::ops;
use crate::ops::post::{Metadata, MetadataEdit};

/// Runs a change of a post and responds with the whole post.
///
/// A lookup checks the access. The service reserves the bytes and reads the whole post afterwards.
pub async fn run_change(
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
    #[serde(default, deserialize_with = "values::read_present")]
    #[schema(value_type = Option<Summary>)]
    summary: Option<Option<Summary>>,
    /// An absent member keeps the cover, and `null` clears it.
    #[serde(default, deserialize_with = "values::read_present")]
    #[schema(value_type = Option<FileId>)]
    cover_file_id: Option<Option<FileId>>,
    /// An absent member keeps the tags, and `null` clears them.
    #[serde(default, deserialize_with = "values::read_present")]
    #[schema(value_type = Option<Tags>)]
    tags: Option<Option<Tags>>,
    /// The version that the caller read. Another stored version returns 409, unless the content is
    /// already the same.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
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
/// Everyone may read a published post. A post in another status needs the right to edit it.
/// Embeds have the frozen items of their snapshots, without the data of objects that are not
/// public. Only users who may edit the post get ids of users, and only the author gets ids of
/// source selections. An invalid token returns 401, because a guest gets another response.
/// `Html` is the only member of a text block that is safe to insert into a page.
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
    visitor: OptionalActor,
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
    if visitor.actor.is_none() {
        app.guest_reads.check_size(address, found.bytes)?;
    }
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
/// The post is gone for every operation except `undelete`, which can restore it for 30 days. Its
/// snapshots are detached afterwards.
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
