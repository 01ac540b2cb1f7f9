//! Posts and blocks with their rules, without clock and I/O.

mod access;
mod block;
mod plain_text;
mod post;

pub use access::{CreatePosts, EditablePosts, may_create, may_edit, may_see};
pub use block::{
    Block, BlockText, Embed, Gallery, GalleryImage, GalleryLayout, Images, MAX_BLOCKS, TextBlock, TextFormat,
    embed_snapshot_ids, search_text,
};
pub use plain_text::{html_to_plain_text, markdown_to_plain_text, sanitize};
pub use post::{FirstPublication, Post, PostStatus, Summary, Tag, Tags, Title};

ids::typed_id!(
    /// A post.
    PostId
);
ids::typed_id!(
    /// An author, for readers. The id is stable and does not reveal the user.
    AuthorId
);
ids::typed_id!(
    /// A block. Its id is stable over the versions of its post.
    BlockId
);
ids::typed_id!(
    /// A selection of the service `selections`.
    SelectionId
);
ids::typed_id!(
    /// A snapshot of a selection.
    SnapshotId
);
ids::typed_id!(
    /// A file of the external file store.
    FileId
);
ids::typed_id!(
    /// One attempt to replace the blocks of a post.
    EditId
);
