//! The blocks edit, which replaces the content of a post.

use std::collections::HashSet;
use std::fmt;

use ::db::PipelinedConn;
use ::web::{Fields, Json, Problem, decode_part};
use actix_web::web::{Data, Path};
use actix_web::{Responder, put, web};
use auth::Actor;
use serde::de::{Error as _, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use values::{Code, Invalid};

use crate::app::App;
use crate::domain::{
    Block, BlockId, BlockText, Gallery, GalleryLayout, Images, MAX_BLOCKS, Post, PostId, SelectionId,
    SnapshotId, TextBlock, TextFormat, embed_snapshot_ids,
};
use crate::error::{Error, TOO_MANY_BLOCKS};
use crate::ops;
use crate::ops::block::EditContext;
use crate::ops::new_block::{BlocksEdit, EmbedTarget, NewBlock, NewContent, block_pointer};

/// Maximum size of the body, in bytes. The 200 texts of the largest post have 20,000 characters
/// each: 16 MB in UTF-8, or 24 MB as escapes of six bytes.
const MAX_BODY_BYTES: usize = 24 * 1024 * 1024;
pub(super) const BODY_TOO_LARGE: Code =
    Code::common(413, "PAYLOAD_TOO_LARGE").with_arg("max", MAX_BODY_BYTES as u64);

/// Maximum size of blocks that the thread of the listener parses or compares, in bytes.
///
/// Sanitizing more bytes would delay the other requests of the thread.
pub const MAX_INLINE_BYTES: usize = 16 * 1024;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct SetPostBlocks {
    /// The blocks in any order. They are sorted by `SortOrder`.
    #[serde(deserialize_with = "read_up_to_limit")]
    #[schema(value_type = Vec<BlockInput>, max_items = 200)]
    blocks: Vec<Box<RawValue>>,
    /// The version that the caller read. A different stored version returns 409, unless the content
    /// is already the same.
    #[serde(default, deserialize_with = "::web::read_version")]
    version: Option<i64>,
}

/// Keeps the blocks up to the first one above the limit, and skips the others.
fn read_up_to_limit<'de, D: Deserializer<'de>>(list: D) -> Result<Vec<Box<RawValue>>, D::Error> {
    struct List;

    impl<'de> Visitor<'de> for List {
        type Value = Vec<Box<RawValue>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of blocks")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut blocks = Vec::new();
            while blocks.len() <= MAX_BLOCKS {
                let Some(block) = list.next_element()? else { return Ok(blocks) };
                blocks.push(block);
            }
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok(blocks)
        }
    }

    list.deserialize_seq(List)
}

/// A block of a request. A null `BlockId` makes a new id, a given one stays the same over versions.
#[derive(Deserialize, ToSchema)]
#[serde(tag = "Kind")]
#[expect(
    dead_code,
    reason = "only the OpenAPI document uses the type; the handler decodes each kind separately for exact pointers"
)]
pub enum BlockInput {
    Text(TextBlockInput),
    ImageGallery(ImageGalleryBlockInput),
    SelectionEmbed(SelectionEmbedBlockInput),
}

#[derive(Deserialize)]
enum Kind {
    Text,
    ImageGallery,
    SelectionEmbed,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct BlockHead {
    kind: Kind,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct TextBlockInput {
    block_id: Option<BlockId>,
    #[serde(deserialize_with = "read_sort_order")]
    sort_order: u32,
    format: TextFormat,
    text: BlockText,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ImageGalleryBlockInput {
    block_id: Option<BlockId>,
    #[serde(deserialize_with = "read_sort_order")]
    sort_order: u32,
    layout: GalleryLayout,
    images: Images,
}

/// An embedded selection. Exactly one of the two ids is set, unless the block is sent back as it
/// was read.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct SelectionEmbedBlockInput {
    block_id: Option<BlockId>,
    #[serde(deserialize_with = "read_sort_order")]
    sort_order: u32,
    source_selection_id: Option<SelectionId>,
    snapshot_id: Option<SnapshotId>,
    /// True takes a new snapshot of a selection that the post embeds. Every block of the selection
    /// gets it. The caller must own the selection, or be the author of the post.
    refresh: Option<bool>,
}

/// Reads an `int` of 0 or more.
fn read_sort_order<'de, D: Deserializer<'de>>(number: D) -> Result<u32, D::Error> {
    u32::try_from(i32::deserialize(number)?).map_err(D::Error::custom)
}

/// Checks the number of blocks (rule 1 of the specification) and the form of each block (rule 2).
pub fn parse_blocks(raw: &[Box<RawValue>]) -> Result<Vec<NewBlock>, Error> {
    if raw.len() > MAX_BLOCKS {
        return Err(TOO_MANY_BLOCKS.into());
    }
    let mut fields = Fields::default();
    let mut seen = HashSet::new();
    let blocks: Vec<Option<NewBlock>> = (0..)
        .zip(raw)
        .map(|(index, raw): (usize, _)| parse_block(&mut fields, &mut seen, index, raw))
        .collect();
    Ok(fields.finish(blocks.into_iter().collect())?)
}

fn parse_block(
    fields: &mut Fields,
    seen: &mut HashSet<BlockId>,
    index: usize,
    raw: &RawValue,
) -> Option<NewBlock> {
    let pointer = &block_pointer(index);
    let (id, content) = match decode::<BlockHead>(fields, pointer, raw)?.kind {
        Kind::Text => {
            let input: TextBlockInput = decode(fields, pointer, raw)?;
            let block_id = check_block_id(fields, seen, pointer, input.block_id);
            let block = TextBlock::new(block_id?, input.sort_order, input.format, &input.text);
            let block = fields.check(&format!("{pointer}/Text"), block);
            (input.block_id, NewContent::Ready(Block::Text(block?)))
        }
        Kind::ImageGallery => {
            let input: ImageGalleryBlockInput = decode(fields, pointer, raw)?;
            let block_id = check_block_id(fields, seen, pointer, input.block_id);
            let (sort_order, layout, images) = (input.sort_order, input.layout, input.images.into_inner());
            let gallery = Gallery { block_id: block_id?, sort_order, layout, images };
            (input.block_id, NewContent::Ready(Block::ImageGallery(gallery)))
        }
        Kind::SelectionEmbed => {
            let input: SelectionEmbedBlockInput = decode(fields, pointer, raw)?;
            let block_id = check_block_id(fields, seen, pointer, input.block_id);
            let target = match (input.source_selection_id, input.snapshot_id) {
                (Some(source), None) => Ok(EmbedTarget::Source(source)),
                (None, Some(snapshot)) => Ok(EmbedTarget::Snapshot(snapshot)),
                (Some(source), Some(snapshot)) if input.block_id.is_some() => {
                    Ok(EmbedTarget::AsRead(source, snapshot))
                }
                (Some(_), Some(_)) | (None, None) => Err(Invalid::new("exactly_one")),
            };
            let target = fields.check(pointer, target);
            let content = NewContent::Embed {
                block_id: block_id?,
                sort_order: input.sort_order,
                target: target?,
                refresh: input.refresh.unwrap_or(false),
            };
            (input.block_id, content)
        }
    };
    Some(NewBlock { index, has_new_id: id.is_none(), content })
}

fn decode<T: serde::de::DeserializeOwned>(fields: &mut Fields, pointer: &str, raw: &RawValue) -> Option<T> {
    decode_part(pointer, raw).map_err(|errors| fields.refuse(errors)).ok()
}

/// Assigns a missing id, and refuses an id that occurs twice.
fn check_block_id(
    fields: &mut Fields,
    seen: &mut HashSet<BlockId>,
    pointer: &str,
    id: Option<BlockId>,
) -> Option<BlockId> {
    let id = id.unwrap_or_else(BlockId::generate);
    let unique = if seen.insert(id) { Ok(id) } else { Err(Invalid::new("duplicate")) };
    fields.check(&format!("{pointer}/BlockId"), unique)
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct SetPostBlocksResult {
    post_id: PostId,
    blocks_count: usize,
    /// The distinct snapshots of the embeds, in block order.
    embed_snapshot_ids: Vec<SnapshotId>,
    /// Version of the post with this content.
    version: i64,
}

impl From<Post> for SetPostBlocksResult {
    fn from(post: Post) -> Self {
        Self {
            post_id: post.id,
            blocks_count: post.blocks.len(),
            embed_snapshot_ids: embed_snapshot_ids(&post.blocks),
            version: post.version,
        }
    }
}

/// Replace the content of a post.
///
/// Replaces the whole content or nothing. Sources of embeds become snapshots.
/// Idempotent: the same content changes nothing and keeps the version. With `Refresh` each request
/// takes new snapshots, and is a new version.
/// Snapshots that left the content are detached afterwards.
#[utoipa::path(
    tag = "Posts", params(("post_id" = PostId, Path)),
    request_body(content = SetPostBlocks, description = "At most 24 MiB."),
    responses((status = 200, description = "The saved content", body = SetPostBlocksResult))
)]
#[put("/api/v1/posts/{post_id}/blocks")]
pub async fn set_post_blocks(
    app: Data<App>,
    lookups: Data<PipelinedConn>,
    actor: Actor,
    id: Path<PostId>,
    body: Json<SetPostBlocks, MAX_BODY_BYTES>,
) -> Result<impl Responder, Error> {
    let Json(SetPostBlocks { blocks, version }) = body;
    let blocks = if blocks.iter().map(|block| block.get().len()).sum::<usize>() <= MAX_INLINE_BYTES {
        parse_blocks(&blocks)?
    } else {
        web::block(move || parse_blocks(&blocks)).await.map_err(|error| Problem::internal(&error))??
    };
    let now = runtime::clock::now();
    let edit = BlocksEdit { version, blocks, has_named_sources: true };
    let context =
        EditContext { lookups: &lookups, db: &app.db, selections: &app.selections, quotas: app.quotas };
    let post = ops::block::set_post_blocks(context, &actor, now, *id, edit).await?;
    Ok(web::Json(SetPostBlocksResult::from(post)))
}
