//! Events of posts. The version of a post orders its events over all topics.

use auth::{CompanyId, UserId};
use messaging::{Aggregate, Event};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::{FileId, FirstPublication, Post, PostId, SnapshotId, Tag, embed_snapshot_ids};

pub const POST: Aggregate = Aggregate { name: "Post", table: "post", key: "id" };

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

/// The metadata of a published post changed. It carries the whole present state of the post, and is
/// republished for each published post.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.news.post-updated.v1", version = 1, aggregate = POST, key = post_id)]
pub struct PostUpdated {
    post_id: PostId,
    tenant_id: Option<CompanyId>,
    author_user_id: UserId,
    author_company_id: Option<CompanyId>,
    title: String,
    summary: Option<String>,
    cover_file_id: Option<FileId>,
    #[schema(max_items = 20)]
    tags: Vec<Tag>,
    blocks_count: usize,
    embed_snapshot_ids: Vec<SnapshotId>,
    #[serde(with = "time::serde::rfc3339")]
    published_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    updated_at: OffsetDateTime,
    #[schema(minimum = 1)]
    version: i64,
}

/// A post is no longer published. It can be published again.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.news.post-unpublished.v1", version = 1, aggregate = POST, key = post_id)]
pub struct PostUnpublished {
    post_id: PostId,
    tenant_id: Option<CompanyId>,
    author_user_id: UserId,
    author_company_id: Option<CompanyId>,
    /// Time of the first publication, in UTC. Null if the post was never published.
    #[serde(with = "time::serde::rfc3339::option")]
    published_at: Option<OffsetDateTime>,
    /// Time of the change, in UTC.
    #[serde(with = "time::serde::rfc3339")]
    unpublished_at: OffsetDateTime,
    #[schema(minimum = 1)]
    version: i64,
}

/// A post was archived, which is final. It was not published before.
#[derive(Debug, Serialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.news.post-archived.v1", version = 1, aggregate = POST, key = post_id)]
pub struct PostArchived {
    post_id: PostId,
    tenant_id: Option<CompanyId>,
    author_user_id: UserId,
    author_company_id: Option<CompanyId>,
    /// Time of the first publication, in UTC. Null if the post was never published.
    #[serde(with = "time::serde::rfc3339::option")]
    published_at: Option<OffsetDateTime>,
    /// Time of the change, in UTC.
    #[serde(with = "time::serde::rfc3339")]
    archived_at: OffsetDateTime,
    #[schema(minimum = 1)]
    version: i64,
}

/// A post of any status was deleted.
#[derive(Debug, Serialize, Deserialize, ToSchema, Event)]
#[serde(rename_all = "PascalCase")]
#[event(topic = "platform.news.post-deleted.v1", version = 1, aggregate = POST, key = post_id)]
pub struct PostDeleted {
    pub post_id: PostId,
    pub tenant_id: Option<CompanyId>,
    pub author_user_id: UserId,
    pub author_company_id: Option<CompanyId>,
    /// Time of the first publication, in UTC. Null if the post was never published.
    #[serde(with = "time::serde::rfc3339::option")]
    pub published_at: Option<OffsetDateTime>,
    /// Time of the deletion, in UTC.
    #[serde(with = "time::serde::rfc3339")]
    pub deleted_at: OffsetDateTime,
    #[schema(minimum = 1)]
    pub version: i64,
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

impl PostUpdated {
    /// Returns the event of a post whose `blocks` may be only its embeds.
    pub fn of(post: &Post, blocks_count: usize) -> Self {
        Self {
            post_id: post.id,
            tenant_id: post.author_company_id,
            author_user_id: post.author_user_id,
            author_company_id: post.author_company_id,
            title: post.title.as_str().to_owned(),
            summary: post.summary.as_ref().map(|summary| summary.as_str().to_owned()),
            cover_file_id: post.cover_file_id,
            tags: post.tags.clone(),
            blocks_count,
            embed_snapshot_ids: embed_snapshot_ids(&post.blocks),
            published_at: post.published_at.unwrap_or(post.updated_at),
            updated_at: post.updated_at,
            version: post.version,
        }
    }
}

impl PostUnpublished {
    pub fn of(post: &Post) -> Self {
        Self {
            post_id: post.id,
            tenant_id: post.author_company_id,
            author_user_id: post.author_user_id,
            author_company_id: post.author_company_id,
            published_at: post.published_at,
            unpublished_at: post.updated_at,
            version: post.version,
        }
    }
}

impl PostArchived {
    pub fn of(post: &Post) -> Self {
        Self {
            post_id: post.id,
            tenant_id: post.author_company_id,
            author_user_id: post.author_user_id,
            author_company_id: post.author_company_id,
            published_at: post.published_at,
            archived_at: post.updated_at,
            version: post.version,
        }
    }
}

impl PostDeleted {
    pub fn of(post: &Post, deleted_at: OffsetDateTime) -> Self {
        Self {
            post_id: post.id,
            tenant_id: post.author_company_id,
            author_user_id: post.author_user_id,
            author_company_id: post.author_company_id,
            published_at: post.published_at,
            deleted_at,
            version: post.version,
        }
    }
}
