//! Events of posts. Only a publication has one.

use auth::{CompanyId, UserId};
use messaging::{Aggregate, Event};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::{FileId, FirstPublication, Post, PostId, SnapshotId, embed_snapshot_ids};

const POST: Aggregate = Aggregate { name: "Post", table: "post", key: "id" };

/// A post was published, for the first time or again.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.news.post-published.v1", version = 1, aggregate = POST, key = post_id)]
pub struct PostPublished {
    post_id: PostId,
    tenant_id: Option<CompanyId>,
    author_user_id: UserId,
    author_company_id: Option<CompanyId>,
    title: String,
    summary: Option<String>,
    cover_file_id: Option<FileId>,
    blocks_count: usize,
    embed_snapshot_ids: Vec<SnapshotId>,
    /// Time of the publication, in UTC.
    #[serde(with = "time::serde::rfc3339")]
    published_at: OffsetDateTime,
    is_first_publication: bool,
    #[schema(minimum = 1)]
    version: i64,
}

impl PostPublished {
    pub fn of(post: &Post, first_publication: FirstPublication) -> Self {
        Self {
            post_id: post.id,
            tenant_id: post.author_company_id,
            author_user_id: post.author_user_id,
            author_company_id: post.author_company_id,
            title: post.title.as_str().to_owned(),
            summary: post.summary.as_ref().map(|summary| summary.as_str().to_owned()),
            cover_file_id: post.cover_file_id,
            blocks_count: post.blocks.len(),
            embed_snapshot_ids: embed_snapshot_ids(&post.blocks),
            published_at: post.published_at.unwrap_or(post.updated_at),
            is_first_publication: first_publication.0,
            version: post.version,
        }
    }
}
