//! Posts and blocks with their rules, without clock and I/O.

mod access;
mod block;
mod difference;
mod html;
mod post;
mod quotas;
mod schedule;
mod search;

pub use access::{CreatePosts, EditablePosts, is_moderator, may_create, may_edit, may_see, may_undelete};
pub use block::{
    Block, BlockText, Embed, Gallery, GalleryImage, GalleryLayout, Images, MAX_BLOCKS, TextBlock, TextFormat,
    embed_snapshot_ids, search_text,
};
pub use difference::{BlockChange, differences};
pub use html::{Rendered, escape_lines, inner_text, render_markdown, sanitize};
pub use post::{
    FirstPublication, Post, PostLogKind, PostStatus, Summary, Tag, Tags, Title, distinct_tags, tag_key,
};
pub use quotas::{DEFAULT_MAX_CONTENT_MIB, DEFAULT_MAX_DRAFTS, Quotas};
pub use schedule::{Schedule, ScheduleFailure, ScheduledMove};
pub use search::{label_text, search_query, search_words};

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
