//! Blocks, the content of a post.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use values::{Invalid, List, Text, is_blank, remove_invisible};

use super::{
    BlockId, FileId, Rendered, SelectionId, SnapshotId, escape_lines, inner_text, render_markdown, sanitize,
};

/// Maximum number of blocks of a post (RULE-NWS-001).
pub const MAX_BLOCKS: usize = 200;

pub type BlockText = Text<1, 20_000>;
pub type Caption = Text<0, 512>;
pub type Alt = Text<0, 256>;
pub type Images = List<GalleryImage, 1, 50>;

values::text_enum! {
    /// The format of a text.
    pub enum TextFormat {
        Plain,
        Markdown,
        Html,
    }
}

values::text_enum! {
    /// The arrangement of the images of a gallery.
    pub enum GalleryLayout {
        Grid,
        Carousel,
        Masonry,
    }
}

/// A block as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "Kind")]
pub enum Block {
    Text(TextBlock),
    ImageGallery(Gallery),
    SelectionEmbed(Embed),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct TextBlock {
    pub block_id: BlockId,
    pub sort_order: u32,
    pub format: TextFormat,
    /// The text. Html is sanitized.
    pub text: String,
    /// The text as a reader reads it, without markup.
    pub plain_text: String,
    /// Markdown as sanitized HTML, which takes long to render. Absent for the other formats.
    #[serde(default, rename = "Html", skip_serializing_if = "Option::is_none")]
    rendered: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Gallery {
    pub block_id: BlockId,
    pub sort_order: u32,
    pub layout: GalleryLayout,
    pub images: Vec<GalleryImage>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct GalleryImage {
    pub file_id: FileId,
    /// Text below the image.
    pub caption: Option<Caption>,
    /// Description of the image for readers who do not see it.
    pub alt: Option<Alt>,
}

/// An immutable embedded selection. An edit replaces the block whole (INV-SEL-001).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Embed {
    pub block_id: BlockId,
    pub sort_order: u32,
    pub source_selection_id: SelectionId,
    pub snapshot_id: SnapshotId,
    pub public_code: String,
    pub title: String,
    pub items_count: u32,
}

impl TextBlock {
    /// Sanitizes Html and derives the plain text.
    ///
    /// # Errors
    /// - `too_complex` if the markup is nested too deeply, or the sanitized HTML is too large.
    /// - `too_short` if nothing of Html remains after sanitizing.
    pub fn new(
        block_id: BlockId,
        sort_order: u32,
        format: TextFormat,
        text: &BlockText,
    ) -> Result<Self, Invalid> {
        let text = text.as_str();
        let (text, plain_text, rendered) = match format {
            TextFormat::Plain => (text.to_owned(), remove_invisible(text), None),
            TextFormat::Markdown => {
                let Rendered { html, plain_text } = render_markdown(text)?;
                (text.to_owned(), plain_text, Some(html))
            }
            TextFormat::Html => {
                let safe = sanitize(text)?;
                if is_blank(&safe) {
                    return Err(Invalid::new("too_short").with("min", 1));
                }
                let plain_text = inner_text(&safe);
                (safe, plain_text, None)
            }
        };
        Ok(Self { block_id, sort_order, format, text, plain_text, rendered })
    }

    /// Returns the text as HTML that is safe to insert into a page.
    pub fn html(&self) -> String {
        match (self.format, &self.rendered) {
            (TextFormat::Html, _) => self.text.clone(),
            (TextFormat::Markdown, Some(html)) => html.clone(),
            (TextFormat::Markdown, None) | (TextFormat::Plain, _) => escape_lines(&self.text),
        }
    }

    /// Returns the size of the texts, in bytes.
    pub fn text_bytes(&self) -> usize {
        self.text.len() + self.plain_text.len() + self.rendered.as_ref().map_or(0, String::len)
    }
}

impl Block {
    pub fn id(&self) -> BlockId {
        match self {
            Self::Text(TextBlock { block_id, .. })
            | Self::ImageGallery(Gallery { block_id, .. })
            | Self::SelectionEmbed(Embed { block_id, .. }) => *block_id,
        }
    }

    /// Returns the block with another id.
    #[must_use]
    pub fn with_id(mut self, id: BlockId) -> Self {
        match &mut self {
            Self::Text(TextBlock { block_id, .. })
            | Self::ImageGallery(Gallery { block_id, .. })
            | Self::SelectionEmbed(Embed { block_id, .. }) => *block_id = id,
        }
        self
    }

    /// Returns true if the blocks are equal except for their sort orders.
    pub fn has_content_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(text), Self::Text(other)) => {
                let TextBlock { block_id, sort_order: _, format, text, plain_text, rendered } = text;
                (block_id, format) == (&other.block_id, &other.format)
                    && (text, plain_text, rendered) == (&other.text, &other.plain_text, &other.rendered)
            }
            (Self::ImageGallery(gallery), Self::ImageGallery(other)) => {
                let Gallery { block_id, sort_order: _, layout, images } = gallery;
                (block_id, layout, images) == (&other.block_id, &other.layout, &other.images)
            }
            // Cloning an embed is cheap, because it has no long texts.
            (Self::SelectionEmbed(embed), Self::SelectionEmbed(other)) => {
                Embed { sort_order: other.sort_order, ..embed.clone() } == *other
            }
            _ => false,
        }
    }

    pub fn sort_order(&self) -> u32 {
        match self {
            Self::Text(TextBlock { sort_order, .. })
            | Self::ImageGallery(Gallery { sort_order, .. })
            | Self::SelectionEmbed(Embed { sort_order, .. }) => *sort_order,
        }
    }

    pub fn embed(&self) -> Option<&Embed> {
        match self {
            Self::SelectionEmbed(embed) => Some(embed),
            Self::Text(_) | Self::ImageGallery(_) => None,
        }
    }
}

/// Returns the distinct snapshots of the embeds in block order.
pub fn embed_snapshot_ids(blocks: &[Block]) -> Vec<SnapshotId> {
    let mut seen = HashSet::new();
    blocks
        .iter()
        .filter_map(Block::embed)
        .map(|embed| embed.snapshot_id)
        .filter(|id| seen.insert(*id))
        .collect()
}

/// Returns the text by which the search finds a post, in addition to title, summary and tags
/// (INV-NWS-008).
pub fn search_text(blocks: &[Block]) -> String {
    let texts: Vec<&str> = blocks
        .iter()
        .filter_map(|block| match block {
            Block::Text(text) => Some(text.plain_text.as_str()),
            Block::ImageGallery(_) | Block::SelectionEmbed(_) => None,
        })
        .collect();
    texts.join("\n")
}

#[cfg(test)]
mod tests {
    use values::Text;

    use super::{
        Block, BlockId, Embed, Gallery, GalleryLayout, SelectionId, SnapshotId, TextBlock, TextFormat,
        embed_snapshot_ids, search_text,
    };

    fn text(format: TextFormat, text: &str) -> TextBlock {
        TextBlock::new(BlockId::generate(), 3, format, &Text::parse(text).unwrap()).unwrap()
    }

    fn embed(snapshot_id: SnapshotId, sort_order: u32) -> Embed {
        Embed {
            block_id: BlockId::generate(),
            sort_order,
            source_selection_id: SelectionId::generate(),
            snapshot_id,
            public_code: "abcdefghijkl".to_owned(),
            title: "Spring".to_owned(),
            items_count: 2,
        }
    }

    /// Each format renders its own HTML.
    #[test]
    fn text_of_each_format_is_rendered_as_html() {
        assert_eq!(text(TextFormat::Plain, "a < b").html(), "a &lt; b");
        assert_eq!(text(TextFormat::Markdown, "**a**").html().trim(), "<p><strong>a</strong></p>");
        assert_eq!(text(TextFormat::Html, "<b>a</b>").html(), "<b>a</b>");
    }

    /// The size of a block is that of all its texts.
    #[test]
    fn size_of_a_block_is_that_of_its_texts() {
        let block =
            TextBlock { text: "ё".to_owned(), plain_text: "abc".to_owned(), ..text(TextFormat::Plain, "x") };
        assert_eq!(block.text_bytes(), 5);
        assert_eq!(TextBlock { rendered: Some("abcdefg".to_owned()), ..block }.text_bytes(), 12);
    }

    /// Blocks have the same content if they are equal except for their sort orders.
    #[test]
    fn blocks_with_different_sort_orders_have_same_content() {
        let own = text(TextFormat::Plain, "x");
        let has_content = |other: TextBlock| Block::Text(own.clone()).has_content_of(&Block::Text(other));
        assert!(has_content(TextBlock { sort_order: 9, ..own.clone() }));
        assert!(!has_content(TextBlock { block_id: BlockId::generate(), ..own.clone() }));
        assert!(!has_content(TextBlock { text: "y".to_owned(), ..own.clone() }));
        let embed = embed(SnapshotId::generate(), 1);
        let block = Block::SelectionEmbed(embed.clone());
        assert!(block.has_content_of(&Block::SelectionEmbed(Embed { sort_order: 9, ..embed.clone() })));
        assert!(!block.has_content_of(&Block::SelectionEmbed(Embed { items_count: 9, ..embed })));
        assert!(!block.has_content_of(&Block::Text(own)));
    }

    /// Each kind of block has its sort order. Snapshots are listed once, and texts are searched.
    #[test]
    fn blocks_have_their_orders_snapshots_and_texts() {
        let [one, other] = [1, 2].map(|number| SnapshotId::from(uuid::Uuid::from_u128(number)));
        let gallery = Gallery {
            block_id: BlockId::generate(),
            sort_order: 4,
            layout: GalleryLayout::Carousel,
            images: vec![],
        };
        let blocks = [
            Block::Text(text(TextFormat::Markdown, "**a**")),
            Block::ImageGallery(gallery),
            Block::SelectionEmbed(embed(other, 5)),
            Block::SelectionEmbed(embed(one, 6)),
            Block::SelectionEmbed(embed(other, 7)),
            Block::Text(text(TextFormat::Plain, "b")),
        ];
        assert_eq!(blocks.each_ref().map(Block::sort_order), [3, 4, 5, 6, 7, 3]);
        assert_eq!(embed_snapshot_ids(&blocks), [other, one]);
        assert_eq!(search_text(&blocks), "a\nb");
        assert!(blocks[0].embed().is_none() && blocks[1].embed().is_none());
    }
}
