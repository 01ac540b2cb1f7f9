//! The content of a post, replaced whole.

use std::collections::HashSet;
use std::fmt;

use ::db::Lookups;
use ::web::{Fields, Json, Problem, decode_part};
use actix_web::web::{Data, Path};
use actix_web::{Responder, put, web};
use auth::Actor;
use serde::de::{Error as _, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use values::Invalid;

use crate::app::App;
use crate::domain::{
    Block, BlockId, BlockText, Gallery, GalleryLayout, Images, MAX_BLOCKS, PostId, SelectionId, SnapshotId,
    TextBlock, TextFormat, embed_snapshot_ids,
};
use crate::error::{Error, TOO_MANY_BLOCKS};
use crate::ops;
use crate::ops::block::{EmbedOf, NewBlock};

/// The largest legal body (200 texts of 20,000 four-byte characters) and room for the rest.
const MAX_BODY: usize = 24 * 1024 * 1024;

/// Sanitizing more bytes takes long enough to keep others waiting on a thread that serves them.
const SMALL: usize = 16 * 1024;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct SetPostBlocks {
    /// Kept as they came until they are counted.
    #[serde(deserialize_with = "at_most_one_too_many")]
    #[schema(value_type = Vec<BlockInput>, max_items = 200)]
    blocks: Vec<Box<RawValue>>,
}

/// Reads a list no further than is needed to know that it is too long.
fn at_most_one_too_many<'de, D: Deserializer<'de>>(list: D) -> Result<Vec<Box<RawValue>>, D::Error> {
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

/// A block as it is sent. `BlockId`: `null` for a new one; kept over versions when set.
#[derive(Deserialize, ToSchema)]
#[serde(tag = "Kind")]
#[expect(
    dead_code,
    reason = "the document's words; each kind is decoded by itself, so that refusals point into it"
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
struct Head {
    kind: Kind,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct TextBlockInput {
    block_id: Option<BlockId>,
    #[serde(deserialize_with = "natural")]
    sort_order: u32,
    format: TextFormat,
    text: BlockText,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ImageGalleryBlockInput {
    block_id: Option<BlockId>,
    #[serde(deserialize_with = "natural")]
    sort_order: u32,
    layout: GalleryLayout,
    images: Images,
}

/// Exactly one of the two ids.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct SelectionEmbedBlockInput {
    block_id: Option<BlockId>,
    #[serde(deserialize_with = "natural")]
    sort_order: u32,
    source_selection_id: Option<SelectionId>,
    snapshot_id: Option<SnapshotId>,
}

/// The contract's `int` of 0 and more.
fn natural<'de, D: Deserializer<'de>>(number: D) -> Result<u32, D::Error> {
    u32::try_from(i32::deserialize(number)?).map_err(D::Error::custom)
}

/// Rules 1 and 2 of the contract.
fn parse_blocks(raw: &[Box<RawValue>]) -> Result<Vec<NewBlock>, Error> {
    if raw.len() > MAX_BLOCKS {
        return Err(TOO_MANY_BLOCKS.into());
    }
    let mut fields = Fields::default();
    let mut seen = HashSet::new();
    let blocks: Vec<Option<NewBlock>> = (0..)
        .zip(raw)
        .map(|(at, raw): (usize, _)| parse_block(&mut fields, &mut seen, &format!("/Blocks/{at}"), raw))
        .collect();
    Ok(fields.finish(blocks.into_iter().collect())?)
}

fn parse_block(
    fields: &mut Fields,
    seen: &mut HashSet<BlockId>,
    at: &str,
    raw: &RawValue,
) -> Option<NewBlock> {
    match part::<Head>(fields, at, raw)?.kind {
        Kind::Text => {
            let input: TextBlockInput = part(fields, at, raw)?;
            let block_id = parse_id(fields, seen, at, input.block_id);
            let block = TextBlock::new(block_id?, input.sort_order, input.format, &input.text);
            let block = fields.check(&format!("{at}/Text"), block);
            Some(NewBlock::Ready(Block::Text(block?)))
        }
        Kind::ImageGallery => {
            let input: ImageGalleryBlockInput = part(fields, at, raw)?;
            let block_id = parse_id(fields, seen, at, input.block_id);
            let (sort_order, layout, images) = (input.sort_order, input.layout, input.images.into_inner());
            let gallery = Gallery { block_id: block_id?, sort_order, layout, images };
            Some(NewBlock::Ready(Block::ImageGallery(gallery)))
        }
        Kind::SelectionEmbed => {
            let input: SelectionEmbedBlockInput = part(fields, at, raw)?;
            let block_id = parse_id(fields, seen, at, input.block_id);
            let of = match (input.source_selection_id, input.snapshot_id) {
                (Some(source), None) => Ok(EmbedOf::Source(source)),
                (None, Some(snapshot)) => Ok(EmbedOf::Snapshot(snapshot)),
                (Some(_), Some(_)) | (None, None) => Err(Invalid::new("exactly_one")),
            };
            let of = fields.check(at, of);
            Some(NewBlock::Embed { block_id: block_id?, sort_order: input.sort_order, of: of? })
        }
    }
}

fn part<T: serde::de::DeserializeOwned>(fields: &mut Fields, at: &str, raw: &RawValue) -> Option<T> {
    decode_part(at, raw).map_err(|errors| fields.refuse(errors)).ok()
}

fn parse_id(
    fields: &mut Fields,
    seen: &mut HashSet<BlockId>,
    at: &str,
    id: Option<BlockId>,
) -> Option<BlockId> {
    let id = id.unwrap_or_else(BlockId::generate);
    let unique = if seen.insert(id) { Ok(id) } else { Err(Invalid::new("duplicate")) };
    fields.check(&format!("{at}/BlockId"), unique)
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct SetPostBlocksResult {
    post_id: PostId,
    blocks_count: usize,
    /// Distinct, in block order.
    embed_snapshot_ids: Vec<SnapshotId>,
}

/// Replace the content of a post.
///
/// Whole, or not at all: embeds given as sources are frozen now, those that left the content are detached later.
#[utoipa::path(
    tag = "Posts", params(("post_id" = PostId, Path)),
    request_body(content = SetPostBlocks, description = "At most 24 MiB."),
    responses((status = 200, description = "Saved", body = SetPostBlocksResult))
)]
#[put("/api/v1/posts/{post_id}/blocks")]
pub async fn set_post_blocks(
    app: Data<App>,
    lookups: Data<Lookups>,
    actor: Actor,
    id: Path<PostId>,
    body: Json<SetPostBlocks, MAX_BODY>,
) -> Result<impl Responder, Error> {
    let Json(SetPostBlocks { blocks }) = body;
    let blocks = if blocks.iter().map(|block| block.get().len()).sum::<usize>() <= SMALL {
        parse_blocks(&blocks)?
    } else {
        web::block(move || parse_blocks(&blocks)).await.map_err(|error| Problem::internal(&error))??
    };
    let now = runtime::clock::now();
    let post =
        ops::block::set_post_blocks(&lookups, &app.db, &app.selections, &actor, now, *id, blocks).await?;
    Ok(web::Json(SetPostBlocksResult {
        post_id: post.id,
        blocks_count: post.blocks.len(),
        embed_snapshot_ids: embed_snapshot_ids(&post.blocks),
    }))
}
