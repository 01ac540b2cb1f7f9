//! The form of posts in responses.

use std::sync::Arc;

use auth::{Actor, CompanyId, UserId};
use futures_util::{StreamExt, stream};
use serde::{Serialize, Serializer};
use time::OffsetDateTime;
use tokio::time::Instant;
use utoipa::ToSchema;
use uuid::Uuid;
use values::Money;

use crate::app::App;
use crate::clients::SnapshotContent;
use crate::domain::{
    AuthorId, Block, BlockId, Embed, FileId, Gallery, Post, PostId, PostStatus, ScheduleFailure, SelectionId,
    SnapshotId, Summary, Tag, TextBlock, TextFormat, Title,
};

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
    /// Time at which the post will be published. `null` unless the caller may edit the post.
    #[serde(with = "time::serde::rfc3339::option")]
    publish_at: Option<OffsetDateTime>,
    /// Time at which the post will be unpublished. `null` unless the caller may edit the post.
    #[serde(with = "time::serde::rfc3339::option")]
    unpublish_at: Option<OffsetDateTime>,
    /// The last scheduled move that failed, until the next schedule or publication. `null` unless
    /// the caller may edit the post.
    schedule_failure: Option<ScheduleFailure>,
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
/// `PlainText` is text without markup: a page must escape it. `Text` is for editors. A Markdown
/// text is as it was sent, and may contain scripts.
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
    /// handlers or images. Its links have the scheme `http`, `https`, `mailto` or `tel`, or are
    /// relative. A request ignores this member.
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
    /// Items of the snapshot in their order, or `null` while they are unavailable.
    #[serde(serialize_with = "serialize_items")]
    #[schema(value_type = Option<Vec<EmbedItem>>)]
    items: Option<Arc<SnapshotContent>>,
}

/// An item of an embedded selection. Selections returns it, and this service passes it on.
#[derive(ToSchema)]
#[schema(rename_all = "PascalCase")]
#[expect(dead_code, reason = "only its schema is read")]
struct EmbedItem {
    property_object_id: Uuid,
    /// Position in the list, from 0 and without gaps.
    sort_order: u32,
    /// The frozen data of the object. `null` if `Withheld` is true, or if the object was not public
    /// when the snapshot was taken.
    shown: Option<EmbeddedObject>,
    /// True if the snapshot has data of the object, and the object is not public now.
    withheld: bool,
}

/// Data of a property object, as they were when the snapshot was taken.
#[derive(ToSchema)]
#[schema(rename_all = "PascalCase")]
#[expect(dead_code, reason = "only its schema is read")]
struct EmbeddedObject {
    project_id: Option<Uuid>,
    project_name: Option<String>,
    building_id: Option<Uuid>,
    building_name: Option<String>,
    number: Option<String>,
    rooms: Option<i32>,
    floor: Option<i32>,
    /// Area in square metres, with two decimal places.
    area_total: Option<f64>,
    price: Option<Money>,
    /// A status of a property object: `Available`, `Reserved`, `Booked`, `Sold` or `Unavailable`.
    status: Option<String>,
    layout_file_id: Option<Uuid>,
}

impl EmbedView {
    fn new(embed: Embed, audience: Audience, items: Option<Arc<SnapshotContent>>) -> Self {
        Self {
            block_id: embed.block_id,
            sort_order: embed.sort_order,
            source_selection_id: audience.for_author(embed.source_selection_id),
            snapshot_id: embed.snapshot_id,
            public_code: embed.public_code,
            title: embed.title,
            items_count: embed.items_count,
            items,
        }
    }
}

/// The reader of a response. The ids of users are for editors. The ids of source selections are
/// for the author. Another editor who also had the id of a selection could create a deal in `crm`
/// with it and the author's user id. The deal would show the selection.
#[derive(Clone, Copy)]
pub enum Audience {
    Author,
    Editor,
    Everyone,
}

impl Audience {
    /// Returns the audience of an editor.
    pub fn of_editor(actor: &Actor, post: &Post) -> Self {
        if actor.user_id == post.author_user_id { Self::Author } else { Self::Editor }
    }

    /// Returns a value for the author, and `None` for everyone else.
    fn for_author<T>(self, value: T) -> Option<T> {
        matches!(self, Self::Author).then_some(value)
    }

    /// Returns a value for editors, and `None` for everyone else.
    fn for_editors<T>(self, value: T) -> Option<T> {
        (!matches!(self, Self::Everyone)).then_some(value)
    }
}

/// Returns the view of a block. An embed has no items in it, because only [`to_view`] fetches them.
pub fn to_block_view(block: Block, audience: Audience) -> BlockView {
    match block {
        Block::Text(text) => BlockView::Text(text.into()),
        Block::ImageGallery(gallery) => BlockView::ImageGallery(gallery),
        Block::SelectionEmbed(embed) => BlockView::SelectionEmbed(EmbedView::new(embed, audience, None)),
    }
}

/// Serializes the items of content that all readers share.
#[expect(clippy::ref_option, reason = "the signature that serde requires")]
fn serialize_items<S: Serializer>(
    content: &Option<Arc<SnapshotContent>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    content.as_ref().map(|content| &content.items).serialize(serializer)
}

/// Returns the response for a post, with the content of each embed that arrives by the deadline.
pub async fn to_view(app: &App, post: Post, audience: Audience) -> PostView {
    let deadline = Instant::now() + app.embeds_wait;
    let blocks = post.blocks.into_iter().map(async |block| match block {
        Block::SelectionEmbed(embed) => {
            let items = app.selections.snapshot_content(embed.snapshot_id, deadline).await;
            BlockView::SelectionEmbed(EmbedView::new(embed, audience, items))
        }
        Block::Text(_) | Block::ImageGallery(_) => to_block_view(block, audience),
    });
    PostView {
        id: post.id,
        tenant_id: post.author_company_id,
        author_id: post.author_id,
        author_user_id: audience.for_editors(post.author_user_id),
        author_company_id: post.author_company_id,
        title: post.title,
        summary: post.summary,
        cover_file_id: post.cover_file_id,
        tags: post.tags,
        status: post.status,
        blocks: stream::iter(blocks).buffered(MAX_CONCURRENT_CALLS).collect().await,
        published_at: post.published_at,
        created_at: post.created_at,
        created_by_user_id: audience.for_editors(post.author_user_id),
        updated_at: post.updated_at,
        updated_by_user_id: audience.for_editors(post.updated_by_user_id),
        deleted_at: post.deleted_at,
        publish_at: audience.for_editors(post.schedule.publish_at).flatten(),
        unpublish_at: audience.for_editors(post.schedule.unpublish_at).flatten(),
        schedule_failure: audience.for_editors(post.schedule_failure).flatten(),
        version: post.version,
    }
}
